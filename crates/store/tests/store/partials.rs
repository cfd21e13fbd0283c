//! What is kept of broken uploads: the right bytes or none, whatever breaks, and never more than may be.

use std::{path::Path, sync::Arc, time::Duration};

use protocol::{Digest, ResumeKey, SliceId, UserName, limits};
use store::{DataFolder, DiskSet, MemoryDisk, PartialKey, SliceStore, SliceWriter, StoreError};

use crate::{BLOCK, FOLDER, bytes, crash_images::seeds, files, header, open, read};

const MIB: usize = 1 << 20;

fn key(number: u128) -> PartialKey {
    PartialKey { user: UserName::new("alice").unwrap(), key: ResumeKey(number) }
}

fn digest(bytes: &[u8]) -> Digest {
    Digest(*blake3::hash(bytes).as_bytes())
}

fn folder() -> std::path::PathBuf {
    Path::new(FOLDER).join("partial")
}

/// Writes on up to `until`, in parts that are no blocks, and then the connection breaks; what is kept.
fn write_part(store: &Arc<SliceStore>, slice: u128, content: &[u8], until: usize) -> Result<u64, StoreError> {
    let mut writer = store.begin_resumable(header(slice, "/f", 1), key(1))?;
    write_on(&mut writer, &content[..until])?;
    writer.split().0.save_partial()
}

fn write_on(writer: &mut SliceWriter, content: &[u8]) -> Result<(), StoreError> {
    let there = writer.bytes() as usize;
    assert_eq!(writer.digest_so_far(), digest(&content[..there]), "{there} bytes are there, and others than were sent");
    content[there..].chunks(300_000).try_for_each(|part| writer.write(part))
}

fn write_rest(store: &Arc<SliceStore>, slice: u128, content: &[u8]) -> Result<(), StoreError> {
    let mut writer = store.begin_resumable(header(slice, "/f", 1), key(1))?;
    write_on(&mut writer, content)?;
    writer.finish(Some(digest(content))).map(|_| ())
}

#[test]
fn an_upload_resumes_at_the_last_whole_block_after_a_restart_and_leaves_nothing() {
    let (disk, content) = (MemoryDisk::new(1), bytes(1, 4 * MIB + 77));
    let (store, _) = open(&disk);
    assert_eq!(write_part(&store, 1, &content, 2 * MIB + 5).unwrap(), 2 * MIB as u64);
    assert!(store.held().is_empty() && store.partials()[0].bytes == 2 * MIB as u64);
    drop(store);
    let (store, _) = open(&disk);
    assert_eq!(store.partials()[0].bytes, 2 * MIB as u64);
    let disk = disk.crash();
    let (store, _) = open(&disk);
    assert_eq!(write_part(&store, 2, &content, 3 * MIB + BLOCK + 1).unwrap(), (3 * MIB + BLOCK) as u64);
    let writer = store.begin_resumable(header(3, "/f", 1), key(1)).unwrap();
    assert_eq!(writer.bytes(), (3 * MIB + BLOCK) as u64);
    assert!(store.partials().is_empty(), "someone writes to it");
    drop(writer);
    write_rest(&store, 3, &content).unwrap();
    assert!(read(&store, 3).unwrap() == content);
    assert_eq!(files(&disk, &folder()), Vec::<String>::new());
    let other = store.begin_resumable(header(4, "/f", 1), key(1)).unwrap();
    assert_eq!(other.bytes(), 0, "what is done is not gone on with");
}

#[test]
fn of_an_upload_into_memory_that_breaks_off_nothing_is_kept() {
    let lent_bytes = 8 * MIB as u64;
    let folder = |folder: &str, memory_bytes| DataFolder {
        disk: Arc::new(MemoryDisk::new(1)),
        folder: folder.into(),
        known: false,
        memory_bytes,
    };
    let (set, _) = DiskSet::open(vec![folder("/disk", None), folder("/lent", Some(lent_bytes))], 0).unwrap();
    let broken_off = |slice: u128, at: &str| {
        let mut writer = set.begin_resumable(header(slice, at, 1), key(slice)).unwrap();
        writer.write(&bytes(1, 3 * MIB)).unwrap();
        writer.split().0.save_partial().unwrap()
    };
    assert_eq!([broken_off(1, "/f"), broken_off(2, "/memory/f")], [3 * MIB as u64, 0]);
    let kept: Vec<ResumeKey> = set.partials().iter().map(|partial| partial.key).collect();
    assert_eq!((kept, set.memory_available_bytes()), (vec![ResumeKey(1)], lent_bytes));
    assert_eq!(set.begin_resumable(header(3, "/memory/f", 1), key(2)).unwrap().bytes(), 0);
}

