//! What the header `Range` asks for (RFC 9110, 14.1.2). Doors that answer with several parts take them, others send the whole.
//! It never gives a range that the file has not.

use std::ops::Range;

/// What `Range` asks for.
#[derive(Debug, PartialEq, Eq)]
pub enum AskedRanges {
    /// These parts, in the order in which they are asked for. There is at least one, and none is empty.
    Parts(Vec<Range<u64>>),
    /// It is in a form that servers may ignore.
    Ignored,
    /// The file has no such bytes.
    Outside,
}

impl AskedRanges {
    /// The parts of a file of `bytes` bytes. More than a hundred parts are ignored: they cost more than the whole.
    pub fn parse(text: &str, bytes: u64) -> Self {
        let Some(list) = text.strip_prefix("bytes=") else { return Self::Ignored };
        let mut parts = Vec::new();
        for (at, part) in list.split(',').enumerate() {
            match part_of(part.trim(), bytes) {
                Some(range) if at < PARTS_MAX => parts.extend((range.start < range.end).then_some(range)),
                _ => return Self::Ignored,
            }
        }
        // Parts that overlap would be more than the whole.
        if parts.iter().map(|part| part.end - part.start).sum::<u64>() > bytes {
            return Self::Ignored;
        }
        if parts.is_empty() { Self::Outside } else { Self::Parts(parts) }
    }
}

/// One part, which is empty where the file has no such bytes.
fn part_of(text: &str, bytes: u64) -> Option<Range<u64>> {
    let number =
        |text: &str| text.bytes().all(|byte| byte.is_ascii_digit()).then(|| text.parse::<u64>().ok()).flatten();
    let (first, last) = text.split_once('-')?;
    match (first.trim(), last.trim()) {
        ("", last) => Some(bytes.saturating_sub(number(last)?)..bytes),
        (first, "") => Some(number(first)?..bytes),
        (first, last) => {
            let (first, last) = (number(first)?, number(last)?);
            (first <= last).then(|| first..last.saturating_add(1).min(bytes))
        }
    }
}

/// Parts of one request.
const PARTS_MAX: usize = 100;

#[cfg(test)]
mod tests {
    use super::*;

    fn parts(text: &str) -> AskedRanges {
        AskedRanges::parse(text, 10)
    }

    #[test]
    fn ranges_are_those_of_the_standard() {
        for (text, wanted) in [
            ("bytes=0-0", 0..1),
            ("bytes=5-", 5..10),
            ("bytes=-3", 7..10),
            ("bytes=-30", 0..10),
            ("bytes=2-18446744073709551615", 2..10),
        ] {
            assert_eq!(parts(text), AskedRanges::Parts([wanted].to_vec()), "{text}");
        }
        assert_eq!(parts("bytes=1-2, 4-5,-1"), AskedRanges::Parts(vec![1..3, 4..6, 9..10]));
        assert_eq!(parts("bytes=1-2,20-30"), parts("bytes=1-2"), "what is outside is left out");
        for outside in ["bytes=10-", "bytes=-0", "bytes=10-11,20-"] {
            assert_eq!(parts(outside), AskedRanges::Outside, "{outside}");
        }
        for ignored in [
            "bytes=5-2",
            "lines=1-2",
            "bytes=-",
            "bytes=+1-2",
            "bytes=a-",
            "bytes=",
            "bytes=1-2,x",
            "bytes=0-99999999999999999999",
        ] {
            assert_eq!(parts(ignored), AskedRanges::Ignored, "{ignored}");
        }
        assert_eq!(parts("bytes=0-,1-"), AskedRanges::Ignored, "more than the whole");
        let many = vec!["0-0"; PARTS_MAX + 1].join(",");
        assert_eq!(parts(&format!("bytes={many}")), AskedRanges::Ignored);
    }
}
