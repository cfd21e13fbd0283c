//! The last step of a job in the fake cloud: its output gets its place.

use std::collections::BTreeMap;

use protocol::{Reason, Refusal, SliceId};
use sphere::{CommitAction, Outcome, OutputCommit, OutputEntry, OutputSnapshot, part_name};

use super::{Cloud, File, RECORD_BYTES};

/// Gives the output its place, with one or two drivers at it and answers that are lost; what is in the place then, by
/// bucket.
pub(super) fn reveal(cloud: &mut Cloud, outcome: &Outcome) -> BTreeMap<u32, File> {
    if !cloud.is_published {
        return cloud.output.clone();
    }
    let rng = &mut cloud.rng;
    let mut late: Vec<File> = vec![File { slice: SliceId(u128::MAX), content: vec![("/late".parse().unwrap(), 0, 0)] }];
    // Where the output is: hidden, gathered, in its place.
    let mut folders = [Some(cloud.output.clone()), None, None];
    let mut drivers: Vec<_> = (0..rng.u8(1..3)).map(|_| OutputCommit::new(cloud.now, outcome, None, false)).collect();
    while !drivers.is_empty() {
        let which = rng.usize(0..drivers.len());
        let driver = &mut drivers[which];
        if rng.u8(0..8) == 0
            && let Some(file) = late.pop()
        {
            // A commit that nobody waits for any more.
            folders[0].get_or_insert_default().insert(99_999, file);
        }
        let Some(action) = driver.poll_action() else {
            cloud.now = cloud.now.after(driver.next_timeout().unwrap().saturating_sub(cloud.now.monotonic));
            driver.handle_timeout(cloud.now);
            continue;
        };
        let result = match &action {
            CommitAction::Finished(result) => {
                assert_eq!(result, &Ok(()));
                drivers.swap_remove(which);
                continue;
            }
            CommitAction::Gather => rename(&mut folders, 0),
            CommitAction::Rename => rename(&mut folders, 1),
            CommitAction::Remove(name) => {
                *cloud.fired.entry("stray part").or_default() += 1;
                let number: u32 = name.strip_prefix("part-").unwrap().parse().unwrap();
                let removed = folders[1].as_mut().and_then(|files| files.remove(&number));
                removed.map(drop).ok_or_else(|| Refusal::new(Reason::NotFound, "nothing there"))
            }
            _ => Ok(()),
        };
        if rng.u8(0..6) == 0 {
            *cloud.fired.entry("answer of the reveal lost").or_default() += 1;
            driver.refused(cloud.now, Refusal::new(Reason::Unavailable, "no answer"));
        } else if action == CommitAction::Inspect {
            let [hidden, gathered, place] = folders.each_ref().map(|files| files.as_ref().map(listed));
            driver.handle_inspected(&OutputSnapshot { staging: hidden, gathered, target: place });
        } else if let Err(refusal) = result {
            driver.refused(cloud.now, refusal);
        } else {
            driver.done();
        }
    }
    let [_, _, place] = folders;
    place.unwrap()
}

fn rename(folders: &mut [Option<BTreeMap<u32, File>>; 3], from: usize) -> Result<(), Refusal> {
    if folders[from].is_none() {
        return Err(Refusal::new(Reason::NotFound, "nothing there"));
    }
    if folders[from + 1].is_some() {
        return Err(Refusal::new(Reason::Exists, "exists already"));
    }
    folders.swap(from, from + 1);
    Ok(())
}

fn listed(files: &BTreeMap<u32, File>) -> Vec<OutputEntry> {
    let file = |(number, file): (&u32, &File)| OutputEntry {
        name: part_name(*number),
        bytes: file.content.len() as u64 * RECORD_BYTES,
        slice: Some(file.slice),
    };
    files.iter().map(file).collect()
}
