//! Buckets on a real folder.
#![allow(clippy::unwrap_used)]

use protocol::Status;
use std::{collections::BTreeMap, io::Write, os::unix::fs::FileExt};

use protocol::{RecordFraming, SectorPath, SliceId, UserName, Version, message::spe::Winner};
use store::SliceHasher;

use super::*;

struct Fixture {
    buckets: BucketStore,
    folder: tempfile::TempDir,
}

fn fixture() -> Fixture {
    let folder = tempfile::tempdir().unwrap();
    Fixture { buckets: BucketStore::new(folder.path().join("jobs")), folder }
}

fn bucket(run: u32) -> BucketId {
    BucketId { job: JobId(1), stage: 0, epoch: run, bucket: 0, generation: 0 }
}

fn piece(task: u32, attempt: u32) -> PieceId {
    PieceId { bucket: bucket(0), task, attempt }
}

fn seal(winners: &[(u32, u32, u64)]) -> SealOrder {
    let winners = winners.iter().map(|(task, attempt, bytes)| Winner { task: *task, attempt: *attempt, bytes: *bytes });
    SealOrder { bucket: bucket(0), winners: winners.collect(), publish: false, in_order: false }
}

fn header(slice: u128) -> SliceHeader {
    SliceHeader {
        slice: SliceId(slice),
        path: SectorPath::parse("/out/0").unwrap(),
        version: Version(1),
        owner: UserName::new("alice").unwrap(),
        modified_unix_millis: 0,
        copies: 1,
        records: RecordFraming::File,
        user: BTreeMap::new(),
        journal: protocol::JournalId(1),
        acl: None,
    }
}

impl Fixture {
    fn writer(&self, piece: PieceId, bytes: u64) -> PieceWriter {
        match self.buckets.begin(piece, bytes).unwrap() {
            BeginOutcome::Writer(writer) => writer,
            BeginOutcome::Taken => panic!("{piece:?} is there already"),
        }
    }

    fn put(&self, piece: PieceId, bytes: &[u8]) {
        let mut writer = self.writer(piece, bytes.len() as u64);
        writer.write(bytes).unwrap();
        writer.commit().unwrap();
    }

    fn scratch(&self, bytes: &[u8]) -> Scratch {
        let scratch = self.buckets.scratch(JobId(1)).unwrap();
        scratch.file().write_all_at(bytes, 0).unwrap();
        scratch
    }

    fn scratch_files(&self) -> usize {
        fs::read_dir(self.folder.path().join("jobs").join(JobId(1).to_string()).join("scratch")).unwrap().count()
    }
}

#[test]
fn pieces_that_arrive_at_once_do_not_mix() {
    let made = fixture();
    let (mut a, mut b) = (made.writer(piece(0, 0), 4), made.writer(piece(1, 0), 4));
    a.write(b"aa").unwrap();
    b.write(b"bbbb").unwrap();
    a.write(b"AA").unwrap();
    b.commit().unwrap();
    a.commit().unwrap();
    assert_eq!(made.buckets.seal(&seal(&[(0, 0, 4), (1, 0, 4)])).unwrap().bytes, 8);
    assert_eq!(made.buckets.fetch(bucket(0)).unwrap(), b"aaAAbbbb");
}

#[test]
fn a_piece_that_breaks_off_is_not_in_the_bucket() {
    let made = fixture();
    let mut broken = made.writer(piece(0, 0), 100);
    broken.write(b"half").unwrap();
    made.put(piece(1, 0), b"whole");
    drop(broken);
    let missing = made.buckets.seal(&seal(&[(0, 0, 100), (1, 0, 5)])).unwrap_err();
    assert_eq!(missing.refusal().status(), Status::NotFound, "{missing}");
    assert_eq!(made.buckets.seal(&seal(&[(1, 0, 5)])).unwrap().bytes, 5);
    assert_eq!(made.buckets.fetch(bucket(0)).unwrap(), b"whole");
}

