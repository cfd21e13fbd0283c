//! The life of slices: written, placed, read, overtaken, renamed, removed.

use std::{fs, io::Read, os::unix::fs::FileExt, path::Path, sync::Arc, thread};

use protocol::{SliceHeader, SliceId, SliceMetadata, UserName, message::node_master::HeldState, wire::stream_frame};
use store::{Disk, MemoryDisk, OsDisk, SliceHasher, SliceStore, StoreError};
use tempfile::TempDir;

use crate::{BLOCK, FOLDER, bytes, files, header, open, read, states, write};

fn on_disk() -> (TempDir, Arc<SliceStore>) {
    let folder = tempfile::tempdir().unwrap();
    let (store, _) = SliceStore::open(Arc::new(OsDisk), folder.path()).unwrap();
    (folder, store)
}

fn place(store: &Arc<SliceStore>, slice: u128, at: &str, content: &[u8]) {
    write(store, header(slice, at, slice as u64), content).unwrap();
    store.place(&header(slice, at, slice as u64)).unwrap();
}

#[test]
fn a_placed_slice_is_an_ordinary_file_at_its_own_path() {
    let (folder, store) = on_disk();
    place(&store, 1, "/sdss/dr6/ü 1.fits", b"the bytes");
    assert_eq!(fs::read(folder.path().join("slices/sdss/dr6/ü 1.fits")).unwrap(), b"the bytes");
    assert_eq!(files(&OsDisk, &folder.path().join("slices")), ["sdss/dr6/.ü 1.fits.sector", "sdss/dr6/ü 1.fits"]);
    assert_eq!(files(&OsDisk, &folder.path().join("staging")), Vec::<String>::new());
}

#[test]
fn a_placed_slice_changes_owner_and_replication_in_place_also_across_a_restart() {
    let (folder, store) = on_disk();
    place(&store, 1, "/f", b"the bytes");
    let reader = store.open_slice(SliceId(1)).unwrap();
    let owner = UserName::new("bob").unwrap();
    let changed = SliceHeader { owner, copies: 7, ..header(1, "/f", 1) };
    store.place(&changed).unwrap();
    store.place(&changed).unwrap();
    assert_eq!(files(&OsDisk, &folder.path().join("slices")), [".f.sector", "f"]);
    let mut buffer = Vec::new();
    reader.read_at(&mut buffer, 0, 100).unwrap();
    assert_eq!((buffer, read(&store, 1).unwrap()), (b"the bytes".to_vec(), b"the bytes".to_vec()));
    drop(store);
    let (store, _) = SliceStore::open(Arc::new(OsDisk), folder.path()).unwrap();
    assert_eq!((&store.held()[0].metadata.header, store.held()[0].state), (&changed, HeldState::Placed));
}

#[test]
fn slices_of_every_size_around_a_block_come_back_in_every_piece() {
    let (_folder, store) = on_disk();
    let sizes = [0, 1, 16 * 1024, BLOCK - 1, BLOCK, BLOCK + 1, 2 * BLOCK - 1, 2 * BLOCK, 17 * BLOCK + 5];
    for (slice, size) in sizes.into_iter().enumerate() {
        let content = bytes(slice as u64, size);
        let metadata = write(&store, header(slice as u128, "/f", 1), &content).unwrap();
        assert_eq!((metadata.bytes, metadata.digest.0), (size as u64, *blake3::hash(&content).as_bytes()));
        let reader = store.open_slice(SliceId(slice as u128)).unwrap();
        assert_eq!(*reader.metadata(), metadata);
        reader.verify(0, u64::MAX).unwrap();
        let mut buffer = vec![1; 10];
        let offsets = [0, 1, BLOCK - 1, BLOCK, BLOCK + 1, size.saturating_sub(1), size, size + 1];
        for offset in offsets {
            for count in [0, 1, BLOCK - 1, BLOCK, BLOCK + 1, 3 * BLOCK, usize::MAX] {
                reader.read_at(&mut buffer, offset as u64, count).unwrap();
                let wanted = &content[offset.min(size)..offset.saturating_add(count).min(size).max(offset.min(size))];
                assert!(buffer == wanted, "{count} bytes at {offset} of {size}");
            }
        }
        reader.read_at(&mut buffer, u64::MAX, usize::MAX).unwrap();
        assert!(buffer.is_empty());
    }
    assert_eq!(store.used_bytes(), sizes.iter().sum::<usize>() as u64);
}

