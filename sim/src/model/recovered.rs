//! The possible names once the master has lost its journal, computed from the truth and all disks at that moment. This
//! is the rule of `docs/semantics.md` in other words. A file at its path comes back. A removed file may come back only
//! if its bytes still exist. A staged file, perhaps never published, may come too.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use protocol::{JournalId, SectorPath, SliceHeader, SliceId, Version, message::node_master::HeldState};

use super::{Backup, Change, ContentId, Item, Model, Outcome, Region, Tree};

/// See the module.
#[derive(Debug)]
pub(crate) struct Recovered {
    /// Versions from here on were given by the new master, once it was started.
    birth: Option<Version>,
    /// The journals under which slices on the disks were written.
    journals: BTreeSet<JournalId>,
    /// Files that must exist, with their contents.
    firm: BTreeMap<SectorPath, ContentId>,
    /// Contents that may be seen, by path.
    seen: BTreeMap<SectorPath, BTreeSet<ContentId>>,
    /// Contents that must be somewhere: under a name, or on a disk.
    owed: BTreeSet<ContentId>,
    /// Files being written to the new master.
    begun: BTreeSet<(SectorPath, ContentId)>,
    /// Folders that must exist.
    folders: BTreeSet<SectorPath>,
    /// Whether an older journal was restored: answers of its last moment may be unknown to everyone.
    is_rolled_back: bool,
}

/// Remains of earlier losses once all is well.
#[derive(Debug, Default)]
pub(crate) struct Remains {
    /// Smaller versions were given by a master that lost its journal.
    birth: Version,
    journals: BTreeSet<JournalId>,
    /// Contents of files that were found again after they had been removed or replaced.
    doubtful: BTreeSet<ContentId>,
}

impl Remains {
    pub(crate) fn is_doubtful(&self, content: ContentId) -> bool {
        self.doubtful.contains(&content)
    }

    pub(crate) fn may_be_kept(&self, header: &SliceHeader) -> bool {
        header.version < self.birth || self.journals.contains(&header.journal)
    }

    /// Takes over the remains of one loss.
    pub(crate) fn add(&mut self, recovered: &Recovered, files: impl Iterator<Item = ContentId>) {
        self.birth = self.birth.max(recovered.birth.unwrap_or_default());
        self.journals.extend(&recovered.journals);
        self.doubtful.extend(files.filter(|content| !recovered.owed.contains(content)));
    }
}

/// A slice as it lies on a disk when the journal is lost.
#[derive(Clone, Debug)]
pub(crate) struct Held {
    pub(crate) slice: SliceId,
    pub(crate) path: SectorPath,
    pub(crate) content: ContentId,
    pub(crate) state: HeldState,
    pub(crate) version: Version,
    /// Whether the node will find it again unchanged: its process is dead, and no bit of it was flipped.
    pub(crate) is_certain: bool,
    /// Since when the node is dead, if it was never asked to remove the slice.
    pub(crate) dead_since: Option<Duration>,
    /// The journal under which it was written.
    pub(crate) journal: JournalId,
}

