//! Errors of functions that are alike: the same function, of the same stage, said the same. Where a function fails on
//! hundreds of segments for one reason, people are told it once. Serves the path *job*. It never keeps an error itself,
//! and counts each in exactly one group.

use std::{
    collections::BTreeMap,
    hash::{DefaultHasher, Hash, Hasher},
};

/// Groups of errors that are alike, in the order of their first.
#[derive(Debug, Default)]
pub struct ErrorGroups {
    groups: Vec<ErrorGroup>,
    /// The group of a stage, a function and a message, by their hash: messages are long, and there may be many.
    by_hash: BTreeMap<u64, usize>,
    added: usize,
}

/// Errors that are alike.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ErrorGroup {
    /// The place of its first error among those that were added.
    pub first: usize,
    /// The segments of the first few.
    pub segments: Vec<u64>,
    /// How many there are.
    pub count: usize,
}

impl ErrorGroups {
    /// Adds the next error.
    pub fn add(&mut self, stage: u32, function: &str, message: &str, segment: u64) {
        let mut hasher = DefaultHasher::new();
        (stage, function, message).hash(&mut hasher);
        let new = self.groups.len();
        let group = *self.by_hash.entry(hasher.finish()).or_insert(new);
        if group == new {
            self.groups.push(ErrorGroup { first: self.added, segments: Vec::new(), count: 0 });
        }
        self.added += 1;
        if let Some(group) = self.groups.get_mut(group) {
            group.count += 1;
            if group.segments.len() < SEGMENTS_NAMED_MAX {
                group.segments.push(segment);
            }
        }
    }

    /// All groups.
    pub fn groups(&self) -> &[ErrorGroup] {
        &self.groups
    }
}

impl ErrorGroup {
    /// What precedes the first error's sentence, for people.
    pub fn preface(&self) -> String {
        if self.count == 1 {
            return String::new();
        }
        let segments: Vec<_> = self.segments.iter().map(u64::to_string).collect();
        let more = if self.count > segments.len() { " …" } else { "" };
        format!("{} segments failed alike ({}{more}): ", self.count, segments.join(", "))
    }
}

/// Segments of a group that are named.
const SEGMENTS_NAMED_MAX: usize = 5;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_errors_are_one_group_with_their_number_and_the_first_segments() {
        let mut errors = ErrorGroups::default();
        for segment in 0..500 {
            errors.add(0, "parse", if segment == 3 { "no number" } else { "no line" }, 1_000 - segment);
        }
        errors.add(1, "parse", "no line", 7);
        errors.add(0, "other", "no line", 8);
        let prefaces: Vec<_> = errors.groups().iter().map(|group| (group.first, group.preface())).collect();
        let alike = "499 segments failed alike (1000, 999, 998, 996, 995 …): ".to_owned();
        assert_eq!(prefaces, [(0, alike), (3, String::new()), (500, String::new()), (501, String::new())]);
        assert_eq!(errors.groups().iter().map(|group| group.count).sum::<usize>(), 502);
    }
}
