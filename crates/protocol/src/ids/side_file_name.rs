//! A function's name for a side file: a small slice that every call of a stage's function may read. It travels at doors
//! 6 and 7, and is part of a variable's name for programs, and of a file's. A decoded name is never invalid, whoever
//! sent it.

use std::{fmt, str::FromStr};

use serde::{Deserialize, Serialize};

use crate::{ids::IdError, limits::NAME_BYTES_MAX};

/// The name of a side file: letters, digits and `_`, not starting with a digit. Decoding checks it too.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct SideFileName(String);

impl SideFileName {
    /// Takes a name.
    ///
    /// # Errors
    /// For a name that is empty, longer than [`NAME_BYTES_MAX`] or has other characters.
    pub fn new(text: impl Into<String>) -> Result<Self, IdError> {
        let text = text.into();
        let error =
            |why| IdError { what: "name of a side file", text: text.chars().take(NAME_BYTES_MAX).collect(), why };
        if text.is_empty() || text.len() > NAME_BYTES_MAX {
            return Err(error("it must have 1 to 64 bytes"));
        }
        if text.starts_with(|first: char| first.is_ascii_digit()) {
            return Err(error("it may not start with a digit"));
        }
        if !text.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_') {
            return Err(error("only letters, digits and `_` are allowed"));
        }
        Ok(Self(text))
    }

    /// The name as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for SideFileName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl FromStr for SideFileName {
    type Err = IdError;
    fn from_str(text: &str) -> Result<Self, IdError> {
        Self::new(text)
    }
}

impl TryFrom<String> for SideFileName {
    type Error = IdError;
    fn try_from(text: String) -> Result<Self, IdError> {
        Self::new(text)
    }
}

impl From<SideFileName> for String {
    fn from(name: SideFileName) -> Self {
        name.0
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::wire::codec;

    #[test]
    fn a_name_is_one_that_a_variable_and_a_file_may_have() {
        for name in ["centres", "_", "A1_b", &"x".repeat(64)] {
            assert_eq!(SideFileName::new(name).unwrap().as_str(), name);
        }
        for text in ["", "1st", "a-b", "a.b", "a/b", "..", "ä", "a b", &"x".repeat(65)] {
            assert!(SideFileName::new(text).is_err(), "{text:?}");
        }
    }

    #[test]
    fn what_is_no_name_does_not_pass_the_door() {
        let name = SideFileName::new("words").unwrap();
        assert_eq!(codec::decode::<SideFileName>(&codec::encode(&name)).unwrap(), name);
        assert!(codec::decode::<SideFileName>(&codec::encode(&"../words".to_owned())).is_err());
    }
}