#[test]
fn whoever_the_client_is_its_key_opens_only_its_own_upload() {
    let (disk, content) = (MemoryDisk::new(1), bytes(1, 2 * MIB));
    let (store, _) = open(&disk);
    write_part(&store, 1, &content, 2 * MIB).unwrap();
    let stranger = PartialKey { user: UserName::new("bob").unwrap(), ..key(1) };
    assert_eq!(store.begin_resumable(header(2, "/f", 1), stranger).unwrap().bytes(), 0);
    assert_eq!(store.begin_resumable(header(2, "/f", 1), key(2)).unwrap().bytes(), 0);
    assert_eq!(store.partials().len(), 1);
}

#[test]
fn little_is_not_kept_and_what_is_begun_anew_is_gone() {
    let (disk, content) = (MemoryDisk::new(1), bytes(1, 3 * MIB));
    let (store, _) = open(&disk);
    assert_eq!(write_part(&store, 1, &content, MIB - 1).unwrap(), 0);
    assert_eq!(files(&disk, &folder()), Vec::<String>::new());
    write_part(&store, 1, &content, 2 * MIB).unwrap();
    let other = bytes(2, 2 * MIB);
    let mut writer = store.begin_resumable(header(1, "/f", 1), key(1)).unwrap().restart().unwrap();
    assert_eq!(writer.bytes(), 0);
    write_on(&mut writer, &other).unwrap();
    writer.finish(None).unwrap();
    assert!(read(&store, 1).unwrap() == other);
}

#[test]
fn one_writer_at_a_time_has_an_upload() {
    let (store, _) = open(&MemoryDisk::new(1));
    let first = store.begin_resumable(header(1, "/f", 1), key(1)).unwrap();
    let second = store.begin_resumable(header(2, "/f", 1), key(1)).err().unwrap();
    assert!(matches!(second, StoreError::BeingFinished(SliceId(2))), "{second}");
    drop(first);
    store.begin_resumable(header(2, "/f", 1), key(1)).unwrap();
}

#[test]
fn damage_is_found_by_its_checksum_and_cut_off() {
    let (disk, content) = (MemoryDisk::new(1), bytes(1, 3 * MIB));
    let (store, _) = open(&disk);
    write_part(&store, 1, &content, 2 * MIB).unwrap();
    let name = files(&disk, &folder()).into_iter().find(|name| !name.ends_with("record")).unwrap();
    disk.flip_bit(&folder().join(&name), (20 * BLOCK + 5) as u64).unwrap();
    let writer = store.begin_resumable(header(1, "/f", 1), key(1)).unwrap();
    assert_eq!(writer.bytes(), 20 * BLOCK as u64);
    drop(writer);
    // Not even the record is left of it: it begins anew, or where the last checkpoint after the damage was.
    drop(store);
    let (store, _) = open(&disk);
    assert_eq!(write_part(&store, 1, &content, 2 * MIB + BLOCK).unwrap(), (2 * MIB + BLOCK) as u64);
    disk.flip_bit(&folder().join(format!("{name}.record")), 30).unwrap();
    drop(store);
    let (store, _) = open(&disk);
    assert!(store.partials().is_empty(), "whose it was cannot be read any more");
    assert_eq!(files(&disk, &folder()), Vec::<String>::new());
    write_rest(&store, 1, &content).unwrap();
}

#[test]
fn no_more_than_may_are_kept_and_the_idle_ones_go_first() {
    let (disk, content) = (MemoryDisk::new(1), bytes(1, MIB));
    let (store, _) = open(&disk);
    for number in 0..limits::PARTIALS_MAX as u128 + 3 {
        let mut writer = store.begin_resumable(header(number, "/f", 1), key(number)).unwrap();
        writer.write(&content).unwrap();
        writer.split().0.save_partial().unwrap();
    }
    let kept = store.partials();
    assert_eq!((kept.len(), kept[0].key), (limits::PARTIALS_MAX, ResumeKey(3)));
    assert_eq!(files(&disk, &folder()).len(), 2 * limits::PARTIALS_MAX);
    let busy = store.begin_resumable(header(9, "/f", 1), key(9)).unwrap();
    assert_eq!(store.drop_idle_partials(Duration::from_secs(3_600)), 0);
    assert_eq!(store.drop_idle_partials(Duration::ZERO), limits::PARTIALS_MAX - 1);
    assert_eq!(files(&disk, &folder()).len(), 2, "the one that is being written");
    drop(busy);
    assert_eq!(store.partials().len(), 1);
}

#[test]
fn a_full_disk_breaks_an_upload_and_what_was_safe_before_is_kept() {
    let (disk, content) = (MemoryDisk::new(1), bytes(1, 4 * MIB));
    let (store, _) = open(&disk);
    write_part(&store, 1, &content, 2 * MIB).unwrap();
    disk.set_free_bytes(MIB as u64 / 2);
    let error = write_rest(&store, 2, &content).unwrap_err();
    assert!(matches!(error, StoreError::DiskFull { .. }), "{error}");
    assert_eq!(store.partials()[0].bytes, 2 * MIB as u64);
    disk.set_free_bytes(10 * MIB as u64);
    write_rest(&store, 3, &content).unwrap();
    assert!(read(&store, 3).unwrap() == content);
}

