//! The truth beside the cloud: a slow and obvious model of the clients' answers, kept by the simulation alone. The
//! invariants compare the cloud with it; the cloud never sees it.

mod accounts;
mod attributes;
mod backup;
mod content;
mod recovered;
mod region;
mod register;
mod setting;
mod trash;
mod tree;
mod version;

pub(crate) use accounts::{Accounts, administrator, user};
pub(crate) use attributes::{Attributes, FolderAttributes, Found, Most};
pub(crate) use backup::Backup;
pub(crate) use content::{ContentId, Contents, digest_of};
pub(crate) use recovered::{Held, Recovered, Remains};
pub(crate) use region::{Outcome, Region};
pub(crate) use register::Register;
pub(crate) use setting::{Begun, Setting};
pub(crate) use trash::{TrashModel, TrashedFile};
pub(crate) use tree::{Change, Item, Tree, path};
pub(crate) use version::Versions;

/// All that is known to be true.
#[derive(Debug, Default)]
pub(crate) struct Model {
    pub(crate) contents: Contents,
    /// One folder for each client who changes names: nobody else changes anything in it.
    pub(crate) regions: Vec<Region>,
    /// Owners of folders, rights, and removed entries.
    pub(crate) attributes: Attributes,
    /// Files that all clients overwrite.
    pub(crate) registers: Vec<Register>,
    /// Every write that anybody ever began, including abandoned ones.
    pub(crate) attempted: Vec<(protocol::SectorPath, ContentId)>,
    /// When a write was last answered with success, by path and content.
    pub(crate) acknowledged: std::collections::BTreeMap<(protocol::SectorPath, ContentId), std::time::Duration>,
    /// Files that jobs have published.
    pub(crate) outputs: Vec<(protocol::SectorPath, ContentId)>,
    /// Once the master has lost its journal: what may be found again. Regions and registers no longer count.
    pub(crate) recovered: Option<Recovered>,
    /// Remains of earlier losses of a journal: apart from these, the names present then count again.
    pub(crate) remains: Remains,
    /// How often the master lost its journal, or was given an older one.
    pub(crate) losses: u32,
    /// Whether the last one it was given was an older one.
    pub(crate) has_old_journal: bool,
    /// Whether it was ever given one.
    pub(crate) had_old_journal: bool,
    /// When nodes were last sent a state of the small rows.
    pub(crate) keeps: std::collections::BTreeMap<(u64, u64, u64), std::time::Duration>,
    /// The node that the operator is busy with: it may not be sent small rows.
    pub(crate) operated_node: Option<usize>,
    /// Versions that clients were told.
    pub(crate) versions: Versions,
    /// People who are not at rest: their changes are visible before they are answered.
    pub(crate) people_at_work: usize,
    /// The node that was drained for good: it must become empty.
    pub(crate) leaving: Option<usize>,
    /// Appends that were answered with success.
    pub(crate) appended: u32,
    /// Uploads that continued after the part an earlier attempt had left at a node.
    pub(crate) resumed: u32,
    /// Where each part of a job's output that is being written may be later.
    pub(crate) publishing: std::collections::BTreeMap<protocol::SectorPath, Vec<protocol::SectorPath>>,
    /// Jobs of which a driver has said that it cannot read the journal.
    pub(crate) unread: std::collections::BTreeSet<protocol::JobId>,
    /// Jobs that ended well.
    pub(crate) jobs_done: u32,
    /// Drivers that took over from one that had begun.
    pub(crate) taken_over: u32,
    /// Deliveries of kept results that ended well.
    pub(crate) delivered_again: u32,
}

impl Model {
    /// Whether the master ever lost its journal, or was given an older one.
    pub(crate) fn has_lost_journal(&self) -> bool {
        self.losses > 0
    }

    /// Whether a file's content had been removed or replaced, and was found again: perhaps no copy of it is good.
    pub(crate) fn is_doubtful(&self, content: Option<ContentId>) -> bool {
        let Some(content) = content else { return self.has_lost_journal() };
        // All empty files have one content: one of them may be a name that an older journal brought back.
        (self.had_old_journal && self.contents.get(content).bytes.is_empty())
            || self.remains.is_doubtful(content)
            || self.recovered.as_ref().is_some_and(|recovered| !recovered.owed().contains(&content))
    }

    /// Whether a slice without a name may stay on a disk.
    pub(crate) fn may_be_kept(&self, header: &protocol::SliceHeader) -> bool {
        self.remains.may_be_kept(header)
            || self.recovered.as_ref().is_some_and(|recovered| recovered.may_be_kept(header))
    }

    /// A node died during a rebuild, and with it perhaps removals that were not synced.
    pub(crate) fn may_bring_back(&mut self, removed: &[protocol::Digest]) {
        let Some(recovered) = &mut self.recovered else { return };
        let contents: Vec<_> = removed.iter().filter_map(|digest| self.contents.find(*digest)).collect();
        for region in &self.regions {
            for (at, content) in region.ever_seen().filter(|(_, content)| contents.contains(content)) {
                region.renamed(at).into_iter().for_each(|at| recovered.may_be(at, content));
            }
        }
    }

