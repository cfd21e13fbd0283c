//! Tests the namespace against a slow and obvious model: a map from path to entry. Both must answer random operations
//! alike, and loading the rows must give the same names again. Only tests use it; the master never does.

#![allow(clippy::unwrap_used)]

use std::collections::{BTreeMap, BTreeSet};

use fastrand::Rng;
use protocol::{
    Acl, Digest, Now, RecordFraming, SectorPath, SliceId, Status, UserName, Version,
    message::client_master::{EntryKind, FileContent, Usage},
};
use store::RowChange;

use super::{Namespace, REMOVE_AT_ONCE_MAX, ROOT};
use crate::actions::StoredRow;

/// Every path but the root, with its file's slice and bytes, or `None` for a folder.
#[derive(Default)]
struct Model {
    paths: BTreeMap<Vec<String>, Option<(SliceId, u64)>>,
    /// Each path's own list of rights.
    acls: BTreeMap<Vec<String>, Acl>,
}

impl Model {
    fn is_folder(&self, at: &[String]) -> bool {
        at.is_empty() || matches!(self.paths.get(at), Some(None))
    }

    fn exists(&self, at: &[String]) -> bool {
        at.is_empty() || self.paths.contains_key(at)
    }

    fn below(&self, at: &[String]) -> Vec<Vec<String>> {
        self.paths.keys().filter(|path| path.len() > at.len() && path.starts_with(at)).cloned().collect()
    }

    /// The reason not to create `at`.
    fn check_parent(&self, at: &[String], parents: bool) -> Result<(), Status> {
        for length in 1..at.len() {
            match self.paths.get(&at[..length]) {
                Some(Some(_)) => return Err(Status::Exists),
                Some(None) => {}
                None if parents => return Ok(()),
                None => return Err(Status::NotFound),
            }
        }
        Ok(())
    }

    fn make_folder(&mut self, at: &[String], parents: bool) -> Result<(), Status> {
        if self.exists(at) {
            return if parents && self.is_folder(at) { Ok(()) } else { Err(Status::Exists) };
        }
        self.check_parent(at, parents)?;
        for length in 1..=at.len() {
            self.paths.entry(at[..length].to_vec()).or_insert(None);
        }
        Ok(())
    }

    fn put(&mut self, at: &[String], parents: bool, slice: SliceId, bytes: u64) -> Result<Vec<SliceId>, Status> {
        if self.exists(at) && self.is_folder(at) {
            return Err(Status::Exists);
        }
        if !self.exists(at) {
            self.check_parent(at, parents)?;
            self.make_folder(&at[..at.len() - 1], true)?;
        }
        let old = self.paths.insert(at.to_vec(), Some((slice, bytes)));
        Ok(old.flatten().map(|(slice, _)| slice).into_iter().collect())
    }

    fn rename(&mut self, from: &[String], to: &[String]) -> Result<Vec<SliceId>, Status> {
        if !self.exists(from) {
            return Err(Status::NotFound);
        }
        if from.is_empty() || to.is_empty() {
            return Err(Status::Refused);
        }
        if from == to {
            return Ok(Vec::new());
        }
        if self.is_folder(from) && to.starts_with(from) {
            return Err(Status::Refused);
        }
        self.check_parent(to, false)?;
        if self.exists(to) && (self.is_folder(to) || self.is_folder(from)) {
            return Err(Status::Exists);
        }
        self.acls.remove(to);
        let freed = self.paths.get(to).copied().flatten().map(|(slice, _)| slice).into_iter().collect();
        for path in [vec![from.to_vec()], self.below(from)].concat() {
            let what = self.paths.remove(&path).unwrap();
            let moved = [to, &path[from.len()..]].concat();
            if let Some(acl) = self.acls.remove(&path) {
                self.acls.insert(moved.clone(), acl);
            }
            self.paths.insert(moved, what);
        }
        Ok(freed)
    }

