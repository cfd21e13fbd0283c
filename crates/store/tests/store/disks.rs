//! Several disks behind one interface: which one a new slice goes to, and what a failing one takes with it. Also, what
//! holds where two of them disagree.

use std::{collections::BTreeMap, path::Path, sync::Arc};

use protocol::{SliceId, Status, disk::DiskState, message::node_master::HeldState, status::ErrorClass};
use store::{DataFolder, Disk, DiskFault, DiskSet, MemoryDisk, OsDisk, SliceHasher, SliceStore, StoreError};

use crate::{bytes, header, path};

const EIO: i32 = 5;
const EROFS: i32 = 30;

/// Disks in memory, each with its folder `/disk-N`.
struct Disks(Vec<MemoryDisk>);

impl Disks {
    fn new(count: u64) -> Self {
        Self((0..count).map(MemoryDisk::new).collect())
    }

    fn folders(&self) -> Vec<DataFolder> {
        let folder = |(number, disk): (usize, &MemoryDisk)| DataFolder {
            disk: Arc::new(disk.clone()),
            folder: format!("/disk-{number}").into(),
            known: false,
            memory_bytes: None,
        };
        self.0.iter().enumerate().map(folder).collect()
    }

    fn open(&self) -> Arc<DiskSet> {
        self.open_with(0)
    }

    fn open_with(&self, reserve_bytes: u64) -> Arc<DiskSet> {
        DiskSet::open(self.folders(), reserve_bytes).unwrap().0
    }

    /// The disks that have the files of a slice, by its id or its path.
    fn disk_of(&self, slice: u128, at: &str) -> Vec<usize> {
        let has = |number: usize, disk: &MemoryDisk| {
            let folder = format!("/disk-{number}");
            let names = [
                format!("{folder}/slices{at}"),
                format!("{folder}/staging/{}", SliceId(slice)),
                format!("{folder}/retired/{}", SliceId(slice)),
            ];
            names.iter().any(|name| disk.bytes(Path::new(name)).unwrap().is_some())
        };
        self.0.iter().enumerate().filter(|(number, disk)| has(*number, disk)).map(|(number, _)| number).collect()
    }

    fn all_have_power(&self) -> bool {
        self.0.iter().all(|disk| disk.list(Path::new("/")).is_ok())
    }

    fn crash(&mut self) {
        for disk in &mut self.0 {
            *disk = disk.crash();
        }
    }
}

fn write(set: &DiskSet, slice: u128, at: &str, content: &[u8]) -> Result<(), StoreError> {
    let mut writer = set.begin(header(slice, at, slice as u64))?;
    writer.write(content)?;
    writer.finish(None).map(|_| ())
}

fn put(set: &DiskSet, slice: u128, at: &str, content: &[u8]) {
    write(set, slice, at, content).unwrap();
    set.place(&header(slice, at, slice as u64)).unwrap();
}

fn read(set: &DiskSet, slice: u128) -> Result<Vec<u8>, StoreError> {
    let mut buffer = Vec::new();
    set.open_slice(SliceId(slice))?.read_at(&mut buffer, 0, usize::MAX)?;
    Ok(buffer)
}

fn held(set: &DiskSet) -> Vec<(u128, HeldState)> {
    set.held().iter().map(|held| (held.metadata.header.slice.0, held.state)).collect()
}

fn states(set: &DiskSet) -> Vec<DiskState> {
    set.statuses().iter().map(|disk| disk.state).collect()
}

#[test]
fn a_new_slice_goes_where_the_largest_share_is_free_and_a_larger_disk_gets_more() {
    let disks = Disks::new(2);
    let set = disks.open();
    disks.0[0].set_free_bytes(1_000_000);
    disks.0[1].set_free_bytes(4_000_000);
    for slice in 0..50 {
        write(&set, slice, "/f", &[1; 50_000]).unwrap();
    }
    let on_first = (0..50).filter(|slice| disks.disk_of(*slice, "/-") == [0]).count();
    assert!((8..=12).contains(&on_first), "about a fifth of the slices on a fifth of the room: {on_first}");
    // Half of the small disk is used by others: it gets less.
    disks.0[0].set_free_bytes(100_000);
    write(&set, 100, "/f", &[1; 50_000]).unwrap();
    assert_eq!(disks.disk_of(100, "/-"), [1]);
}

