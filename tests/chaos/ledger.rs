//! What each path may hold, from the commands that succeeded and from those whose outcome is unknown. One command at
//! a time works on a path, so the path holds what succeeded last. There are two exceptions: a command that was given
//! up may take effect late, and the journal may be rolled back. `docs/semantics.md` 17 says what a roll-back may
//! change; nothing else is tolerated here.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::{Duration, Instant},
};

use fastrand::Rng;

use crate::trash::Trash;

/// Bytes that were made from a seed of their own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Content {
    pub(crate) seed: u64,
    pub(crate) bytes: usize,
}

/// What a path may hold; `None` means no file.
#[derive(Clone, Debug)]
struct PathState {
    sure: BTreeSet<Option<Content>>,
    /// What may still appear, and when its command gave up.
    late: Vec<(Option<Content>, Instant)>,
    /// What was written without an answer. Nodes may have all of its bytes. A master that rebuilds the names from
    /// them cannot know that no client got an answer. It gives the bytes their name, and lists them
    /// (`docs/paths/rebuild.md`).
    unanswered: Vec<(Content, Instant)>,
    /// Everything that it may ever have held.
    past: BTreeSet<Content>,
    /// After a roll-back, what was removed for good may be back as a name without bytes.
    ghost: bool,
}

/// A change that was answered so recently that a roll-back of the journal may undo it.
struct Recent {
    at: Instant,
    path: String,
    before: BTreeSet<Option<Content>>,
}

/// See the module.
#[derive(Default)]
pub(crate) struct Ledger {
    lines: BTreeMap<String, PathState>,
    busy: BTreeSet<String>,
    recent: Vec<Recent>,
    /// What was removed and can be restored.
    pub(crate) trash: Trash,
    /// Counts the starts and the ends of roll-backs.
    epoch: u64,
    unsettled: bool,
    /// Commands that succeeded and whose effect the ledger demands.
    pub(crate) answered: u64,
    /// Promises that were broken.
    pub(crate) wrong: Vec<String>,
}

impl Content {
    /// The bytes.
    pub(crate) fn make(self) -> Vec<u8> {
        let mut bytes = vec![0; self.bytes];
        Rng::with_seed(self.seed).fill(&mut bytes);
        bytes
    }

    /// Whether these are its bytes.
    pub(crate) fn is(self, bytes: &[u8]) -> bool {
        self.bytes == bytes.len() && self.make() == bytes
    }
}

impl Ledger {
    /// All paths there ever were.
    pub(crate) fn paths(&self) -> Vec<String> {
        self.lines.keys().cloned().collect()
    }

    /// Claims a path for a command.
    pub(crate) fn claim(&mut self, path: &str) -> bool {
        self.busy.insert(path.into())
    }

    /// The command on a path has ended.
    pub(crate) fn release(&mut self, path: &str) {
        self.busy.remove(path);
    }

    /// The paths on which no command works.
    pub(crate) fn idle_paths(&self) -> Vec<String> {
        self.lines.keys().filter(|path| !self.busy.contains(*path)).cloned().collect()
    }

    /// The epoch for a command that begins now; `None` while the names are being rebuilt.
    pub(crate) fn epoch(&self) -> Option<u64> {
        (!self.unsettled).then_some(self.epoch)
    }

    /// Whether a command that began in that epoch has seen a single journal.
    pub(crate) fn is_clean(&self, begun: Option<u64>) -> bool {
        begun.is_some() && begun == self.epoch()
    }

    /// What a path may hold.
    pub(crate) fn allowed(&self, path: &str) -> BTreeSet<Option<Content>> {
        match self.lines.get(path) {
            Some(line) => line.sure.iter().copied().chain(line.late.iter().map(|(content, _)| *content)).collect(),
            None => [None].into(),
        }
    }

    /// The files that a path may hold.
    pub(crate) fn files(&self, path: &str) -> BTreeSet<Content> {
        self.allowed(path).into_iter().flatten().collect()
    }

    /// All files that a path may ever have held.
    pub(crate) fn past(&self, path: &str) -> BTreeSet<Content> {
        self.lines.get(path).map(|line| line.past.clone()).unwrap_or_default()
    }

    /// A file was written, and survives whatever happens to the journal.
    pub(crate) fn put(&mut self, path: &str, content: Content) {
        self.set(path, [Some(content)].into());
        self.recent.retain(|recent| recent.path != path);
        let line = self.line(path);
        line.ghost = false;
        // A later write has the newer version.
        line.unanswered.retain(|(_, gave_up)| gave_up.elapsed() < LATE_MAX);
    }

