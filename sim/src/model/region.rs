//! The possible names of one region. Only its owner changes them, one change at a time. If an answer was lost, both
//! outcomes stay possible until a later answer decides. So a region is a set of possible trees, mostly one, and never
//! an empty set.

use std::{collections::BTreeSet, rc::Rc, time::Duration};

use protocol::{SectorPath, Status};

use super::{Change, ContentId, Tree, path};

/// See the module.
#[derive(Debug)]
pub(crate) struct Region {
    /// Its folder.
    pub(crate) root: SectorPath,
    possible: Vec<Rc<Tree>>,
    /// What others could see, and since when, oldest first.
    history: Vec<(Duration, Vec<Rc<Tree>>)>,
    /// Requested renames, oldest first.
    renames: Vec<(SectorPath, SectorPath)>,
}

/// How a change ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// The master said that it is done.
    Done,
    /// The master refused it because of the names.
    Refused(Status),
    /// It certainly did not happen.
    NotDone,
    /// No answer came, and any effect of it has happened by now.
    Unknown,
}

impl Region {
    pub(crate) fn new(root: SectorPath) -> Self {
        let possible = vec![Rc::new(Tree::default())];
        Self { root, history: vec![(Duration::ZERO, possible.clone())], possible, renames: Vec::new() }
    }

    /// The trees that are possible now.
    pub(crate) fn possible(&self) -> &[Rc<Tree>] {
        &self.possible
    }

    /// The names, if only one outcome is possible.
    pub(crate) fn certain(&self) -> Option<&Tree> {
        match self.possible.as_slice() {
            [only] => Some(only),
            _ => None,
        }
    }

    /// The trees of which one may be seen now.
    pub(crate) fn visible(&self) -> &[Rc<Tree>] {
        self.history.last().map_or(&[], |(_, trees)| trees)
    }

    /// Every file that could ever be seen, with its content.
    pub(crate) fn ever_seen(&self) -> impl Iterator<Item = (&SectorPath, ContentId)> {
        self.history.iter().flat_map(|(_, trees)| trees).flat_map(|tree| tree.files())
    }

    /// Where a file would be if it had been in its folders when they were renamed. A removed file that is found again
    /// comes back in its folder, which may have another name by now.
    pub(crate) fn renamed(&self, at: &SectorPath) -> Vec<SectorPath> {
        // Each once: folders renamed back and forth would double them with each rename.
        let mut places = BTreeSet::from([at.clone()]);
        for (from, to) in &self.renames {
            let moved =
                |place: &SectorPath| Some(path(&format!("{to}{}", place.as_str().strip_prefix(from.as_str())?)));
            let new: Vec<_> = places.iter().filter(|place| place.is_within(from)).filter_map(moved).collect();
            places.extend(new);
        }
        places.into_iter().collect()
    }

    /// From now on these are the names, whatever was known before.
    pub(crate) fn reset(&mut self, now: Duration, tree: Tree) {
        self.possible = vec![Rc::new(tree)];
        self.note(now, self.possible.clone());
    }

    /// The trees that could be seen at some moment from `since` on.
    pub(crate) fn seen_since(&self, since: Duration) -> impl Iterator<Item = &Tree> {
        let first = self.history.partition_point(|(from, _)| *from < since).saturating_sub(1);
        self.history[first..].iter().flat_map(|(_, trees)| trees).map(Rc::as_ref)
    }

    /// The files that certainly existed at a moment, whatever the outcome of open changes.
    pub(crate) fn certain_at(&self, at: Duration) -> BTreeSet<(&SectorPath, ContentId)> {
        let then = self.history.partition_point(|(from, _)| *from < at).saturating_sub(1);
        let mut trees = self.history.get(then).into_iter().flat_map(|(_, trees)| trees);
        let mut files: BTreeSet<_> = trees.next().into_iter().flat_map(|tree| tree.files()).collect();
        trees.for_each(|tree| files.retain(|(path, content)| tree.file(path) == Some(*content)));
        files
    }

    /// A change is about to be asked for: from now on others may see it.
    pub(crate) fn begin(&mut self, now: Duration, change: &Change) {
        let after = self.after(change);
        if let (Change::Rename { from, to }, false) = (change, after.is_empty()) {
            self.renames.push((from.clone(), to.clone()));
        }
        self.note(now, [self.possible.clone(), after].concat());
    }

    /// A change has ended.
    ///
    /// # Errors
    /// A sentence, when no possible tree allows this outcome.
    pub(crate) fn end(&mut self, now: Duration, change: &Change, outcome: Outcome) -> Result<(), String> {
        let mut possible = match outcome {
            Outcome::Done => self.after(change),
            Outcome::Refused(status) => {
                let refuses = |tree: &&Rc<Tree>| tree.apply(change).err() == Some(status);
                self.possible.iter().filter(refuses).cloned().collect()
            }
            Outcome::NotDone => self.possible.clone(),
            Outcome::Unknown => [self.possible.clone(), self.after(change)].concat(),
        };
        if possible.is_empty() {
            let expected: Vec<_> = self.possible.iter().map(|tree| tree.apply(change).err()).collect();
            return Err(format!("{change:?} ended as {outcome:?}, the names allow only {expected:?} (`None`: done)"));
        }
        possible.sort();
        possible.dedup();
        self.note(now, possible.clone());
        self.possible = possible;
        Ok(())
    }