#[test]
fn slices_written_at_once_are_spread_over_disks_that_are_about_equal() {
    let disks = Disks::new(3);
    let set = disks.open();
    let writers: Vec<_> = (0..6).map(|slice| set.begin(header(slice, "/f", 1)).unwrap()).collect();
    let unfinished = |number: usize| {
        let folder = format!("/disk-{number}/unfinished");
        disks.0[number].list(Path::new(&folder)).unwrap().len()
    };
    assert_eq!([0, 1, 2].map(unfinished), [2, 2, 2]);
    drop(writers);
    // Nobody writes any more: the counts are forgotten.
    let _first = set.begin(header(10, "/f", 1)).unwrap();
    assert_eq!([0, 1, 2].map(unfinished), [1, 0, 0]);
}

#[test]
fn two_who_write_the_same_slice_write_it_on_the_same_disk_and_it_is_there_once() {
    let disks = Disks::new(2);
    let set = disks.open();
    let mut first = set.begin(header(1, "/f", 1)).unwrap();
    let mut second = set.begin(header(1, "/f", 1)).unwrap();
    first.write(b"same").unwrap();
    second.write(b"same").unwrap();
    first.finish(None).unwrap();
    second.finish(None).unwrap();
    assert_eq!(disks.disk_of(1, "/-").len(), 1);
    assert!(matches!(set.begin(header(1, "/f", 1)).err(), Some(StoreError::Exists(_))));
}

// Promise 37.
#[test]
fn the_reserve_is_kept_free_on_every_disk_and_room_that_comes_back_is_used() {
    let disks = Disks::new(2);
    let set = disks.open_with(1_000);
    for disk in &disks.0 {
        disk.set_free_bytes(2_000);
    }
    put(&set, 1, "/small", &[7; 100]);
    let error = write(&set, 2, "/large", &[7; 1_500]).unwrap_err();
    assert!(matches!(error, StoreError::Reserve { .. }), "{error}");
    assert_eq!((error.class(), error.refusal().status()), (ErrorClass::RetryElsewhere, Status::Unavailable));
    assert!(disks.0.iter().all(|disk| disk.free_bytes(Path::new("/")).unwrap() >= 1_000), "it was not touched");
    for disk in &disks.0 {
        disk.set_free_bytes(900);
    }
    assert_eq!(set.available_bytes(), 0, "so that the master chooses another node");
    assert!(matches!(set.begin(header(3, "/x", 1)).err(), Some(StoreError::Reserve { .. })));
    assert_eq!(read(&set, 1).unwrap(), [7; 100], "reading goes on");
    set.place(&header(1, "/renamed", 1)).unwrap();
    disks.0[1].set_free_bytes(1_000_000);
    write(&set, 2, "/large", &[7; 1_500]).unwrap();
    assert_eq!(disks.disk_of(2, "/-"), [1]);
    assert_eq!(states(&set), [DiskState::Ok, DiskState::Ok], "a full disk has not failed");
}

