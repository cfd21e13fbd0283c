//! A place in a cloud as people write it: `/folder/file`, `sector://folder/file`, or `sector://@NAME/folder/file` in the
//! cloud whose profile has this name. It never asks whether something is there.

use crate::ClientError;

/// A path, and the name of the cloud that it lies in, where one is written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Location {
    /// The name of a profile; `None`: the cloud that a command works with.
    pub cloud: Option<String>,
    /// The path, not checked. A slash at its end stays, since it says that a folder is meant.
    pub path: String,
}

impl Location {
    /// Reads a path with or without `sector://`.
    ///
    /// # Errors
    /// If `sector://@` is followed by no name.
    pub fn parse(text: &str) -> Result<Self, ClientError> {
        match text.strip_prefix(SCHEME) {
            Some(rest) => Self::parse_rest(text, rest),
            None => Ok(Self { cloud: None, path: text.to_owned() }),
        }
    }

    /// Reads a text that begins with `sector://`. Any other is none: a path of this machine.
    ///
    /// # Errors
    /// As [`parse`](Self::parse).
    pub fn parse_url(text: &str) -> Result<Option<Self>, ClientError> {
        text.strip_prefix(SCHEME).map(|rest| Self::parse_rest(text, rest)).transpose()
    }

    fn parse_rest(text: &str, rest: &str) -> Result<Self, ClientError> {
        let (cloud, path) = match rest.strip_prefix('@') {
            None => (None, rest),
            Some(named) => {
                let (name, path) = named.split_once('/').unwrap_or((named, ""));
                (Some(name.to_owned()), path)
            }
        };
        if cloud.as_deref() == Some("") {
            let message = format!(
                "`{text}` names no cloud: write `sector://@NAME/path` for a path in the cloud of the profile NAME, and \
                 `sector:///@…` for a name that begins with `@`"
            );
            return Err(ClientError::Usage(message));
        }
        Ok(Self { cloud, path: format!("/{}", path.trim_start_matches('/')) })
    }
}

/// What every path in a cloud may begin with.
const SCHEME: &str = "sector://";

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use protocol::Status;

    use super::*;

    #[test]
    fn a_url_names_the_path_below_the_root_and_the_cloud_where_it_begins_with_at() {
        for (text, cloud, path) in [
            ("sector://a/b", None, "/a/b"),
            ("sector:///a/", None, "/a/"),
            ("sector://", None, "/"),
            ("sector:///@a/b", None, "/@a/b"),
            ("sector://@chicago/a/b/", Some("chicago"), "/a/b/"),
            ("sector://@chicago//a", Some("chicago"), "/a"),
            ("sector://@chicago", Some("chicago"), "/"),
            ("/a", None, "/a"),
            ("/@a/b", None, "/@a/b"),
            ("a", None, "a"),
        ] {
            let location = Location { cloud: cloud.map(str::to_owned), path: path.to_owned() };
            assert_eq!(Location::parse(text).unwrap(), location, "{text}");
            let is_url = text.starts_with("sector://");
            assert_eq!(Location::parse_url(text).unwrap(), is_url.then_some(location), "{text}");
        }
        for text in ["sector://@", "sector://@/a"] {
            assert_eq!(Location::parse(text).unwrap_err().status(), Status::Usage, "{text}");
        }
    }
}
