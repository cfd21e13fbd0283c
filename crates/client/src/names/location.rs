//! A place in a cloud as people write it: `/folder/file` or `sector://folder/file`. In another cloud it is
//! `sector://@NAME/folder/file`, by the name of its profile, or `sector://HOST:PORT/folder/file`, by its master's
//! address. It never asks whether something is there.

use std::fmt;

use protocol::HostAddress;

use crate::ClientError;

/// A path, and the cloud that it lies in, where one is written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Location {
    /// The cloud; `None`: that which a command works with.
    pub cloud: Option<CloudName>,
    /// The path, not checked. A slash at its end stays, since it says that a folder is meant.
    pub path: String,
}

/// How a path says in which cloud it lies.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CloudName {
    /// That of the profile of this name.
    Profile(String),
    /// That of the master at this address, as `sector up` prints it.
    At(HostAddress),
}

impl fmt::Display for CloudName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Profile(name) => f.write_str(name),
            Self::At(address) => address.fmt(f),
        }
    }
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
        let (first, below) = rest.split_once('/').unwrap_or((rest, ""));
        let (cloud, path) = match (first.strip_prefix('@'), first.parse()) {
            (Some(name), _) => (Some(CloudName::Profile(name.to_owned())), below),
            (None, Ok(address)) => (Some(CloudName::At(address)), below),
            (None, Err(_)) => (None, rest),
        };
        if cloud == Some(CloudName::Profile(String::new())) {
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
    fn a_url_names_the_path_below_the_root_and_the_cloud_by_name_or_address() {
        for (text, cloud, path) in [
            ("sector://a/b", None, "/a/b"),
            ("sector:///a/", None, "/a/"),
            ("sector://", None, "/"),
            ("sector:///@a/b", None, "/@a/b"),
            ("sector://@chicago/a/b/", Some("@chicago"), "/a/b/"),
            ("sector://@chicago//a", Some("@chicago"), "/a"),
            ("sector://@chicago", Some("@chicago"), "/"),
            ("sector://127.0.0.1:7400/a/b/", Some("127.0.0.1:7400"), "/a/b/"),
            ("sector://master.example.org:7400", Some("master.example.org:7400"), "/"),
            ("sector://[::1]:7400/a", Some("[::1]:7400"), "/a"),
            ("sector:///127.0.0.1:7400/a", None, "/127.0.0.1:7400/a"),
            ("sector://a:b/c", None, "/a:b/c"),
            ("/a", None, "/a"),
            ("/@a/b", None, "/@a/b"),
            ("a", None, "a"),
        ] {
            let cloud = cloud.map(|text: &str| match text.strip_prefix('@') {
                Some(name) => CloudName::Profile(name.to_owned()),
                None => CloudName::At(text.parse().unwrap()),
            });
            let location = Location { cloud, path: path.to_owned() };
            assert_eq!(Location::parse(text).unwrap(), location, "{text}");
            let is_url = text.starts_with("sector://");
            assert_eq!(Location::parse_url(text).unwrap(), is_url.then_some(location), "{text}");
        }
        for text in ["sector://@", "sector://@/a"] {
            assert_eq!(Location::parse(text).unwrap_err().status(), Status::Usage, "{text}");
        }
    }
}
