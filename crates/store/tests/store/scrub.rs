//! Bit rot is found by nobody's reading but the scrub's; and the scrub goes on where it was.

use std::{path::Path, sync::Arc};

use protocol::SliceId;
use store::{CheckStep, DataFolder, Disk, DiskFault, DiskSet, MemoryDisk, Scrub, ScrubStep, SliceCheck, StoreError};

use crate::{BLOCK, FOLDER, bytes, header, path};

fn open(disk: &MemoryDisk) -> Arc<DiskSet> {
    let folder = DataFolder { disk: Arc::new(disk.clone()), folder: FOLDER.into(), known: false, memory_bytes: None };
    DiskSet::open(vec![folder], 0).unwrap().0
}

fn put(set: &DiskSet, slice: u128, count: usize) {
    let at = path(&format!("/{slice}"));
    let mut writer = set.begin(header(slice, at.as_str(), 1)).unwrap();
    writer.write(&bytes(slice as u64, count)).unwrap();
    writer.finish(None).unwrap();
    set.place(&header(slice, at.as_str(), 1)).unwrap();
}

fn scrub(set: &Arc<DiskSet>) -> Scrub {
    set.scrubs().remove(0).1
}

fn native(relative: &str) -> std::path::PathBuf {
    Path::new(FOLDER).join(relative)
}

/// All steps to the end of the pass.
fn pass(scrub: &mut Scrub, now: u64) -> Vec<ScrubStep> {
    let mut steps = Vec::new();
    loop {
        let step = scrub.step(now, 1).unwrap();
        let done = step == ScrubStep::PassDone;
        steps.push(step);
        if done {
            return steps;
        }
    }
}

fn damaged(steps: &[ScrubStep]) -> Vec<(u128, &str)> {
    let damaged = |step| match step {
        &ScrubStep::Corrupt { slice, ref what } => Some((slice.0, what.as_str())),
        _ => None,
    };
    steps.iter().filter_map(damaged).collect()
}

// Promise 32.
#[test]
fn a_flipped_bit_is_found_without_any_reader_whether_in_bytes_or_sidecar() {
    let disk = MemoryDisk::new(0);
    let set = open(&disk);
    for slice in 1..=4 {
        put(&set, slice, 40 * BLOCK + 3);
    }
    put(&set, 5, 0);
    let mut scrub = scrub(&set);
    assert_eq!(damaged(&pass(&mut scrub, 1)), []);
    disk.flip_bit(&native("slices/2"), 39 * BLOCK as u64 + 5).unwrap();
    disk.flip_bit(&native("slices/.3.sector"), 40).unwrap();
    disk.remove_file(&native("slices/4")).unwrap();
    let steps = pass(&mut scrub, 2);
    let found = damaged(&steps);
    assert_eq!(found.iter().map(|(slice, _)| *slice).collect::<Vec<_>>(), [2, 3, 4], "{found:?}");
    assert_eq!(found[0].1, "block 39");
    assert_eq!(scrub.status().corrupt, 3);
    // It only looks: who asked it puts them aside, and then they are not met again.
    for slice in 2..=4 {
        set.mark_corrupt(SliceId(slice)).unwrap();
    }
    assert_eq!(damaged(&pass(&mut scrub, 3)), []);
}

#[test]
fn bytes_whose_checksums_were_changed_with_them_are_told_by_the_digest() {
    let disk = MemoryDisk::new(0);
    let set = open(&disk);
    put(&set, 1, 3);
    // A sidecar of other bytes: whole in itself, and of the same slice.
    let whole = disk.open(&native("slices/.1.sector")).unwrap();
    let mut sidecar = vec![0; whole.bytes().unwrap() as usize];
    whole.read_at(&mut sidecar, 0).unwrap();
    let mut decoded = store::Sidecar::decode(&sidecar).unwrap();
    decoded.blocks = vec![crc32c::crc32c(b"xyz")];
    whole.write_all_at(&decoded.encode(), 0).unwrap();
    disk.open(&native("slices/1")).unwrap().write_all_at(b"xyz", 0).unwrap();
    assert_eq!(damaged(&pass(&mut scrub(&set), 1)), [(1, "its digest")]);
}

