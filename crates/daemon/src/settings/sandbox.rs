//! Values of the settings about the sandbox of user functions. It never checks what the kernel offers.

use std::{fmt, ops::RangeInclusive};

use serde::{Deserialize, Serialize, de};

/// What to do if the kernel lacks a part of the sandbox.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum SandboxDemand {
    /// Functions run with the available parts.
    Best,
    /// Functions are refused.
    Required,
}

/// User numbers, first and last, written `200000-200063`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UserRange {
    first: u32,
    last: u32,
}

impl UserRange {
    /// All of them.
    pub fn range(self) -> RangeInclusive<u32> {
        self.first..=self.last
    }

    fn parse(text: &str) -> Option<Self> {
        let (first, last) = text.split_once('-')?;
        let (first, last) = (first.trim().parse().ok()?, last.trim().parse().ok()?);
        // Below 1000 are the system's own users, and -1 (like 65534, "nobody") means something else to the kernel.
        (USERS_FIRST <= first && first <= last && last < u32::MAX).then_some(Self { first, last })
    }
}

impl fmt::Display for UserRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.first, self.last)
    }
}

impl Serialize for UserRange {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for UserRange {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        let why = "user numbers are given as `first-last`, from 1000 up, for example `200000-200063`";
        Self::parse(&text).ok_or_else(|| de::Error::custom(why))
    }
}

/// The first number that is not the system's own.
const USERS_FIRST: u32 = 1_000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_range_of_users_is_read_and_written_and_never_the_systems_own() {
        let range = UserRange::parse("200000-200063").map(UserRange::range);
        assert_eq!(range, Some(200_000..=200_063));
        assert_eq!(UserRange { first: 5_000, last: 5_000 }.to_string(), "5000-5000");
        for wrong in ["", "5000", "0-5000", "6000-5000", "5000-4294967295", "a-b", "5000-99999999999"] {
            assert_eq!(UserRange::parse(wrong), None, "{wrong}");
        }
    }
}