#[test]
fn a_reader_knows_the_checksums_of_whole_blocks_and_of_nothing_else() {
    let (_folder, store) = on_disk();
    let content = bytes(3, 2 * BLOCK + 7);
    write(&store, header(1, "/f", 1), &content).unwrap();
    let reader = store.open_slice(SliceId(1)).unwrap();
    let (block, length) = (BLOCK as u64, content.len() as u64);
    let expected: Vec<u32> = stream_frame::checksums(&content).collect();
    assert_eq!(reader.checksums(0, length), expected);
    assert_eq!(reader.checksums(block, block), &expected[1..2]);
    assert_eq!(reader.checksums(block, block + 7), &expected[1..]);
    for (offset, bytes) in [(1, block), (0, block - 1), (block, block + 6), (0, length + 1)] {
        assert!(reader.checksums(offset, bytes).is_empty(), "{offset} {bytes}");
    }
}

#[test]
fn a_cached_read_does_not_wait_gives_the_same_and_finds_a_bad_block() {
    let (folder, store) = on_disk();
    let content = bytes(4, 3 * BLOCK + 7);
    write(&store, header(1, "/f", 1), &content).unwrap();
    store.place(&header(1, "/f", 1)).unwrap();
    let reader = store.open_slice(SliceId(1)).unwrap();
    let (mut waited, mut at_once) = (Vec::new(), vec![1; 5]);
    for (offset, count) in [(0, 1), (BLOCK - 1, 2), (5, 3 * BLOCK), (3 * BLOCK, 100), (4 * BLOCK, 1)] {
        reader.read_at(&mut waited, offset as u64, count).unwrap();
        // Not every file system can tell what it has in memory; then it gives nothing.
        match reader.read_cached_at(&mut at_once, offset as u64, count).unwrap() {
            true => assert_eq!(at_once, waited),
            false => assert!(at_once.is_empty()),
        }
    }
    let file = folder.path().join("slices/f");
    let mut damaged = fs::read(&file).unwrap();
    damaged[BLOCK] ^= 1;
    fs::write(&file, damaged).unwrap();
    match reader.read_cached_at(&mut at_once, BLOCK as u64, 1) {
        Ok(is_read) => assert!(!is_read, "a bad byte was given out"),
        Err(error) => assert!(matches!(error, StoreError::Corrupt { .. }), "{error}"),
    }
    assert!(at_once.is_empty());
    // Where there is no file of the operating system, nothing is known to be in memory.
    let disk = MemoryDisk::new(0);
    let (store, _) = open(&disk);
    write(&store, header(1, "/f", 1), &content).unwrap();
    assert!(!store.open_slice(SliceId(1)).unwrap().read_cached_at(&mut at_once, 0, 10).unwrap());
}

#[test]
fn frames_with_their_checksums_and_plain_bytes_end_in_the_same_slice() {
    let (_folder, store) = on_disk();
    let content = bytes(1, 3 * BLOCK + 500);
    let plain = write(&store, header(1, "/f", 1), &content).unwrap();
    let mut writer = store.begin(header(2, "/f", 1)).unwrap();
    for part in content.chunks(2 * BLOCK) {
        let checksums: Vec<u32> = stream_frame::checksums(part).collect();
        writer.write_checked(part, &checksums).unwrap();
    }
    assert_eq!(writer.bytes(), content.len() as u64);
    assert_eq!(writer.finish(Some(plain.digest)).unwrap().digest, plain.digest);
    assert_eq!(read(&store, 2).unwrap(), content);
}

