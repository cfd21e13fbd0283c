//! Destinations for a command with several sources: each file gets a destination of its own, or nothing is done. As
//! with GNU's `cp` and `mv`, a command never overwrites what it has just made, nor a source that it has yet to take.
//! This file never looks at what exists at a destination: each command has its own rule for that.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::{Path, PathBuf},
};

use crate::ClientError;

/// The destination of one source.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct PathMapping {
    /// The source, as a person would write it.
    pub(super) from: PathBuf,
    /// Its destination.
    pub(super) to: PathBuf,
}

/// Drops sources that are named twice, and refuses conflicts that would lose a file. Two sources must not become one
/// path. A file must not take the place of a folder in which another one would lie. With `is_one_world`, sources and
/// destinations are paths of one tree; then a destination must not be another source.
pub(super) fn resolve_targets<T>(
    all: Vec<T>,
    going: impl Fn(&T) -> PathMapping,
    is_one_world: bool,
) -> Result<Vec<T>, ClientError> {
    let goings: Vec<_> = all.iter().map(going).collect();
    let sources: BTreeSet<&Path> = goings.iter().map(|going| going.from.as_path()).collect();
    let mut taken: BTreeMap<&Path, &Path> = BTreeMap::new();
    let mut is_first = Vec::new();
    for PathMapping { from, to } in &goings {
        match taken.insert(to, from) {
            Some(other) if other == from => {
                is_first.push(false);
                continue;
            }
            Some(other) => return Err(refused(other, from, &format!("would both become `{}`", to.display()))),
            None => is_first.push(true),
        }
        if is_one_world && from != to && sources.contains(to.as_path()) {
            return Err(refused(from, to, "are both to go somewhere, and the one would overwrite the other"));
        }
    }
    for (to, from) in &taken {
        if let Some((folder, other)) = to.ancestors().skip(1).find_map(|folder| taken.get_key_value(folder)) {
            let why = format!("would become `{}`, and a file below that", folder.display());
            return Err(refused(other, from, &why));
        }
    }
    let mut is_first = is_first.into_iter();
    Ok(all.into_iter().filter(|_| is_first.next().unwrap_or_default()).collect())
}

fn refused(one: &Path, other: &Path, why: &str) -> ClientError {
    let (one, other) = (one.display(), other.display());
    ClientError::Usage(format!("`{one}` and `{other}` {why}: nothing was done; give them different folders or names"))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use protocol::Status;

    use super::*;

    fn check(pairs: &[(&str, &str)], is_one_world: bool) -> Result<usize, String> {
        let going = |(from, to): &(&str, &str)| PathMapping { from: (*from).into(), to: (*to).into() };
        match resolve_targets(pairs.to_vec(), going, is_one_world) {
            Ok(kept) => Ok(kept.len()),
            Err(error) => {
                assert_eq!(error.status(), Status::Usage);
                Err(error.to_string())
            }
        }
    }

    #[test]
    fn two_sources_that_would_become_one_are_refused_and_all_three_named() {
        let message = check(&[("/a/1/x", "/c/x"), ("/a/2/x", "/c/x")], true).unwrap_err();
        for part in ["`/a/1/x`", "`/a/2/x`", "`/c/x`", "nothing was done"] {
            assert!(message.contains(part), "{message}");
        }
        assert!(check(&[("a/x", "out/x"), ("b/x", "out/./x")], false).is_err(), "the same place in other words");
        assert_eq!(check(&[("/a/1/x", "/c/x"), ("/a/2/y", "/c/y")], true), Ok(2));
    }

    #[test]
    fn a_source_that_is_named_twice_goes_once() {
        assert_eq!(check(&[("/a/x", "/c/x"), ("/a/y", "/c/y"), ("/a/x", "/c/x")], true), Ok(2));
    }

    // Promise 30.
    #[test]
    fn a_source_that_another_would_overwrite_is_refused_within_one_tree_alone() {
        let pairs = [("/b/x", "/a/x"), ("/a/x", "/a/x")];
        assert!(check(&pairs, true).is_err());
        let pairs = [("/b/x", "/a/x"), ("/a/x", "/c/x")];
        assert!(check(&pairs, true).unwrap_err().contains("overwrite"));
        assert_eq!(check(&pairs, false), Ok(2));
        assert_eq!(check(&[("/a/x", "/a/x")], true), Ok(1), "onto itself alone: for the command to say");
    }

    #[test]
    fn a_file_in_the_place_of_anothers_folder_is_refused() {
        let message = check(&[("/1/d/x", "/c/d/x"), ("/2/d", "/c/d")], true).unwrap_err();
        assert!(message.contains("`/2/d`") && message.contains("`/1/d/x`") && message.contains("`/c/d`"));
    }
}