impl Recovered {
    /// What may be found again, from the known truth and the present disks. Small rows that were acknowledged before
    /// `kept_until` are kept by a node.
    pub(crate) fn new(book: &Model, now: Duration, kept_until: Duration, held: &[Held]) -> Self {
        let mut truth: Vec<(SectorPath, ContentId)> = Vec::new();
        let mut seen: BTreeMap<SectorPath, BTreeSet<ContentId>> = BTreeMap::new();
        let gone = MissedDeletions::find(book, kept_until, held);
        let on_disks: BTreeSet<_> = held.iter().map(|held| held.content).collect();
        let mut note = |path: &SectorPath, content| _ = seen.entry(path.clone()).or_default().insert(content);
        for region in &book.regions {
            let visible = region.visible();
            for (path, content) in visible.iter().flat_map(|tree| tree.files()) {
                note(path, content);
                if visible.iter().all(|tree| tree.file(path) == Some(content)) {
                    truth.push((path.clone(), content));
                }
            }
            region
                .ever_seen()
                .filter(|(path, content)| on_disks.contains(content) && !gone.contains(path, *content))
                .flat_map(|(path, content)| region.renamed(path).into_iter().map(move |path| (path, content)))
                .for_each(|(path, content)| note(&path, content));
        }
        for register in &book.registers {
            register.ever_seen().for_each(|content| note(&register.path, content));
            if let ([only], false) = (&register.possible(now)[..], register.could_be(None, now, now)) {
                let only = *only;
                truth.push((register.path.clone(), only));
            }
        }
        book.outputs.iter().for_each(|(path, content)| note(path, *content));
        // A file that was never committed looks, staged on a disk, like a committed one
        // (`docs/decisions/0012-lost-journal.md`). Its folder may have another name by now.
        for (at, content) in book.attempted.iter().filter(|(path, content)| !gone.contains(path, *content)) {
            book.renamed(at).iter().for_each(|at| note(at, *content));
        }
        truth.extend(book.outputs.iter().cloned());
        // A name that an older journal brought back may have no bytes.
        truth.retain(|(_, content)| !book.remains.is_doubtful(*content));
        let owed = truth.iter().map(|(_, content)| *content).collect();
        let firm = firm(truth, held);
        let folders = book.regions.iter().flat_map(|region| firm_folders(region, kept_until, held)).collect();
        let journals = held.iter().map(|held| held.journal).collect();
        Self { birth: None, journals, firm, seen, owed, begun: BTreeSet::new(), folders, is_rolled_back: false }
    }

    /// An older journal was restored: its names may be seen too. Changes of the last moment may be unknown to every
    /// node (`docs/decisions/0032-older-journal.md`).
    pub(crate) fn rolled_back(mut self, book: &Model, kept_until: Duration, held: &[Held], backup: &Backup) -> Self {
        for (at, content) in backup.names() {
            book.renamed(at).into_iter().for_each(|at| self.may_be(at, *content));
        }
        let acknowledged = book.acknowledged.iter().filter(|(_, at)| **at <= kept_until);
        let acknowledged: BTreeSet<_> = acknowledged.map(|((_, content), _)| *content).collect();
        let is_placed = |held: &&Held| held.is_certain && held.state == HeldState::Placed;
        let placed: BTreeSet<_> = held.iter().filter(is_placed).map(|held| held.content).collect();
        self.owed.retain(|content| acknowledged.contains(content) || placed.contains(content));
        self.firm.retain(|path, content| {
            let region = book.regions.iter().find(|region| path.is_within(&region.root));
            let was_there =
                |region: &Region| region.seen_since(kept_until).all(|tree| tree.file(path) == Some(*content));
            acknowledged.contains(content) && region.is_none_or(was_there) && !backup.is_in_the_way(path)
        });
        self.folders.retain(|folder| !backup.has_file_above(folder));
        self.is_rolled_back = true;
        self
    }

    /// What may be seen, with its content.
    pub(super) fn names(&self) -> impl Iterator<Item = (&SectorPath, ContentId)> {
        self.seen.iter().flat_map(|(path, contents)| contents.iter().map(move |content| (path, *content)))
    }

    /// The journal is lost again, before all was well; `held` is what is on the disks now.
    pub(crate) fn lose_again(mut self, held: &[Held]) -> Self {
        self.birth = None;
        self.begun.clear();
        self.journals.extend(held.iter().map(|held| held.journal));
        self.firm = firm(self.firm.into_iter().collect(), held);
        self.folders.retain(|folder| !is_blocked(folder, held));
        self
    }

    /// In addition, a restored older journal was still without some nodes. Rows that it gave a node that was away count
    /// (`docs/decisions/0032-older-journal.md`). So removed files may be at their paths again.
    pub(crate) fn confused(mut self, book: &Model, held: &[Held]) -> Self {
        let on_disks: BTreeSet<_> = held.iter().map(|held| held.content).collect();
        for region in &book.regions {
            for (path, content) in region.ever_seen().filter(|(_, content)| on_disks.contains(content)) {
                region.renamed(path).into_iter().for_each(|path| self.may_be(path, content));
            }
        }
        self
    }

    /// The new master was started, for the first time or again.
    pub(crate) fn started(&mut self, now: Version) {
        self.birth.get_or_insert(now);
    }