#[test]
fn a_slice_is_not_there_before_it_is_finished_and_a_dropped_one_never_was() {
    let (folder, store) = on_disk();
    let mut writer = store.begin(header(1, "/f", 1)).unwrap();
    writer.write(b"half").unwrap();
    assert!(!store.contains(SliceId(1)));
    assert!(matches!(store.place(&header(1, "/f", 1)), Err(StoreError::NotHeld(_))));
    drop(writer);
    assert_eq!(files(&OsDisk, folder.path()), ["lock"]);
}

#[test]
fn two_writers_of_one_slice_do_not_disturb_each_other_and_the_first_to_finish_wins() {
    let (folder, store) = on_disk();
    let begin = |content: &[u8]| {
        let mut writer = store.begin(header(1, "/f", 1)).unwrap();
        writer.write(content).unwrap();
        writer
    };
    let (first, same, other) = (begin(b"content"), begin(b"content"), begin(b"other"));
    let metadata = first.finish(None).unwrap();
    assert_eq!(same.finish(None).unwrap(), metadata, "what it wanted is there");
    assert!(matches!(other.finish(None), Err(StoreError::Exists(_))));
    assert!(matches!(store.begin(header(1, "/f", 1)), Err(StoreError::Exists(_))));
    assert_eq!(read(&store, 1).unwrap(), b"content");
    assert_eq!(files(&OsDisk, &folder.path().join("unfinished")), Vec::<String>::new());
}

#[test]
fn a_bucket_becomes_a_slice_without_being_copied() {
    let (folder, store) = on_disk();
    let bucket = store.jobs_folder().join("job/bucket");
    fs::create_dir(bucket.parent().unwrap()).unwrap();
    let content = bytes(3, BLOCK + 1);
    fs::write(&bucket, &content).unwrap();
    let inode = |path: &Path| std::os::unix::fs::MetadataExt::ino(&fs::metadata(path).unwrap());
    let before = inode(&bucket);
    let mut hasher = SliceHasher::new();
    hasher.update(&content);
    let metadata: SliceMetadata = store.ingest_file(header(1, "/out/0", 1), &bucket, hasher.clone().finish()).unwrap();
    assert!(!bucket.exists());
    store.place(&header(1, "/out/0", 1)).unwrap();
    assert_eq!(inode(&folder.path().join("slices/out/0")), before);
    assert_eq!(read(&store, 1).unwrap(), content);
    assert_eq!(metadata.digest.0, *blake3::hash(&content).as_bytes());
    fs::write(&bucket, &content).unwrap();
    assert!(matches!(store.ingest_file(header(1, "/out/0", 1), &bucket, hasher.finish()), Err(StoreError::Exists(_))));
    assert!(bucket.exists());
}

// Promise 9.
#[test]
fn a_reader_keeps_its_version_when_the_path_is_replaced_and_the_old_is_removed() {
    let (folder, store) = on_disk();
    place(&store, 1, "/f", b"old");
    let reader = store.open_slice(SliceId(1)).unwrap();
    place(&store, 2, "/f", b"new");
    assert_eq!(states(&store), [(1, HeldState::Retired, "/f".into()), (2, HeldState::Placed, "/f".into())]);
    assert_eq!(read(&store, 1).unwrap(), b"old", "a retired slice is still served");
    store.remove(SliceId(1)).unwrap();
    store.remove(SliceId(1)).unwrap();
    let mut buffer = Vec::new();
    reader.read_at(&mut buffer, 0, 10).unwrap();
    assert_eq!(buffer, b"old");
    assert_eq!(read(&store, 2).unwrap(), b"new");
    assert_eq!(files(&OsDisk, folder.path()), ["lock", "slices/.f.sector", "slices/f"]);
    assert_eq!(store.used_bytes(), 3);
}