    /// An answer of the master agrees only with some trees.
    ///
    /// # Errors
    /// The trees that were possible, when none agrees.
    pub(crate) fn observe(&mut self, now: Duration, agrees: impl Fn(&Tree) -> bool) -> Result<(), String> {
        let possible: Vec<_> = self.possible.iter().filter(|tree| agrees(tree)).cloned().collect();
        if possible.is_empty() {
            return Err(format!("the possible names are {:?}", self.possible));
        }
        if possible.len() < self.possible.len() {
            self.note(now, possible.clone());
            self.possible = possible;
        }
        Ok(())
    }

    /// Whether a path may have had this content (`None`: no file) at some moment between two.
    pub(crate) fn could_be(
        &self,
        path: &SectorPath,
        content: Option<ContentId>,
        since: Duration,
        until: Duration,
    ) -> bool {
        let first = self.history.partition_point(|(from, _)| *from <= since).saturating_sub(1);
        let seen = self.history[first..].iter().take_while(|(from, _)| *from <= until);
        seen.flat_map(|(_, trees)| trees).any(|tree| tree.file(path) == content)
    }

    /// The trees that result from a change of the possible ones, if they allow it.
    fn after(&self, change: &Change) -> Vec<Rc<Tree>> {
        self.possible.iter().filter_map(|tree| tree.apply(change).ok()).map(Rc::new).collect()
    }

    fn note(&mut self, now: Duration, trees: Vec<Rc<Tree>>) {
        self.history.push((now, trees));
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::model::Contents;

    fn at(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    fn put(contents: &mut Contents, byte: u8) -> (Change, ContentId) {
        let content = contents.add(vec![byte]);
        (Change::Put { path: path("/r/x"), content, parents: true, absent: false }, content)
    }

    #[test]
    fn an_overwrite_may_be_seen_from_its_request_and_the_old_content_until_its_answer() {
        let (mut contents, mut region) = (Contents::default(), Region::new(path("/r")));
        let ((first, one), (second, two)) = (put(&mut contents, 1), put(&mut contents, 2));
        region.begin(at(1), &first);
        region.end(at(2), &first, Outcome::Done).unwrap();
        region.begin(at(5), &second);
        region.end(at(6), &second, Outcome::Done).unwrap();
        let could = |content, since, until| region.could_be(&path("/r/x"), content, at(since), at(until));
        assert!(could(Some(one), 5, 5) && could(Some(two), 5, 5) && could(Some(one), 3, 9));
        assert!(!could(Some(one), 7, 9) && !could(Some(two), 3, 4) && !could(None, 3, 9));
        assert!(could(None, 1, 1));
    }

    #[test]
    fn a_lost_answer_leaves_both_outcomes_until_the_next_answer_tells() {
        let (mut contents, mut region) = (Contents::default(), Region::new(path("/r")));
        let (change, content) = put(&mut contents, 1);
        region.begin(at(1), &change);
        region.end(at(2), &change, Outcome::Unknown).unwrap();
        assert!(region.certain().is_none());
        region.observe(at(3), |tree| tree.file(&path("/r/x")) == Some(content)).unwrap();
        assert_eq!(region.certain().unwrap().files().count(), 1);
        assert!(region.observe(at(4), |tree| tree.0.is_empty()).is_err());
    }

    /// A region with the folders `/r/a/c` and `/r/x`, in which these renames were requested.
    fn renamed_region(renames: &[(&str, &str)]) -> Region {
        let mut region = Region::new(path("/r"));
        let made = ["/r/a/c", "/r/x"].map(|folder| Change::MakeFolder { path: path(folder), parents: true });
        let renames = renames.iter().map(|(from, to)| Change::Rename { from: path(from), to: path(to) });
        for change in made.into_iter().chain(renames) {
            region.begin(at(1), &change);
            let is_allowed = !region.after(&change).is_empty();
            region.end(at(1), &change, if is_allowed { Outcome::Done } else { Outcome::NotDone }).unwrap();
        }
        region
    }

    #[test]
    fn a_removed_file_goes_along_with_the_later_renames_of_its_folders() {
        let region = renamed_region(&[("/r/a", "/r/b"), ("/r/x", "/r/y"), ("/r/b/c", "/r/d")]);
        let places = region.renamed(&path("/r/a/c/f"));
        assert_eq!(places, ["/r/a/c/f", "/r/b/c/f", "/r/d/f"].map(path));
    }

    #[test]
    fn folders_that_went_to_and_fro_and_those_that_could_not_go_leave_no_more_places() {
        let region = renamed_region(&[("/r/a", "/r/b"), ("/r/b", "/r/a"), ("/r", "/r/x/y")].repeat(40));
        assert_eq!(region.renamed(&path("/r/a/f")), ["/r/a/f", "/r/b/f"].map(path));
    }

    #[test]
    fn an_outcome_that_no_tree_allows_is_told() {
        let mut region = Region::new(path("/r"));
        let change = Change::Remove { path: path("/r"), recursive: true };
        assert!(region.end(at(1), &change, Outcome::Done).unwrap_err().contains("NotFound"));
        assert!(region.end(at(1), &change, Outcome::Refused(Status::NotFound)).is_ok());
    }
}
