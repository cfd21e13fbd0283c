//! The memory disk must be as rude as it says: each kind of loss occurs for some seed, and none that it rules out does.
#![allow(clippy::unwrap_used)]

use std::{collections::BTreeSet, path::Path};

use super::*;

fn write(disk: &MemoryDisk, path: &str, bytes: &[u8]) -> Box<dyn DiskFile> {
    let file = disk.create(Path::new(path)).unwrap();
    file.write_all_at(bytes, 0).unwrap();
    file
}

fn read(disk: &MemoryDisk, path: &str) -> Option<Vec<u8>> {
    let file = disk.open(Path::new(path)).ok()?;
    let mut bytes = vec![0; file.bytes().unwrap() as usize];
    assert_eq!(file.read_at(&mut bytes, 0).unwrap(), bytes.len());
    Some(bytes)
}

/// A disk whose `/f` is `bytes`, safely.
fn with_file(seed: u64, bytes: &[u8]) -> MemoryDisk {
    let disk = MemoryDisk::new(seed);
    write(&disk, "/f", bytes).sync_data().unwrap();
    disk.sync_folder(Path::new("/")).unwrap();
    disk
}

#[test]
fn what_was_synced_survives_every_crash() {
    for seed in 0..50 {
        let disk = with_file(seed, &[7; 10_000]).crash();
        assert_eq!(read(&disk, "/f"), Some(vec![7; 10_000]));
    }
}

#[test]
fn an_unsynced_overwrite_is_torn_at_pages_and_nowhere_else() {
    let mut outcomes = BTreeSet::new();
    for seed in 0..100 {
        let disk = with_file(seed, &[1; 8192]);
        disk.open(Path::new("/f")).unwrap().write_all_at(&[2; 8192], 0).unwrap();
        let bytes = read(&disk.crash(), "/f").unwrap();
        assert_eq!(bytes.len(), 8192);
        assert!(bytes.chunks(4096).all(|page| page.iter().all(|byte| *byte == page[0])));
        outcomes.insert((bytes[0], bytes[4096]));
    }
    assert_eq!(outcomes, BTreeSet::from([(1, 1), (1, 2), (2, 1), (2, 2)]));
}

#[test]
fn an_unsynced_append_or_truncation_leaves_a_length_between_and_zeros_in_gaps() {
    let (mut lengths, mut holes) = (BTreeSet::new(), 0);
    for seed in 0..200 {
        let disk = with_file(seed, &[1; 100]);
        disk.open(Path::new("/f")).unwrap().write_all_at(&[2; 20_000], 100).unwrap();
        let bytes = read(&disk.crash(), "/f").unwrap();
        assert!((100..=20_100).contains(&bytes.len()));
        assert_eq!(bytes[..100], [1; 100]);
        assert!(bytes[100..].iter().all(|byte| [0, 2].contains(byte)));
        holes += usize::from(bytes[100..].contains(&0));
        lengths.insert(bytes.len());
        let disk = with_file(seed, &[3; 5000]);
        disk.open(Path::new("/f")).unwrap().set_len(10).unwrap();
        let bytes = read(&disk.crash(), "/f").unwrap();
        assert!(bytes.len() == 10 || bytes.len() == 5000, "{}", bytes.len());
        assert_eq!(bytes[..10], [3; 10]);
    }
    assert!(lengths.contains(&100) && lengths.contains(&20_100) && lengths.len() > 3, "{lengths:?}");
    assert!(holes > 0);
}

#[test]
fn names_that_were_not_synced_are_kept_or_lost_each_on_its_own() {
    let mut outcomes = BTreeSet::new();
    for seed in 0..200 {
        let disk = with_file(seed, b"old");
        write(&disk, "/a", b"").sync_data().unwrap();
        disk.rename(Path::new("/f"), Path::new("/g")).unwrap();
        let disk = disk.crash();
        let (f, g) = (read(&disk, "/f"), read(&disk, "/g"));
        assert!(f.is_some() != g.is_some(), "a rename is atomic");
        assert_eq!(f.or(g.clone()), Some(b"old".to_vec()));
        outcomes.insert((read(&disk, "/a").is_some(), g.is_some()));
    }
    assert_eq!(outcomes.len(), 4);
}

#[test]
fn changes_of_one_name_keep_their_order_and_folders_come_before_what_is_in_them() {
    for seed in 0..200 {
        let disk = with_file(seed, b"old");
        disk.create_folder_all(Path::new("/d/e")).unwrap();
        disk.rename(Path::new("/f"), Path::new("/d/e/f")).unwrap();
        write(&disk, "/f", b"new").sync_data().unwrap();
        let disk = disk.crash();
        let (at_first, moved) = (read(&disk, "/f"), read(&disk, "/d/e/f"));
        match at_first.as_deref() {
            Some(b"old") => assert_eq!(moved, None),
            _ => assert_eq!(moved.as_deref(), Some(&b"old"[..]), "the old file never disappears"),
        }
    }
}

#[test]
fn syncing_the_new_folder_makes_a_rename_safe_with_all_it_needs() {
    for seed in 0..50 {
        let disk = with_file(seed, b"old");
        disk.create_folder_all(Path::new("/d/e")).unwrap();
        disk.rename(Path::new("/f"), Path::new("/d/e/f")).unwrap();
        disk.sync_folder(Path::new("/d/e")).unwrap();
        assert_eq!(read(&disk.crash(), "/d/e/f"), Some(b"old".to_vec()));
    }
}

#[test]
fn one_seed_gives_one_outcome() {
    let run = |seed| {
        let disk = with_file(seed, &[1; 50_000]);
        disk.open(Path::new("/f")).unwrap().write_all_at(&[2; 40_000], 20_000).unwrap();
        read(&disk.crash(), "/f")
    };
    assert!((0..20).all(|seed| run(seed) == run(seed)));
    assert!((0..20).any(|seed| run(seed) != run(seed + 1)));
}

