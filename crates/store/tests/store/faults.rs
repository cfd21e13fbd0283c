//! A full disk, a flipped bit, a cut file, a second process: clear errors, and nothing half.

use std::{path::Path, sync::Arc};

use protocol::{SliceId, Status, message::node_master::HeldState, status::ErrorClass};
use store::{Disk, MemoryDisk, OsDisk, SliceHasher, SliceStore, StoreError};

use crate::{BLOCK, FOLDER, bytes, files, header, open, read, states, write};

fn native(relative: &str) -> std::path::PathBuf {
    Path::new(FOLDER).join(relative)
}

#[test]
fn whatever_is_written_on_a_full_disk_leaves_nothing_behind() {
    let content = bytes(1, 3 * BLOCK);
    let needed = content.len() as u64 + 1000;
    for room in [0, 1, 4096, BLOCK as u64, needed - 1000, needed - 990] {
        let disk = MemoryDisk::new(room);
        let (store, _) = open(&disk);
        write(&store, header(1, "/kept", 1), b"kept").unwrap();
        disk.set_free_bytes(room);
        let error = write(&store, header(2, "/new", 1), &content).unwrap_err();
        assert!(matches!(error, StoreError::DiskFull { .. }), "{room}: {error}");
        assert_eq!((error.class(), error.refusal().status()), (ErrorClass::RetryElsewhere, Status::Unavailable));
        assert_eq!(disk.free_bytes(Path::new(FOLDER)).unwrap(), room, "all room is given back");
        assert_eq!(files(&disk, &native("unfinished")), Vec::<String>::new());
        assert_eq!(states(&store), [(1, HeldState::Staged, "/kept".into())]);
        assert_eq!(read(&store, 1).unwrap(), b"kept");
        disk.set_free_bytes(needed);
        write(&store, header(2, "/new", 1), &content).unwrap();
    }
}

#[test]
fn a_writer_that_met_a_full_disk_does_not_finish_with_a_hole() {
    let disk = MemoryDisk::new(0);
    let (store, _) = open(&disk);
    let mut writer = store.begin(header(1, "/a", 1)).unwrap();
    disk.set_free_bytes(10);
    assert!(writer.write(&[1; 20]).is_err());
    disk.set_free_bytes(1 << 20);
    assert!(matches!(writer.write(&[2; 20]), Err(StoreError::WriterFailed { .. })));
    assert!(matches!(writer.finish(None), Err(StoreError::WriterFailed { .. })));
    assert!(store.held().is_empty());
}

#[test]
fn a_rename_on_a_full_disk_leaves_the_slice_where_it_was() {
    let disk = MemoryDisk::new(0);
    let (store, _) = open(&disk);
    write(&store, header(1, "/a", 1), b"bytes").unwrap();
    store.place(&header(1, "/a", 1)).unwrap();
    disk.set_free_bytes(0);
    assert!(matches!(store.place(&header(1, "/b", 1)), Err(StoreError::DiskFull { .. })));
    assert_eq!(states(&store), [(1, HeldState::Placed, "/a".into())]);
    assert_eq!(read(&store, 1).unwrap(), b"bytes");
    disk.set_free_bytes(1000);
    store.place(&header(1, "/b", 1)).unwrap();
    assert_eq!(states(&store), [(1, HeldState::Placed, "/b".into())]);
}

#[test]
fn a_flipped_bit_is_found_by_every_read_that_touches_its_block_and_by_no_other() {
    let disk = MemoryDisk::new(0);
    let (store, _) = open(&disk);
    let content = bytes(7, 4 * BLOCK + 10);
    write(&store, header(1, "/a", 1), &content).unwrap();
    store.place(&header(1, "/a", 1)).unwrap();
    disk.flip_bit(&native("slices/a"), 2 * BLOCK as u64 + 77).unwrap();
    let reader = store.open_slice(SliceId(1)).unwrap();
    let mut buffer = vec![9; 3];
    for (offset, count) in [(0, 5 * BLOCK), (2 * BLOCK, 1), (3 * BLOCK - 1, 1), (2 * BLOCK - 1, 2), (0, 2 * BLOCK + 1)]
    {
        let error = reader.read_at(&mut buffer, offset as u64, count).unwrap_err();
        assert!(matches!(&error, StoreError::Corrupt { what, .. } if what == "block 2"), "{error}");
        assert_eq!((error.class(), error.refusal().status()), (ErrorClass::Corrupt, Status::Corrupt));
        assert!(buffer.is_empty(), "no bad byte is given out");
        assert!(reader.verify(offset as u64, (offset + count) as u64).is_err());
    }
    for (offset, count) in [(0, 2 * BLOCK), (3 * BLOCK, BLOCK + 10), (4 * BLOCK + 1, 1)] {
        reader.read_at(&mut buffer, offset as u64, count).unwrap();
        assert_eq!(buffer, content[offset..offset + count]);
        reader.verify(offset as u64, (offset + count) as u64).unwrap();
    }
}

