//! Power is cut after every single change of the disk, for many seeds; whatever is left, the promises hold.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::Path,
    sync::{Arc, LazyLock},
    thread,
};

use protocol::{SliceHeader, SliceId, message::node_master::HeldState, status::ErrorClass};
use store::{Disk, MemoryDisk, SliceHasher, SliceStore, StoreError};

use crate::{BLOCK, FOLDER, bytes, files, header, open, path, read, write};

/// One thing a node does with its slices.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Step {
    Write(u128, &'static str),
    Adopt(u128, &'static str),
    Place(u128, &'static str),
    /// As `Place`, with another desired number of copies.
    Wish(u128, &'static str, u8),
    Remove(u128),
}

/// What was promised so far.
pub(crate) struct Promises {
    slices: BTreeMap<u128, Promise>,
    /// The bytes of each slice.
    content: fn(u128) -> Vec<u8>,
}

struct Promise {
    content: Vec<u8>,
    /// It was acknowledged, and nobody has requested its removal since.
    must_be_there: bool,
    /// Its removal was acknowledged, and nobody has written it since.
    must_be_gone: bool,
    /// The path and copies it may report: what was acknowledged last, and what was requested since.
    says: Vec<(&'static str, u8)>,
    /// Everything that it ever reported.
    said_ever: BTreeSet<(&'static str, u8)>,
}

impl Default for Promises {
    fn default() -> Self {
        Self { slices: BTreeMap::new(), content }
    }
}

impl Promises {
    /// Takes a step; fails only with an error of the disk.
    pub(crate) fn take(&mut self, store: &Arc<SliceStore>, disk: &MemoryDisk, step: Step) -> Result<(), StoreError> {
        let outcome = match step {
            Step::Write(slice, at) | Step::Adopt(slice, at) => {
                let content = (self.content)(slice);
                if store.contains(SliceId(slice)) {
                    return Ok(());
                }
                let promise = self.slices.entry(slice).or_insert_with(|| Promise::none(content.clone()));
                promise.must_be_gone = false;
                promise.ask_for(at, COPIES);
                let stored = match step {
                    Step::Adopt(..) => adopt(store, disk, slice, at, &content),
                    _ => write(store, header(slice, at, slice as u64), &content).map(|_| ()),
                };
                stored.map(|()| promise.must_be_there = true)
            }
            Step::Place(slice, at) => self.place(store, slice, at, COPIES),
            Step::Wish(slice, at, copies) => self.place(store, slice, at, copies),
            Step::Remove(slice) => {
                if let Some(promise) = self.slices.get_mut(&slice) {
                    // A removal that was not acknowledged may bring back the slice as it once was; it is ordered again.
                    promise.must_be_there = false;
                    promise.says = promise.said_ever.iter().copied().collect();
                }
                let removed = store.remove(SliceId(slice));
                if let Some(promise) = self.slices.get_mut(&slice) {
                    promise.must_be_gone = removed.is_ok();
                }
                removed
            }
        };
        match outcome {
            Err(error)
                if matches!(error.class(), ErrorClass::RetryElsewhere) && !matches!(error, StoreError::NotHeld(_)) =>
            {
                Err(error)
            }
            // A folder in the way, or a missing slice: part of the test.
            _ => Ok(()),
        }
    }

    fn place(&mut self, store: &SliceStore, slice: u128, at: &'static str, copies: u8) -> Result<(), StoreError> {
        if let Some(promise) = self.slices.get_mut(&slice) {
            promise.ask_for(at, copies);
        }
        let placed = store.place(&SliceHeader { copies, ..header(slice, at, slice as u64) });
        if placed.is_ok()
            && let Some(promise) = self.slices.get_mut(&slice)
        {
            promise.says = vec![(at, copies)];
        }
        placed
    }

    /// Compares what is there with what was promised.
    pub(crate) fn check(&self, store: &SliceStore, disk: &MemoryDisk, told: &str) {
        let held: BTreeMap<u128, _> =
            store.held().into_iter().map(|held| (held.metadata.header.slice.0, held)).collect();
        for (slice, promise) in &self.slices {
            assert!(held.contains_key(slice) || !promise.must_be_there, "slice {slice} is lost; {told}");
            assert!(!held.contains_key(slice) || !promise.must_be_gone, "slice {slice} is back; {told}");
        }
        for (slice, held) in &held {
            let promise = self.slices.get(slice).unwrap_or_else(|| panic!("slice {slice} came from nowhere; {told}"));
            let header = &held.metadata.header;
            assert!(
                promise.says.contains(&(header.path.as_str(), header.copies)),
                "slice {slice} says {header:?}; {told}"
            );
            let found = read(store, *slice).unwrap_or_else(|error| panic!("{error}; {told}"));
            assert!(found == promise.content, "slice {slice} has other bytes; {told}");
            if held.state == HeldState::Placed {
                let native = Path::new(FOLDER).join("slices").join(header.path.relative());
                let length = disk.bytes(&native).unwrap();
                assert_eq!(length, Some(promise.content.len() as u64), "slice {slice} is not at its path; {told}");
            }
        }
    }
}

impl Promise {
    fn none(content: Vec<u8>) -> Self {
        Self { content, must_be_there: false, must_be_gone: false, says: Vec::new(), said_ever: BTreeSet::new() }
    }

    fn ask_for(&mut self, path: &'static str, copies: u8) {
        self.says.push((path, copies));
        self.said_ever.insert((path, copies));
    }
}

/// Some slices have the same length, one has two blocks, one is empty; no two have the same bytes.
pub(crate) fn content(slice: u128) -> Vec<u8> {
    static CONTENTS: LazyLock<Vec<Vec<u8>>> = LazyLock::new(|| {
        let counts = [0, 100, 100, 5000, BLOCK + 1, 100, 8192];
        counts.iter().enumerate().map(|(slice, count)| bytes(slice as u64, *count)).collect()
    });
    CONTENTS[slice as usize].clone()
}

/// As [`content`], but three of the slices have the same bytes: a file that was sent again.
fn twins(slice: u128) -> Vec<u8> {
    content(if slice == 2 || slice == 5 { 1 } else { slice })
}

fn adopt(store: &SliceStore, disk: &MemoryDisk, slice: u128, at: &str, content: &[u8]) -> Result<(), StoreError> {
    let bucket = store.jobs_folder().join(format!("bucket-{slice}"));
    let failed = |source| StoreError::Io { operation: "write", path: bucket.clone(), source };
    // One that an earlier attempt left.
    let _ = disk.remove_file(&bucket);
    disk.create(&bucket).and_then(|file| file.write_all_at(content, 0)).map_err(failed)?;
    let mut hasher = SliceHasher::new();
    hasher.update(content);
    store.ingest_file(header(slice, at, slice as u64), &bucket, hasher.finish()).map(|_| ())
}

/// The copies in headers unless a step sets another number.
const COPIES: u8 = 3;

/// Everything that happens to slices, with paths that are in each other's way.
const STORY: &[Step] = &[
    Step::Write(1, "/x/a"),
    Step::Place(1, "/x/a"),
    Step::Write(2, "/x/a"),
    Step::Place(2, "/x/a"),
    Step::Remove(1),
    Step::Wish(2, "/x/a", 5),
    Step::Place(2, "/y/z/b"),
    Step::Adopt(3, "/x/a"),
    Step::Place(3, "/x/a"),
    Step::Place(2, "/x/a"),
    Step::Write(4, "/x"),
    Step::Place(4, "/x"),
    Step::Place(3, "/y"),
    Step::Place(2, "/y/b"),
    Step::Place(4, "/x"),
    Step::Remove(2),
    Step::Write(5, "/e"),
    Step::Place(5, "/other"),
    Step::Write(1, "/x"),
    Step::Place(1, "/x"),
    Step::Place(4, "/x/a"),
    Step::Remove(4),
    Step::Place(3, "/x/a"),
    Step::Write(6, "/y"),
    Step::Place(6, "/y"),
];

/// A story of its own for each seed: few slices and few paths, so that they collide.
pub(crate) fn story(seed: u64) -> Vec<Step> {
    let mut rng = fastrand::Rng::with_seed(seed);
    let paths = ["/a", "/a/b", "/a/b/c", "/d", "/d/b"];
    (0..14)
        .map(|_| {
            let (slice, at) = (u128::from(rng.u8(0..6)), paths[rng.usize(0..paths.len())]);
            match rng.u8(0..10) {
                0..4 => Step::Write(slice, at),
                4 => Step::Adopt(slice, at),
                5..8 => Step::Place(slice, at),
                8 => Step::Wish(slice, at, rng.u8(1..3)),
                _ => Step::Remove(slice),
            }
        })
        .collect()
}

/// Runs a story until the power is cut. For every third case the power is cut once more while the folder is recovered.
/// Returns the number of changes if the story came to its end.
fn cut(story: &[Step], content: fn(u128) -> Vec<u8>, seed: u64, changes: u64) -> Option<u64> {
    let told = format!("seed {seed}, cut after {changes} changes of {story:?}");
    let disk = MemoryDisk::new(seed);
    let (store, _) = open(&disk);
    let mut promises = Promises { content, ..Promises::default() };
    let before = disk.changes();
    disk.power_off_after(changes);
    let ended = story.iter().all(|step| promises.take(&store, &disk, *step).is_ok());
    let taken = disk.changes() - before;
    let disk = disk.crash();
    // Every third time the power goes again while the folder is being opened.
    let disk = if (seed + changes).is_multiple_of(3) {
        // After the dozen changes that every opening begins with.
        disk.power_off_after(8 + (seed + changes) / 3 % 16);
        let _ = SliceStore::open(Arc::new(disk.clone()), Path::new(FOLDER));
        disk.crash()
    } else {
        disk
    };
    let (store, report) = open(&disk);
    assert_eq!(report.quarantined, Vec::<std::path::PathBuf>::new(), "{told}");
    promises.check(&store, &disk, &told);
    check_settled(&store, &disk, &told);
    // The store is usable as if nothing had happened, and every interrupted step can be repeated.
    for step in story {
        promises.take(&store, &disk, *step).unwrap_or_else(|error| panic!("{error}; {told}"));
    }
    promises.check(&store, &disk, &format!("again, {told}"));
    ended.then_some(taken)
}

/// Nothing is left half done, and opening again changes nothing.
fn check_settled(store: &SliceStore, disk: &MemoryDisk, told: &str) {
    let count = |state| store.held().iter().filter(|held| held.state == state).count();
    for (folder, wanted) in
        [("unfinished", 0), ("staging", 2 * count(HeldState::Staged)), ("retired", 2 * count(HeldState::Retired))]
    {
        let found = files(disk, &Path::new(FOLDER).join(folder));
        assert_eq!(found.len(), wanted, "{folder}: {found:?}; {told}");
    }
    let sidecars = files(disk, &Path::new(FOLDER).join("slices")).into_iter().filter(|name| name.ends_with(".sector"));
    assert_eq!(sidecars.count(), count(HeldState::Placed), "{told}");
    let (again, report) = open(disk);
    assert_eq!((report.completed_moves, again.held()), (0, store.held()), "{told}");
}

/// As many as a quick run has time for, or as `SECTOR_CRASH_SEEDS` says.
pub(crate) fn seeds() -> u64 {
    std::env::var("SECTOR_CRASH_SEEDS").ok().and_then(|seeds| seeds.parse().ok()).unwrap_or(20)
}

fn cut_everywhere(story: &[Step], content: fn(u128) -> Vec<u8>, seeds: std::ops::Range<u64>) {
    for seed in seeds {
        let mut changes = 0;
        while cut(story, content, seed, changes).is_none() {
            changes += 1;
        }
        assert!(changes >= story.len() as u64 / 2, "the story was cut in many places");
    }
}

// Promise 1.
#[test]
fn every_promise_holds_wherever_the_power_is_cut() {
    cut_everywhere(STORY, content, 0..seeds() / 4);
}

#[test]
fn every_promise_holds_in_stories_nobody_thought_of() {
    for seed in 0..seeds() {
        cut_everywhere(&story(seed), content, seed..seed + 1);
    }
}

// Bytes alone do not say whose they are.
#[test]
fn every_promise_holds_for_slices_with_the_same_bytes() {
    cut_everywhere(STORY, twins, 0..seeds() / 4);
    for seed in 0..seeds() {
        cut_everywhere(&story(seed), twins, seed..seed + 1);
    }
}

#[test]
fn every_promise_holds_when_one_change_fails_and_the_node_goes_on() {
    for seed in 0..seeds() {
        let story = story(seed);
        let disk = MemoryDisk::new(seed);
        let (store, _) = open(&disk);
        let before = disk.changes();
        let mut promises = Promises::default();
        story.iter().for_each(|step| promises.take(&store, &disk, *step).unwrap());
        for failing in 0..disk.changes() - before {
            let told = format!("seed {seed}, change {failing} of {story:?} failed");
            let disk = MemoryDisk::new(seed);
            let (store, _) = open(&disk);
            disk.fail_one_after(failing);
            let mut promises = Promises::default();
            for step in &story {
                // An error is an answer; earlier promises remain.
                let _ = promises.take(&store, &disk, *step);
            }
            promises.check(&store, &disk, &told);
            drop(store);
            let (store, _) = open(&disk);
            promises.check(&store, &disk, &format!("opened again, {told}"));
            let disk = disk.crash();
            promises.check(&open(&disk).0, &disk, &format!("after a crash, {told}"));
        }
    }
}

#[test]
fn a_slice_whose_rename_failed_halfway_and_was_ordered_again_is_safe() {
    for seed in 0..40 {
        for failing in 0..10 {
            let disk = MemoryDisk::new(seed);
            let (store, _) = open(&disk);
            write(&store, header(1, "/a", 1), b"bytes").unwrap();
            store.place(&header(1, "/a", 1)).unwrap();
            disk.fail_one_after(failing);
            // If the sync failed, the slice is staged and not yet safe there.
            let _ = store.place(&header(1, "/b", 1));
            store.place(&header(1, "/b", 1)).unwrap();
            let disk = disk.crash();
            let (store, _) = open(&disk);
            assert_eq!(read(&store, 1).unwrap(), b"bytes", "seed {seed}, change {failing} failed");
            assert_eq!(store.held()[0].metadata.header.path, path("/b"));
        }
    }
}

#[test]
fn whatever_many_writers_were_told_is_true_when_the_power_goes_in_the_midst() {
    for seed in 0..30 {
        let disk = MemoryDisk::new(seed);
        let (store, _) = open(&disk);
        disk.power_off_after(20 + 13 * seed);
        // They share syncs of `staging/`; each must have been covered by the sync it shared.
        let acknowledged: Vec<u128> = thread::scope(|scope| {
            let writer = |thread: u128| {
                let ids = (0..20).map(move |round| thread * 100 + round);
                let store = &store;
                ids.take_while(move |id| write(store, header(*id, "/f", 1), &bytes(*id as u64, 300)).is_ok())
            };
            let threads: Vec<_> =
                (0..4).map(|thread| scope.spawn(move || writer(thread).collect::<Vec<_>>())).collect();
            threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect()
        });
        let disk = disk.crash();
        let (store, _) = open(&disk);
        for id in acknowledged {
            assert!(read(&store, id).unwrap() == bytes(id as u64, 300), "slice {id}, seed {seed}");
        }
        for held in store.held() {
            let id = held.metadata.header.slice.0;
            assert!(read(&store, id).unwrap() == bytes(id as u64, 300), "slice {id} is half, seed {seed}");
        }
    }
}

#[test]
fn a_crash_between_sync_and_acknowledgement_shows_the_slice_whole_or_not_at_all() {
    let mut outcomes = [0, 0];
    for seed in 0..60 {
        let mut changes = 0;
        loop {
            let disk = MemoryDisk::new(seed);
            let (store, _) = open(&disk);
            disk.power_off_after(changes);
            let done = write(&store, header(4, "/f", 1), &content(4)).is_ok();
            let disk = disk.crash();
            let (store, _) = open(&disk);
            match read(&store, 4) {
                Ok(found) => assert_eq!(found, content(4)),
                Err(StoreError::NotHeld(_)) => assert!(!done),
                Err(error) => panic!("{error}"),
            }
            outcomes[usize::from(store.contains(SliceId(4)) && !done)] += 1;
            if done {
                break;
            }
            changes += 1;
        }
    }
    assert!(outcomes.iter().all(|count| *count > 0), "both occur: {outcomes:?}");
}
