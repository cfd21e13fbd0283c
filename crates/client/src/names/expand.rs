//! From what people write (`/data/*.csv`, a folder, a file) to files: the beginning of every job and of most commands.
//! It never reads a file.

use std::collections::BTreeSet;

use globset::{GlobBuilder, GlobMatcher};
use protocol::{
    Reason, Refusal, SectorPath,
    message::client_master::{Entry, EntryKind},
};

use crate::{Client, ClientError, names::namespace::is_folder};

impl Client {
    /// The files that a path or glob names, by path, with the nodes that hold them. A file is itself, and a folder is
    /// all files below it. A glob (`*`, `**`, `?`, `[a-z]`, `{a,b}`) is every file it matches and every file below a
    /// folder it matches.
    ///
    /// # Errors
    /// `NotFound` if nothing matches, `Usage` if the glob is malformed.
    pub async fn expand(&self, pattern: &str) -> Result<Vec<Entry>, ClientError> {
        if let Some(path) = self.literal(pattern).await? {
            return Ok(files(self.list_all(&path, true, true).await?));
        }
        let glob = Glob::parse(pattern)?;
        let entries = self.list_all(&glob.base, true, true).await?;
        let matching: Vec<_> = files(entries).into_iter().filter(|entry| glob.covers(&entry.path)).collect();
        if matching.is_empty() {
            return Err(nothing_matches(pattern));
        }
        Ok(matching)
    }

    /// The files and folders that a path or glob names themselves, by path, as `stat`, `du`, `mv` and `cp` take them.
    /// Only folders on the way are listed, unless there is a `**`.
    ///
    /// # Errors
    /// As [`expand`](Self::expand).
    pub async fn matching(&self, pattern: &str) -> Result<Vec<SectorPath>, ClientError> {
        match self.literal(pattern).await? {
            Some(path) => Ok(vec![path]),
            None => Ok(self.glob(pattern).await?.into_iter().map(|entry| entry.path).collect()),
        }
    }

    /// The same with all that is known of each.
    ///
    /// # Errors
    /// As [`expand`](Self::expand); `NotFound` also if nothing is at a plain path.
    pub async fn matching_entries(&self, pattern: &str) -> Result<Vec<Entry>, ClientError> {
        match self.literal(pattern).await? {
            Some(path) => Ok(vec![self.stat(&path).await?.entry]),
            None => self.glob(pattern).await,
        }
    }

    /// The path that a text is by itself. That is each plain path, and also a text with the characters of a glob where
    /// something has just that name. So `a[1].csv` needs no escapes.
    ///
    /// # Errors
    /// If a plain path is no path, or the master cannot be asked.
    pub async fn literal(&self, pattern: &str) -> Result<Option<SectorPath>, ClientError> {
        match SectorPath::parse(pattern) {
            path if !is_glob(pattern) => Ok(Some(path?)),
            Err(_) => Ok(None),
            Ok(path) => match self.find(&path).await {
                Ok(found) => Ok(found.map(|entry| entry.path)),
                // The glob says it in its own words.
                Err(ClientError::Refused(_)) => Ok(None),
                Err(error) => Err(error),
            },
        }
    }

    /// The paths from which a path or glob says that something of this user was removed, by path. A path is itself, and is
    /// not looked for.
    ///
    /// # Errors
    /// `NotFound` if nothing in the trash matches, `Usage` if the glob is malformed.
    pub async fn removed_paths(&self, pattern: &str) -> Result<Vec<SectorPath>, ClientError> {
        let items =
            if is_glob(pattern) { self.trash(false).await? } else { return Ok(vec![SectorPath::parse(pattern)?]) };
        let removed: BTreeSet<_> = items.into_iter().map(|item| item.from).collect();
        // A name with the characters of a glob is itself.
        if let Some(literal) = SectorPath::parse(pattern).ok().filter(|path| removed.contains(path)) {
            return Ok(vec![literal]);
        }
        let glob = Glob::parse(pattern)?;
        let matching: Vec<_> = removed.into_iter().filter(|path| glob.matcher.is_match(path.as_str())).collect();
        if matching.is_empty() {
            let message = format!("nothing in the trash was removed from a path that matches `{pattern}`");
            return Err(Refusal::new(Reason::NotFound, message).into());
        }
        Ok(matching)
    }

    async fn glob(&self, pattern: &str) -> Result<Vec<Entry>, ClientError> {
        let glob = Glob::parse(pattern)?;
        let mut found = Vec::new();
        let mut folders = vec![glob.base.clone()];
        let depth = if pattern.contains("**") { None } else { Some(pattern.split('/').count() - 1) };
        while let Some(folder) = folders.pop() {
            for entry in self.list_all(&folder, depth.is_none(), false).await? {
                if glob.matcher.is_match(entry.path.as_str()) {
                    found.push(entry);
                } else if depth.is_some_and(|depth| glob.may_match_below(&entry.path, depth)) && is_folder(&entry) {
                    folders.push(entry.path);
                }
            }
        }
        if found.is_empty() {
            return Err(nothing_matches(pattern));
        }
        found.sort_by(|one, other| one.path.cmp(&other.path));
        Ok(found)
    }
}