#[test]
fn one_reader_serves_several_threads() {
    let (_folder, store) = on_disk();
    let content = bytes(5, 9 * BLOCK + 100);
    place(&store, 1, "/f", &content);
    let reader = store.open_slice(SliceId(1)).unwrap();
    thread::scope(|scope| {
        for seed in 0..4 {
            let (reader, content) = (&reader, &content);
            scope.spawn(move || {
                let (mut rng, mut buffer) = (fastrand::Rng::with_seed(seed), Vec::new());
                for _ in 0..50 {
                    let from = rng.usize(0..content.len());
                    let until = rng.usize(from..=content.len());
                    reader.read_at(&mut buffer, from as u64, until - from).unwrap();
                    assert!(buffer == content[from..until], "{from}..{until}");
                }
            });
        }
    });
}

#[test]
fn an_spe_gets_the_bytes_as_a_descriptor_that_it_cannot_write_to() {
    let (_folder, store) = on_disk();
    place(&store, 1, "/f", b"bytes");
    let reader = store.open_slice(SliceId(1)).unwrap();
    let mut text = String::new();
    let mut file = reader.os_file().unwrap();
    file.read_to_string(&mut text).unwrap();
    assert_eq!(text, "bytes");
    assert!(file.write_at(b"x", 0).is_err());
}

#[test]
fn a_renamed_slice_has_its_new_path_in_its_sidecar_and_leaves_no_empty_folders() {
    let (folder, store) = on_disk();
    place(&store, 1, "/a/b/c", b"bytes");
    place(&store, 2, "/a/keeps", b"this folder");
    for _ in 0..2 {
        store.place(&header(1, "/x/y", 1)).unwrap();
    }
    assert_eq!(files(&OsDisk, &folder.path().join("slices")), ["a/.keeps.sector", "a/keeps", "x/.y.sector", "x/y"]);
    assert!(!folder.path().join("slices/a/b").exists());
    drop(store);
    let (store, report) = SliceStore::open(Arc::new(OsDisk), folder.path()).unwrap();
    assert_eq!((report.slices, report.completed_moves), (2, 0));
    assert_eq!(states(&store)[0], (1, HeldState::Placed, "/x/y".into()));
    assert_eq!(read(&store, 1).unwrap(), b"bytes");
}

#[test]
fn a_file_may_become_a_folder_and_a_folder_a_file() {
    let (folder, store) = on_disk();
    place(&store, 1, "/a", b"a file");
    place(&store, 2, "/a/b/c", b"below it");
    assert_eq!(states(&store)[0].1, HeldState::Retired, "a slice where a folder must be is set aside");
    store.place(&header(1, "/a/b", 1)).unwrap_err();
    assert_eq!(states(&store)[0], (1, HeldState::Staged, "/a/b".into()), "a folder with a slice is not");
    assert_eq!(read(&store, 1).unwrap(), b"a file");
    store.place(&header(2, "/a", 2)).unwrap();
    assert_eq!(fs::read(folder.path().join("slices/a")).unwrap(), b"below it");
    store.place(&header(2, "/a/b/c/d", 2)).unwrap();
    assert_eq!(fs::read(folder.path().join("slices/a/b/c/d")).unwrap(), b"below it");
    store.remove(SliceId(2)).unwrap();
    fs::create_dir_all(folder.path().join("slices/a/b/empty/e")).unwrap();
    store.place(&header(1, "/a/b", 1)).unwrap();
    assert_eq!(fs::read(folder.path().join("slices/a/b")).unwrap(), b"a file");
}

#[test]
fn a_folder_in_the_way_is_named_and_the_slice_stays_readable() {
    let (folder, store) = on_disk();
    place(&store, 1, "/a/b", b"in the way");
    write(&store, header(2, "/a", 1), b"wants to be a").unwrap();
    let error = store.place(&header(2, "/a", 2)).unwrap_err();
    assert!(matches!(&error, StoreError::PathBlocked { obstacle, .. } if obstacle.ends_with("slices/a")), "{error}");
    assert_eq!(read(&store, 2).unwrap(), b"wants to be a");
    store.remove(SliceId(1)).unwrap();
    store.place(&header(2, "/a", 2)).unwrap();
    assert_eq!(fs::read(folder.path().join("slices/a")).unwrap(), b"wants to be a");
}