#[test]
fn a_piece_that_breaks_off_at_the_end_leaves_no_bytes_behind() {
    let made = fixture();
    made.put(piece(1, 0), b"whole");
    let mut broken = made.writer(piece(0, 0), 100);
    broken.write(b"half").unwrap();
    drop(broken);
    assert_eq!(made.buckets.seal(&seal(&[(1, 0, 5)])).unwrap().bytes, 5);
    assert_eq!(made.buckets.fetch(bucket(0)).unwrap(), b"whole");
}

#[test]
fn a_piece_of_another_length_than_announced_is_refused() {
    let made = fixture();
    let mut short = made.writer(piece(0, 0), 4);
    short.write(b"abc").unwrap();
    assert!(matches!(short.commit(), Err(NodeError::LengthMismatch { expected: 4, found: 3, .. })));
    let mut long = made.writer(piece(0, 0), 4);
    assert!(matches!(long.write(b"abcde"), Err(NodeError::LengthMismatch { expected: 4, found: 5, .. })));
}

#[test]
fn a_piece_that_comes_twice_is_taken_once() {
    let made = fixture();
    made.put(piece(0, 0), b"once");
    assert!(matches!(made.buckets.begin(piece(0, 0), 4), Ok(BeginOutcome::Taken)));
    made.buckets.add_file(piece(0, 0), made.scratch(b"once"), 4, None).unwrap();
    assert_eq!(made.buckets.seal(&seal(&[(0, 0, 4)])).unwrap().bytes, 4);
}

// Promise 18.
#[test]
fn the_seal_cuts_losing_attempts_out_and_can_be_repeated() {
    let made = fixture();
    made.put(piece(0, 0), b"loser");
    made.put(piece(0, 1), b"winner");
    made.put(piece(1, 0), b"other");
    let order = seal(&[(0, 1, 6), (1, 0, 5)]);
    assert_eq!(made.buckets.seal(&order).unwrap().bytes, 11);
    assert_eq!(made.buckets.seal(&order).unwrap().bytes, 11);
    assert_eq!(made.buckets.fetch(bucket(0)).unwrap(), b"winnerother");
    let late = made.buckets.begin(piece(2, 0), 1).unwrap_err();
    assert_eq!(late.refusal().status(), Status::Refused, "{late}");
}

#[test]
fn a_sender_still_at_work_cannot_touch_a_sealed_bucket() {
    let made = fixture();
    made.put(piece(0, 0), b"winner");
    let mut late = made.writer(piece(0, 1), 6);
    made.buckets.seal(&seal(&[(0, 0, 6)])).unwrap();
    late.write(b"loser!").unwrap();
    assert!(late.commit().is_err());
    assert_eq!(made.buckets.fetch(bucket(0)).unwrap(), b"winner");
    let (_, bytes) = made.buckets.open_sealed(bucket(0)).unwrap();
    assert_eq!(bytes, 6);
}

#[test]
fn a_bucket_that_no_task_wrote_to_is_sealed_empty() {
    let made = fixture();
    assert_eq!(made.buckets.fetch(bucket(0)).unwrap_err().refusal().status(), Status::NotFound);
    assert_eq!(made.buckets.seal(&seal(&[])).unwrap().bytes, 0);
    assert_eq!(made.buckets.fetch(bucket(0)).unwrap(), b"");
}

#[test]
fn a_bucket_is_read_only_when_it_is_sealed() {
    let made = fixture();
    made.put(piece(0, 0), b"x");
    assert_eq!(made.buckets.open_sealed(bucket(0)).unwrap_err().refusal().status(), Status::Refused);
}

#[test]
fn a_newer_run_ends_the_older_one() {
    let made = fixture();
    made.put(piece(0, 0), b"old");
    let newer = PieceId { bucket: bucket(1), task: 0, attempt: 0 };
    made.put(newer, b"new");
    let late = made.buckets.begin(piece(1, 0), 1).unwrap_err();
    assert!(late.to_string().contains("run 1"), "{late}");
    assert!(made.buckets.seal(&seal(&[(0, 0, 3)])).is_err());
    let folder = made.folder.path().join("jobs").join(JobId(1).to_string()).join(BUCKETS_FOLDER);
    assert_eq!(fs::read_dir(folder).unwrap().count(), 1, "the old run's file is gone");
}

