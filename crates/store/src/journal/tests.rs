//! A journal keeps what it acknowledged: through restarts, kills, crashes, errors and full disks.
#![allow(clippy::unwrap_used)]

use std::fs;

use protocol::status::ErrorClass;

use super::*;
use crate::{DiskFault, MemoryDisk};

fn set(table: &'static str, key: &str, value: &str) -> RowChange {
    RowChange::Set { table, key: key.into(), value: value.into() }
}

fn rows(journal: &Journal, table: &'static str) -> Vec<(String, String)> {
    let mut rows = Vec::new();
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
    journal.load(table, &mut |key, value| rows.push((text(key), text(value)))).unwrap();
    rows
}

#[test]
fn rows_come_back_in_the_order_of_their_keys_after_a_restart() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("names.redb");
    let journal = Journal::open(&file).unwrap();
    assert_eq!(rows(&journal, "names"), []);
    journal
        .commit(&[set("names", "b", "2"), set("jobs", "x", "y"), set("names", "a", "1"), set("names", "c", "3")])
        .unwrap();
    let gone = RowChange::Remove { table: "names", key: "b".into() };
    journal.commit(&[gone.clone(), gone, set("names", "c", "4")]).unwrap();
    drop(journal);
    let journal = Journal::open(&file).unwrap();
    assert_eq!(rows(&journal, "names"), [("a".into(), "1".into()), ("c".into(), "4".into())]);
    assert_eq!(rows(&journal, "jobs"), [("x".into(), "y".into())]);
}

#[test]
fn a_journal_whose_process_was_killed_has_every_commit() {
    let folder = tempfile::tempdir().unwrap();
    let (file, image) = (folder.path().join("names.redb"), folder.path().join("image.redb"));
    let journal = Journal::open(&file).unwrap();
    for round in 0..20 {
        journal.commit(&[set("names", &format!("{round:02}"), "x"), set("names", "last", &round.to_string())]).unwrap();
        // What the file holds at this moment is what a killed process leaves: it was never closed.
        fs::copy(&file, &image).unwrap();
        let found = rows(&Journal::open(&image).unwrap(), "names");
        assert_eq!(found.len(), round + 2);
        assert_eq!(found.last().unwrap().1, round.to_string());
    }
}

#[test]
fn a_journal_in_use_is_refused_by_name() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("names.redb");
    let _journal = Journal::open(&file).unwrap();
    let error = Journal::open(&file).err().unwrap();
    assert!(matches!(error, StoreError::JournalLocked { .. }), "{error:?}");
    assert!(error.refusal().message.contains("names.redb"), "{error}");
}

#[test]
fn a_journal_is_its_owners_alone() {
    use std::os::unix::fs::PermissionsExt;
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("users.redb");
    let _journal = Journal::open(&file).unwrap();
    assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
}

#[test]
fn rows_may_be_changed_while_they_are_read() {
    let disk = MemoryDisk::new(0);
    let journal = Journal::open_on(Arc::new(disk), Path::new("/journal")).unwrap();
    journal.commit(&[set("names", "a", "1"), set("names", "b", "2")]).unwrap();
    let mut seen = 0;
    let mut change = |key: &[u8], _: &[u8]| {
        seen += 1;
        journal.commit(&[RowChange::Remove { table: "names", key: key.to_vec() }, set("names", "z", "3")]).unwrap();
    };
    journal.load("names", &mut change).unwrap();
    assert_eq!(seen, 2);
    assert_eq!(rows(&journal, "names"), [("z".into(), "3".into())]);
}

#[test]
fn a_file_that_is_no_journal_is_refused_and_left_as_it_is() {
    let folder = tempfile::tempdir().unwrap();
    for content in [&b"a letter to a friend"[..], &[0; 4096], &[0xff; 100_000]] {
        let file = folder.path().join("letter");
        fs::write(&file, content).unwrap();
        let error = Journal::open(&file).err().unwrap();
        assert!(matches!(error, StoreError::NotAJournal { .. }), "{error:?}");
        assert_eq!(error.class(), ErrorClass::Corrupt);
        assert_eq!(fs::read(&file).unwrap(), content);
    }
}

#[test]
fn a_journal_whose_folder_is_missing_is_an_error_of_the_disk() {
    let folder = tempfile::tempdir().unwrap();
    let error = Journal::open(&folder.path().join("no/names.redb")).err().unwrap();
    assert!(matches!(error, StoreError::Io { operation: "open", .. }), "{error:?}");
}