#[test]
fn a_foreign_file_in_the_way_is_put_aside_and_not_lost() {
    let (folder, store) = on_disk();
    let foreign = folder.path().join("slices/a");
    for round in 0..3 {
        fs::write(&foreign, format!("a letter {round}")).unwrap();
        place(&store, round, if round == 1 { "/a/b" } else { "/a" }, b"slice");
        store.remove(SliceId(round)).unwrap();
    }
    let aside = files(&OsDisk, &folder.path().join("corrupt"));
    let letters: Vec<_> =
        aside.iter().map(|name| fs::read_to_string(folder.path().join("corrupt").join(name)).unwrap()).collect();
    assert_eq!(letters, ["a letter 0", "a letter 1", "a letter 2"]);
}

#[test]
fn foreign_files_in_a_blocking_folder_are_quarantined_unless_a_slice_is_there() {
    let (folder, store) = on_disk();
    place(&store, 1, "/a/b/c", b"a slice");
    place(&store, 2, "/a-b", b"beside it");
    fs::write(folder.path().join("slices/a/b/stray"), "a letter").unwrap();
    write(&store, header(3, "/a", 1), b"wants to be a").unwrap();
    assert!(matches!(store.place(&header(3, "/a", 3)), Err(StoreError::PathBlocked { .. })));
    assert_eq!(fs::read(folder.path().join("slices/a/b/stray")).unwrap(), b"a letter");
    store.remove(SliceId(1)).unwrap();
    store.place(&header(3, "/a", 3)).unwrap();
    assert_eq!(fs::read(folder.path().join("slices/a")).unwrap(), b"wants to be a");
    assert_eq!(read(&store, 2).unwrap(), b"beside it");
    let aside = files(&OsDisk, &folder.path().join("corrupt"));
    assert_eq!(aside.len(), 1, "{aside:?}");
    assert_eq!(fs::read(folder.path().join("corrupt").join(&aside[0])).unwrap(), b"a letter");
}

#[test]
fn what_a_process_left_unfinished_is_gone_at_the_next_start() {
    let disk = MemoryDisk::new(0);
    let (store, _) = open(&disk);
    let writer = store.begin(header(1, "/f", 1)).unwrap();
    let scratch = store.jobs_folder().join("job/deep/er");
    disk.create_folder_all(&scratch).unwrap();
    disk.create(&scratch.join("bucket")).unwrap();
    std::mem::forget(writer);
    assert_eq!(files(&disk, Path::new(FOLDER)).len(), 2);
    open(&disk);
    assert_eq!(files(&disk, Path::new(FOLDER)), Vec::<String>::new());
    assert!(disk.list(&Path::new(FOLDER).join("jobs")).unwrap().is_empty());
}

#[test]
fn many_threads_write_read_and_move_slices_at_once() {
    let (_folder, store) = on_disk();
    thread::scope(|scope| {
        for thread in 0..8u128 {
            let store = &store;
            scope.spawn(move || {
                for round in 0..12u128 {
                    let slice = thread * 100 + round;
                    let content = bytes(slice as u64, 1000 * round as usize);
                    // All threads write to the same three paths and set each other's slices aside.
                    place(store, slice, &format!("/shared/{}", round % 3), &content);
                    assert!(read(store, slice).unwrap() == content);
                    store.place(&header(slice, &format!("/own/{thread}/{round}"), 1)).unwrap();
                    assert!(read(store, slice).unwrap() == content);
                }
            });
        }
        for _ in 0..2 {
            scope.spawn(|| {
                for slice in (0..800).cycle().take(4000) {
                    match read(&store, slice) {
                        Ok(found) => assert!(found == bytes(slice as u64, 1000 * (slice % 100) as usize)),
                        Err(StoreError::NotHeld(_)) => {}
                        Err(error) => panic!("{error}"),
                    }
                }
            });
        }
    });
    let placed = store.held().iter().filter(|held| held.state == HeldState::Placed).count();
    assert_eq!(placed, 96);
}
