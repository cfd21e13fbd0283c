//! The path of a file or folder in Sector, parsed once at the door. An invalid path never becomes a [`SectorPath`].

use std::{fmt, str::FromStr};

use serde::{Deserialize, Serialize, Serializer};
use thiserror::Error;

use crate::limits;

/// An absolute, normal path: `/` or `/a/b`. It has no empty, `.` or `..` component, no NUL or control character. It is
/// UTF-8, within the [`limits`]. It can be joined below a node's data folder and never leaves it.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Deserialize)]
#[serde(try_from = "String")]
pub struct SectorPath(Box<str>);

/// Why a text is not a [`SectorPath`].
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("`{shown}` is not a path in Sector: {why}")]
pub struct PathError {
    shown: String,
    why: &'static str,
}

impl SectorPath {
    /// The root folder, `/`.
    pub fn root() -> Self {
        Self("/".into())
    }

    /// Reads a path. A missing leading `/` is refused, a trailing one is dropped.
    pub fn parse(text: &str) -> Result<Self, PathError> {
        Self::checked(text).map(|text| Self(text.into()))
    }

    /// The part of `text` that is a path: all but a trailing `/`.
    fn checked(text: &str) -> Result<&str, PathError> {
        let error = |why| {
            let mut shown: String = text.chars().take(SHOWN_LETTERS).flat_map(char::escape_debug).collect();
            if text.chars().nth(SHOWN_LETTERS).is_some() {
                shown.push('…');
            }
            PathError { shown, why }
        };
        let Some(rest) = text.strip_prefix('/') else {
            return Err(error("it must start with `/`"));
        };
        if text.len() > limits::PATH_BYTES_MAX {
            return Err(error("it is longer than 3500 bytes"));
        }
        if rest.is_empty() {
            return Ok(text);
        }
        let rest = rest.strip_suffix('/').unwrap_or(rest);
        if rest.split('/').count() > limits::PATH_COMPONENTS_MAX {
            return Err(error("it has more than 256 components"));
        }
        for component in rest.split('/') {
            check_component(component).map_err(error)?;
        }
        Ok(&text[..=rest.len()])
    }

    /// The path as text, starting with `/`.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Whether this is the root folder.
    pub fn is_root(&self) -> bool {
        &*self.0 == "/"
    }

    /// The components from the root down; none for the root itself.
    pub fn components(&self) -> impl DoubleEndedIterator<Item = &str> {
        self.0.split('/').filter(|component| !component.is_empty())
    }

    /// The last component; `None` for the root.
    pub fn name(&self) -> Option<&str> {
        self.components().next_back()
    }

    /// The folder that holds this path; `None` for the root.
    pub fn parent(&self) -> Option<Self> {
        if self.is_root() {
            return None;
        }
        match self.0.rfind('/') {
            Some(0) | None => Some(Self::root()),
            Some(at) => Some(Self(self.0[..at].into())),
        }
    }

    /// This path with one more component.
    pub fn join(&self, component: &str) -> Result<Self, PathError> {
        if self.is_root() {
            Self::parse(&format!("/{component}"))
        } else {
            Self::parse(&format!("{}/{component}", self.0))
        }
    }

    /// Whether this path is `folder` or lies below it.
    pub fn is_within(&self, folder: &Self) -> bool {
        folder.is_root() || self.0.strip_prefix(&*folder.0).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    }

    /// Whether this path is kept in the memory of nodes, and not on their disks: all below `/memory`.
    pub fn is_in_memory(&self) -> bool {
        let mut components = self.components();
        components.next() == Some(MEMORY_FOLDER) && components.next().is_some()
    }

    /// The path without its leading `/`, for joining below a folder of the native file system.
    pub fn relative(&self) -> &str {
        &self.0[1..]
    }
}

impl fmt::Display for SectorPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl fmt::Debug for SectorPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SectorPath({:?})", self.0)
    }
}

impl FromStr for SectorPath {
    type Err = PathError;
    fn from_str(text: &str) -> Result<Self, PathError> {
        Self::parse(text)
    }
}

impl TryFrom<String> for SectorPath {
    type Error = PathError;
    fn try_from(mut text: String) -> Result<Self, PathError> {
        let length = Self::checked(&text)?.len();
        text.truncate(length);
        Ok(Self(text.into()))
    }
}

impl Serialize for SectorPath {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        // Serialized as its text, without a copy of it: listings hold thousands.
        serializer.serialize_str(&self.0)
    }
}

impl From<SectorPath> for String {
    fn from(path: SectorPath) -> Self {
        path.0.into()
    }
}

