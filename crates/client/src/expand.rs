//! From what people write (`/data/*.csv`, a folder, a file) to files: the beginning of every job and of most commands.

use globset::{GlobBuilder, GlobMatcher};
use protocol::{
    SectorPath, Status,
    message::client_master::{Entry, EntryKind},
};

use crate::{Client, ClientError};

impl Client {
    /// The files that a path or glob means, by path, with the nodes that hold them: a file is itself, a folder all
    /// files below it, and a glob (`*`, `**`, `?`, `[a-z]`, `{a,b}`) every file it matches and every file below a folder
    /// it matches.
    ///
    /// # Errors
    /// `NotFound` where nothing matches, `Usage` where the glob is malformed.
    pub async fn expand(&self, pattern: &str) -> Result<Vec<Entry>, ClientError> {
        let Some(glob) = Glob::parse(pattern)? else {
            let path = SectorPath::parse(pattern)?;
            let entries = self.list_all(&path, true, true).await?;
            return Ok(files(entries));
        };
        let entries = self.list_all(&glob.base, true, true).await?;
        let matching: Vec<_> = files(entries).into_iter().filter(|entry| glob.covers(&entry.path)).collect();
        if matching.is_empty() {
            let sentence = format!("nothing in Sector matches `{pattern}`; quote it if the shell should not expand it");
            return Err(protocol::Refusal::new(Status::NotFound, sentence).into());
        }
        Ok(matching)
    }
}

/// A glob over Sector paths.
#[derive(Debug)]
struct Glob {
    /// The deepest folder that everything it matches lies in.
    base: SectorPath,
    matcher: GlobMatcher,
}

impl Glob {
    /// Reads a pattern; `None` for a plain path.
    fn parse(pattern: &str) -> Result<Option<Self>, ClientError> {
        let Some(special) = pattern.find(['*', '?', '[', '{']) else {
            return Ok(None);
        };
        let base = match pattern[..special].rfind('/') {
            Some(0) => SectorPath::root(),
            Some(at) => SectorPath::parse(&pattern[..at])?,
            None => return Err(ClientError::Usage(format!("`{pattern}` must start with `/`"))),
        };
        let matcher = GlobBuilder::new(pattern)
            .literal_separator(true)
            .build()
            .map_err(|error| ClientError::Usage(format!("`{pattern}` is not a glob: {}", error.kind())))?
            .compile_matcher();
        Ok(Some(Self { base, matcher }))
    }

    /// Whether the glob matches `path` or a folder above it.
    fn covers(&self, path: &SectorPath) -> bool {
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

fn files(entries: Vec<Entry>) -> Vec<Entry> {
    entries.into_iter().filter(|entry| matches!(entry.kind, EntryKind::File(_))).collect()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    fn covers(pattern: &str, path: &str) -> bool {
        Glob::parse(pattern).unwrap().unwrap().covers(&SectorPath::parse(path).unwrap())
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
        assert_eq!(Glob::parse("/a/b/c*").unwrap().unwrap().base.as_str(), "/a/b");
        assert_eq!(Glob::parse("/*").unwrap().unwrap().base.as_str(), "/");
        assert!(Glob::parse("/a/b").unwrap().is_none());
    }

    #[test]
    fn a_malformed_glob_is_a_usage_error() {
        for pattern in ["/a/[", "a*", "/../*", "/a/{b"] {
            assert_eq!(Glob::parse(pattern).unwrap_err().status(), Status::Usage, "{pattern}");
        }
    }
}
