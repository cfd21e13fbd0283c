//! The cost of names, and their behaviour with many entries or unusual values.

#![allow(clippy::unwrap_used)]

use std::collections::{BTreeMap, BTreeSet};

use protocol::{
    Digest, JobId, Now, RecordFraming, SectorPath, SliceId, UserName, Version,
    message::client_master::{EntryKind, FileContent, JobState, StageRecord},
};
use store::RowChange;

use super::{Namespace, ROOT, entry_rows};
use crate::{
    actions::StoredRow,
    fleet::nodes::NodeKey,
    jobs::job_table::parse_job_row,
    replicas::replica_table::{HeaderFingerprint, Replica, ReplicaState, ReplicaTable},
};

fn path(text: &str) -> SectorPath {
    SectorPath::parse(text).unwrap()
}

fn ann() -> UserName {
    UserName::new("ann").unwrap()
}

fn content(number: u128) -> FileContent {
    FileContent {
        slice: SliceId((number << 64) | (number * 0x9e37_79b9)),
        version: Version(1_700_000_000_000 + number as u64),
        bytes: 1_000_000 + number as u64,
        digest: Digest([number as u8; 32]),
        records: RecordFraming::Lines,
        copies: 3,
        user: BTreeMap::new(),
    }
}

fn empty() -> Namespace {
    Namespace::load(Now::default(), std::iter::empty()).unwrap().0
}

/// Puts a file whose values all follow from its number; the modification time is the version, as always.
fn put(names: &mut Namespace, at: &SectorPath, number: u128) -> Vec<RowChange> {
    let content = content(number);
    let modified = content.version.0;
    names.put_file(Now::default(), at, true, &ann(), content, modified).unwrap().rows
}

fn reload(rows: &[RowChange]) -> Namespace {
    let row = |change: &RowChange| match change {
        RowChange::Set { table, key, value } => StoredRow { table, key: key.clone(), value: value.clone() },
        RowChange::Remove { .. } => panic!("nothing was removed"),
    };
    Namespace::load(Now::default(), rows.iter().map(row)).unwrap().0
}

/// The promise: a file with a path of 40 bytes and three replicas takes 200 bytes of memory at most. It holds wherever
/// the tables stand between two doublings, and in whatever order names come.
#[test]
fn a_file_takes_at_most_200_bytes_with_its_replicas() {
    let (mut names, mut replicas, mut worst) = (empty(), ReplicaTable::default(), 0);
    let mut rng = fastrand::Rng::with_seed(1);
    let total: u128 = 130_000;
    for number in 0..total {
        let at = path(&format!("/folder-{:08}/{:025}", number / 1_000, rng.u64(..)));
        assert_eq!(at.as_str().len(), 42, "names of 40 bytes");
        put(&mut names, &at, number);
        for node in 0..3 {
            let mark =
                HeaderFingerprint::of(&names.header_of_slice(content(number).slice, protocol::JournalId(1)).unwrap());
            let state = ReplicaState::Placed(mark);
            let replica = Replica { node: NodeKey::numbered(node), state, epoch: 1 };
            replicas.set(content(number).slice, replica);
        }
        // Small clouds have some kilobytes of their own, which do not matter.
        if number >= 30_000 && number % 500 == 0 {
            worst = worst.max((names.memory_bytes() + replicas.memory_bytes()) / (number as usize + 1));
        }
    }
    println!("{worst} bytes a file at worst");
    assert!(worst <= 200, "{worst} bytes a file");
}

