//! What was removed and can be restored, path by path, the oldest first.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Instant,
};

use crate::ledger::{Content, LAST_MOMENT};

/// Something that was removed: one of these.
#[derive(Clone, Debug)]
pub(crate) struct Entry {
    pub(crate) contents: BTreeSet<Content>,
    /// Whether it must be there.
    is_sure: bool,
    removed: Instant,
    number: u64,
}

/// See the module.
#[derive(Default)]
pub(crate) struct Trash {
    entries: BTreeMap<String, Vec<Entry>>,
    count: u64,
    /// Entries up to this number may go at any moment: someone empties the trash.
    doomed: u64,
    is_being_emptied: bool,
    /// The master's clock was wrong: which of several entries is the newest by its date, nobody knows.
    dates_are_wrong: bool,
    /// What was removed since it was last to be emptied.
    bytes: usize,
}

impl Trash {
    /// A file was removed; what it held. `None` of these: nothing can be promised.
    pub(crate) fn add(&mut self, path: &str, contents: BTreeSet<Content>, is_sure: bool) {
        self.count += 1;
        self.bytes += contents.iter().map(|content| content.bytes).min().filter(|_| is_sure).unwrap_or(0);
        let is_sure = is_sure && !contents.is_empty() && !self.is_being_emptied;
        let entry = Entry { contents, is_sure, removed: Instant::now(), number: self.count };
        self.entries.entry(path.into()).or_default().push(entry);
    }

    /// What a restored path may hold: the newest of which it is sure that it is there, or any that is newer.
    pub(crate) fn candidates(&self, path: &str) -> (BTreeSet<Content>, bool) {
        let entries = self.entries.get(path).map_or(&[][..], Vec::as_slice);
        let newest = entries.iter().rposition(|entry| entry.is_sure);
        let from = newest.map(|at| if self.dates_are_wrong { 0 } else { at });
        let contents = entries[from.unwrap_or(0)..].iter().flat_map(|entry| entry.contents.iter().copied()).collect();
        (contents, from.is_some())
    }

    /// It was restored, or perhaps: one of those is gone. Where nobody knows which, all but one of the others are still
    /// there.
    pub(crate) fn take(&mut self, path: &str, is_certain: bool) {
        let (all, _) = self.candidates(path);
        let dates_are_wrong = self.dates_are_wrong;
        let Some(entries) = self.entries.get_mut(path) else { return };
        let Some(newest) = entries.iter().rposition(|entry| entry.is_sure) else { return };
        let from = if dates_are_wrong { 0 } else { newest };
        if from + 1 == entries.len() && is_certain {
            entries.pop();
            return;
        }
        entries[newest].is_sure = false;
        entries[from..].iter_mut().for_each(|entry| entry.contents.extend(&all));
    }

    /// The master's clock is moved.
    pub(crate) fn note_jump(&mut self) {
        self.dates_are_wrong = true;
    }

    /// Whether the newest of several entries is the one that was removed last.
    pub(crate) fn dates_are_wrong(&self) -> bool {
        self.dates_are_wrong
    }

    /// Someone begins to empty it.
    pub(crate) fn begin_to_empty(&mut self) {
        (self.doomed, self.is_being_emptied, self.bytes) = (self.count, true, 0);
        self.entries.values_mut().flatten().for_each(|entry| entry.is_sure = false);
    }

    /// It was emptied, or perhaps.
    pub(crate) fn end_to_empty(&mut self, is_certain: bool) {
        self.is_being_emptied = false;
        if is_certain {
            let doomed = self.doomed;
            self.entries.values_mut().for_each(|entries| entries.retain(|entry| entry.number > doomed));
        }
    }

    /// The journal was taken back: what was removed in the last moment may not be here, and what was taken out is here
    /// again.
    pub(crate) fn roll_back(&mut self) {
        for entry in self.entries.values_mut().flatten() {
            entry.is_sure &= entry.removed.elapsed() >= LAST_MOMENT;
        }
    }

    /// The bytes that were removed since it was last to be emptied, roughly.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Whether someone empties it.
    pub(crate) fn is_being_emptied(&self) -> bool {
        self.is_being_emptied
    }

    /// The entries that must be there, path by path.
    pub(crate) fn sure(&self) -> impl Iterator<Item = (&String, Vec<&Entry>)> {
        let sure =
            |entries: &Vec<Entry>| -> Vec<usize> { (0..entries.len()).filter(|at| entries[*at].is_sure).collect() };
        self.entries
            .iter()
            .map(move |(path, entries)| (path, sure(entries).into_iter().map(|at| &entries[at]).collect()))
    }
}