    /// A file is about to be written to the new master.
    pub(crate) fn begin(&mut self, change: &Change) {
        if let Change::Put { path, content, .. } = change {
            self.begun.insert((path.clone(), *content));
            self.seen.entry(path.clone()).or_default().insert(*content);
        }
    }

    /// Whether a file is being written to the new master.
    pub(crate) fn has_begun(&self, change: &Change) -> bool {
        let Change::Put { path, content, .. } = change else { return false };
        self.begun.contains(&(path.clone(), *content))
    }

    /// A change has ended; one requested from the old master may have been lost with it.
    pub(crate) fn end(&mut self, change: &Change, outcome: Outcome) {
        let Change::Put { path, content, .. } = change else { return };
        let was_begun = self.begun.remove(&(path.clone(), *content));
        match outcome {
            Outcome::Done => {
                // A file that was only staged when its commit was lost looks like a broken upload.
                if was_begun || !self.is_rolled_back {
                    self.owed.insert(*content);
                }
                if was_begun {
                    self.firm.insert(path.clone(), *content);
                }
            }
            Outcome::Unknown => _ = self.firm.remove(path),
            Outcome::NotDone | Outcome::Refused(_) => {}
        }
    }

    /// A job that the new master admitted has published a file. Or it was a job of the old master's, and nobody knows
    /// whether that was still saved.
    pub(crate) fn note_output(&mut self, path: &SectorPath, content: ContentId, is_of_new_master: bool) {
        self.seen.entry(path.clone()).or_default().insert(content);
        if is_of_new_master {
            self.firm.insert(path.clone(), content);
            self.owed.insert(content);
        }
    }

    /// A path may have this content from now on.
    pub(crate) fn may_be(&mut self, path: SectorPath, content: ContentId) {
        self.seen.entry(path).or_default().insert(content);
    }

    /// Whether a path may have this content (`None`: no file).
    pub(crate) fn could_be(&self, path: &SectorPath, content: Option<ContentId>) -> bool {
        content.is_none_or(|content| self.seen.get(path).is_some_and(|seen| seen.contains(&content)))
    }

    /// Whether there must be a file at a path.
    pub(crate) fn must_be_there(&self, path: &SectorPath) -> bool {
        self.firm.contains_key(path)
    }

    /// The folders that must be there.
    pub(crate) fn folders(&self) -> &BTreeSet<SectorPath> {
        &self.folders
    }

    /// A disk with some copies is lost, or a bit of one flipped: facts that only these made certain are no longer
    /// certain.
    pub(crate) fn doubt(&mut self, contents: &BTreeSet<ContentId>) {
        self.firm.retain(|_, content| !contents.contains(content));
    }

    /// These files may be where nobody looks for them, or, if that place does not last, nowhere.
    pub(crate) fn release(&mut self, lasts: bool, which: impl Fn(&SectorPath, ContentId) -> bool) {
        self.firm.retain(|path, content| !which(path, *content));
        let gone = self.seen.iter().flat_map(|(path, seen)| seen.iter().filter(|content| which(path, **content)));
        let gone: BTreeSet<_> = gone.copied().collect();
        self.owed.retain(|content| lasts || !gone.contains(content));
    }

    /// The files that must be there.
    pub(crate) fn firm(&self) -> &BTreeMap<SectorPath, ContentId> {
        &self.firm
    }

    /// Contents that must be somewhere.
    pub(crate) fn owed(&self) -> &BTreeSet<ContentId> {
        &self.owed
    }

    /// Whether a slice without a name may stay on a disk: nobody knows whether it was published.
    pub(crate) fn may_be_kept(&self, header: &SliceHeader) -> bool {
        self.birth.is_none_or(|birth| header.version < birth) || self.journals.contains(&header.journal)
    }
}

/// Files removed or replaced while a node that still has them was away. The small rows at some node say so, and the
/// files must not come back.
struct MissedDeletions<'a>(BTreeSet<(&'a SectorPath, ContentId)>);