#[test]
fn what_is_out_of_the_ordinary_is_kept_too_and_survives_a_start() {
    let mut names = empty();
    let mut rows = names.row(names.root);
    let ordinary = content(1);
    let all = [
        (FileContent { version: Version(u64::MAX - 9), ..content(2) }, 5),
        (FileContent { bytes: u64::MAX, ..content(3) }, 0),
        (FileContent { records: RecordFraming::Fixed(u32::MAX), ..content(4) }, u64::MAX),
        (FileContent { records: RecordFraming::Fixed(100), ..content(5) }, content(5).version.0 - 7),
        (FileContent { user: BTreeMap::from([("k".into(), "v".into())]), ..content(6) }, content(6).version.0),
        (FileContent { records: RecordFraming::Index, ..content(8) }, content(8).version.0),
        (FileContent { records: RecordFraming::Parquet, ..content(9) }, content(9).version.0 + 3),
        (FileContent { records: RecordFraming::File, copies: 255, ..content(7) }, content(7).version.0 + (1 << 40)),
    ];
    for (number, (content, modified)) in all.iter().enumerate() {
        let owner = UserName::new(format!("user-{number}")).unwrap();
        let at = path(&format!("/f{number}"));
        // Earlier values leave nothing behind, and neither do unusual ones.
        for (content, modified) in [(ordinary.clone(), 1), (content.clone(), *modified)] {
            let put = names.put_file(Now::default(), &at, false, &owner, content, modified).unwrap();
            rows.retain(|row| !matches!((row, &put.rows[0]), (RowChange::Set { key, .. }, RowChange::Set { key: new, .. }) if key == new));
            rows.extend(put.rows);
        }
    }
    for names in [&names, &reload(&rows)] {
        for (number, (content, modified)) in all.iter().enumerate() {
            let id = names.find(&path(&format!("/f{number}"))).unwrap();
            let entry = names.entry(id).unwrap();
            assert_eq!((entry.kind, entry.modified_unix_millis), (EntryKind::File(content.clone()), *modified));
            assert_eq!(names.owner(id).unwrap().as_str(), format!("user-{number}"));
            assert_eq!(names.file_of_slice(content.slice), Some(id));
        }
        assert_eq!(names.file_of_slice(ordinary.slice), None);
    }
    let again = names.put_file(Now::default(), &path("/f1"), false, &ann(), ordinary.clone(), 5).unwrap();
    assert_eq!((names.content(again.entry.unwrap()), again.freed), (Some(ordinary), vec![content(3).slice]));
}

#[test]
fn a_slice_is_the_content_of_one_file_only() {
    let mut names = empty();
    put(&mut names, &path("/a"), 1);
    let refused = names.put_file(Now::default(), &path("/d/b"), true, &ann(), content(1), 5).unwrap_err();
    assert!(refused.message.contains("`/a`"), "{}", refused.message);
    assert_eq!((names.find(&path("/d")), names.file_of_slice(content(1).slice)), (None, names.find(&path("/a"))));
}

/// A folder of 20,000, a page at a time, while entries before and after the page go and come.
// Promise 11.
#[test]
fn the_pages_of_a_large_folder_join_although_entries_go_and_come() {
    let (mut names, mut rng) = (empty(), fastrand::Rng::with_seed(2));
    let mut numbers: Vec<u128> = (0..20_000).collect();
    rng.shuffle(&mut numbers);
    for number in &numbers {
        put(&mut names, &path(&format!("/large/{number:06}")), *number);
    }
    let (mut listed, mut gone, mut after) = (Vec::new(), BTreeSet::new(), None);
    loop {
        let (page, more) = names.list(&path("/large"), false, after.as_ref()).unwrap();
        listed.extend(page.into_iter().map(|entry| entry.path));
        after = listed.last().cloned();
        // Also the entry after which the next page continues.
        for at in [after.clone().unwrap(), path(&format!("/large/{:06}", rng.u32(..20_000)))] {
            if names.remove(&at, false).is_ok() {
                gone.insert(at);
            }
        }
        put(&mut names, &path("/large/000000!"), 1_000_000 + listed.len() as u128);
        if !more {
            break;
        }
    }
    assert!(listed.windows(2).all(|pair| pair[0] < pair[1]), "in order, none twice");
    let found: BTreeSet<_> = listed.into_iter().collect();
    for number in 0..20_000 {
        let at = path(&format!("/large/{number:06}"));
        assert!(found.contains(&at) || gone.contains(&at), "{at} was left out");
    }
    assert_eq!(names.usage(names.find(&path("/large")).unwrap()).files as usize, 20_001 - gone.len());
}

