//! Intervals of numbers (DALI 1.1, 3.3.2): two of them with a blank between, or one for both ends. It never has a unit.

use std::{fmt, str::FromStr};

use crate::Fault;

/// From one number to another; each end may be open.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Interval {
    /// The lower end, `-Inf` where it is open.
    pub low: f64,
    /// The upper end, `+Inf` where it is open.
    pub high: f64,
}

impl Interval {
    /// Whether it has a number in common with the one from `low` to `high`.
    pub fn overlaps(&self, low: f64, high: f64) -> bool {
        low <= self.high && high >= self.low
    }
}

impl FromStr for Interval {
    type Err = Fault;

    fn from_str(text: &str) -> Result<Self, Fault> {
        let wrong = || Fault::Usage(format!("`{text}` is no interval: write two ascending numbers, or -Inf and +Inf"));
        let number = |word: &str| word.parse::<f64>().ok().filter(|number| !number.is_nan()).ok_or_else(wrong);
        let words: Vec<_> = text.split_ascii_whitespace().collect();
        let (low, high) = match words[..] {
            [one] => (number(one)?, number(one)?),
            [low, high] => (number(low)?, number(high)?),
            _ => return Err(wrong()),
        };
        let is_somewhere = low < f64::INFINITY && high > f64::NEG_INFINITY;
        if low <= high && is_somewhere { Ok(Self { low, high }) } else { Err(wrong()) }
    }
}

impl fmt::Display for Interval {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let end = |number: f64| match number {
            f64::NEG_INFINITY => "-Inf".to_owned(),
            f64::INFINITY => "+Inf".to_owned(),
            number => number.to_string(),
        };
        write!(f, "{} {}", end(self.low), end(self.high))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn intervals_are_read_with_open_ends_and_nonsense_is_refused() {
        for (text, low, high) in [
            ("1 2", 1.0, 2.0),
            ("5e-7", 5e-7, 5e-7),
            ("-Inf 3", f64::NEG_INFINITY, 3.0),
            ("3 +Inf", 3.0, f64::INFINITY),
        ] {
            assert_eq!(text.parse(), Ok(Interval { low, high }), "{text}");
        }
        for text in ["", "2 1", "a b", "1 2 3", "NaN 1", "1 NaN", "Inf Inf", "-Inf -Inf", "1/2"] {
            assert!(text.parse::<Interval>().is_err(), "{text}");
        }
        let open: Interval = "-Inf +Inf".parse().expect("it is one");
        assert_eq!(open.to_string(), "-Inf +Inf");
        assert!(open.overlaps(1.0, 1.0) && !Interval { low: 0.0, high: 1.0 }.overlaps(1.5, 2.0));
    }
}