#[test]
fn a_file_that_lost_its_end_its_bytes_or_its_sidecar_is_damaged_and_not_missing() {
    let disk = MemoryDisk::new(0);
    let (store, _) = open(&disk);
    for slice in 1..=4 {
        write(&store, header(slice, &format!("/{slice}"), 1), &bytes(1, BLOCK)).unwrap();
        store.place(&header(slice, &format!("/{slice}"), slice as u64)).unwrap();
    }
    let reader = store.open_slice(SliceId(1)).unwrap();
    disk.open(&native("slices/1")).unwrap().set_len(5).unwrap();
    disk.remove_file(&native("slices/2")).unwrap();
    disk.remove_file(&native("slices/.3.sector")).unwrap();
    disk.flip_bit(&native("slices/.4.sector"), 20).unwrap();
    for slice in 1..=4 {
        assert!(matches!(read(&store, slice), Err(StoreError::Corrupt { .. })), "{slice}");
    }
    assert!(matches!(reader.read_at(&mut Vec::new(), 0, 10), Err(StoreError::Corrupt { .. })));
}

#[test]
fn a_damaged_slice_is_put_aside_for_good_and_can_be_written_again() {
    for seed in 0..8 {
        let disk = MemoryDisk::new(seed);
        let (store, _) = open(&disk);
        write(&store, header(1, "/a/b", 1), b"bytes").unwrap();
        store.place(&header(1, "/a/b", 1)).unwrap();
        store.mark_corrupt(SliceId(1)).unwrap();
        store.mark_corrupt(SliceId(1)).unwrap();
        assert!(matches!(read(&store, 1), Err(StoreError::NotHeld(_))));
        assert_eq!(store.used_bytes(), 0);
        let disk = disk.crash();
        let (store, _) = open(&disk);
        assert!(store.held().is_empty(), "it does not come back");
        assert_eq!(files(&disk, &native("corrupt")).len(), 2, "the operator finds it");
        write(&store, header(1, "/a/b", 1), b"bytes").unwrap();
        store.place(&header(1, "/a/b", 1)).unwrap();
        assert_eq!(read(&store, 1).unwrap(), b"bytes");
    }
}

#[test]
fn a_slice_that_arrives_other_than_announced_is_refused() {
    let disk = MemoryDisk::new(0);
    let (store, _) = open(&disk);
    let digest = {
        let mut hasher = SliceHasher::new();
        hasher.update(b"announced");
        hasher.finish().digest
    };
    let mut writer = store.begin(header(1, "/a", 1)).unwrap();
    writer.write(b"arrived").unwrap();
    let error = writer.finish(Some(digest)).unwrap_err();
    assert!(matches!(error, StoreError::DigestMismatch { .. }), "{error}");
    assert!(store.held().is_empty());
    let mut writer = store.begin(header(1, "/a", 1)).unwrap();
    writer.write(b"announced").unwrap();
    assert_eq!(writer.finish(Some(digest)).unwrap().digest, digest);
}

#[test]
fn a_bucket_whose_sums_are_of_other_bytes_is_refused_and_left_where_it_is() {
    let disk = MemoryDisk::new(0);
    let (store, _) = open(&disk);
    let bucket = store.jobs_folder().join("bucket");
    disk.create(&bucket).unwrap().write_all_at(b"content", 0).unwrap();
    let mut hasher = SliceHasher::new();
    hasher.update(b"con");
    let error = store.ingest_file(header(1, "/a", 1), &bucket, hasher.finish()).unwrap_err();
    assert_eq!(error.class(), ErrorClass::Corrupt);
    assert_eq!(disk.bytes(&bucket).unwrap(), Some(7));
}

#[test]
fn what_no_sidecar_could_hold_is_refused_before_a_byte_is_written() {
    let (store, _) = open(&MemoryDisk::new(0));
    let mut large = header(1, "/a", 1);
    large.user.insert("key".into(), "x".repeat(protocol::limits::USER_METADATA_BYTES_MAX));
    for header in [large, header(1, "/", 1)] {
        let error = store.begin(header).err().unwrap();
        assert_eq!((error.class(), error.refusal().status()), (ErrorClass::Refuse, Status::Usage));
    }
    write(&store, header(1, "/a", 1), b"x").unwrap();
    assert!(matches!(store.place(&header(1, "/", 1)), Err(StoreError::Header { .. })));
}

#[test]
fn a_data_folder_is_opened_by_one_process_at_a_time() {
    let folder = tempfile::tempdir().unwrap();
    let first = SliceStore::open(Arc::new(OsDisk), folder.path()).unwrap();
    let error = SliceStore::open(Arc::new(OsDisk), folder.path()).err().unwrap();
    assert!(matches!(error, StoreError::Locked { .. }), "{error}");
    assert!(error.refusal().message.contains(folder.path().to_str().unwrap()), "{error}");
    drop(first);
    SliceStore::open(Arc::new(OsDisk), folder.path()).unwrap();
}

#[test]
fn a_data_folder_that_cannot_be_is_an_error_that_names_it() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("file");
    std::fs::write(&file, "x").unwrap();
    let error = SliceStore::open(Arc::new(OsDisk), &file).err().unwrap();
    assert!(error.refusal().message.contains(file.to_str().unwrap()), "{error}");
    assert_eq!(std::fs::read(&file).unwrap(), b"x");
}