#[test]
fn a_large_folder_is_renamed_by_one_row_and_counted_at_once() {
    let mut names = empty();
    let mut rows = names.row(names.root);
    for number in 0..3_000 {
        rows.extend(put(&mut names, &path(&format!("/a/b/{}/{number}", number % 7)), number));
    }
    rows.extend(names.make_folder(Now::default(), &path("/c"), false, &ann()).unwrap().rows);
    let before = names.usage(names.find(&path("/a/b")).unwrap());
    assert_eq!((before.files, before.folders), (3_000, 8));
    let change = names.rename(&path("/a/b"), &path("/c/d")).unwrap();
    assert_eq!((change.rows.len(), change.freed.len()), (1, 0));
    let usage = |names: &Namespace, at: &str| names.usage(names.find(&path(at)).unwrap());
    assert_eq!(usage(&names, "/c/d"), before);
    assert_eq!((usage(&names, "/a").files, usage(&names, "/c").files, usage(&names, "/").files), (0, 3_000, 3_000));
    let file = names.file_of_slice(content(15).slice).unwrap();
    assert_eq!(names.path(file), Some(path("/c/d/1/15")));
    // A walk in steps meets every entry once, although some go meanwhile.
    let folder = names.find(&path("/c/d/1")).unwrap();
    let (mut met, mut after) = (0, None::<String>);
    loop {
        let some = names.children_after(folder, after.as_deref(), 10);
        met += some.len();
        let Some(last) = some.last() else { break };
        let name = names.name(*last).to_owned();
        names.remove(&path(&format!("/c/d/1/{name}")), false).unwrap();
        after = Some(name);
    }
    assert_eq!(met, (0..3_000).filter(|number| number % 7 == 1).count());
}

#[test]
fn a_large_folder_is_cut_off_by_one_row_and_goes_in_steps() {
    let mut names = empty();
    for number in 0..2_000 {
        put(&mut names, &path(&format!("/a/b/{number}")), number);
    }
    let change = names.remove(&path("/a"), true).unwrap();
    assert_eq!((change.rows.len(), change.freed.len()), (1, 0));
    assert_eq!((names.find(&path("/a")), names.usage(ROOT).files), (None, 0));
    let slice = content(5).slice;
    // Until its step it is a file whose removal is not durable: it has its path, and nothing is done about it.
    let file = names.file_of_slice(slice).unwrap();
    assert_eq!((names.path(file), names.is_pending_removal(slice)), (Some(path("/a/b/5")), true));
    // Its old path is free for others.
    put(&mut names, &path("/a/b/5"), 5_000);
    assert!(!names.is_pending_removal(content(5_000).slice));
    let (mut freed, mut steps) = (BTreeSet::new(), 0);
    while names.has_pending_removals() {
        let step = names.purge_pending_removals(300);
        // And one row that records the largest version of the removed files.
        assert!(step.rows.len() <= 300 + 1);
        freed.extend(step.freed);
        steps += 1;
    }
    assert_eq!((freed.len(), steps, names.file_of_slice(slice)), (2_000, 7, None));
    assert_eq!(names.usage(ROOT).files, 1);
}

/// Rows from before rows had a version of their own.
#[test]
fn rows_of_version_1_are_read_and_written_anew_as_version_2() {
    let slice: Vec<u8> = vec![0x84, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x06];
    let file = [
        &[1, 0x81, 0x01][..], // version 1, parent 129
        b"\x05a.dat\x03ann",
        &[0x90, 0x4e], // modified 10,000
        &[1],          // a file
        &slice,        // 3 * 2^64 + 4
        &[0xac, 0x02], // version 300
        &[0x07],       // 7 bytes
        &[9; 32],
        &[1, 100], // fixed:100
        &[2],      // 2 copies
        b"\x01\x01k\x02vv",
    ]
    .concat();
    let folder = [&[1, 1][..], b"\x01d\x03bob", &[0x07, 0]].concat();
    let root = [&[1, 1][..], b"\x00\x05admin", &[0x05, 0]].concat();
    let row = |id: u64, value: &[u8]| StoredRow { table: "names", key: id.to_be_bytes().into(), value: value.into() };
    let old = [row(200, &file), row(1, &root), row(129, &folder)];
    let (names, first) = Namespace::load(Now::default(), old.iter().cloned()).unwrap();
    assert!(first.is_empty());
    let id = names.find(&path("/d/a.dat")).unwrap();
    let entry = names.entry(id).unwrap();
    let expected = FileContent {
        slice: SliceId(3 << 64 | 4),
        version: Version(300),
        bytes: 7,
        digest: Digest([9; 32]),
        records: RecordFraming::Fixed(100),
        copies: 2,
        user: BTreeMap::from([("k".into(), "vv".into())]),
    };
    assert_eq!((id.0, entry.owner, entry.modified_unix_millis), (200, ann(), 10_000));
    assert_eq!(entry.kind, EntryKind::File(expected));
    assert_eq!((names.birth(), names.last_version()), (Version(5), Version(300)));

    let written = names.row(names.items.find(id).unwrap());
    let [RowChange::Set { value, .. }] = &written[..] else { panic!("{written:?}") };
    let new = [
        &[2, 0x81, 0x01][..], // version 2, parent 129
        b"\x05a.dat\x03ann",
        &[1], // a file
        &[0, 0, 0, 0, 0, 0, 0, 3, 0, 0, 0, 0, 0, 0, 0, 4],
        &[0xac, 0x02],       // version 300
        &[0xc8, 0x97, 0x01], // modified 9,700 ms after
        &[0x07],
        &[9; 32],
        &[1, 100],
        &[2],
        b"\x01\x01k\x02vv",
    ]
    .concat();
    assert_eq!(*value, new);
    assert_eq!(entry_rows::parse(&200u64.to_be_bytes(), &new), entry_rows::parse(&200u64.to_be_bytes(), &file));
    for cut in 0..new.len() {
        assert_eq!(entry_rows::parse(&200u64.to_be_bytes(), &new[..cut]), None, "cut at {cut}");
    }
}

