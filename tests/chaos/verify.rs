//! The end of a run, once everything is healed. Every path is read, and every copy on the nodes' disks is compared.
//! What must be in the trash is restored and compared.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    time::{Duration, Instant},
};

use cluster::Roles;
use serde_json::Value;

use crate::{fault::Faults, ledger::Ledger, trash::Entry};

/// See the module; errors go into the ledger.
pub(crate) fn all(ledger: &mut Ledger, cloud: &Roles, faults: &Faults) {
    verify_trash(ledger, cloud);
    remove_ghosts(ledger, cloud);
    let mut read = Vec::new();
    for path in ledger.paths() {
        let ended = cloud.run(&["cat", &path]);
        match ended.code {
            0 => {
                ledger.check(&path, Some(&ended.out));
                read.push((path, ended.out));
            }
            3 => ledger.check(&path, None),
            code => ledger.wrong.push(format!("{path} cannot be read: exit code {code}: {}", ended.errors.trim())),
        }
    }
    // Everything that was promised is there: what rebuilds were unsure about is not part of it.
    println!("doubts of the rebuilds: {:?}", conflicts(cloud));
    cloud.run(&["rebuild", "dismiss", "--all"]);
    if let Err(why) = until_well(cloud) {
        ledger.wrong.push(why);
    }
    let mut flipped = Vec::new();
    for (path, bytes) in read {
        let is_flipped = faults.has_flipped(&bytes);
        verify_copies(ledger, cloud, &path, &bytes, is_flipped);
        flipped.extend(is_flipped.then_some(path));
    }
    if let Err(why) = until_checked(cloud, &flipped) {
        ledger.wrong.push(why);
    }
}

/// Reads every copy from the disks until all are good. Of the paths with a corrupted copy, one copy may still be bad:
/// it is found now and replaced.
fn until_checked(cloud: &Roles, flipped: &[String]) -> Result<(), String> {
    let begun = Instant::now();
    loop {
        let ended = cloud.run(&["check", "-r", "--json", "/"]);
        if ended.code == 0 {
            return Ok(());
        }
        let views: Value = serde_json::from_str(&ended.text()).unwrap_or_default();
        let mut bad = views.as_array().into_iter().flatten().filter(|view| view["result"] != "ok");
        let is_expected = |view: &Value| flipped.iter().any(|path| view["path"] == path.as_str());
        if begun.elapsed() > WELL_AFTER_MAX || !bad.all(is_expected) || !views.is_array() {
            return Err(format!("sector check: exit code {}: {}{}", ended.code, ended.text(), ended.errors));
        }
    }
}

/// Checks that each entry that must be in the trash is there, and restores it with its bytes.
fn verify_trash(ledger: &mut Ledger, cloud: &Roles) {
    let listed = cloud.json(&["trash", "list"]);
    let mut entries: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for entry in listed.as_array().into_iter().flatten() {
        let text = |key: &str| entry[key].as_str().unwrap_or_default().to_owned();
        entries.entry(text("path")).or_default().push(text("trash_path"));
    }
    let (mut number, mut wrong) = (0, Vec::new());
    for (path, sure) in ledger.trash.sure() {
        if sure.is_empty() {
            continue;
        }
        let mut found = Vec::new();
        for trash_path in entries.remove(path).unwrap_or_default() {
            let to = format!("/restored-{}", found.len());
            let restored = cloud.run(&["trash", "restore", &trash_path, "--to", &to]);
            found.push(match restored.code {
                0 => cloud.run(&["cat", &to]).out,
                _ => format!("cannot be restored: {}", restored.errors).into(),
            });
            cloud.run(&["rm", "--now", &to]);
        }
        number += sure.len();
        let fits = |entry: &&Entry| -> Vec<usize> {
            (0..found.len()).filter(|at| entry.contents.iter().any(|content| content.is(&found[*at]))).collect()
        };
        let fits: Vec<_> = sure.iter().map(fits).collect();
        let mut taken = vec![None; found.len()];
        for (at, entry) in sure.iter().enumerate() {
            if !find_place(at, &fits, &mut taken, &mut BTreeSet::new()) {
                wrong.push(format!("the trash has not {:?} of {path}, removed before", entry.contents));
            }
        }
    }
    ledger.wrong.extend(wrong);
    println!("{number} entries of the trash verified");
    cloud.run(&["trash", "empty"]);
}

