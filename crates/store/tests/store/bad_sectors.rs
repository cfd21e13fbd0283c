//! One bad sector is one bad copy: what a single file that cannot be read does to its disk and to its node.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

use protocol::{SliceId, disk::DiskState, message::node_master::HeldState};
use store::{DataFolder, Disk, DiskFault, DiskSet, MemoryDisk, ScrubStep, Sidecar, StoreError};

use crate::{bytes, files, header, path};

const EIO: i32 = 5;

/// A node of disks in memory, each with its folder `/disk-N`.
struct Node(Vec<MemoryDisk>);

impl Node {
    fn new(disks: u64) -> Self {
        Self((0..disks).map(MemoryDisk::new).collect())
    }

    fn try_open(&self) -> Result<(Arc<DiskSet>, Vec<PathBuf>), StoreError> {
        let folder = |(number, disk): (usize, &MemoryDisk)| DataFolder {
            disk: Arc::new(disk.clone()),
            folder: format!("/disk-{number}").into(),
            known: true,
            memory_bytes: None,
        };
        DiskSet::open(self.0.iter().enumerate().map(folder).collect(), 0)
    }

    fn open(&self) -> (Arc<DiskSet>, Vec<PathBuf>) {
        self.try_open().unwrap()
    }

    /// Slices 0 to 9, slice N placed at `/d/N`.
    fn with_slices(disks: u64) -> (Self, Arc<DiskSet>) {
        let node = Self::new(disks);
        for (number, disk) in node.0.iter().enumerate() {
            disk.create_folder_all(Path::new(&format!("/disk-{number}/slices"))).unwrap();
        }
        let (set, _) = node.open();
        (0..10).for_each(|slice| put(&set, slice));
        (node, set)
    }

    /// The disk and the path of a slice's bytes.
    fn find(&self, slice: u128) -> (usize, PathBuf) {
        let file = |disk| PathBuf::from(format!("/disk-{disk}/slices/d/{slice}"));
        let disk = (0..self.0.len()).find(|disk| self.0[*disk].bytes(&file(*disk)).unwrap().is_some()).unwrap();
        (disk, file(disk))
    }

    fn spoil_bytes(&self, slice: u128) {
        let (disk, file) = self.find(slice);
        self.0[disk].set_bad_sector(&file, Some(0)).unwrap();
    }

    fn spoil_sidecar(&self, slice: u128) -> usize {
        let (disk, file) = self.find(slice);
        self.0[disk].set_bad_sector(&file.with_file_name(format!(".{slice}.sector")), Some(0)).unwrap();
        disk
    }

    fn restart(&mut self, set: Arc<DiskSet>) -> (Arc<DiskSet>, Vec<PathBuf>) {
        drop(set);
        self.0.iter_mut().for_each(|disk| *disk = disk.crash());
        self.open()
    }
}

fn put(set: &DiskSet, slice: u128) {
    let header = header(slice, &format!("/d/{slice}"), slice as u64 + 1);
    let mut writer = set.begin(header.clone()).unwrap();
    writer.write(&bytes(slice as u64, 1_000)).unwrap();
    writer.finish(None).unwrap();
    set.place(&header).unwrap();
}

fn read(set: &DiskSet, slice: u128) -> Result<Vec<u8>, StoreError> {
    let mut buffer = Vec::new();
    set.open_slice(SliceId(slice))?.read_at(&mut buffer, 0, usize::MAX)?;
    Ok(buffer)
}

/// All of them are served but these, and every disk is in service.
fn check_all_but(set: &DiskSet, bad: &[u128]) {
    for slice in 0..10 {
        if bad.contains(&slice) {
            assert!(!set.contains(SliceId(slice)), "{slice}");
        } else {
            assert_eq!(read(set, slice).unwrap(), bytes(slice as u64, 1_000));
        }
    }
    assert!(set.statuses().iter().all(|disk| disk.state == DiskState::Ok), "{:?}", set.statuses());
    assert_eq!(set.check_disks(), []);
}