/// One more row for each commit that returned, on a disk in memory.
fn commit_until_it_fails(journal: &Journal) -> usize {
    (0..30).take_while(|round| journal.commit(&[set("names", &format!("{round:02}"), "x")]).is_ok()).count()
}

#[test]
fn every_commit_survives_a_crash_wherever_the_power_is_cut() {
    for seed in 0..40 {
        let disk = MemoryDisk::new(seed);
        drop(Journal::open_on(Arc::new(disk.clone()), Path::new("/journal")).unwrap());
        let journal = Journal::open_on(Arc::new(disk.clone()), Path::new("/journal")).unwrap();
        disk.power_off_after(3 * seed);
        let committed = commit_until_it_fails(&journal);
        let disk = disk.crash();
        drop(journal);
        let journal = Journal::open_on(Arc::new(disk.clone()), Path::new("/journal")).unwrap();
        let found = rows(&journal, "names").len();
        // The one that failed may have arrived, whole.
        assert!((committed..=committed + 1).contains(&found), "seed {seed}: {found} of {committed}");
        journal.commit(&[set("names", "last", "x")]).unwrap();
        assert_eq!(rows(&journal, "names").len(), found + 1);
    }
}

#[test]
fn a_journal_goes_on_after_an_error_of_the_disk() {
    let mut failed = 0;
    for failing in 0..40 {
        let disk = MemoryDisk::new(failing);
        let journal = Journal::open_on(Arc::new(disk.clone()), Path::new("/journal")).unwrap();
        disk.fail_one_after(failing);
        let committed = commit_until_it_fails(&journal);
        failed += usize::from(committed < 30);
        journal.commit(&[set("jobs", "after", "x")]).unwrap();
        assert_eq!(rows(&journal, "jobs").len(), 1);
        let found = rows(&journal, "names").len();
        assert!((committed..=committed + 1).contains(&found), "{failing}: {found} of {committed}");
    }
    assert!(failed > 10, "the fault fired: {failed}");
}

#[test]
fn a_journal_on_a_full_disk_says_so_and_goes_on_when_there_is_room() {
    let disk = MemoryDisk::new(0);
    let journal = Journal::open_on(Arc::new(disk.clone()), Path::new("/journal")).unwrap();
    disk.set_free_bytes(0);
    let value = "x".repeat(1000);
    let error = (0..10_000)
        .find_map(|round| journal.commit(&[set("names", &round.to_string(), &value)]).err())
        .expect("the disk is full at some time");
    assert!(matches!(error, StoreError::DiskFull { .. }), "{error:?}");
    let before = rows(&journal, "names").len();
    disk.set_free_bytes(100 << 20);
    journal.commit(&[set("names", "after", &value)]).unwrap();
    assert_eq!(rows(&journal, "names").len(), before + 1);
}

// Promise 1.
#[test]
fn nothing_is_acknowledged_on_top_of_a_commit_that_the_disk_never_got() {
    let file = Path::new("/names.redb");
    for seed in 0..40 {
        let disk = MemoryDisk::new(seed);
        let mut journal = Journal::open_on(Arc::new(disk.clone()), file).unwrap();
        journal.commit(&[set("names", "before", "1")]).unwrap();
        disk.set_fault(Some(DiskFault::Syncs(5)));
        let many: Vec<_> = (0..200).map(|row| set("names", &format!("failed-{row:03}"), "x")).collect();
        assert!(journal.commit(&many).is_err());
        disk.set_fault(None);
        if seed % 2 == 0 {
            // The process is started again; the system has not been.
            drop(journal);
            journal = Journal::open_on(Arc::new(disk.clone()), file).unwrap();
        }
        let shown = rows(&journal, "names");
        journal.commit(&[set("names", "after", "2")]).unwrap();
        let found = rows(&Journal::open_on(Arc::new(disk.crash()), file).unwrap(), "names");
        assert!(found.contains(&("after".into(), "2".into())), "seed {seed}: it was acknowledged");
        assert!(shown.iter().all(|row| found.contains(row)), "seed {seed}: what was gone on from is safe");
    }
}

