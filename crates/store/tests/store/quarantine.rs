//! What lies in a data folder and is not ours, or is damaged: never a panic, never deleted, never served.

use std::{collections::BTreeMap, fs, path::Path, sync::Arc};

use protocol::{SliceId, message::node_master::HeldState};
use store::{OpenReport, OsDisk, Sidecar, SidecarError, SliceStore, StoreError};
use tempfile::TempDir;

use crate::{bytes, files, header, path, read, states, write};

fn open(folder: &Path) -> (Arc<SliceStore>, OpenReport) {
    SliceStore::open(Arc::new(OsDisk), folder).unwrap()
}

/// A closed data folder with slice 1 at `/d/a` and slice 2 staged for `/b`.
fn folder() -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    let (store, report) = open(folder.path());
    assert_eq!(report, OpenReport::default());
    write(&store, header(1, "/d/a", 1), &bytes(1, 1000)).unwrap();
    store.place(&header(1, "/d/a", 1)).unwrap();
    write(&store, header(2, "/b", 1), &bytes(2, 1000)).unwrap();
    folder
}

fn staged(folder: &TempDir, slice: u128, suffix: &str) -> std::path::PathBuf {
    folder.path().join("staging").join(format!("{}{suffix}", SliceId(slice)))
}

#[test]
fn files_that_are_no_slices_are_left_alone() {
    let folder = folder();
    let foreign = ["slices/letter", "slices/d/notes.txt", "staging/notes.txt", "retired/x.sector", "other/file"];
    fs::create_dir(folder.path().join("other")).unwrap();
    for name in foreign {
        fs::write(folder.path().join(name), name).unwrap();
    }
    std::os::unix::fs::symlink("/nowhere", folder.path().join("slices/link")).unwrap();
    let (store, report) = open(folder.path());
    assert_eq!(report, OpenReport { slices: 2, ..OpenReport::default() });
    for name in foreign {
        assert_eq!(fs::read(folder.path().join(name)).unwrap(), name.as_bytes());
    }
    assert_eq!(store.held().len(), 2);
}

#[test]
fn a_damaged_sidecar_is_put_aside_with_its_bytes_and_the_others_are_served() {
    for damaged in [&b""[..], b"SSID", b"not a sidecar", &[0xff; 300]] {
        let folder = folder();
        fs::write(folder.path().join("slices/d/.a.sector"), damaged).unwrap();
        let (store, report) = open(folder.path());
        assert_eq!(states(&store), [(2, HeldState::Staged, "/b".into())]);
        assert_eq!(read(&store, 2).unwrap(), bytes(2, 1000));
        assert_eq!(report.quarantined.len(), 2);
        assert!(report.quarantined.iter().all(|file| file.starts_with(folder.path().join("corrupt"))));
        assert!(report.quarantined.iter().any(|file| fs::read(file).unwrap() == bytes(1, 1000)), "no byte is lost");
        assert_eq!(files(&OsDisk, &folder.path().join("slices")), Vec::<String>::new());
        drop(store);
        assert_eq!(open(folder.path()).1.quarantined, Vec::<std::path::PathBuf>::new(), "once");
    }
}

#[test]
fn a_damaged_sidecar_of_a_staged_slice_takes_its_bytes_along() {
    let folder = folder();
    fs::write(staged(&folder, 2, ".sector"), "torn").unwrap();
    let (store, report) = open(folder.path());
    assert_eq!(states(&store), [(1, HeldState::Placed, "/d/a".into())]);
    assert_eq!(report.quarantined.len(), 2);
    assert!(report.quarantined.iter().any(|file| fs::read(file).unwrap() == bytes(2, 1000)));
}

#[test]
fn bytes_of_another_length_than_their_sidecar_says_are_put_aside() {
    let folder = folder();
    fs::write(folder.path().join("slices/d/a"), "short").unwrap();
    let (store, report) = open(folder.path());
    assert_eq!(report.quarantined.len(), 2);
    assert!(!store.contains(SliceId(1)));
}