#[test]
fn a_file_of_this_disk_becomes_the_bucket_or_is_appended() {
    let made = fixture();
    made.buckets.add_file(piece(0, 0), made.scratch(b"first"), 5, None).unwrap();
    made.buckets.add_file(piece(0, 1), made.scratch(b"second"), 6, None).unwrap();
    assert_eq!(made.scratch_files(), 0, "scratch files are used up");
    assert_eq!(made.buckets.seal(&seal(&[(0, 1, 6)])).unwrap().bytes, 6);
    assert_eq!(made.buckets.fetch(bucket(0)).unwrap(), b"second");
}

#[test]
fn a_scratch_file_goes_when_it_is_dropped() {
    let made = fixture();
    let scratch = made.scratch(b"x");
    assert_eq!(made.scratch_files(), 1);
    drop(scratch);
    assert_eq!(made.scratch_files(), 0);
}

#[test]
fn a_forgotten_job_leaves_nothing_and_takes_nothing() {
    let made = fixture();
    made.put(piece(0, 0), b"x");
    made.buckets.forget(JobId(1)).unwrap();
    assert!(!made.folder.path().join("jobs").join(JobId(1).to_string()).exists());
    assert!(made.buckets.begin(piece(1, 0), 1).is_err());
    assert!(made.buckets.scratch(JobId(1)).is_err());
    made.buckets.forget(JobId(1)).unwrap();
}

#[test]
fn a_bucket_is_published_with_the_digest_of_its_bytes() {
    let folder = tempfile::tempdir().unwrap();
    let store = DiskSet::of(store::SliceStore::open(Arc::new(store::OsDisk), folder.path()).unwrap().0);
    let buckets = BucketStore::new(Arc::clone(&store));
    let made = Fixture { buckets, folder };
    made.put(piece(0, 0), b"loser");
    made.put(piece(1, 0), b"abc");
    let mut order = seal(&[(1, 0, 3)]);
    order.publish = true;
    let open = made.buckets.publish(bucket(0), header(5), &store).unwrap_err();
    assert_eq!(open.refusal().status(), Status::Refused, "an open bucket is not published");
    made.buckets.seal(&order).unwrap();
    let metadata = made.buckets.publish(bucket(0), header(5), &store).unwrap();
    let mut expected = SliceHasher::new();
    expected.update(b"abc");
    assert_eq!((metadata.bytes, metadata.digest), (3, expected.finish().digest));
    assert_eq!(made.buckets.publish(bucket(0), header(5), &store).unwrap(), metadata, "asked again");
    assert_eq!(made.buckets.publish(bucket(0), header(6), &store).unwrap_err().refusal().status(), Status::Exists);
    let mut bytes = Vec::new();
    store.open_slice(SliceId(5)).unwrap().read_at(&mut bytes, 0, 3).unwrap();
    assert_eq!(bytes, b"abc");
}

#[test]
fn sums_of_an_spe_are_used_only_for_the_bucket_that_is_that_piece() {
    let made = fixture();
    let mut hasher = SliceHasher::new();
    hasher.update(b"first");
    let sums = hasher.finish();
    let mut marked = sums.clone();
    marked.digest = protocol::Digest([9; 32]);
    made.buckets.add_file(piece(0, 0), made.scratch(b"first"), 5, Some(marked)).unwrap();
    let sealed_digest = |order: &SealOrder| {
        made.buckets.seal(order).unwrap();
        let bucket = made.buckets.known(order.bucket).unwrap();
        bucket.lock().sealed_sums.clone().unwrap().digest
    };
    let mut order = seal(&[(0, 0, 5)]);
    order.publish = true;
    assert_eq!(sealed_digest(&order), protocol::Digest([9; 32]), "the SPE's sums are believed");
    // Another bucket, where a second attempt has won.
    let other = |attempt| PieceId { bucket: BucketId { bucket: 7, ..bucket(0) }, task: 0, attempt };
    made.buckets.add_file(other(0), made.scratch(b"xxxxx"), 5, Some(sums.clone())).unwrap();
    made.buckets.add_file(other(1), made.scratch(b"first"), 5, None).unwrap();
    let order = SealOrder {
        bucket: other(0).bucket,
        winners: vec![Winner { task: 0, attempt: 1, bytes: 5 }],
        publish: true,
        in_order: false,
    };
    assert_eq!(sealed_digest(&order), sums.digest, "computed from the bytes");
}