// Promise 34.
#[test]
fn a_disk_that_fails_takes_its_own_slices_out_of_service_and_no_others() {
    let disks = Disks::new(2);
    let set = disks.open();
    for slice in 0..10 {
        put(&set, slice, &format!("/{slice}"), &bytes(slice as u64, 1_000));
    }
    assert_eq!(set.check_disks(), [], "nothing is wrong yet");
    let open_before = set.open_slice(SliceId(0)).unwrap();
    let broken = disks.disk_of(0, "/0")[0];
    let (lost, kept): (Vec<u128>, Vec<u128>) =
        (0..10).partition(|slice| disks.disk_of(*slice, &format!("/{slice}")) == [broken]);
    assert!(!lost.is_empty() && !kept.is_empty(), "both disks are used");
    disks.0[broken].set_fault(Some(DiskFault::Everything(EIO)));
    // Whoever meets the error first reports it, here a reader in the middle of its slice.
    assert!(open_before.read_at(&mut Vec::new(), 0, 10).is_err());
    let error = read(&set, 0).unwrap_err();
    assert!(matches!(error, StoreError::NotHeld(_)), "{error}");
    let looked = set.check_disks();
    assert_eq!(looked.len(), 1);
    assert_eq!(looked[0].folder, Path::new(&format!("/disk-{broken}")));
    assert_eq!(looked[0].lost, lost.iter().map(|slice| SliceId(*slice)).collect::<Vec<_>>());
    assert_eq!(set.check_disks(), [], "it is told once");
    assert_eq!(held(&set).iter().map(|(slice, _)| *slice).collect::<Vec<_>>(), kept);
    for slice in kept {
        assert_eq!(read(&set, slice).unwrap(), bytes(slice as u64, 1_000));
    }
    for slice in 20..25 {
        put(&set, slice, &format!("/{slice}"), b"new");
        assert!(read(&set, slice).is_ok(), "new slices go to the other disk");
    }
    let status = &set.statuses()[broken];
    assert_eq!((status.state, status.free_bytes, status.used_bytes), (DiskState::Failed, 0, 0));
    assert!(status.why.contains("os error 5"), "{}", status.why);
}

#[test]
fn a_disk_that_became_read_only_is_out_of_service_from_the_first_write_on() {
    let disks = Disks::new(2);
    let set = disks.open();
    put(&set, 1, "/a", b"before");
    let broken = disks.disk_of(1, "/a")[0];
    disks.0[broken].set_fault(Some(DiskFault::Changes(EROFS)));
    // One write may meet it; the next goes elsewhere.
    let failures: Vec<_> = (10..13).filter_map(|slice| write(&set, slice, "/b", b"x").err()).collect();
    assert!(failures.len() <= 1, "{failures:?}");
    assert!(failures.iter().all(|error| error.refusal().status() == Status::Unavailable), "it may be tried again");
    assert_eq!(states(&set)[broken], DiskState::Failed);
    assert_eq!(set.check_disks()[0].lost, [SliceId(1)], "its slices are copied elsewhere while another copy is there");
    // A repair alone does not bring it back.
    disks.0[broken].set_fault(None);
    assert!(!set.contains(SliceId(1)));
    let again = disks.open();
    assert_eq!(read(&again, 1).unwrap(), b"before", "a new start does");
}

#[test]
fn with_its_only_disk_failed_a_node_holds_nothing_and_says_why() {
    let disks = Disks::new(1);
    let set = disks.open();
    put(&set, 1, "/a", b"bytes");
    disks.0[0].set_fault(Some(DiskFault::Everything(EIO)));
    assert_eq!(set.check_disks()[0].lost, [SliceId(1)]);
    assert_eq!((set.held(), set.used_bytes(), set.available_bytes()), (vec![], 0, 0));
    for error in [write(&set, 2, "/b", b"x").unwrap_err(), set.emptiest_jobs_folder().unwrap_err()] {
        assert!(matches!(error, StoreError::DiskFailed { .. }), "{error}");
        assert_eq!(error.refusal().status(), Status::Unavailable);
    }
}

// Promise 34.
#[test]
fn a_writer_whose_disk_fails_does_not_finish() {
    let disks = Disks::new(1);
    let set = disks.open();
    let mut writer = set.begin(header(1, "/a", 1)).unwrap();
    writer.write(b"bytes").unwrap();
    disks.0[0].set_fault(Some(DiskFault::Everything(EIO)));
    assert_eq!(set.check_disks().len(), 1);
    // The disk answers again, but nobody knows what it lost meanwhile.
    disks.0[0].set_fault(None);
    assert!(writer.finish(None).is_err());
    assert!(!set.contains(SliceId(1)));
}