/// Whether a pattern has characters of a glob. Something may have just that name: [`Client::literal`] knows.
pub fn is_glob(pattern: &str) -> bool {
    pattern.contains(SPECIAL)
}

/// A glob over Sector paths.
#[derive(Debug)]
pub(crate) struct Glob {
    /// The deepest folder that contains everything it matches.
    pub(crate) base: SectorPath,
    matcher: GlobMatcher,
    /// For each further component except the last, the name of a folder on the way.
    folder_matchers: Vec<GlobMatcher>,
}

impl Glob {
    pub(crate) fn parse(pattern: &str) -> Result<Self, ClientError> {
        let special = pattern.find(SPECIAL).unwrap_or(pattern.len());
        let base = match pattern[..special].rfind('/') {
            Some(0) => SectorPath::root(),
            Some(at) => SectorPath::parse(&pattern[..at])?,
            None => return Err(ClientError::Usage(format!("`{pattern}` must start with `/`"))),
        };
        let matcher = compile(pattern)?;
        let ends: Vec<_> = pattern.match_indices('/').map(|(at, _)| at).skip(base.components().count() + 1).collect();
        // A brace may contain a `/`: the part before it is no glob by itself, and the folders there are unknown.
        let way = ends.into_iter().map_while(|end| compile(&pattern[..end]).ok()).collect();
        Ok(Self { base, matcher, folder_matchers: way })
    }

    /// Whether something in the folder `path` may match; `depth` is the number of components of what matches.
    fn may_match_below(&self, path: &SectorPath, depth: usize) -> bool {
        let at = path.components().count();
        let on_the_way = self.folder_matchers.get(at - self.base.components().count() - 1);
        at < depth && on_the_way.is_none_or(|way| way.is_match(path.as_str()))
    }

    /// Whether the glob matches `path` or a folder above it.
    pub(crate) fn covers(&self, path: &SectorPath) -> bool {
        let mut at = Some(path.clone());
        while let Some(path) = at {
            if self.matcher.is_match(path.as_str()) {
                return true;
            }
            at = path.parent();
        }
        false
    }
}

pub(crate) fn compile(pattern: &str) -> Result<GlobMatcher, ClientError> {
    let glob = GlobBuilder::new(pattern).literal_separator(true).build();
    let glob = glob.map_err(|error| ClientError::Usage(format!("`{pattern}` is not a glob: {}", error.kind())))?;
    Ok(glob.compile_matcher())
}

fn nothing_matches(pattern: &str) -> ClientError {
    let message = format!("nothing in Sector matches `{pattern}`");
    Refusal::new(Reason::NotFound, message).into()
}

fn files(entries: Vec<Entry>) -> Vec<Entry> {
    entries.into_iter().filter(|entry| matches!(entry.kind, EntryKind::File(_))).collect()
}

/// What makes a path a glob.
const SPECIAL: [char; 4] = ['*', '?', '[', '{'];

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;
    use protocol::Status;

    fn covers(pattern: &str, path: &str) -> bool {
        Glob::parse(pattern).unwrap().covers(&SectorPath::parse(path).unwrap())
    }

    #[test]
    fn a_star_stays_within_a_component_and_a_matched_folder_means_all_below() {
        assert!(covers("/a/*.txt", "/a/b.txt"));
        assert!(!covers("/a/*.txt", "/a/c/b.txt"));
        assert!(covers("/a/**/*.txt", "/a/c/d/b.txt"));
        assert!(covers("/sdss*", "/sdss1/img/7.fits"));
        assert!(!covers("/sdss?", "/sdss12"));
        assert!(covers("/{a,b}/x", "/b/x"));
    }

    #[test]
    fn the_base_is_the_deepest_folder_without_a_special_character() {
        assert_eq!(Glob::parse("/a/b/c*").unwrap().base.as_str(), "/a/b");
        assert_eq!(Glob::parse("/*").unwrap().base.as_str(), "/");
    }

    #[test]
    fn only_folders_on_the_way_of_a_glob_are_looked_into() {
        let leads = |pattern: &str, path: &str| {
            let depth = pattern.split('/').count() - 1;
            Glob::parse(pattern).unwrap().may_match_below(&SectorPath::parse(path).unwrap(), depth)
        };
        assert!(leads("/sky/2*/*.fits", "/sky/2019"));
        assert!(!leads("/sky/2*/*.fits", "/sky/1998"));
        assert!(!leads("/sky/2*/*.fits", "/sky/2019/deep"), "nothing that deep can match");
        assert!(leads("/a/*/{b/c,d}/x", "/a/1") && leads("/a/*/{b/c,d}/x", "/a/1/b"));
    }

    #[test]
    fn a_malformed_glob_is_a_usage_error() {
        for pattern in ["/a/[", "a*", "/../*", "/a/{b"] {
            assert_eq!(Glob::parse(pattern).unwrap_err().status(), Status::Usage, "{pattern}");
        }
    }
}