    /// A file may have been written.
    pub(crate) fn put_unanswered(&mut self, path: &str, content: Content) {
        self.allow_also(path, [Some(content)].into());
        self.line(path).unanswered.push((content, Instant::now()));
    }

    /// A command succeeded that changed only names. The path has one of these contents, and a roll-back in the next
    /// moment may undo it.
    pub(crate) fn set_allowed(&mut self, path: &str, contents: BTreeSet<Option<Content>>) {
        self.recent.retain(|recent| recent.at.elapsed() < LAST_MOMENT);
        self.recent.push(Recent { at: Instant::now(), path: path.into(), before: self.allowed(path) });
        self.set(path, contents);
    }

    /// The outcome of a command is unknown: the path may have one of these contents too, now or a little later.
    pub(crate) fn allow_also(&mut self, path: &str, contents: BTreeSet<Option<Content>>) {
        let now = Instant::now();
        let line = self.line(path);
        line.past.extend(contents.iter().flatten());
        line.late.extend(contents.into_iter().map(|content| (content, now)));
    }

    /// A name without bytes may be here: there may have been one where it was renamed or restored from.
    pub(crate) fn allow_ghost(&mut self, path: &str) {
        self.line(path).ghost = true;
    }

    /// Whether a name without bytes may be here.
    pub(crate) fn may_have_ghost(&self, path: &str) -> bool {
        self.lines.get(path).is_some_and(|line| line.ghost)
    }

    /// The path certainly has no name without bytes any more.
    pub(crate) fn clear_ghost(&mut self, path: &str) {
        self.line(path).ghost = false;
    }

    /// The master was stopped, and starts with an older journal.
    pub(crate) fn roll_back(&mut self) {
        self.epoch += 1;
        self.unsettled = true;
        let recent = std::mem::take(&mut self.recent);
        for Recent { path, before, .. } in recent.into_iter().filter(|recent| recent.at.elapsed() < LAST_MOMENT) {
            self.line(&path).sure.extend(before);
        }
        for line in self.lines.values_mut() {
            line.ghost |= line.may_be_empty();
        }
        self.trash.roll_back();
    }

    /// Whether there ever was a roll-back.
    pub(crate) fn was_rolled_back(&self) -> bool {
        self.epoch > 0
    }

    /// The names are complete again.
    pub(crate) fn end_roll_back(&mut self) {
        let now = Instant::now();
        for line in self.lines.values_mut() {
            line.late.extend(line.unanswered.iter().map(|(content, _)| (Some(*content), now)));
        }
        self.epoch += 1;
        self.unsettled = false;
    }

    /// Someone has read a path.
    pub(crate) fn check(&mut self, path: &str, read: Option<&[u8]>) {
        let allowed = self.allowed(path);
        let fits = allowed.iter().any(|content| match (content, read) {
            (None, None) => true,
            (Some(content), Some(read)) => content.is(read),
            _ => false,
        });
        if !fits {
            let was = |read: &[u8]| self.past(path).into_iter().find(|content| content.is(read));
            let read = read.map_or_else(
                || "no file".into(),
                |read| format!("{} bytes of something else (it once held: {:?})", read.len(), was(read)),
            );
            self.wrong.push(format!("{path} may hold {allowed:?} and holds {read}"));
        }
    }

    fn set(&mut self, path: &str, contents: BTreeSet<Option<Content>>) {
        self.answered += 1;
        let line = self.line(path);
        line.past.extend(contents.iter().flatten());
        line.sure = contents;
        // What was given up long ago can no longer take effect: its lease has ended.
        line.late.retain(|(_, gave_up)| gave_up.elapsed() < LATE_MAX);
    }

    fn line(&mut self, path: &str) -> &mut PathState {
        let empty = || PathState {
            sure: [None].into(),
            late: Vec::new(),
            unanswered: Vec::new(),
            past: BTreeSet::new(),
            ghost: false,
        };
        self.lines.entry(path.into()).or_insert_with(empty)
    }
}

impl PathState {
    fn may_be_empty(&self) -> bool {
        self.sure.contains(&None) || self.late.iter().any(|(content, _)| content.is_none())
    }
}

/// An abandoned commit may take effect until its lease ends (60 s), at a master that is itself late.
const LATE_MAX: Duration = Duration::from_secs(150);
/// What was answered this shortly before the roll-back may be undone: it had not reached any node.
pub(crate) const LAST_MOMENT: Duration = Duration::from_secs(2);