// Promise 34.
#[test]
fn a_node_starts_with_one_unreadable_sidecar_on_each_of_its_disks() {
    for disks in 1..=3 {
        let (mut node, set) = Node::with_slices(disks);
        let mut bad = Vec::new();
        // One on every disk.
        for disk in 0..disks as usize {
            let slice = (0..10).find(|slice| node.find(*slice).0 == disk).unwrap();
            node.spoil_sidecar(slice);
            bad.push(slice);
        }
        let (set, put_aside) = node.restart(set);
        check_all_but(&set, &bad);
        assert_eq!(put_aside.len(), 2 * bad.len(), "{put_aside:?}");
        for (number, disk) in node.0.iter().enumerate() {
            let aside = files(disk, Path::new(&format!("/disk-{number}/corrupt")));
            assert_eq!(aside.len(), 2, "bytes and sidecar are kept for the operator: {aside:?}");
        }
        // The copy is made again here, under the same id and path.
        for slice in &bad {
            put(&set, *slice);
        }
        check_all_but(&set, &[]);
        let (set, put_aside) = node.restart(set);
        assert_eq!(put_aside, Vec::<PathBuf>::new(), "what was put aside is not read again");
        // And does not count against the disk: another bad sector is the first again.
        let (_, file) = node.find(bad[0]);
        node.spoil_bytes(bad[0]);
        assert!(matches!(read(&set, bad[0]), Err(StoreError::Corrupt { .. })), "{}", file.display());
        set.mark_corrupt(SliceId(bad[0])).unwrap();
        check_all_but(&set, &bad[..1]);
    }
}

// Promise 34.
#[test]
fn a_slice_with_a_bad_sector_is_quarantined_and_a_second_one_fails_the_disk() {
    for disks in 1..=2 {
        let (mut node, set) = Node::with_slices(disks);
        let open_before = set.open_slice(SliceId(3)).unwrap();
        node.spoil_bytes(3);
        let broken = node.find(3).0;
        for _ in 0..3 {
            assert!(matches!(read(&set, 3), Err(StoreError::Corrupt { what, .. }) if what.contains("cannot be read")));
        }
        set.mark_corrupt(SliceId(3)).unwrap();
        assert!(open_before.read_at(&mut Vec::new(), 0, 10).is_err(), "under its new name it is the same file");
        check_all_but(&set, &[3]);
        put(&set, 20);
        // The bytes of one copy and its sidecar are two files, and so are those of two copies.
        let second = (0..10).find(|slice| *slice != 3 && node.find(*slice).0 == broken).unwrap();
        node.spoil_sidecar(second);
        let error = read(&set, second).unwrap_err();
        assert!(matches!(error, StoreError::DiskFailed { .. }), "{error}");
        let lost = set.check_disks();
        assert_eq!((lost.len(), &lost[0].folder), (1, &PathBuf::from(format!("/disk-{broken}"))));
        assert!(lost[0].lost.contains(&SliceId(second)) && lost[0].why.contains("neither `"), "{lost:?}");
        set.mark_corrupt(SliceId(second)).unwrap();
        assert!(node.find(second).0 == broken, "a disk that has failed is not written to");
        // Started again, it knows nothing of the first, and goes on without the second.
        let (set, _) = node.restart(set);
        check_all_but(&set, &[3, second]);
    }
}

// Promise 34.
#[test]
fn a_write_that_fails_ends_the_disk_whether_or_not_a_file_was_unreadable_before() {
    for before in [false, true] {
        let (node, set) = Node::with_slices(1);
        if before {
            node.spoil_bytes(1);
            assert!(read(&set, 1).is_err());
        }
        node.0[0].set_fault(Some(DiskFault::Changes(EIO)));
        assert!(set.place(&header(2, "/moved", 2)).is_err());
        assert_eq!(set.statuses()[0].state, DiskState::Failed);
        assert_eq!(set.check_disks()[0].lost.len(), 10);
    }
}

// Promise 34.
#[test]
fn two_unreadable_sidecars_at_the_start_fail_the_disk_untouched_and_are_named() {
    let (node, set) = Node::with_slices(1);
    drop(set);
    node.spoil_sidecar(4);
    node.spoil_sidecar(5);
    let changes = node.0[0].changes();
    let message = node.try_open().err().unwrap().to_string();
    assert!(message.contains(".4.sector") && message.contains(".5.sector"), "{message}");
    assert_eq!(files(&node.0[0], Path::new("/disk-0/corrupt")), Vec::<String>::new());
    assert!(node.0[0].changes() - changes < 20, "the folders are made sure of, and no more");
    // One of the two is taken away by hand.
    let (_, file) = node.find(4);
    node.0[0].remove_file(&file.with_file_name(".4.sector")).unwrap();
    let (set, _) = node.open();
    check_all_but(&set, &[4, 5]);
    // With another disk the node goes on without this one.
    let (node, set) = Node::with_slices(2);
    drop(set);
    let broken = node.find(0).0;
    let of_it: Vec<u128> = (0..10).filter(|slice| node.find(*slice).0 == broken).collect();
    node.spoil_sidecar(of_it[0]);
    node.spoil_sidecar(of_it[1]);
    let (set, _) = node.open();
    assert_eq!(set.held().len(), 10 - of_it.len());
    assert_eq!(set.statuses()[broken].state, DiskState::Failed);
}

