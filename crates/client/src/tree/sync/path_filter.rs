//! Which paths a comparison of two folders selects: globs relative to the folder (path: `docs/paths/sync.md`). It never
//! looks at what is there.

use std::path::Path;

use globset::GlobMatcher;

use crate::{ClientError, names::expand::compile};

/// Globs that select paths. What an exclude matches is never selected. Where there are includes, one must match.
#[derive(Clone, Debug, Default)]
pub struct PathFilter {
    includes: Vec<PathGlob>,
    excludes: Vec<PathGlob>,
}

/// A glob over paths that are relative to a folder. What it matches is meant with all below it.
#[derive(Clone, Debug)]
struct PathGlob {
    matcher: GlobMatcher,
    /// It was written with a `/` at its end.
    is_for_folders: bool,
}

impl PathFilter {
    /// A filter of these globs.
    ///
    /// # Errors
    /// [`ClientError::Usage`] if one is malformed.
    pub fn new(includes: &[String], excludes: &[String]) -> Result<Self, ClientError> {
        let parse = |globs: &[String]| globs.iter().map(|glob| PathGlob::parse(glob)).collect::<Result<Vec<_>, _>>();
        Ok(Self { includes: parse(includes)?, excludes: parse(excludes)? })
    }

    /// Whether a path is selected. A folder is meant by itself, without what it holds.
    pub(super) fn selects(&self, relative: &Path, is_folder: bool) -> bool {
        let is_included = || self.includes.is_empty() || covers(&self.includes, relative, is_folder);
        !self.excludes(relative, is_folder) && is_included()
    }

    /// Whether nothing at or below a path is selected, whatever is there.
    pub(super) fn excludes(&self, relative: &Path, is_folder: bool) -> bool {
        covers(&self.excludes, relative, is_folder)
    }
}

fn covers(globs: &[PathGlob], relative: &Path, is_folder: bool) -> bool {
    globs.iter().any(|glob| glob.covers(relative, is_folder))
}

impl PathGlob {
    /// A glob that begins with `/` begins at the folder; any other may begin at each name on the way.
    fn parse(text: &str) -> Result<Self, ClientError> {
        let glob = text.strip_suffix('/').unwrap_or(text);
        let pattern = match glob.strip_prefix('/') {
            Some(anchored) => anchored.to_owned(),
            None if glob.is_empty() => String::new(),
            None => format!("**/{glob}"),
        };
        if pattern.is_empty() {
            return Err(ClientError::Usage(format!("`{text}` is not a glob: it names nothing")));
        }
        let matcher = compile(&pattern).map_err(|error| match error {
            // In the words that were typed.
            ClientError::Usage(why) => ClientError::Usage(why.replacen(&pattern, text, 1)),
            error => error,
        })?;
        Ok(Self { matcher, is_for_folders: text.ends_with('/') })
    }

    /// Whether it matches the path, or a folder above it.
    fn covers(&self, relative: &Path, is_folder: bool) -> bool {
        let is_itself = self.matcher.is_match(relative) && (is_folder || !self.is_for_folders);
        let mut above = relative.ancestors().skip(1).filter(|folder| !folder.as_os_str().is_empty());
        is_itself || above.any(|folder| self.matcher.is_match(folder))
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use protocol::Status;

    use super::*;

    fn filter(includes: &[&str], excludes: &[&str]) -> Result<PathFilter, ClientError> {
        let owned = |globs: &[&str]| globs.iter().map(|glob| (*glob).to_owned()).collect::<Vec<_>>();
        PathFilter::new(&owned(includes), &owned(excludes))
    }

    fn selected<'a>(includes: &[&str], excludes: &[&str], files: &[&'a str]) -> Vec<&'a str> {
        let filter = filter(includes, excludes).unwrap();
        files.iter().copied().filter(|file| filter.selects(Path::new(file), false)).collect()
    }

    #[test]
    fn a_glob_matches_at_any_depth_unless_it_begins_with_a_slash() {
        let files = ["a.txt", "b.bin", "sub/a.txt", "sub/deep/a.txt"];
        assert_eq!(selected(&["*.txt"], &[], &files), ["a.txt", "sub/a.txt", "sub/deep/a.txt"]);
        assert_eq!(selected(&["/*.txt"], &[], &files), ["a.txt"]);
        assert_eq!(selected(&["sub/*.txt"], &[], &files), ["sub/a.txt"], "a star stays within a name");
        assert_eq!(selected(&["deep/a.txt"], &[], &files), ["sub/deep/a.txt"]);
        assert_eq!(selected(&["/sub/**/a.txt"], &[], &files), ["sub/a.txt", "sub/deep/a.txt"]);
        assert_eq!(selected(&["?.{bin,dat}"], &[], &files), ["b.bin"]);
    }

    #[test]
    fn a_folder_that_matches_means_all_in_it_and_a_last_slash_means_folders_alone() {
        let files = ["tmp", "tmp2/x", "sub/tmp/x", "sub/tmp/deep/y"];
        assert_eq!(selected(&[], &["tmp"], &files), ["tmp2/x"]);
        assert_eq!(selected(&[], &["tmp/"], &files), ["tmp", "tmp2/x"]);
        assert_eq!(selected(&[], &["/sub"], &files), ["tmp", "tmp2/x"]);
        assert!(!filter(&[], &["tmp/"]).unwrap().selects(Path::new("tmp"), true));
        let filter = filter(&["*.txt"], &["tmp/"]).unwrap();
        assert!(filter.excludes(Path::new("tmp"), true) && filter.excludes(Path::new("tmp/a.txt"), false));
        assert!(!filter.excludes(Path::new("sub"), true), "it may hold what an include matches");
    }

    #[test]
    fn an_exclude_is_stronger_than_an_include_in_whatever_order() {
        let files = ["keep.txt", "drop.txt", "x.bin"];
        assert_eq!(selected(&["*.txt"], &["drop*"], &files), ["keep.txt"]);
        assert_eq!(selected(&[], &[], &files), files);
    }

    #[test]
    fn a_bad_glob_is_refused_in_the_words_that_were_typed() {
        for bad in ["a[", "{a,b", "", "/"] {
            let refused = filter(&[], &[bad]).unwrap_err();
            assert_eq!(refused.status(), Status::Usage);
            assert!(refused.to_string().contains(&format!("`{bad}`")), "{refused}");
        }
    }
}