/// The reason why `component` may not stand between two slashes, if there is one.
fn check_component(component: &str) -> Result<(), &'static str> {
    if component.is_empty() {
        return Err("a component is empty (`//`)");
    }
    if component == "." || component == ".." {
        return Err("`.` and `..` are not allowed");
    }
    if component.len() > limits::COMPONENT_BYTES_MAX {
        return Err("a component is longer than 240 bytes");
    }
    if component.chars().any(char::is_control) {
        return Err("NUL and control characters are not allowed");
    }
    if component.starts_with(SIDECAR_PREFIX) && component.ends_with(SIDECAR_SUFFIX) {
        return Err("names like `.x.sector` are kept for sidecars");
    }
    Ok(())
}

/// The folder of the root below which files are kept in memory; see [`SectorPath::is_in_memory`].
pub const MEMORY_FOLDER: &str = "memory";
/// What the name begins with that a job gives to what it keeps beside its output while it runs.
pub const JOB_NAME_PREFIX: &str = ".sphere-";
/// How many letters of a text that is no path an error shows.
const SHOWN_LETTERS: usize = 120;
/// A sidecar lies beside its slice `x` under the name `.x.sector`; no slice may be called so.
pub const SIDECAR_PREFIX: &str = ".";
/// See [`SIDECAR_PREFIX`].
pub const SIDECAR_SUFFIX: &str = ".sector";

#[cfg(test)]
mod tests {
    use proptest::prelude::{Strategy, any, prop_assert, prop_assert_eq, proptest};

    use super::*;

    fn path(text: &str) -> SectorPath {
        SectorPath::parse(text).expect("the test's own path")
    }

    #[test]
    fn what_is_below_the_folder_of_memory_is_in_memory() {
        for (text, expected) in [("/memory/a", true), ("/memory/a/b", true), ("/memory", false), ("/a/memory/b", false)]
        {
            assert_eq!(path(text).is_in_memory(), expected, "{text}");
        }
        assert!(!path("/memoryless/a").is_in_memory() && !SectorPath::root().is_in_memory());
    }

    #[test]
    fn a_path_is_kept_as_written_but_for_a_trailing_slash() {
        assert_eq!(path("/a/b/").as_str(), "/a/b");
        assert_eq!(path("/").as_str(), "/");
        assert_eq!(path("/ü b/…").as_str(), "/ü b/…");
    }

    #[test]
    fn a_path_that_could_leave_the_root_is_refused() {
        for text in
            ["", "a", "/..", "/a/../b", "/./a", "//", "/a//b", "/a\0b", "/a\nb", "/.x.sector", "/a/.sector.sector"]
        {
            assert!(SectorPath::parse(text).is_err(), "{text:?}");
        }
    }

    #[test]
    fn lengths_are_limited() {
        assert!(SectorPath::parse(&format!("/{}", "x".repeat(240))).is_ok());
        assert!(SectorPath::parse(&format!("/{}", "x".repeat(241))).is_err());
        assert!(SectorPath::parse(&"/x".repeat(256)).is_ok());
        assert!(SectorPath::parse(&"/x".repeat(257)).is_err());
        assert!(SectorPath::parse(&format!("/{}", "x".repeat(200)).repeat(18)).is_err());
    }

    #[test]
    fn an_error_shows_where_it_has_cut_a_long_text() {
        let shown = |letters| SectorPath::parse(&"x".repeat(letters)).map_err(|error| error.to_string());
        assert!(shown(120).is_err_and(|text| text.contains("xx` is")));
        assert!(shown(121).is_err_and(|text| text.contains("xx…` is")));
    }

    #[test]
    fn family_relations() {
        assert_eq!(path("/a/b").parent(), Some(path("/a")));
        assert_eq!(path("/a").parent(), Some(path("/")));
        assert_eq!(path("/").parent(), None);
        assert_eq!(path("/a/b").name(), Some("b"));
        assert!(path("/a/b").is_within(&path("/a")));
        assert!(path("/a").is_within(&path("/a")));
        assert!(!path("/ab").is_within(&path("/a")));
        assert_eq!(path("/").join("a").expect("valid"), path("/a"));
        assert!(path("/a").join("b/../c").is_err());
    }

    proptest! {
        #[test]
        fn whatever_parses_stays_below_the_root_and_parses_to_itself(text in "(/[a-z./ \0é-]{0,6}){0,6}") {
            if let Ok(parsed) = SectorPath::parse(&text) {
                prop_assert_eq!(&SectorPath::parse(parsed.as_str()).expect("its own text"), &parsed);
                prop_assert!(!std::path::Path::new(parsed.relative()).is_absolute());
                prop_assert!(parsed.components().all(|component| component != ".." && component != "."));
            }
        }

        #[test]
        fn any_text_is_taken_or_refused_without_a_panic(text in any::<String>().prop_map(|text| format!("/{text}"))) {
            let _ = SectorPath::parse(&text);
        }
    }
}