#[test]
fn the_buckets_of_a_job_lie_on_several_disks_and_each_is_published_on_its_own() {
    let folder = tempfile::tempdir().unwrap();
    let data = |name: &str| store::DataFolder {
        disk: Arc::new(store::OsDisk),
        folder: folder.path().join(name),
        known: false,
        memory_bytes: None,
    };
    let (disks, _) = DiskSet::open(vec![data("one"), data("two")], 0).unwrap();
    let made = Fixture { buckets: BucketStore::new(Arc::clone(&disks)), folder };
    let of = |number: u32, attempt| PieceId { bucket: BucketId { bucket: number, ..bucket(0) }, task: number, attempt };
    for number in 0..4 {
        made.buckets.add_file(of(number, 0), made.scratch(b"abc"), 3, None).unwrap();
        // A second attempt's file lies on the other disk, whose turn it is, and is copied.
        made.buckets.add_file(of(number, 1), made.scratch(b"xyz"), 3, None).unwrap();
    }
    // Out of turn, so that not all begin on the same disk.
    drop(made.scratch(b""));
    for number in 4..8 {
        made.buckets.add_file(of(number, 0), made.scratch(b"abc"), 3, None).unwrap();
    }
    let disk_of = |file: &Path| ["one", "two"].into_iter().find(|name| file.starts_with(made.folder.path().join(name)));
    let used: std::collections::BTreeSet<_> =
        (0..8).map(|at| disk_of(&made.buckets.known(of(at, 0).bucket).unwrap().path).unwrap()).collect();
    assert_eq!(used.len(), 2, "{used:?}");
    for number in 0..4 {
        let winner = Winner { task: number, attempt: 1, bytes: 3 };
        let order = SealOrder { bucket: of(number, 0).bucket, winners: vec![winner], publish: true, in_order: false };
        made.buckets.seal(&order).unwrap();
        made.buckets.publish(order.bucket, header(u128::from(number)), &disks).unwrap();
        let mut bytes = Vec::new();
        disks.open_slice(SliceId(u128::from(number))).unwrap().read_at(&mut bytes, 0, 3).unwrap();
        assert_eq!(bytes, b"xyz");
    }
    made.buckets.forget(JobId(1)).unwrap();
    assert!(disks.jobs_folders().iter().all(|folder| fs::read_dir(folder).unwrap().next().is_none()));
}

#[test]
fn a_job_has_no_more_side_files_here_than_it_may_and_none_when_it_is_forgotten() {
    let made = fixture();
    for slice in 0..limits::JOB_SIDE_FILES_MAX as u128 {
        made.buckets.side_file(JobId(1), SliceId(slice)).unwrap();
    }
    let again = [0, 0].map(|slice| made.buckets.side_file(JobId(1), SliceId(slice)).unwrap());
    assert!(Arc::ptr_eq(&again[0], &again[1]), "all who ask have the same");
    let refusal = made.buckets.side_file(JobId(1), SliceId(u128::MAX)).unwrap_err().refusal();
    assert_eq!(refusal.status(), Status::Usage, "{refusal}");
    assert!(made.buckets.side_file(JobId(2), SliceId(0)).is_ok(), "other jobs have their own");
    made.buckets.forget(JobId(1)).unwrap();
    let refusal = made.buckets.side_file(JobId(1), SliceId(0)).unwrap_err().refusal();
    assert!(refusal.status() == Status::Refused && Arc::strong_count(&again[0]) == 2, "{refusal}");
}