#[test]
fn a_read_from_a_mount_that_is_gone_says_that_it_is_the_disk() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("data");
    let folders = vec![DataFolder { disk: Arc::new(OsDisk), folder: data.clone(), known: false, memory_bytes: None }];
    let (set, _) = DiskSet::open(folders, 0).unwrap();
    put(&set, 1, "/a", b"bytes");
    std::fs::rename(&data, folder.path().join("unmounted")).unwrap();
    let error = read(&set, 1).unwrap_err();
    assert!(matches!(error, StoreError::DiskFailed { .. }), "{error}");
}

#[test]
fn an_error_that_a_job_met_on_its_own_files_takes_the_disk_out_of_service() {
    let disks = Disks::new(2);
    let set = disks.open();
    set.note_error(Path::new("/disk-1/jobs/7/scratch/1"), &std::io::ErrorKind::StorageFull.into(), false);
    set.note_error(Path::new("/elsewhere/file"), &std::io::Error::from_raw_os_error(EIO), false);
    set.note_error(Path::new("/disk-1/jobs/7/scratch/2"), &std::io::Error::from_raw_os_error(EIO), true);
    assert_eq!(states(&set), [DiskState::Ok, DiskState::Ok]);
    set.note_error(Path::new("/disk-1/jobs/7/scratch/1"), &std::io::Error::from_raw_os_error(EIO), false);
    assert_eq!(states(&set), [DiskState::Ok, DiskState::Failed]);
}

#[test]
fn a_missing_file_on_a_mount_that_is_gone_is_a_failed_disk_and_no_damaged_slice() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("data");
    let folders = vec![DataFolder { disk: Arc::new(OsDisk), folder: data.clone(), known: false, memory_bytes: None }];
    let (set, _) = DiskSet::open(folders, 0).unwrap();
    put(&set, 1, "/a", b"bytes");
    std::fs::rename(&data, folder.path().join("unmounted")).unwrap();
    std::fs::create_dir(&data).unwrap();
    // A reader that had it open may take the missing file for damage.
    set.mark_corrupt(SliceId(1)).unwrap();
    assert_eq!(set.check_disks()[0].lost, [SliceId(1)], "it was not put aside");
    assert_eq!(std::fs::read_dir(&data).unwrap().count(), 0, "nothing is begun where the disk was mounted");
}

// Promise 35.
#[test]
fn a_disk_that_is_missing_at_the_start_is_named_and_nothing_is_begun_in_its_place() {
    let folder = tempfile::tempdir().unwrap();
    let mut folders: Vec<_> = ["a", "b"]
        .map(|name| DataFolder {
            disk: Arc::new(OsDisk) as Arc<dyn Disk>,
            folder: folder.path().join(name),
            known: false,
            memory_bytes: None,
        })
        .to_vec();
    let (set, _) = DiskSet::open(folders.clone(), 0).unwrap();
    put(&set, 1, "/x", b"bytes");
    let (there, gone) = if folder.path().join("a/slices/x").exists() { ("a", "b") } else { ("b", "a") };
    drop(set);
    std::fs::remove_dir_all(folder.path().join(gone)).unwrap();
    std::fs::create_dir(folder.path().join(gone)).unwrap();
    folders.iter_mut().for_each(|folder| folder.known = true);
    let (set, _) = DiskSet::open(folders.clone(), 0).unwrap();
    let statuses = set.statuses();
    for status in statuses {
        let expected = if status.folder.ends_with(there) { DiskState::Ok } else { DiskState::Missing };
        assert_eq!(status.state, expected, "{status:?}");
        assert_eq!(status.why.contains("mount"), expected == DiskState::Missing);
    }
    assert_eq!(read(&set, 1).unwrap(), b"bytes");
    assert_eq!(std::fs::read_dir(folder.path().join(gone)).unwrap().count(), 0);
    drop(set);
    // The operator says that it is a new, empty disk.
    std::fs::create_dir(folder.path().join(gone).join("slices")).unwrap();
    let (set, _) = DiskSet::open(folders, 0).unwrap();
    assert_eq!(states(&set), [DiskState::Ok, DiskState::Ok]);
}

