//! Removed entries that can be restored: those that users of the estate removed into the trash. An entry that was
//! removed for good is never among them.

use std::time::Duration;

use protocol::{SectorPath, UserName};

use super::ContentId;

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct TrashModel {
    /// Whether removed entries are kept for days, unless nodes are nearly full.
    pub(crate) lasts: bool,
    /// Whether replaced contents are kept too. After the loss of a journal they may be found as if they had been removed.
    pub(crate) keeps_replaced: bool,
    /// Whether anything is kept at all.
    pub(crate) is_there: bool,
    items: Vec<TrashedFile>,
    /// All entries that ever were in it, or may have been.
    ever: Vec<TrashedFile>,
    /// How many nodes may have no room now: removed entries may go sooner.
    scarce: u32,
    /// Whether that was ever so.
    was_scarce: bool,
    /// How far the wall clock was ahead, and behind: by its time, days have passed.
    clock_millis: (i64, i64),
    /// Entries that must not come back to their paths after the journal was lost.
    purged: Vec<(SectorPath, ContentId)>,
}

/// Something that was removed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct TrashedFile {
    pub(crate) user: UserName,
    pub(crate) from: SectorPath,
    pub(crate) content: ContentId,
    /// When the removal was answered.
    at: Duration,
    /// Whether it must be there.
    is_certain: bool,
}

impl TrashedFile {
    /// Whether it is the same file, whenever it was removed.
    fn is(&self, user: &UserName, from: &SectorPath, content: ContentId) -> bool {
        (&self.user, &self.from, self.content) == (user, from, content)
    }
}

impl TrashModel {
    /// Something is about to be removed.
    pub(crate) fn begin(&mut self, now: Duration, user: &UserName, from: &SectorPath, content: ContentId) {
        self.ever.push(TrashedFile { user: user.clone(), from: from.clone(), content, at: now, is_certain: false });
    }

    /// It certainly was removed; or nobody knows.
    pub(crate) fn end(&mut self, now: Duration, user: &UserName, from: &SectorPath, content: ContentId, is_sure: bool) {
        let is_certain = is_sure && self.lasts && self.scarce == 0 && !self.is_long();
        let removed = TrashedFile { user: user.clone(), from: from.clone(), content, at: now, is_certain };
        if self.is_there {
            self.items.push(removed);
        }
    }

    /// The newest file that a user removed from each path, if nothing else was removed there: what a restore finds, if
    /// anything.
    pub(crate) fn newest(&self, user: &UserName) -> Vec<TrashedFile> {
        let own = self.items.iter().filter(|item| item.user == *user);
        let is_only = |item: &&TrashedFile| self.items.iter().filter(|other| other.from == item.from).count() == 1;
        own.filter(is_only).cloned().collect()
    }

    /// It was restored; or perhaps.
    pub(crate) fn restored(&mut self, item: &TrashedFile, is_sure: bool) {
        let there = self.items.iter_mut().find(|other| other.is(&item.user, &item.from, item.content));
        if let Some(there) = there {
            there.is_certain = false;
        }
        if is_sure {
            self.items.retain(|other| !other.is(&item.user, &item.from, item.content));
        }
    }

    /// Entries that must be there.
    pub(crate) fn certain(&self) -> impl Iterator<Item = &TrashedFile> {
        self.items.iter().filter(|item| item.is_certain)
    }

    /// Whether this entry must be there.
    pub(crate) fn must_have(&self, item: &TrashedFile) -> bool {
        self.certain().any(|other| other.is(&item.user, &item.from, item.content))
    }

    /// Whether an entry may be there.
    pub(crate) fn could_have(&self, user: &UserName, from: &SectorPath, content: ContentId) -> bool {
        self.ever.iter().any(|item| item.is(user, from, content))
    }

    /// Whether anybody ever removed this from there.
    pub(super) fn had(&self, from: &SectorPath, content: ContentId) -> bool {
        self.ever.iter().any(|item| (&item.from, item.content) == (from, content))
    }

    /// A node has no room from now on, or has it again.
    pub(crate) fn set_scarce(&mut self, is_scarce: bool) {
        if is_scarce {
            (self.scarce, self.was_scarce) = (self.scarce + 1, true);
            self.items.iter_mut().for_each(|item| item.is_certain = false);
        } else {
            self.scarce = self.scarce.saturating_sub(1);
        }
    }

    /// The master's wall clock is this many milliseconds ahead.
    pub(crate) fn note_clock(&mut self, ahead_millis: i64) {
        let (least, most) = self.clock_millis;
        self.clock_millis = (least.min(ahead_millis), most.max(ahead_millis));
        if self.is_long() {
            self.items.iter_mut().for_each(|item| item.is_certain = false);
        }
    }

    /// Removed entries that must not come back to their paths.
    pub(crate) fn purged(&self) -> &[(SectorPath, ContentId)] {
        &self.purged
    }

    /// The journal was lost: removals and restores after `kept_until` may be unknown.
    pub(super) fn lose(&mut self, kept_until: Duration, is_there: impl Fn(&SectorPath) -> bool) {
        for item in self.items.iter_mut().filter(|item| item.at > kept_until) {
            item.is_certain = false;
        }
        let certain = self.items.iter().filter(|item| item.is_certain && !is_there(&item.from));
        self.purged = certain.map(|item| (item.from.clone(), item.content)).collect();
    }

    /// These were found, and count from now on.
    pub(crate) fn reset(&mut self, now: Duration, found: Vec<(UserName, SectorPath, ContentId)>) {
        self.purged.clear();
        self.items.clear();
        for (user, from, content) in found {
            self.end(now, &user, &from, content, true);
        }
    }

    /// Whether what is in it stays until the end of the run: also after a clock that went far ahead was believed.
    pub(crate) fn keeps_all(&self) -> bool {
        self.lasts && !self.is_long()
    }

    /// Whether what was replaced is kept until the end of the run.
    pub(crate) fn must_keep_replaced(&self) -> bool {
        self.keeps_replaced && !self.was_scarce && self.clock_span_millis() < VERSIONS_MILLIS
    }

    fn is_long(&self) -> bool {
        self.clock_span_millis() > LONG_MILLIS
    }

    fn clock_span_millis(&self) -> i64 {
        self.clock_millis.1 - self.clock_millis.0
    }
}

/// Less than the time for which replaced content is kept.
const VERSIONS_MILLIS: i64 = 86_400_000 / 2;
/// Less than the time for which entries are kept.
const LONG_MILLIS: i64 = 6 * 86_400_000;