#[test]
fn a_full_disk_takes_what_has_room_and_removal_makes_room_again() {
    let disk = MemoryDisk::new(0);
    disk.set_free_bytes(1000);
    let file = disk.create(Path::new("/f")).unwrap();
    file.write_all_at(&[1; 600], 0).unwrap();
    assert_eq!(disk.free_bytes(Path::new("/")).unwrap(), 400);
    assert_eq!(file.write_all_at(&[1; 600], 600).unwrap_err().kind(), io::ErrorKind::StorageFull);
    assert_eq!(file.bytes().unwrap(), 1000);
    file.write_all_at(&[2; 1000], 0).unwrap();
    file.set_len(900).unwrap();
    assert_eq!(disk.free_bytes(Path::new("/")).unwrap(), 100);
    disk.remove_file(Path::new("/f")).unwrap();
    assert_eq!(disk.free_bytes(Path::new("/")).unwrap(), 1000);
}

#[test]
fn a_cut_disk_does_nothing_and_handles_of_a_dead_process_stay_dead() {
    let disk = with_file(0, b"x");
    let file = disk.open(Path::new("/f")).unwrap();
    disk.power_off_after(1);
    file.write_all_at(b"y", 0).unwrap();
    assert!(file.sync_data().is_err());
    assert!(disk.list(Path::new("/")).is_err());
    let next = disk.crash();
    assert!(disk.bytes(Path::new("/f")).is_err());
    assert!(file.read_at(&mut [0], 0).is_err());
    assert_eq!(next.bytes(Path::new("/f")).unwrap(), Some(1));
}

#[test]
fn it_refuses_what_a_real_disk_refuses() {
    let disk = with_file(0, b"x");
    let kind = |result: io::Result<()>| result.unwrap_err().kind();
    disk.create_folder_all(Path::new("/d/e")).unwrap();
    assert_eq!(kind(disk.remove_folder(Path::new("/d"))), io::ErrorKind::DirectoryNotEmpty);
    assert_eq!(kind(disk.remove_folder(Path::new("/f"))), io::ErrorKind::NotADirectory);
    assert_eq!(kind(disk.remove_file(Path::new("/d"))), io::ErrorKind::IsADirectory);
    assert_eq!(kind(disk.rename(Path::new("/f"), Path::new("/d"))), io::ErrorKind::IsADirectory);
    assert_eq!(kind(disk.rename(Path::new("/f"), Path::new("/x/f"))), io::ErrorKind::NotFound);
    assert_eq!(kind(disk.create_folder_all(Path::new("/f/g"))), io::ErrorKind::NotADirectory);
    assert_eq!(disk.create(Path::new("/f")).err().unwrap().kind(), io::ErrorKind::AlreadyExists);
    assert_eq!(disk.list(Path::new("/")).unwrap().len(), 2);
    let file = disk.open_to_read(Path::new("/f")).unwrap();
    disk.remove_file(Path::new("/f")).unwrap();
    assert_eq!(file.read_at(&mut [0; 2], 0).unwrap(), 1, "an open file outlives its name");
    assert_eq!(kind(file.write_all_at(b"y", 0)), io::ErrorKind::PermissionDenied);
}

#[test]
fn a_bad_sector_follows_its_file_through_renames_and_crashes_and_no_other() {
    let disk = with_file(0, &[7; 10_000]);
    disk.set_bad_sector(Path::new("/f"), Some(5000)).unwrap();
    disk.rename(Path::new("/f"), Path::new("/g")).unwrap();
    disk.sync_folder(Path::new("/")).unwrap();
    let disk = disk.crash();
    let file = disk.open(Path::new("/g")).unwrap();
    let errno = |offset| file.read_at(&mut [0; 100], offset).map_err(|error| error.raw_os_error().unwrap());
    let bad = Err(rustix::io::Errno::IO.raw_os_error());
    assert_eq!([errno(0), errno(4000), errno(8191), errno(8192), errno(9950)], [Ok(100), bad, bad, Ok(100), Ok(50)]);
    file.write_all_at(b"changes go on", 0).unwrap();
    write(&disk, "/other", b"x");
    assert_eq!(read(&disk, "/other").unwrap(), b"x");
    disk.set_bad_sector(Path::new("/g"), None).unwrap();
    assert_eq!(errno(4000), Ok(100));
    disk.create_folder_all(Path::new("/d")).unwrap();
    disk.set_bad_sector(Path::new("/d"), Some(0)).unwrap();
    assert!(disk.list(Path::new("/d")).is_err() && disk.list(Path::new("/")).is_ok());
}

#[test]
fn what_a_failed_sync_lost_is_read_while_cached_and_never_after_a_crash() {
    for seed in 0..20 {
        let disk = with_file(seed, &[1; 8192]);
        let file = disk.open(Path::new("/f")).unwrap();
        file.write_all_at(&[2; 8192], 0).unwrap();
        disk.set_fault(Some(DiskFault::Syncs(5)));
        assert!(file.sync_data().is_err());
        disk.set_fault(None);
        file.sync_data().unwrap();
        assert_eq!(read(&disk, "/f"), Some(vec![2; 8192]), "as if all were well");
        // What is written anew is written.
        file.write_all_at(&[3; 4096], 0).unwrap();
        file.sync_data().unwrap();
        let on_disk = [vec![3; 4096], vec![1; 4096]].concat();
        if seed % 2 == 0 {
            file.start_writeback(0, 8192).unwrap();
            assert_eq!(read(&disk, "/f"), Some(on_disk.clone()));
        }
        assert_eq!(read(&disk.crash(), "/f"), Some(on_disk));
    }
}