impl<'a> MissedDeletions<'a> {
    fn find(book: &'a Model, kept_until: Duration, held: &[Held]) -> Self {
        let mut gone = BTreeSet::new();
        let mut away: BTreeMap<Duration, BTreeSet<ContentId>> = BTreeMap::new();
        for held in held.iter().filter(|held| held.is_certain) {
            if let Some(since) = held.dead_since {
                away.entry(since + NOTICED_AFTER).or_default().insert(held.content);
            }
        }
        for region in &book.regions {
            let alive: BTreeSet<_> =
                region.seen_since(kept_until).flat_map(Tree::files).map(|(_, content)| content).collect();
            for (since, contents) in &away {
                // It was certainly a file when the node was known to be away. A file whose commit was never answered
                // may not have been one. On the disks it looks like one that is about to be committed.
                let then: BTreeSet<_> = region.certain_at(*since).into_iter().map(|(_, content)| content).collect();
                let is_gone =
                    |content| contents.contains(&content) && then.contains(&content) && !alive.contains(&content);
                gone.extend(region.ever_seen().filter(|(_, content)| is_gone(*content)));
            }
        }
        // A file that was sent twice may be staged once more, and then looks like one just acknowledged.
        gone.retain(|(path, content)| {
            book.attempted.iter().filter(|one| (&one.0, one.1) == (*path, *content)).count() == 1
        });
        Self(gone)
    }

    fn contains(&self, path: &SectorPath, content: ContentId) -> bool {
        self.0.contains(&(path, content))
    }
}

/// The certain files that have a copy which is certainly found, and which no other file can displace.
fn firm(mut truth: Vec<(SectorPath, ContentId)>, held: &[Held]) -> BTreeMap<SectorPath, ContentId> {
    // The newest version of a path wins (`docs/semantics.md`). So a file renamed over a newer one may give way to that
    // one. A node must have been away when the newer one was to be removed.
    truth.retain(|(path, content)| {
        let at_path = || held.iter().filter(|held| held.path == *path);
        let newest = at_path().filter(|held| held.content == *content).map(|held| held.version).max();
        newest.is_none() || at_path().all(|other| Some(other.version) <= newest)
    });
    truth.retain(|(path, content)| {
        let mut at_path = held.iter().filter(|held| held.path == *path);
        // A removed file that is found first keeps its place, although a newer one needs a folder there.
        let is_in_the_way =
            |held: &Held| held.path != *path && (path.is_within(&held.path) || held.path.is_within(path));
        if held.iter().any(is_in_the_way) {
            return false;
        }
        // A node that was away when a file was renamed has it at its old path, and may be the first to join.
        let is_elsewhere = |slice| held.iter().any(|other| other.slice == slice && other.path != *path);
        let is_there = |held: &Held| held.is_certain && held.content == *content && held.state == HeldState::Placed;
        at_path.any(|held| is_there(held) && !is_elsewhere(held.slice))
    });
    truth.into_iter().collect()
}

/// The folders of a region that existed when some node was last sent the small rows, and still exist.
fn firm_folders(region: &Region, kept_until: Duration, held: &[Held]) -> Vec<SectorPath> {
    let mut trees = region.seen_since(kept_until);
    let Some(first) = trees.next() else { return Vec::new() };
    let folders = first.0.iter().filter(|(_, item)| **item == Item::Folder).map(|(path, _)| path.clone());
    let mut folders: Vec<_> = folders.filter(|folder| !is_blocked(folder, held)).collect();
    trees.for_each(|tree| folders.retain(|folder| tree.0.get(folder) == Some(&Item::Folder)));
    folders
}

/// Whether a file that is found may stand where a folder was.
fn is_blocked(folder: &SectorPath, held: &[Held]) -> bool {
    held.iter().any(|held| folder.is_within(&held.path))
}

