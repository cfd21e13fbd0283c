//! What functions count, by name (Hadoop's counters; Sector/Sphere paper, 3.3: an SPE reports its progress and its
//! end). They travel at doors 6 and 7 with a task's result, and at door 2 with a job's record. Decoded counters never
//! exceed the [limits](crate::limits), whoever sent them.

use std::{collections::BTreeMap, fmt};

use serde::{Deserialize, Serialize};

use crate::limits::{COUNTER_NAME_BYTES_MAX, COUNTERS_MAX};

/// Counts by name, at most [`COUNTERS_MAX`]. Sums are modulo 2⁶⁴, so that what was added can be taken back.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "BTreeMap<String, u64>", into = "BTreeMap<String, u64>")]
pub struct Counters(BTreeMap<String, u64>);

/// Why something was not counted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CounterError {
    /// This text cannot be a name; a long one is cut.
    Name(String),
    /// There are already as many names as allowed.
    TooMany,
}

impl Counters {
    /// No counts.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds to a counter, which exists from then on, even when 0 was added.
    ///
    /// # Errors
    /// For an invalid name, and for one name too many; nothing is counted then.
    pub fn add(&mut self, name: &str, count: u64) -> Result<(), CounterError> {
        if let Some(known) = self.0.get_mut(name) {
            *known = known.wrapping_add(count);
            return Ok(());
        }
        if !is_name(name) {
            return Err(CounterError::Name(name.chars().take(SHOWN_CHARS).collect()));
        }
        if self.0.len() >= COUNTERS_MAX {
            return Err(CounterError::TooMany);
        }
        self.0.insert(name.to_owned(), count);
        Ok(())
    }

    /// A count; `None` where nobody has counted under this name.
    pub fn get(&self, name: &str) -> Option<u64> {
        self.0.get(name).copied()
    }

    /// Names and counts, in the order of the names.
    pub fn iter(&self) -> impl Iterator<Item = (&str, u64)> {
        self.0.iter().map(|(name, count)| (name.as_str(), *count))
    }

    /// How many names there are.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether nobody has counted anything.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl TryFrom<BTreeMap<String, u64>> for Counters {
    type Error = CounterError;

    fn try_from(counts: BTreeMap<String, u64>) -> Result<Self, CounterError> {
        if counts.len() > COUNTERS_MAX {
            return Err(CounterError::TooMany);
        }
        match counts.keys().find(|name| !is_name(name)) {
            Some(name) => Err(CounterError::Name(name.chars().take(SHOWN_CHARS).collect())),
            None => Ok(Self(counts)),
        }
    }
}

impl From<Counters> for BTreeMap<String, u64> {
    fn from(counters: Counters) -> Self {
        counters.0
    }
}

impl fmt::Display for CounterError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Name(name) => write!(
                f,
                "`{}` cannot be the name of a counter: give it 1 to {COUNTER_NAME_BYTES_MAX} bytes without control characters",
                name.escape_debug()
            ),
            Self::TooMany => {
                write!(f, "there are more than {COUNTERS_MAX} counters: emit what has many names as results instead")
            }
        }
    }
}

impl std::error::Error for CounterError {}

fn is_name(name: &str) -> bool {
    (1..=COUNTER_NAME_BYTES_MAX).contains(&name.len()) && !name.chars().any(char::is_control)
}

/// Characters that are shown of what cannot be a name.
const SHOWN_CHARS: usize = 40;

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::wire::codec;

    #[test]
    fn counts_add_up_by_name_and_nothing_added_is_a_count_too() {
        let mut counters = Counters::new();
        for (name, count) in [("bad lines", 2), ("Ärger", 0), ("bad lines", 3)] {
            counters.add(name, count).unwrap();
        }
        assert_eq!(counters.iter().collect::<Vec<_>>(), [("bad lines", 5), ("Ärger", 0)]);
        assert_eq!((counters.get("Ärger"), counters.get("other")), (Some(0), None));
        assert_eq!(codec::decode::<Counters>(&codec::encode(&counters)).unwrap(), counters);
    }

    #[test]
    fn bad_names_and_one_too_many_are_neither_counted_nor_decoded() {
        let mut counters = Counters::new();
        for name in ["", "a\nb", "\u{7f}", &"x".repeat(COUNTER_NAME_BYTES_MAX + 1)] {
            assert!(matches!(counters.add(name, 1), Err(CounterError::Name(_))), "{name:?}");
            let sent = BTreeMap::from([(name.to_owned(), 1_u64)]);
            assert!(codec::decode::<Counters>(&codec::encode(&sent)).is_err(), "{name:?}");
        }
        for number in 0..COUNTERS_MAX {
            counters.add(&format!("counter {number}"), 1).unwrap();
        }
        assert_eq!(counters.add("one more", 1), Err(CounterError::TooMany));
        assert_eq!((counters.add("counter 7", 1), counters.get("counter 7")), (Ok(()), Some(2)));
        let mut sent = BTreeMap::from(counters.clone());
        assert!(codec::decode::<Counters>(&codec::encode(&sent)).is_ok());
        sent.insert("one more".into(), 1);
        assert!(codec::decode::<Counters>(&codec::encode(&sent)).is_err());
    }
}