/// Three attempts at one upload, the last of which succeeds; what the disk last acknowledged.
#[derive(Default)]
struct Told {
    kept: u64,
    finishing: bool,
    stored: bool,
}

fn attempts(store: &Arc<SliceStore>, content: &[u8], told: &mut Told) -> Result<(), StoreError> {
    told.kept = write_part(store, 1, content, MIB + BLOCK + 3)?;
    told.kept = write_part(store, 2, content, 2 * MIB + 9)?;
    told.finishing = true;
    write_rest(store, 3, content)?;
    told.stored = true;
    Ok(())
}

fn check(store: &Arc<SliceStore>, content: &[u8], told: &Told, when: &str) {
    for held in store.held() {
        assert_eq!(held.metadata.header.slice, SliceId(3), "never a half file; {when}");
        assert!(read(store, 3).unwrap() == content, "{when}");
    }
    assert!(!told.stored || store.contains(SliceId(3)), "an acknowledged slice is lost; {when}");
    let kept = store.partials().first().map_or(0, |partial| partial.bytes);
    assert!(told.finishing || kept >= told.kept, "{kept} bytes are kept of {}; {when}", told.kept);
    // Whatever is there is what was sent, and the upload can be gone on with.
    if !store.contains(SliceId(3)) {
        write_rest(store, 3, content).unwrap_or_else(|error| panic!("{error}; {when}"));
        assert!(read(store, 3).unwrap() == content, "{when}");
    }
}

// Promise 6.
#[test]
fn after_any_power_cut_an_upload_resumes_with_the_right_bytes_or_starts_over() {
    let content = bytes(7, 2 * MIB + 3 * BLOCK + 100);
    for seed in 0..seeds() / 5 {
        for changes in 0.. {
            let disk = MemoryDisk::new(seed);
            let (store, _) = open(&disk);
            let mut told = Told::default();
            disk.power_off_after(changes);
            let ended = attempts(&store, &content, &mut told).is_ok();
            let disk = disk.crash();
            let (store, report) = open(&disk);
            let when = format!("seed {seed}, cut after {changes} changes");
            assert!(report.quarantined.is_empty(), "{report:?}; {when}");
            check(&store, &content, &told, &when);
            assert_eq!(files(&disk, &folder()), Vec::<String>::new(), "{when}");
            if ended {
                assert!(changes > 30, "it was cut in many places");
                break;
            }
        }
    }
}

#[test]
fn after_any_failed_change_an_upload_resumes_with_the_right_bytes_or_starts_over() {
    let content = bytes(7, 2 * MIB + 3 * BLOCK + 100);
    for seed in 0..seeds() / 5 {
        let disk = MemoryDisk::new(seed);
        let (store, _) = open(&disk);
        let before = disk.changes();
        attempts(&store, &content, &mut Told::default()).unwrap();
        for failing in 0..disk.changes() - before {
            let disk = MemoryDisk::new(seed);
            let (store, _) = open(&disk);
            disk.fail_one_after(failing);
            let (mut told, when) = (Told::default(), format!("seed {seed}, change {failing} failed"));
            // An error is an answer; what was safe before it may be dropped with it.
            if attempts(&store, &content, &mut told).is_err() {
                told.kept = 0;
            }
            drop(store);
            let disk = disk.crash();
            check(&open(&disk).0, &content, &told, &when);
        }
    }
}

#[test]
fn a_checkpoint_is_due_every_64_mib_and_makes_safe_what_came_before_it() {
    let (disk, content) = (MemoryDisk::new(3), bytes(3, 8 * MIB));
    let (store, _) = open(&disk);
    let mut writer = store.begin_resumable(header(1, "/f", 1), key(1)).unwrap().split().0;
    for _ in 0..7 {
        assert!(!writer.is_checkpoint_due() && writer.checkpoint_due().is_none());
        writer.write_checked(&content, &[]).unwrap();
    }
    writer.write_checked(&content, &[]).unwrap();
    assert!(writer.is_checkpoint_due());
    let checkpoint = writer.checkpoint_due().unwrap();
    // What comes while it waits for its turn is not covered by it.
    writer.write_checked(&content, &[]).unwrap();
    checkpoint.run().unwrap();
    let disk = disk.crash();
    let (store, _) = open(&disk);
    assert_eq!(store.partials()[0].bytes, 64 << 20);
    let resumed = store.begin_resumable(header(2, "/f", 1), key(1)).unwrap();
    assert_eq!(resumed.digest_so_far(), digest(&content.repeat(8)));
    drop(writer);
}