/// How long a node is away before the master counts it as such, at most: earlier removals are merely ordered.
const NOTICED_AFTER: Duration = Duration::from_secs(10);

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::model::path;

    fn at(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    /// A book with a file that was put, and one that was put and removed again.
    fn book() -> (Model, ContentId, ContentId) {
        let mut book = Model::default();
        let (kept, removed) = (book.contents.add(vec![1]), book.contents.add(vec![2]));
        let mut region = Region::new(path("/r"));
        let changes = [
            Change::Put { path: path("/r/kept"), content: kept, parents: true, absent: false },
            Change::Put { path: path("/r/gone"), content: removed, parents: true, absent: false },
            Change::Remove { path: path("/r/gone"), recursive: false },
        ];
        for change in &changes {
            region.begin(at(1), change);
            region.end(at(2), change, Outcome::Done).unwrap();
        }
        book.regions.push(region);
        (book, kept, removed)
    }

    fn held(name: &str, content: ContentId, state: HeldState) -> Held {
        Held {
            slice: SliceId(1),
            path: path(name),
            content,
            state,
            version: Version(1),
            is_certain: true,
            dead_since: None,
            journal: JournalId(1),
        }
    }

    #[test]
    fn what_stands_at_its_path_must_come_back_and_what_is_only_staged_must_be_kept() {
        let (book, kept, _) = book();
        for (state, is_firm) in [(HeldState::Placed, true), (HeldState::Staged, false)] {
            let recovered = Recovered::new(&book, at(3), at(0), &[held("/r/kept", kept, state)]);
            assert_eq!(recovered.must_be_there(&path("/r/kept")), is_firm);
            assert!(recovered.owed().contains(&kept));
        }
    }

    #[test]
    fn a_file_that_also_lies_at_an_older_path_must_be_kept_but_may_be_there() {
        let (book, kept, _) = book();
        let disks = [held("/r/kept", kept, HeldState::Placed), held("/r/gone", kept, HeldState::Placed)];
        let recovered = Recovered::new(&book, at(3), at(0), &disks);
        assert!(!recovered.must_be_there(&path("/r/kept")) && recovered.owed().contains(&kept));
    }

    #[test]
    fn what_a_lost_master_gave_back_is_owed_only_where_the_trash_lasts() {
        for lasts in [false, true] {
            let (mut book, _, removed) = book();
            book.attributes.trash.lasts = lasts;
            let back = Change::Put { path: path("/r/gone"), content: removed, parents: true, absent: true };
            let mut recovered = Recovered::new(&book, at(3), at(0), &[held("/r/gone", removed, HeldState::Placed)]);
            recovered.started(Version(1));
            book.recovered = Some(recovered);
            let outcome = book.outcome_of_restore(&back, Outcome::Done);
            let recovered = book.recovered.as_mut().unwrap();
            recovered.end(&back, outcome);
            assert_eq!(recovered.owed().contains(&removed), lasts);
            recovered.begin(&back);
            assert_eq!(book.outcome_of_restore(&back, Outcome::Done), Outcome::Done, "the new master gave it back");
        }
    }

    #[test]
    fn an_answer_that_comes_after_an_older_journal_was_put_back_owes_nothing() {
        for is_put_back in [false, true] {
            let (mut book, kept, _) = book();
            let late = book.contents.add(vec![3]);
            let backup = Backup::take(&book, at(2));
            let held = [held("/r/kept", kept, HeldState::Placed)];
            let mut recovered = Recovered::new(&book, at(3), at(3), &held);
            if is_put_back {
                recovered = recovered.rolled_back(&book, at(3), &held, &backup);
            }
            let put = Change::Put { path: path("/r/late"), content: late, parents: true, absent: true };
            recovered.end(&put, Outcome::Done);
            assert_eq!(recovered.owed().contains(&late), !is_put_back);
            recovered.begin(&put);
            recovered.end(&put, Outcome::Done);
            assert!(recovered.owed().contains(&late), "the new master said so");
        }
    }

    #[test]
    fn of_one_content_that_was_written_twice_the_last_time_counts() {
        let (mut book, first, second) = book();
        let at = path("/r/f");
        book.attempted = [first, second, first].map(|content| (at.clone(), content)).to_vec();
        assert!(book.was_begun_after(&at, first, second) && !book.was_begun_after(&at, second, first));
    }

    #[test]
    fn a_removed_file_may_come_back_only_where_its_bytes_still_lie_somewhere() {
        let (book, kept, removed) = book();
        let nowhere = Recovered::new(&book, at(3), at(0), &[held("/r/kept", kept, HeldState::Placed)]);
        assert!(!nowhere.could_be(&path("/r/gone"), Some(removed)));
        let somewhere = Recovered::new(&book, at(3), at(0), &[held("/r/gone", removed, HeldState::Placed)]);
        assert!(somewhere.could_be(&path("/r/gone"), Some(removed)));
        assert!(!somewhere.could_be(&path("/r/kept"), Some(removed)));
        assert!(!somewhere.must_be_there(&path("/r/gone")));
    }
}