#[test]
fn a_disk_locked_by_another_process_stops_the_start_and_an_unreadable_one_does_not() {
    let folder = tempfile::tempdir().unwrap();
    let folders = |names: [&str; 2]| {
        names
            .map(|name| DataFolder {
                disk: Arc::new(OsDisk) as Arc<dyn Disk>,
                folder: folder.path().join(name),
                known: false,
                memory_bytes: None,
            })
            .to_vec()
    };
    let _taken = SliceStore::open(Arc::new(OsDisk), &folder.path().join("taken")).unwrap();
    assert!(matches!(DiskSet::open(folders(["free", "taken"]), 0).err(), Some(StoreError::Locked { .. })));
    std::fs::write(folder.path().join("file"), "x").unwrap();
    let (set, _) = DiskSet::open(folders(["free", "file"]), 0).unwrap();
    assert_eq!(states(&set), [DiskState::Ok, DiskState::Failed]);
    assert!(DiskSet::open(folders(["file", "file"]), 0).is_err(), "with none there is no node");
}

#[test]
fn disks_may_be_opened_in_any_order_and_by_another_node() {
    let disks = Disks::new(2);
    let set = disks.open();
    for slice in 0..8 {
        put(&set, slice, &format!("/{slice}"), &bytes(slice as u64, 10));
    }
    let before = set.held();
    drop(set);
    let mut folders = disks.folders();
    folders.reverse();
    let (set, _) = DiskSet::open(folders.clone(), 0).unwrap();
    assert_eq!(set.held(), before);
    drop(set);
    // Each disk goes to its own node: together they have what the one node had.
    let mut all: Vec<_> =
        folders.into_iter().flat_map(|folder| DiskSet::open(vec![folder], 0).unwrap().0.held()).collect();
    all.sort_by_key(|held| held.metadata.header.slice);
    assert_eq!(all, before);
}

/// Two disks, both with slice 1: on the first it is staged, on the second placed.
fn with_a_spare() -> (Disks, Arc<DiskSet>) {
    let disks = Disks::new(2);
    for (number, disk) in disks.0.iter().enumerate() {
        let folder = format!("/disk-{number}");
        let (store, _) = SliceStore::open(Arc::new(disk.clone()), Path::new(&folder)).unwrap();
        crate::write(&store, header(1, "/a", 1), &bytes(1, 200_000)).unwrap();
        if number == 1 {
            store.place(&header(1, "/a", 1)).unwrap();
        }
    }
    let set = disks.open();
    (disks, set)
}

#[test]
fn of_a_slice_on_two_disks_the_placed_copy_serves_and_a_removal_takes_both() {
    let (disks, set) = with_a_spare();
    assert_eq!(held(&set), [(1, HeldState::Placed)]);
    assert_eq!(disks.disk_of(1, "/a"), [0, 1], "neither is deleted");
    set.remove(SliceId(1)).unwrap();
    assert_eq!(disks.disk_of(1, "/a"), Vec::<usize>::new());
    write(&set, 1, "/a", b"again").unwrap();
    assert_eq!(held(&set), [(1, HeldState::Staged)]);
}

#[test]
fn a_spare_serves_when_the_other_copy_is_damaged_or_its_disk_fails() {
    let (disks, set) = with_a_spare();
    disks.0[1].flip_bit(Path::new("/disk-1/slices/a"), 70_000).unwrap();
    assert!(matches!(read(&set, 1), Err(StoreError::Corrupt { .. })));
    set.mark_corrupt(SliceId(1)).unwrap();
    assert_eq!(held(&set), [(1, HeldState::Staged)]);
    assert_eq!(read(&set, 1).unwrap(), bytes(1, 200_000));
    let (disks, set) = with_a_spare();
    disks.0[1].set_fault(Some(DiskFault::Everything(EIO)));
    let lost = set.check_disks();
    assert_eq!((lost[0].lost.len(), lost[0].replaced[0].header.slice), (0, SliceId(1)));
    assert_eq!(read(&set, 1).unwrap(), bytes(1, 200_000));
}