#[test]
fn a_sidecar_of_a_newer_build_stops_the_start_and_nothing_is_touched() {
    let folder = folder();
    let sidecar = folder.path().join("slices/d/.a.sector");
    let mut newer = fs::read(&sidecar).unwrap();
    newer.truncate(newer.len() - 4);
    newer[4] = 200;
    newer.extend(crc32c::crc32c(&newer).to_be_bytes());
    fs::write(&sidecar, &newer).unwrap();
    let error = SliceStore::open(Arc::new(OsDisk), folder.path()).err().unwrap();
    assert!(matches!(&error, StoreError::Sidecar { source: SidecarError::Version(200), .. }), "{error}");
    assert_eq!(fs::read(&sidecar).unwrap(), newer);
}

#[test]
fn a_sidecar_without_bytes_and_bytes_without_a_sidecar_are_no_slices() {
    let folder = folder();
    fs::remove_file(folder.path().join("slices/d/a")).unwrap();
    fs::remove_file(staged(&folder, 2, ".sector")).unwrap();
    let (store, report) = open(folder.path());
    assert_eq!(report, OpenReport::default());
    assert!(store.held().is_empty());
    assert_eq!(files(&OsDisk, folder.path()), ["lock"]);
}

#[test]
fn a_slice_that_someone_moved_by_hand_is_staged_for_the_master_to_place() {
    let folder = folder();
    fs::create_dir(folder.path().join("slices/moved")).unwrap();
    for name in ["a", ".a.sector"] {
        fs::rename(folder.path().join("slices/d").join(name), folder.path().join("slices/moved").join(name)).unwrap();
    }
    let (store, report) = open(folder.path());
    assert_eq!((report.slices, report.completed_moves), (2, 1));
    assert_eq!(states(&store)[0], (1, HeldState::Staged, "/d/a".into()));
    assert_eq!(read(&store, 1).unwrap(), bytes(1, 1000));
}

#[test]
fn of_two_slices_that_claim_one_file_the_one_whose_bytes_it_has_gets_it() {
    // A crash can keep a rename of the bytes and lose that of the sidecar. Then slice 2's bytes are at slice 1's path
    // beside slice 1's sidecar, and slice 1 was removed.
    let folder = folder();
    let mut sidecar = Sidecar::decode(&fs::read(staged(&folder, 2, ".sector")).unwrap()).unwrap();
    sidecar.metadata.header.path = path("/d/a");
    fs::write(staged(&folder, 2, ".sector"), sidecar.encode()).unwrap();
    fs::rename(staged(&folder, 2, ""), folder.path().join("slices/d/a")).unwrap();
    let (store, report) = open(folder.path());
    assert_eq!((report.slices, report.completed_moves), (1, 1));
    assert_eq!(states(&store), [(2, HeldState::Placed, "/d/a".into())]);
    assert_eq!(read(&store, 2).unwrap(), bytes(2, 1000));
}

#[test]
fn of_two_slices_with_the_same_bytes_that_claim_one_file_the_older_version_gets_a_copy() {
    for version in [1, 3] {
        let folder = tempfile::tempdir().unwrap();
        let (store, _) = open(folder.path());
        write(&store, header(1, "/a", 2), b"same").unwrap();
        store.place(&header(1, "/a", 2)).unwrap();
        write(&store, header(2, "/a", version), b"same").unwrap();
        drop(store);
        fs::remove_file(staged(&folder, 2, "")).unwrap();
        let (store, _) = open(folder.path());
        let (newer, older) = if version == 1 { (1, 2) } else { (2, 1) };
        let wanted = BTreeMap::from([(newer, HeldState::Placed), (older, HeldState::Staged)]);
        assert_eq!(
            states(&store).into_iter().map(|(slice, state, _)| (slice, state)).collect::<BTreeMap<_, _>>(),
            wanted
        );
        assert_eq!([read(&store, 1).unwrap(), read(&store, 2).unwrap()], [b"same", b"same"]);
    }
}

#[test]
fn bytes_at_a_path_are_not_taken_for_a_slice_that_only_has_their_length() {
    let folder = folder();
    fs::remove_file(staged(&folder, 2, "")).unwrap();
    fs::write(folder.path().join("slices/b"), bytes(9, 1000)).unwrap();
    let (store, _) = open(folder.path());
    assert_eq!(states(&store), [(1, HeldState::Placed, "/d/a".into())]);
    assert_eq!(fs::read(folder.path().join("slices/b")).unwrap(), bytes(9, 1000));
}