#[test]
fn a_step_reads_no_more_than_it_may_and_slices_come_in_the_order_of_their_ids() {
    let set = open(&MemoryDisk::new(0));
    for slice in [9, 2, 5] {
        put(&set, slice, 3 << 20);
    }
    let mut scrub = scrub(&set);
    let mut seen = Vec::new();
    loop {
        match scrub.step(7, 1).unwrap() {
            ScrubStep::Read(bytes) => assert_eq!(bytes, 1 << 20),
            ScrubStep::PassDone => break,
            corrupt => panic!("{corrupt:?}"),
        }
        seen.extend(scrub.status().position.map(|slice| slice.0));
    }
    seen.dedup();
    assert_eq!(seen, [2, 5, 9]);
    let status = scrub.status();
    assert_eq!((status.checked_bytes, status.total_bytes), (9 << 20, 9 << 20));
    assert_eq!((status.began_unix_millis, status.finished_unix_millis), (None, Some(7)));
}

// Promise 32.
#[test]
fn after_a_restart_it_goes_on_behind_the_last_slice_that_was_saved() {
    for seed in 0..20 {
        let disk = MemoryDisk::new(seed);
        let set = open(&disk);
        for slice in 1..=4 {
            put(&set, slice, 100);
        }
        let mut before = scrub(&set);
        before.step(10, 1).unwrap();
        before.step(11, 1).unwrap();
        before.save().unwrap();
        before.step(12, 1).unwrap();
        let disk = disk.crash();
        let set = open(&disk);
        let mut after = scrub(&set);
        let status = after.status();
        assert_eq!((status.position, status.began_unix_millis), (Some(SliceId(2)), Some(10)));
        assert_eq!(pass(&mut after, 20).len(), 3, "two slices and the end");
        assert_eq!(after.status().last_began_unix_millis, Some(10));
    }
}

#[test]
fn a_power_cut_while_the_record_is_written_leaves_the_old_one_or_the_new_one() {
    for seed in 0..20 {
        let mut cut = 0;
        loop {
            let disk = MemoryDisk::new(seed);
            let set = open(&disk);
            put(&set, 1, 100);
            let mut scrub_before = scrub(&set);
            scrub_before.step(10, 1).unwrap();
            scrub_before.save().unwrap();
            pass(&mut scrub_before, 20);
            disk.power_off_after(cut);
            let saved = scrub_before.save().is_ok();
            let status = scrub(&open(&disk.crash())).status();
            let (old, new) = ((Some(10), None), (None, Some(20)));
            let found = (status.began_unix_millis, status.finished_unix_millis);
            assert!(found == new || found == old && !saved, "{found:?}, seed {seed}, cut after {cut}");
            if saved {
                break;
            }
            cut += 1;
        }
    }
}

#[test]
fn slices_removed_and_added_meanwhile_neither_stop_it_nor_count_as_damaged() {
    let set = open(&MemoryDisk::new(0));
    for slice in 1..=3 {
        put(&set, slice, 2 << 20);
    }
    let mut scrub = scrub(&set);
    scrub.step(1, 1).unwrap();
    set.remove(SliceId(1)).unwrap();
    set.remove(SliceId(2)).unwrap();
    put(&set, 7, 10);
    let steps = pass(&mut scrub, 2);
    assert_eq!(damaged(&steps), []);
    assert_eq!(scrub.status().checked_bytes, (4 << 20) + 10, "the open one to its end, 3 and 7");
}

#[test]
fn a_disk_that_fails_under_the_scrub_ends_it_and_no_slice_is_called_damaged() {
    let disk = MemoryDisk::new(0);
    let set = open(&disk);
    put(&set, 1, 2 << 20);
    let mut scrub = scrub(&set);
    scrub.step(1, 1).unwrap();
    disk.set_fault(Some(DiskFault::Everything(5)));
    assert!(scrub.step(2, 1).is_err());
    assert!(matches!(scrub.step(3, 1), Err(StoreError::DiskFailed { .. })));
    assert_eq!(scrub.status().corrupt, 0);
}

#[test]
fn a_check_gives_the_digest_of_what_it_read() {
    let set = open(&MemoryDisk::new(0));
    put(&set, 1, 3 << 20);
    let mut check = SliceCheck::begin(set.open_slice(SliceId(1)).unwrap());
    assert_eq!(check.step(1).unwrap(), CheckStep::More(1 << 20));
    let digest = protocol::Digest(*blake3::hash(&bytes(1, 3 << 20)).as_bytes());
    assert_eq!(check.step(u64::MAX).unwrap(), CheckStep::Good { bytes: 2 << 20, digest });
}