    fn remove(&mut self, at: &[String], recursive: bool) -> Result<Vec<SliceId>, Status> {
        if !self.exists(at) {
            return Err(Status::NotFound);
        }
        let below = self.below(at);
        if at.is_empty() || (!recursive && !below.is_empty()) {
            return Err(Status::Refused);
        }
        let all = [vec![at.to_vec()], below].concat();
        self.acls.retain(|path, _| !all.contains(path));
        Ok(all.iter().filter_map(|path| self.paths.remove(path).unwrap()).map(|(slice, _)| slice).collect())
    }

    fn set_acl(&mut self, at: &[String], acl: Option<Acl>) {
        match acl.filter(|_| self.exists(at)) {
            Some(acl) => drop(self.acls.insert(at.to_vec(), acl)),
            None => drop(self.acls.remove(at)),
        }
    }

    /// The nearest list of rights, of a path and the folders above it.
    fn effective(&self, at: &[String]) -> Option<&Acl> {
        (0..=at.len()).rev().find_map(|length| self.acls.get(&at[..length]))
    }

    fn usage(&self, at: &[String]) -> Usage {
        let mut usage = Usage::default();
        if at.is_empty() {
            usage.folders = 1;
        }
        for (_, what) in self.paths.iter().filter(|(path, _)| path.starts_with(at)) {
            match what {
                None => usage.folders += 1,
                Some((_, bytes)) => {
                    usage.files += 1;
                    usage.bytes += bytes;
                }
            }
        }
        usage
    }
}

/// Names together with the rows that should hold them.
struct Both {
    names: Namespace,
    model: Model,
    rows: BTreeMap<(&'static str, Vec<u8>), Vec<u8>>,
    now: Now,
    /// The largest version that a file ever had.
    newest: Version,
}

impl Both {
    fn new() -> Self {
        let now = Now { unix_millis: 1_000, ..Now::default() };
        let (names, first) = Namespace::load(now, std::iter::empty()).unwrap();
        let mut both = Self { names, model: Model::default(), rows: BTreeMap::new(), now, newest: Version(0) };
        both.save(first);
        both
    }

    fn save(&mut self, changes: Vec<RowChange>) {
        for change in changes {
            match change {
                RowChange::Set { table, key, value } => drop(self.rows.insert((table, key), value)),
                RowChange::Remove { table, key } => {
                    assert!(self.rows.remove(&(table, key)).is_some(), "a row that never was");
                }
            }
        }
    }

    fn step(&mut self, rng: &mut Rng, slice: SliceId) {
        let owner = UserName::new("ann").unwrap();
        let (at, other, flag) = (a_path(rng), a_path(rng), rng.bool());
        let (components, to) = (split(&at), split(&other));
        if rng.u8(..) < 60 {
            let acls = [None, Some("none"), Some("everyone:r"), Some("user:bob:rw,group:g:x")];
            let acl: Option<Acl> = rng.choice(acls).unwrap().map(|text| text.parse().unwrap());
            let rows = self.names.find(&at).map(|id| self.names.set_acl(id, acl.clone())).unwrap_or_default();
            self.save(rows);
            return self.model.set_acl(&components, acl);
        }
        let (found, expected) = match rng.u32(..10) {
            0..3 => (
                self.names.make_folder(self.now, &at, flag, &owner),
                self.model.make_folder(&components, flag).map(|()| Vec::new()),
            ),
            3..6 => {
                let bytes = rng.u64(..100);
                // Sometimes the version of a write that was begun before others.
                let version = Version(self.names.next_version(self.now).0 - rng.u64(..3));
                let found = self.names.put_file(self.now, &at, flag, &owner, a_content(slice, version, bytes), 5);
                if found.is_ok() {
                    self.newest = self.newest.max(version);
                }
                (found, self.model.put(&components, flag, slice, bytes))
            }
            6..9 => (self.names.rename(&at, &other), self.model.rename(&components, &to)),
            _ => (self.names.remove(&at, flag), self.model.remove(&components, flag)),
        };
        match found {
            Ok(change) => {
                self.save(change.rows);
                let mut freed: BTreeSet<_> = change.freed.iter().copied().collect();
                freed.extend(self.purge_pending_removals(rng));
                assert_eq!(Ok(freed), expected.map(|freed| freed.into_iter().collect()));
            }
            Err(refusal) => assert_eq!(Err(refusal.status()), expected.map(drop), "{refusal}"),
        }
    }