// Promise 34.
#[test]
fn a_folder_that_cannot_be_listed_is_the_disk_since_nobody_knows_what_lies_in_it() {
    let (node, set) = Node::with_slices(1);
    drop(set);
    node.0[0].set_bad_sector(Path::new("/disk-0/slices/d"), Some(0)).unwrap();
    let error = node.try_open().err().unwrap();
    assert!(matches!(error, StoreError::DiskFailed { .. }), "{error}");
    node.0[0].set_bad_sector(Path::new("/disk-0/slices/d"), None).unwrap();
    check_all_but(&node.open().0, &[]);
}

// Promise 34.
#[test]
fn the_scrub_finds_one_bad_sector_as_one_bad_slice_and_reads_on_behind_it() {
    let (node, set) = Node::with_slices(1);
    node.spoil_bytes(6);
    let mut scrub = set.scrubs().remove(0).1;
    let mut found = Vec::new();
    loop {
        match scrub.step(1, 1 << 20).unwrap() {
            ScrubStep::Read(_) => {}
            ScrubStep::Corrupt { slice, .. } => {
                set.mark_corrupt(slice).unwrap();
                found.push(slice);
            }
            ScrubStep::PassDone => break,
        }
    }
    assert_eq!((found, scrub.status().corrupt), (vec![SliceId(6)], 1));
    check_all_but(&set, &[6]);
    // The second one it meets is the disk's.
    node.spoil_bytes(7);
    let error = (0..20).find_map(|_| scrub.step(2, 1 << 20).err()).unwrap();
    assert!(matches!(error, StoreError::DiskFailed { .. }), "{error}");
    assert_eq!(scrub.status().corrupt, 1, "and no slice's");
}

// Promise 34.
#[test]
fn a_slice_whose_sidecar_cannot_be_read_when_it_is_to_move_is_damaged() {
    let (node, set) = Node::with_slices(1);
    node.spoil_sidecar(2);
    let error = set.place(&header(2, "/moved", 9)).unwrap_err();
    assert!(matches!(error, StoreError::Corrupt { .. }), "{error}");
    set.mark_corrupt(SliceId(2)).unwrap();
    check_all_but(&set, &[2]);
}

#[test]
fn unreadable_bytes_of_a_doubtful_owner_are_quarantined_with_all_claimants() {
    // A crash kept the rename of slice 20's bytes to its path and lost that of its sidecar.
    let (mut node, set) = Node::with_slices(1);
    let mut writer = set.begin(header(20, "/d/20", 1)).unwrap();
    writer.write(&bytes(20, 1_000)).unwrap();
    writer.finish(None).unwrap();
    let staged = |suffix: &str| PathBuf::from(format!("/disk-0/staging/{}{suffix}", SliceId(20)));
    let at_path = Path::new("/disk-0/slices/d/20");
    node.0[0].rename(&staged(""), at_path).unwrap();
    for folder in ["/disk-0/slices/d", "/disk-0/staging"] {
        node.0[0].sync_folder(Path::new(folder)).unwrap();
    }
    let (set, _) = node.restart(set);
    assert_eq!(set.held().last().unwrap().state, HeldState::Placed, "as long as they can be read");
    set.remove(SliceId(20)).unwrap();
    // The same again, and with a bad sector.
    let mut writer = set.begin(header(20, "/d/20", 1)).unwrap();
    writer.write(&bytes(20, 1_000)).unwrap();
    writer.finish(None).unwrap();
    node.0[0].rename(&staged(""), at_path).unwrap();
    for folder in ["/disk-0/slices/d", "/disk-0/staging"] {
        node.0[0].sync_folder(Path::new(folder)).unwrap();
    }
    node.0[0].set_bad_sector(at_path, Some(0)).unwrap();
    let (set, put_aside) = node.restart(set);
    assert_eq!(put_aside.len(), 2, "{put_aside:?}");
    let sidecars = put_aside.iter().filter_map(|file| {
        let file = node.0[0].open_to_read(file).unwrap();
        let mut encoded = vec![0; file.bytes().unwrap() as usize];
        file.read_at(&mut encoded, 0).ok()?;
        Sidecar::decode(&encoded).ok()
    });
    assert!(sidecars.map(|sidecar| sidecar.metadata.header.path).eq([path("/d/20")]), "its sidecar is kept too");
    check_all_but(&set, &[20]);
}