#[test]
fn the_version_of_what_a_large_folder_held_outlives_each_step_of_its_removal() {
    let mut names = empty();
    let mut rows: BTreeMap<_, _> = BTreeMap::new();
    let mut save = |changes: Vec<RowChange>| {
        for change in changes {
            match change {
                RowChange::Set { table, key, value } => drop(rows.insert((table, key), value)),
                RowChange::Remove { table, key } => drop(rows.remove(&(table, key))),
            }
        }
        let row = |((table, key), value): (&(&'static str, Vec<u8>), &Vec<u8>)| StoredRow {
            table,
            key: key.clone(),
            value: value.clone(),
        };
        Namespace::load(Now::default(), rows.iter().map(row)).unwrap().0.last_version()
    };
    save(names.row(names.root));
    for number in 1..=2_000 {
        save(put(&mut names, &path(&format!("/d/{number}")), number));
    }
    let newest = names.last_version();
    save(names.remove(&path("/d"), true).unwrap().rows);
    assert!(names.has_pending_removals(), "2,000 entries are too many to go at once");
    while names.has_pending_removals() {
        assert_eq!(save(names.purge_pending_removals(300).rows), newest);
    }
    assert_eq!(names.usage(ROOT).files, 0);
}

/// Jobs have the same layout in both versions, except for later additions. A change of it must still read the old one.
#[test]
fn rows_of_jobs_of_both_versions_are_read_and_others_are_not() {
    let row = b"\x01\x83\x02\x03ann\x05count\x01\x90\x4e\x01\x04\x03\x00\x02\x01\x02\x7f\x07\x01\x04oops";
    let (record, detached) = parse_job_row(row).unwrap();
    assert!(detached.is_none());
    assert_eq!((record.job, record.user.clone(), record.state), (JobId(259), ann(), JobState::Done));
    assert_eq!(
        (&*record.title, record.started_unix_millis, record.errors.clone()),
        ("count", 10_000, vec!["oops".into()])
    );
    let stage = StageRecord {
        segments: 4,
        done: 3,
        failed: 0,
        retried: 2,
        speculative: 1,
        local: 2,
        bytes_in: 127,
        bytes_out: 7,
    };
    assert_eq!(record.stages, [stage]);
    assert_eq!(record.error_slice, None);
    // Written by today's master: the same, plus the later additions.
    let written = [&[2], &row[1..], &[0, 0, 0]].concat();
    assert_eq!(parse_job_row(&written).unwrap().0, record);
    let with_slice = [&[2], &row[1..], &[1, 2], b"/e"].concat();
    assert_eq!(parse_job_row(&with_slice).unwrap().0.error_slice, Some("/e".parse().unwrap()));
    let with_counters = [&[2], &row[1..], &[0, 0, 1, 1, 5], b"words", &[7]].concat();
    assert_eq!(parse_job_row(&with_counters).unwrap().0.counters[0].get("words"), Some(7));
    assert!(parse_job_row(&[&written[..], &[0]].concat()).is_none());
    for other in [&[3][..], &row[1..], &[]] {
        assert!(parse_job_row(other).is_none());
    }
}