// Promise 36.
#[test]
fn a_spare_is_removed_only_once_the_copy_that_serves_was_read_whole() {
    let (disks, set) = with_a_spare();
    let mut scrubs = set.scrubs();
    let (_, on_first) = &mut scrubs[0];
    while on_first.step(1, 1 << 20).unwrap() != store::ScrubStep::PassDone {}
    assert_eq!(disks.disk_of(1, "/a"), [0, 1], "the spare's own disk says nothing of the other");
    let (_, on_second) = &mut scrubs[1];
    on_second.step(1, 1 << 20).unwrap();
    assert_eq!(disks.disk_of(1, "/a"), [1]);
}

// Promise 36.
#[test]
fn a_spare_at_its_old_path_is_no_obstacle_to_a_file_at_one_of_its_folders() {
    let disks = Disks::new(2);
    for (number, disk) in disks.0.iter().enumerate() {
        let (store, _) = SliceStore::open(Arc::new(disk.clone()), Path::new(&format!("/disk-{number}"))).unwrap();
        crate::write(&store, header(1, "/a/b", 1), &bytes(1, 300)).unwrap();
        store.place(&header(1, "/a/b", 1)).unwrap();
    }
    let set = disks.open();
    // The serving copy moves elsewhere; the spare is not touched.
    set.place(&header(1, "/c", 1)).unwrap();
    for (slice, at) in [(2, "/x"), (3, "/y")] {
        put(&set, slice, at, &bytes(2, 300));
        set.place(&header(slice, "/a", slice as u64)).unwrap();
    }
    let placed = |slice: u128| held(&set).contains(&(slice, HeldState::Placed));
    assert!(placed(1) && placed(3), "{:?}", held(&set));
    // The spare still serves if the other copy is lost.
    set.mark_corrupt(SliceId(1)).unwrap();
    assert_eq!(read(&set, 1).unwrap(), bytes(1, 300));
}

#[test]
fn a_slice_placed_on_one_disk_retires_what_another_has_at_its_path_or_above_it() {
    let disks = Disks::new(2);
    let set = disks.open();
    // One on each disk: while the first is written, the second goes to the other.
    let pair = |first: (u128, &str), second: (u128, &str)| {
        let writers = [first, second].map(|(slice, at)| set.begin(header(slice, at, slice as u64)).unwrap());
        for writer in writers {
            writer.finish(None).unwrap();
        }
    };
    pair((1, "/a"), (2, "/a"));
    set.place(&header(1, "/a", 1)).unwrap();
    set.place(&header(2, "/a", 2)).unwrap();
    assert_ne!(disks.disk_of(1, "/a"), disks.disk_of(2, "/-"), "they are on two disks");
    assert_eq!(held(&set), [(1, HeldState::Retired), (2, HeldState::Placed)]);
    pair((3, "/b"), (4, "/b/c"));
    set.place(&header(3, "/b", 3)).unwrap();
    set.place(&header(4, "/b/c", 4)).unwrap();
    assert_eq!(held(&set)[2..], [(3, HeldState::Retired), (4, HeldState::Placed)]);
    assert!(matches!(set.place(&header(3, "/b", 3)), Err(StoreError::PathBlocked { .. })));
}

#[test]
fn a_bucket_is_adopted_on_the_disk_where_its_file_lies() {
    let disks = Disks::new(2);
    let set = disks.open();
    for (slice, folder) in (1..).zip(set.jobs_folders()) {
        let file = folder.join("bucket");
        disks.0[slice as usize - 1].create(&file).unwrap().write_all_at(b"result", 0).unwrap();
        let mut hasher = SliceHasher::new();
        hasher.update(b"result");
        set.ingest_file(header(slice, "/out", 1), &file, hasher.finish()).unwrap();
        assert_eq!(disks.disk_of(slice, "/-"), [slice as usize - 1]);
    }
    let turns: std::collections::BTreeSet<_> = (0..4).map(|_| set.emptiest_jobs_folder().unwrap()).collect();
    assert_eq!(turns.len(), 2, "scratch files are spread");
    disks.0[0].set_free_bytes(10);
    assert_eq!(set.emptiest_jobs_folder().unwrap(), Path::new("/disk-1/jobs"));
}