#[test]
fn a_short_scratch_file_that_is_put_back_is_the_next_of_its_job() {
    let made = fixture();
    let [job, other] = [1, 2].map(JobId);
    let scratch = made.buckets.scratch_for_results(job).unwrap();
    scratch.share().unwrap().write_all(b"what the first task left").unwrap();
    let path = scratch.path().to_owned();
    made.buckets.recycle_scratch(job, scratch);
    assert_ne!(made.buckets.scratch_for_results(other).unwrap().path(), path);
    let fetched = made.buckets.scratch(job).unwrap();
    assert_eq!(fetched.file().metadata().unwrap().len(), 0, "what is fetched is all that is in it");
    let again = made.buckets.scratch_for_results(job).unwrap();
    assert_eq!(again.path(), path);
    // From its beginning, as whoever gets the descriptor expects.
    again.share().unwrap().write_all(b"second").unwrap();
    assert_eq!(fs::read(&path).unwrap(), b"second");
    let long = made.buckets.scratch_for_results(job).unwrap();
    assert_ne!(long.path(), path, "that one is in use");
    long.file().set_len(100_000).unwrap();
    let path_of_long = long.path().to_owned();
    made.buckets.recycle_scratch(job, long);
    assert!(!path_of_long.exists());
    made.buckets.recycle_scratch(job, again);
    made.buckets.forget(job).unwrap();
    assert!(!path.exists());
    // One that comes back when its job has ended is removed.
    let late = made.buckets.scratch_for_results(other).unwrap();
    let path = late.path().to_owned();
    made.buckets.forget(other).unwrap();
    made.buckets.recycle_scratch(other, late);
    assert!(!path.exists());
}

#[test]
fn few_bytes_are_kept_in_memory_and_many_in_their_file() {
    let made = fixture();
    let attempt = |task| AttemptId { job: JobId(1), stage: 0, epoch: 0, task, attempt: 0 };
    for (task, length) in [(0, 100), (1, 100_000)] {
        let scratch = made.buckets.scratch(JobId(1)).unwrap();
        let path = scratch.path().to_owned();
        let bytes = vec![7; length];
        scratch.share().unwrap().write_all(&bytes).unwrap();
        let chunk = Chunk { bucket: 0, offset: 0, bytes: length as u64 };
        assert!(made.buckets.retain(attempt(task), scratch, vec![chunk]));
        match &made.buckets.retained().find(attempt(task)).unwrap().content {
            RetainedContent::Memory(kept) => assert_eq!((task, &kept[..]), (0, &bytes[..])),
            RetainedContent::File(file) => assert_eq!((task, file.path()), (1, path.as_path())),
        }
    }
}

#[test]
fn the_input_bucket_of_a_slice_is_removed_once_the_slice_is_placed() {
    let made = fixture();
    let (store, _) = DiskSet::open(
        vec![store::DataFolder {
            disk: Arc::new(store::OsDisk),
            folder: made.folder.path().join("store"),
            known: false,
            memory_bytes: None,
        }],
        0,
    )
    .unwrap();
    made.put(piece(0, 0), b"unsorted");
    made.buckets.seal(&seal(&[(0, 0, 8)])).unwrap();
    let sorted = |attempt| BucketId { stage: 1, generation: attempt, ..bucket(0) };
    for attempt in 0..2 {
        let piece = PieceId { bucket: sorted(attempt), task: 0, attempt };
        made.buckets.add_file(piece, made.scratch(b"denorstu"), 8, None).unwrap();
        made.buckets.note_input_bucket(sorted(attempt), bucket(0));
    }
    let winners = vec![Winner { task: 0, attempt: 1, bytes: 8 }];
    made.buckets.seal(&SealOrder { bucket: sorted(1), winners, publish: true, in_order: false }).unwrap();
    let path = made.buckets.known(bucket(0)).unwrap().path.clone();
    assert_eq!(made.buckets.open_sealed(bucket(0)).unwrap().1, 8, "it may be needed again");
    made.buckets.publish(sorted(1), header(9), &store).unwrap();
    assert_eq!(made.buckets.open_sealed(bucket(0)).unwrap().1, 8, "and so it may if the slice never gets its name");
    made.buckets.note_placed(SliceId(8));
    assert!(path.exists());
    made.buckets.note_placed(SliceId(9));
    let gone = made.buckets.open_sealed(bucket(0)).unwrap_err();
    assert_eq!((gone.refusal().status(), path.exists()), (Status::NotFound, false));
    let late = made.buckets.begin(piece(1, 0), 3).map(drop).unwrap_err();
    assert_eq!((late.refusal().status(), path.exists()), (Status::Refused, false), "no late piece begins it anew");
}