    /// Removes cut-off entries in small steps. Nobody sees them before that, nor after a restart in between.
    fn purge_pending_removals(&mut self, rng: &mut Rng) -> Vec<SliceId> {
        let mut freed = Vec::new();
        while self.names.has_pending_removals() {
            if rng.u8(..) < 30 {
                self.compare(&self.names, rng);
                let mut reloaded = self.reloaded();
                assert!(reloaded.has_pending_removals());
                self.compare(&reloaded, rng);
                let rest = reloaded.purge_pending_removals(usize::MAX);
                assert!(
                    !reloaded.has_pending_removals()
                        && rest.freed.iter().all(|slice| self.names.is_pending_removal(*slice))
                );
            }
            let change = self.names.purge_pending_removals(rng.usize(1..4));
            assert!(change.freed.iter().all(|slice| self.names.file_of_slice(*slice).is_none()));
            freed.extend(change.freed);
            self.save(change.rows);
        }
        freed
    }

    fn compare(&self, names: &Namespace, rng: &mut Rng) {
        let mut listed = Vec::new();
        let mut after: Option<SectorPath> = None;
        loop {
            let (entries, more) = names.list(&SectorPath::root(), true, after.as_ref()).unwrap();
            // Pages of any length must join without a gap: take only a part of each and continue from there.
            let taken = rng.usize(1..=entries.len().max(1)).min(entries.len());
            let is_last = !more && taken == entries.len();
            listed.extend(entries.into_iter().take(taken));
            after = listed.last().map(|entry| entry.path.clone());
            if is_last {
                break;
            }
        }
        let found: Vec<_> = listed.iter().map(|entry| (split(&entry.path), what(&entry.kind))).collect();
        let expected: Vec<_> = self.model.paths.iter().map(|(path, what)| (path.clone(), *what)).collect();
        assert_eq!(found, expected);
        for entry in &listed {
            assert_eq!(names.find(&entry.path), Some(entry.id));
            assert_eq!(names.path(entry.id), Some(entry.path.clone()));
            let at = split(&entry.path);
            assert_eq!(names.own_acl(entry.id), self.model.acls.get(&at));
            assert_eq!(entry.has_acl, self.model.acls.contains_key(&at));
            assert_eq!(names.self_and_ancestors(entry.id).find_map(|above| above.acl), self.model.effective(&at));
            if let EntryKind::File(content) = &entry.kind {
                assert_eq!(names.file_of_slice(content.slice), Some(entry.id));
            }
        }
        // After any path, including one that no longer exists.
        let after = a_path(rng);
        let rest = names.list(&SectorPath::root(), true, Some(&after)).unwrap().0;
        let expected = self.model.paths.keys().filter(|path| **path > split(&after)).cloned();
        assert_eq!(rest.iter().map(|entry| split(&entry.path)).collect::<Vec<_>>(), expected.collect::<Vec<_>>());
        let at = a_path(rng);
        if let Some(id) = names.find(&at) {
            assert_eq!(names.usage(id), self.model.usage(&split(&at)));
            if names.is_folder(id) {
                let (shallow, _) = names.list(&at, false, None).unwrap();
                let depth = split(&at).len() + 1;
                let below = self.model.below(&split(&at)).into_iter().filter(|path| path.len() == depth);
                assert_eq!(
                    shallow.iter().map(|entry| split(&entry.path)).collect::<Vec<_>>(),
                    below.collect::<Vec<_>>()
                );
            }
        }
    }