    /// Where a file of this path would be if it had been in its folders when they were renamed.
    pub(crate) fn renamed(&self, at: &protocol::SectorPath) -> Vec<protocol::SectorPath> {
        let region = self.regions.iter().find(|region| at.is_within(&region.root));
        region.map_or_else(|| vec![at.clone()], |region| region.renamed(at))
    }

    /// The journal was lost, and with it the owners, rights, quotas and trash entries that no node keeps.
    pub(crate) fn lose_attributes(
        &mut self,
        now: std::time::Duration,
        kept_until: std::time::Duration,
        put_back: Option<std::time::Duration>,
    ) {
        let regions = &self.regions;
        // An entry that was removed, and has been put there again.
        let was_there = |at: &protocol::SectorPath| {
            let mut seen = regions.iter().flat_map(|region| region.seen_since(kept_until));
            seen.any(|tree| tree.0.contains_key(at))
        };
        self.attributes.lose(now, kept_until, put_back, was_there);
    }

    /// An entry restored after `kept_until` may be in the trash again, according to the copies of the small rows. And
    /// if a trash is emptied soon, a copy at a node that was away may be gone for good.
    pub(crate) fn release_restored(&mut self, kept_until: std::time::Duration) {
        let (Some(recovered), estate) = (&mut self.recovered, &self.attributes) else { return };
        let (regions, lasts) = (&self.regions, estate.trash.keeps_all());
        recovered.release(lasts, |at, content| {
            let region = regions.iter().find(|region| at.is_within(&region.root));
            let was_there = |region: &Region| region.seen_since(kept_until).all(|tree| tree.file(at) == Some(content));
            estate.trash.had(at, content) && (!lasts || !region.is_some_and(was_there))
        });
    }

    /// The master's wall clock is this many milliseconds ahead. By such a time days may have passed, and with them the
    /// time of entries that are in the trash again.
    pub(crate) fn note_clock(&mut self, ahead_millis: i64) {
        let trash = &mut self.attributes.trash;
        trash.note_clock(ahead_millis);
        if let Some(recovered) = self.recovered.as_mut().filter(|_| !trash.keeps_all()) {
            recovered.release(false, |at, content| trash.had(at, content));
        }
    }

    /// The outcome of a restore from the trash. If the master has lost its journal since, the entry may be in the trash
    /// again, which may soon be emptied.
    pub(crate) fn outcome_of_restore(&self, change: &Change, outcome: Outcome) -> Outcome {
        let is_of_lost = self.recovered.as_ref().is_some_and(|recovered| !recovered.has_begun(change));
        match outcome {
            Outcome::Done if is_of_lost && !self.attributes.trash.keeps_all() => Outcome::Unknown,
            outcome => outcome,
        }
    }

    /// Whether a content was written to a path after another. A content that is made again, as of empty files, keeps
    /// its number.
    pub(crate) fn was_begun_after(&self, at: &protocol::SectorPath, later: ContentId, earlier: ContentId) -> bool {
        let last = |content| self.attempted.iter().rposition(|(path, one)| path == at && *one == content);
        let turns = last(later).zip(last(earlier));
        turns.map_or(later > earlier, |(later, earlier)| later > earlier)
    }

    /// A write was answered with success.
    pub(crate) fn acknowledge(&mut self, now: std::time::Duration, path: &protocol::SectorPath, content: ContentId) {
        self.acknowledged.insert((path.clone(), content), now);
    }

    /// All is well again after a journal was lost: the present files with their contents, and the present folders,
    /// count from now on.
    pub(crate) fn reset(&mut self, now: std::time::Duration, entries: &[(protocol::SectorPath, Item)]) {
        let Some(recovered) = self.recovered.take() else { return };
        self.attributes.reset(now);
        let file = |path: &protocol::SectorPath| match entries.iter().find(|(at, _)| at == path) {
            Some((_, Item::File(content))) => Some(*content),
            _ => None,
        };
        for region in &mut self.regions {
            let below = entries.iter().filter(|(path, _)| path.is_within(&region.root)).cloned();
            region.reset(now, Tree(below.collect()));
        }
        for register in &mut self.registers {
            let content = file(&register.path);
            register.reset(now, content);
        }
        self.outputs.retain(|(path, content)| file(path) == Some(*content));
        let files = entries.iter().filter_map(|(path, item)| match item {
            Item::File(content) => Some((path.clone(), *content)),
            Item::Folder => None,
        });
        let files: Vec<_> = files.collect();
        self.remains.add(&recovered, files.iter().map(|(_, content)| *content));
        self.attempted.extend(files);
    }
}