#[test]
fn a_slow_disk_takes_new_slices_only_where_no_other_has_room() {
    let disks = Disks::new(2);
    let set = disks.open();
    set.set_slow(&["/disk-0".into()]);
    for slice in 1..=4 {
        let at = format!("/{slice}");
        put(&set, slice, &at, b"x");
        assert_eq!(disks.disk_of(slice, &at), [1]);
    }
    assert_eq!(set.emptiest_jobs_folder().unwrap(), Path::new("/disk-1/jobs"));
    disks.0[1].set_free_bytes(0);
    put(&set, 5, "/5", b"x");
    assert_eq!(disks.disk_of(5, "/5"), [0], "nothing becomes unavailable");
    disks.0[1].set_free_bytes(1 << 30);
    set.set_slow(&["/disk-1".into()]);
    put(&set, 6, "/6", b"x");
    assert_eq!(disks.disk_of(6, "/6"), [0], "the first is not slow any more");
    set.set_slow(&["/disk-0".into(), "/disk-1".into()]);
    put(&set, 7, "/7", b"x");
}

#[test]
fn wherever_the_power_is_cut_what_two_disks_acknowledged_is_there_once() {
    // The power goes off for both disks at the same moment; the seed decides which one was working.
    for seed in 0..12 {
        let mut cut = 0;
        loop {
            let mut disks = Disks(vec![MemoryDisk::new(seed), MemoryDisk::new(seed + 1_000)]);
            let mut promised: BTreeMap<u128, Option<&str>> = BTreeMap::new();
            let finished = work_until_cut(&disks, seed, cut, &mut promised);
            disks.crash();
            let set = disks.open();
            let found: BTreeMap<u128, _> =
                set.held().into_iter().map(|held| (held.metadata.header.slice.0, held)).collect();
            assert_eq!(found.len(), set.held().len(), "each is listed once");
            for (slice, at) in &promised {
                let told = format!("slice {slice}, seed {seed}, cut after {cut}");
                let held = found.get(slice).unwrap_or_else(|| panic!("lost: {told}"));
                assert_eq!(read(&set, *slice).unwrap(), bytes(*slice as u64, 300), "{told}");
                assert!(at.is_none_or(|at| held.metadata.header.path == path(at)), "{told}");
            }
            if finished {
                break;
            }
            cut += 1;
        }
    }
}

/// Writes and places on two disks, of which one is cut after so many changes; returns whether it came to the end.
/// Records what was acknowledged, with the path given then.
fn work_until_cut(disks: &Disks, seed: u64, cut: u64, promised: &mut BTreeMap<u128, Option<&str>>) -> bool {
    let set = disks.open();
    disks.0[(seed % 2) as usize].power_off_after(cut);
    let mut finished = true;
    for (slice, at) in [(1, "/a"), (2, "/a"), (3, "/b"), (4, "/a")] {
        if write(&set, slice, at, &bytes(slice as u64, 300)).is_err() {
            finished = false;
            continue;
        }
        promised.insert(slice, None);
        match set.place(&header(slice, at, slice as u64)) {
            Ok(()) => drop(promised.insert(slice, Some(at))),
            Err(_) => finished = false,
        }
    }
    finished && disks.all_have_power()
}

#[test]
fn an_error_that_is_not_the_disks_leaves_it_in_service() {
    let disks = Disks::new(1);
    let set = disks.open();
    disks.0[0].fail_one_after(0);
    assert!(write(&set, 1, "/a", b"x").is_err());
    disks.0[0].set_free_bytes(1);
    let error = write(&set, 1, "/a", b"xyz").unwrap_err();
    assert!(matches!(error, StoreError::DiskFull { .. }), "{error}");
    disks.0[0].set_free_bytes(1 << 20);
    put(&set, 1, "/a", b"x");
    assert_eq!((set.check_disks(), states(&set)), (vec![], vec![DiskState::Ok]));
}