#[test]
fn a_first_start_that_was_cut_off_anywhere_begins_anew() {
    for cut in 0..80 {
        let (disk, file) = (MemoryDisk::new(cut), Path::new("/names.redb"));
        disk.power_off_after(cut);
        let opened = Journal::open_on(Arc::new(disk.clone()), file);
        let is_committed = opened.is_ok_and(|journal| journal.commit(&[set("names", "a", "1")]).is_ok());
        let disk = disk.crash();
        let journal = Journal::open_on(Arc::new(disk.clone()), file).unwrap_or_else(|error| panic!("{cut}: {error}"));
        let found = rows(&journal, "names");
        assert!(found.len() == 1 || (found.is_empty() && !is_committed), "{cut}: {found:?}");
    }
    for room in (0..40).map(|step| step * 50_000) {
        let (disk, file) = (MemoryDisk::new(room), Path::new("/names.redb"));
        disk.set_free_bytes(room);
        let _ = Journal::open_on(Arc::new(disk.clone()), file);
        disk.set_free_bytes(1 << 40);
        let journal = Journal::open_on(Arc::new(disk.clone()), file).unwrap_or_else(|error| panic!("{room}: {error}"));
        journal.commit(&[set("names", "a", "1")]).unwrap();
    }
}

// Promise 16.
#[test]
fn what_is_acknowledged_outlives_a_power_cut_though_the_first_start_failed_at_any_step() {
    let file = Path::new("/names.redb");
    let mut failed = 0;
    for (failing, seed) in (0..40).flat_map(|failing| (0..8).map(move |seed| (failing, seed))) {
        let disk = MemoryDisk::new(seed);
        disk.fail_one_after(failing);
        let journal = Journal::open_on(Arc::new(disk.clone()), file).unwrap_or_else(|_| {
            failed += 1;
            // The process is started again; the system has not been.
            Journal::open_on(Arc::new(disk.clone()), file).unwrap()
        });
        // The first one may still meet the fault.
        if journal.commit(&[set("names", "a", "1")]).is_err() {
            journal.commit(&[set("names", "a", "1")]).unwrap();
        }
        let found = rows(&Journal::open_on(Arc::new(disk.crash()), file).unwrap(), "names");
        assert_eq!(found, [("a".into(), "1".into())], "step {failing}, seed {seed}");
    }
    assert!(failed > 0, "the fault fired");
}

// Promise 16.
#[test]
fn what_is_acknowledged_outlives_a_power_cut_though_who_put_the_journal_back_synced_nothing() {
    let (file, other) = (Path::new("/names.redb"), Path::new("/copy.redb"));
    for seed in 0..40 {
        let disk = MemoryDisk::new(seed);
        for (path, key) in [(file, "before"), (other, "put-back")] {
            Journal::open_on(Arc::new(disk.clone()), path).unwrap().commit(&[set("names", key, "1")]).unwrap();
        }
        disk.rename(other, file).unwrap();
        let journal = Journal::open_on(Arc::new(disk.clone()), file).unwrap();
        journal.commit(&[set("names", "after", "2")]).unwrap();
        let found = rows(&Journal::open_on(Arc::new(disk.crash()), file).unwrap(), "names");
        assert_eq!(found, [("after".into(), "2".into()), ("put-back".into(), "1".into())], "seed {seed}");
    }
}

#[test]
fn a_half_made_journal_is_begun_again_and_one_with_its_name_never_is() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("names.redb");
    let half = folder.path().join("names.redb.new");
    fs::write(&half, vec![7; 5_000]).unwrap();
    Journal::open(&file).unwrap().commit(&[set("names", "a", "1")]).unwrap();
    assert!(!half.exists());
    // One that is there counts, whatever lies beside it; and one that cannot be read is left as it is.
    fs::write(&half, vec![7; 5_000]).unwrap();
    assert_eq!(rows(&Journal::open(&file).unwrap(), "names").len(), 1);
    fs::write(&file, vec![7; 5_000]).unwrap();
    let error = Journal::open(&file).err().unwrap();
    assert!(matches!(error, StoreError::NotAJournal { .. }), "{error:?}");
    assert_eq!(fs::read(&file).unwrap(), vec![7; 5_000]);
}

#[test]
fn of_two_first_starts_at_once_one_waits_in_vain() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("names.redb");
    let outcomes: Vec<_> = std::thread::scope(|scope| {
        let starts: Vec<_> = (0..8).map(|_| scope.spawn(|| Journal::open(&file))).collect();
        starts.into_iter().map(|start| start.join().unwrap()).collect()
    });
    let (opened, refused): (Vec<_>, Vec<_>) = outcomes.into_iter().partition(Result::is_ok);
    assert_eq!(opened.len(), 1);
    for error in refused.into_iter().filter_map(Result::err) {
        assert!(matches!(error, StoreError::JournalLocked { .. }), "{error:?}");
    }
}