    fn reloaded(&self) -> Namespace {
        let row = |((table, key), value): (&(&'static str, Vec<u8>), &Vec<u8>)| StoredRow {
            table,
            key: key.clone(),
            value: value.clone(),
        };
        let names = Namespace::load(self.now, self.rows.iter().map(row)).unwrap().0;
        assert!(names.last_version() >= self.newest, "versions shrink over a restart");
        names
    }
}

/// A path from few names, so that operations meet. Some names sort around `/`, where depth-first order is easily wrong.
fn a_path(rng: &mut Rng) -> SectorPath {
    let names = ["a", "b", "a b", "a!", "a0"];
    let text: String = (0..rng.usize(..5)).map(|_| format!("/{}", rng.choice(names).unwrap())).collect();
    SectorPath::parse(if text.is_empty() { "/" } else { &text }).unwrap()
}

fn split(path: &SectorPath) -> Vec<String> {
    path.components().map(str::to_owned).collect()
}

fn what(kind: &EntryKind) -> Option<(SliceId, u64)> {
    match kind {
        EntryKind::Folder => None,
        EntryKind::File(content) => Some((content.slice, content.bytes)),
    }
}

fn a_content(slice: SliceId, version: Version, bytes: u64) -> FileContent {
    FileContent {
        slice,
        version,
        bytes,
        digest: Digest([0; 32]),
        records: RecordFraming::Lines,
        copies: 3,
        user: BTreeMap::from([("k".into(), "v".into())]),
    }
}

/// Everything stored of every item, by id.
fn dump(names: &Namespace) -> Vec<String> {
    let all = names.items.slots().map(|slot| {
        let items = &names.items;
        let parent = items.parent(slot).and_then(|parent| items.id(parent));
        let (id, name, owner, content) = (items.id(slot), items.name(slot), items.owner(slot), items.content(slot));
        let below = items.folder(slot).map(|folder| folder.below);
        let acl = items.acl(slot);
        format!("{id:?} {parent:?} {name} {owner:?} {} {content:?} {below:?} {acl:?}", items.modified_unix_millis(slot))
    });
    let mut all: Vec<_> = all.collect();
    all.sort();
    all
}

// Promise 11.
#[test]
fn names_agree_with_an_obvious_model_also_after_loading_them_again() {
    for seed in 0..60 {
        let mut rng = Rng::with_seed(seed);
        let mut both = Both::new();
        // With every other seed, folders are cut off however few entries they have.
        both.names.remove_at_once_max = if seed % 2 == 0 { 1 } else { REMOVE_AT_ONCE_MAX };
        for step in 0..300 {
            both.step(&mut rng, SliceId(u128::from(seed) << 64 | step));
            if step % 10 == 0 {
                both.reloaded();
                both.compare(&both.names, &mut rng);
            }
        }
        let reloaded = both.reloaded();
        both.compare(&reloaded, &mut rng);
        assert_eq!(dump(&reloaded), dump(&both.names), "seed {seed}");
        assert_eq!(reloaded.birth(), both.names.birth());
    }
}

#[test]
fn a_file_keeps_its_identity_when_it_is_renamed_and_replaced() {
    let mut both = Both::new();
    let (owner, now) = (UserName::new("ann").unwrap(), both.now);
    let path = |text: &str| SectorPath::parse(text).unwrap();
    let content = |number| a_content(SliceId(number), Version(number as u64), 1);
    let first = both.names.put_file(now, &path("/f"), false, &owner, content(1), 5).unwrap();
    let id = first.entry.unwrap();
    both.names.rename(&path("/f"), &path("/g")).unwrap();
    let bob = UserName::new("bob").unwrap();
    let second = both.names.put_file(now, &path("/g"), false, &bob, content(2), 6).unwrap();
    assert_eq!((second.entry, second.freed), (Some(id), vec![SliceId(1)]));
    assert_eq!(both.names.owner(id), Some(&owner));
    assert_eq!(both.names.header_of_slice(SliceId(2), protocol::JournalId(7)).unwrap().path, path("/g"));
    assert_ne!(id, ROOT);
}