/// Gives an entry one of the files that fit it; an entry that has that file takes another. What an entry was may be
/// uncertain.
fn find_place(entry: usize, fits: &[Vec<usize>], taken: &mut [Option<usize>], tried: &mut BTreeSet<usize>) -> bool {
    fits[entry].iter().any(|place| {
        let is_free = |holder: Option<usize>, taken: &mut [Option<usize>], tried: &mut BTreeSet<usize>| {
            holder.is_none_or(|holder| find_place(holder, fits, taken, tried))
        };
        let is_won = tried.insert(*place) && is_free(taken[*place], taken, tried);
        if is_won {
            taken[*place] = Some(entry);
        }
        is_won
    })
}

/// Removes the names without bytes that roll-backs brought back, if there may be some (`docs/operations.md`).
fn remove_ghosts(ledger: &mut Ledger, cloud: &Roles) {
    let mut laid = 0;
    for path in ledger.paths() {
        if ledger.may_have_ghost(&path) && cloud.run(&["cat", &path]).code == 5 {
            cloud.ok(&["rm", "--now", &path]);
            laid += 1;
        }
    }
    println!("{laid} names without bytes removed, as after a roll-back");
}

fn verify_copies(ledger: &mut Ledger, cloud: &Roles, path: &str, bytes: &[u8], is_flipped: bool) {
    let native = |node: &String| cloud.role_folder(node).join(format!("slices{path}"));
    let nodes = cloud.good_copies(path);
    // A flipped bit is found when that copy is read; until then one copy may be bad.
    let wanted = nodes.len().saturating_sub(usize::from(is_flipped)).max(1);
    let good = || nodes.iter().filter(|node| fs::read(native(node)).is_ok_and(|found| found == bytes)).count();
    // Copies may still be on their way there; running a command takes the time that this needs.
    if !(0..LOOKS_MAX).any(|_| good() >= wanted || (cloud.run(&["nodes"]).code != 0 && good() >= wanted)) {
        ledger.wrong.push(format!("only {} of {nodes:?} have the bytes of {path} on their disks", good()));
    }
}

/// Waits until the cloud reports that it is healthy.
fn until_well(cloud: &Roles) -> Result<(), String> {
    let begun = Instant::now();
    loop {
        let ended = cloud.run(&["health"]);
        if ended.code == 0 {
            return Ok(());
        }
        // The clock came back after a wrong one had been confirmed, or the journal that remembered it is gone.
        if ended.text().contains("clock") && cloud.run(&["trash", "confirm-clock"]).code == 0 {
            println!("the clock was confirmed at the end");
        }
        if begun.elapsed() > WELL_AFTER_MAX {
            return Err(format!("not well {WELL_AFTER_MAX:?} after the last fault: {}", ended.text().trim()));
        }
    }
}

/// How many conflicts of each kind the rebuilds have listed.
fn conflicts(cloud: &Roles) -> BTreeMap<String, u64> {
    let mut kinds = BTreeMap::new();
    let status: Value = serde_json::from_str(&cloud.run(&["rebuild", "status", "--json"]).text()).unwrap_or_default();
    for conflict in status["conflicts"].as_array().into_iter().flatten() {
        *kinds.entry(conflict["kind"].as_str().unwrap_or_default().to_owned()).or_default() += 1;
    }
    kinds
}

/// Checks on a copy until it must be there.
const LOOKS_MAX: u32 = 300;
/// A lease (60 s), a lost copy (10 s) and a retry (60 s), twice.
const WELL_AFTER_MAX: Duration = Duration::from_secs(240);
