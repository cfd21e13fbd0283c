//! Names of things: each is a type of its own, so that a lease is never mistaken for a session.

pub mod path;
pub mod side_file_name;

use std::{fmt, str::FromStr, sync::Arc};

use serde::{Deserialize, Serialize, Serializer};
use thiserror::Error;

use crate::limits;

/// Why a text that should name something was refused.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("`{text}` is not a valid {what}: {why}")]
pub struct IdError {
    pub(crate) what: &'static str,
    pub(crate) text: String,
    pub(crate) why: &'static str,
}

macro_rules! number_id {
    ($(#[$doc:meta])* $name:ident($inner:ty), $width:literal, $what:literal) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        pub struct $name(pub $inner);

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, concat!("{:0", $width, "x}"), self.0)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, concat!(stringify!($name), "({})"), self)
            }
        }

        impl FromStr for $name {
            type Err = IdError;
            fn from_str(text: &str) -> Result<Self, IdError> {
                let error = |why| IdError { what: $what, text: text.chars().take(64).collect(), why };
                // `from_str_radix` would accept a sign; an id has none.
                if !text.bytes().all(|byte| byte.is_ascii_hexdigit()) {
                    return Err(error("only hexadecimal digits are allowed"));
                }
                <$inner>::from_str_radix(text, 16).map(Self).map_err(|_| error("too long or empty"))
            }
        }
    };
}

number_id!(
    /// One version of one file's bytes, wherever its replicas lie. The master chooses it at random. So ids stay unique
    /// although a master that lost everything does not know which it has given out.
    SliceId(u128), "32", "slice id"
);
number_id!(
    /// A file or folder in the master's name space; it stays the same when the path changes.
    FileId(u64), "16", "file id"
);
number_id!(
    /// A secured conversation with the master (GMP session): a client's or a node's, from login to logout.
    SessionId(u64), "16", "session id"
);
number_id!(
    /// The right to write one path, until it ends or is used.
    LeaseId(u64), "16", "lease id"
);
number_id!(
    /// Identifies one upload of one local file to one path, the same at every attempt. The client makes it from the
    /// file (path, length, time of change) and its destination. It means something only together with the user.
    ResumeKey(u128), "32", "resume key"
);
number_id!(
    /// A Sphere job.
    JobId(u64), "16", "job id"
);
number_id!(
    /// A master's journal, from its creation on. Chosen at random, so that what was written under a lost journal is
    /// recognized without comparing clocks. 0 stands for a journal from before there were such ids.
    JournalId(u64), "16", "journal id"
);
number_id!(
    /// What proved a user: a login session or a named token, as the security server keeps them. It reveals nothing of
    /// the secret itself. 0 stands for a password, which begins no session.
    CredentialId(u64), "16", "session id"
);
number_id!(
    /// The first 128 bits of the SHA-256 of a public key. It is short enough for a person to compare, and nobody finds
    /// another key with the same.
    KeyDigest(u128), "32", "key's digest"
);

/// The age of a file's content at one path. Larger is newer, also across deletion and re-creation of the path.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, Default)]
pub struct Version(pub u64);

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

macro_rules! text_id {
    ($(#[$doc:meta])* $name:ident, $what:literal) => {
        $(#[$doc])*
        #[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Deserialize)]
        #[serde(try_from = "String")]
        // Shared: names are copied everywhere, and never change.
        pub struct $name(Arc<str>);

        impl Serialize for $name {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.serialize_str(&self.0)
            }
        }

        impl $name {
            /// Accepts letters, digits, `-`, `_` and `.`, not starting with `.` or `-`.
            pub fn new(text: impl Into<String>) -> Result<Self, IdError> {
                let text = text.into();
                let error = |why| IdError { what: $what, text: text.chars().take(64).collect(), why };
                if text.is_empty() || text.len() > limits::NAME_BYTES_MAX {
                    return Err(error("it must have 1 to 64 bytes"));
                }
                if text.starts_with(['.', '-']) {
                    return Err(error("it may not start with `.` or `-`"));
                }
                if !text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte)) {
                    return Err(error("only letters, digits, `-`, `_` and `.` are allowed"));
                }
                Ok(Self(text.into()))
            }

            /// The name as text.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(f)
            }
        }

        impl FromStr for $name {
            type Err = IdError;
            fn from_str(text: &str) -> Result<Self, IdError> {
                Self::new(text)
            }
        }

        impl TryFrom<String> for $name {
            type Error = IdError;
            fn try_from(text: String) -> Result<Self, IdError> {
                Self::new(text)
            }
        }

        impl From<$name> for String {
            fn from(name: $name) -> Self {
                name.0.as_ref().into()
            }
        }
    };
}

text_id!(
    /// A node (the papers' slave), named by the operator: `node-1`.
    NodeId,
    "node id"
);
text_id!(
    /// A user known to the security server.
    UserName,
    "user name"
);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_print_as_fixed_hexadecimal_and_parse_back() {
        let id = SliceId(0xabc);
        assert_eq!(id.to_string(), "00000000000000000000000000000abc");
        assert_eq!(id.to_string().parse(), Ok(id));
        assert_eq!("ff".parse(), Ok(JobId(255)));
    }

    #[test]
    fn a_number_with_a_sign_a_blank_or_too_many_digits_is_refused() {
        for text in ["", "+1", "-1", " 1", "xyz", "11112222333344445"] {
            assert!(text.parse::<JobId>().is_err(), "{text:?}");
        }
    }

    #[test]
    fn a_name_that_could_be_a_path_or_an_option_is_refused() {
        for text in ["", ".", "..", "-rf", "a/b", "a b", "é", &"x".repeat(65)] {
            assert!(NodeId::new(text).is_err(), "{text:?}");
        }
        assert_eq!(NodeId::new("node-1.rack_2").map(String::from), Ok("node-1.rack_2".into()));
    }
}