/// A real disk and one in memory that lends 100 bytes.
fn with_memory(disks: &Disks) -> Arc<DiskSet> {
    let mut folders = disks.folders();
    folders[1].memory_bytes = Some(100);
    DiskSet::open(folders, 0).unwrap().0
}

// Promise 23.
#[test]
fn what_has_a_path_in_memory_goes_there_and_nothing_else_does() {
    let disks = Disks::new(2);
    let set = with_memory(&disks);
    // Whichever has more room.
    for (free, slice) in [(1_000_000, 1), (20_000, 3)] {
        disks.0[1].set_free_bytes(free);
        disks.0[0].set_free_bytes(100_000);
        put(&set, slice, &format!("/f{slice}"), b"on the disk");
        put(&set, slice + 1, &format!("/memory/f{slice}"), b"here");
        assert_eq!(disks.disk_of(slice, &format!("/f{slice}")), [0]);
        assert_eq!(disks.disk_of(slice + 1, &format!("/memory/f{slice}")), [1]);
    }
    assert_eq!(read(&set, 2).unwrap(), b"here");
    assert_eq!(
        (set.used_bytes(), set.statuses().len(), set.jobs_folders().len()),
        (22, 1, 1),
        "it is no disk to others"
    );
    set.remove(SliceId(2)).unwrap();
    assert!(disks.disk_of(2, "/memory/f1").is_empty());
}

// Promise 23.
#[test]
fn files_in_memory_take_no_more_than_it_lends_those_under_way_included() {
    let disks = Disks::new(2);
    let set = with_memory(&disks);
    put(&set, 1, "/memory/a", &[1; 40]);
    let mut writer = set.begin(header(2, "/memory/b", 2)).unwrap();
    writer.write(&[2; 50]).unwrap();
    let full = write(&set, 3, "/memory/c", &[3; 20]).unwrap_err();
    assert!(matches!(full, StoreError::MemoryFull { bytes_max: 100 }), "{full}");
    assert!(matches!(writer.write(&[2; 20]), Err(StoreError::MemoryFull { .. })));
    drop(writer);
    put(&set, 3, "/memory/c", &[3; 60]);
    assert!(matches!(write(&set, 4, "/memory/d", &[4]), Err(StoreError::MemoryFull { .. })));
    put(&set, 4, "/d", &[4; 500]);
    set.remove(SliceId(1)).unwrap();
    put(&set, 5, "/memory/e", &[5; 40]);
    let without = Disks::new(1);
    assert!(matches!(write(&without.open(), 1, "/memory/a", &[1]), Err(StoreError::MemoryFull { bytes_max: 0 })));
}

#[test]
fn a_bucket_becomes_a_slice_in_memory_and_leaves_its_disk() {
    let disks = Disks::new(2);
    let set = with_memory(&disks);
    let bucket = |bytes: &[u8]| {
        let file = set.emptiest_jobs_folder().unwrap().join("bucket");
        disks.0[0].create(&file).unwrap().write_all_at(bytes, 0).unwrap();
        let mut hasher = SliceHasher::new();
        hasher.update(bytes);
        (file, hasher.finish())
    };
    let (file, sums) = bucket(b"results of a job");
    set.ingest_file(header(1, "/memory/out/part-00000", 1), &file, sums).unwrap();
    set.place(&header(1, "/memory/out/part-00000", 1)).unwrap();
    assert_eq!(disks.disk_of(1, "/memory/out/part-00000"), [1]);
    assert_eq!(read(&set, 1).unwrap(), b"results of a job");
    assert_eq!(disks.0[0].bytes(&file).unwrap(), None);
    // One that does not fit is still there.
    let (file, sums) = bucket(&[7; 101]);
    let refused = set.ingest_file(header(2, "/memory/out/part-00001", 1), &file, sums);
    assert!(matches!(refused, Err(StoreError::MemoryFull { .. })));
    assert_eq!(disks.0[0].bytes(&file).unwrap(), Some(101));
}
