//! Rates of bytes as people write them: `200 Mbit/s`, `200mbit`, `25 MB/s`, `25M`, or a plain number of bytes per second.
//! They serve the limits of transfers and between sites, and emulated links. Never a measured rate: those are numbers all along.

pub mod carrier;
pub mod rate_limit;

use std::fmt;

use thiserror::Error;

/// A text that is no rate.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("`{0}` is not a rate: write it like \"200 Mbit/s\", \"25 MB/s\", \"24 MiB/s\", or as bytes per second")]
pub struct RateError(String);

/// Reads a rate; gives bytes per second. A number without a unit is bytes per second.
///
/// # Errors
/// When it is no number with a known unit, or does not fit in 64 bits.
pub fn parse(text: &str) -> Result<u64, RateError> {
    read(text, BITS_OF_BYTE).map(|bits| (bits / BITS_OF_BYTE) as u64)
}

/// Reads the rate of a link; gives bits per second. A number without a unit is bits per second.
///
/// # Errors
/// As [`parse`].
pub fn parse_bits(text: &str) -> Result<u64, RateError> {
    read(text, 1.0).map(|bits| bits.round() as u64)
}

/// Reads a rate; gives bits per second. A number without a unit is whole, and `plain` bits per second each.
fn read(text: &str, plain: f64) -> Result<f64, RateError> {
    let error = || RateError(text.chars().take(64).collect());
    let trimmed = text.trim();
    let split = trimmed.find(|letter: char| !letter.is_ascii_digit() && letter != '.').unwrap_or(trimmed.len());
    let (number, unit) = trimmed.split_at(split);
    let unit = unit.trim();
    if unit.is_empty() {
        return number.parse::<u64>().map(|number| number as f64 * plain).map_err(|_| error());
    }
    let number: f64 = number.parse().map_err(|_| error())?;
    // `25M` is 25 MB/s, and of a link 25 Mbit/s, as a plain number is.
    if let Some((_, scale)) = SCALES.iter().find(|(letter, _)| unit.eq_ignore_ascii_case(letter)) {
        let rate = number * scale * plain;
        return if rate.is_finite() && rate < MOST { Ok(rate) } else { Err(error()) };
    }
    // `25MB` can be nothing but 25 MB/s.
    let unit = if unit.ends_with('B') { format!("{unit}/s") } else { unit.to_owned() };
    let unit = unit.as_str();
    let short = |name: &str| name.strip_suffix("bit/s").is_some_and(|scale| is_short(unit, scale));
    let (_, bits) = UNITS.iter().find(|(name, _)| *name == unit || short(name)).ok_or_else(error)?;
    let rate = number * bits;
    if rate.is_finite() && rate < MOST { Ok(rate) } else { Err(error()) }
}

/// A rate for people, in the bits per second in which links are sold.
pub struct Shown(
    /// Bytes per second.
    pub u64,
);

impl fmt::Display for Shown {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let bits = self.0 as f64 * 8.0;
        let (number, unit) = match bits {
            0.0..1e6 => (bits / 1e3, "kbit/s"),
            1e6..1e9 => (bits / 1e6, "Mbit/s"),
            _ => (bits / 1e9, "Gbit/s"),
        };
        let text = format!("{number:.2}");
        write!(f, "{} {unit}", text.trim_end_matches('0').trim_end_matches('.'))
    }
}

/// Whether a unit is the short form that is quickly typed: `100mbit`.
fn is_short(unit: &str, scale: &str) -> bool {
    let unit = unit.to_ascii_lowercase();
    unit.strip_suffix("bit").is_some_and(|typed| typed == scale.to_ascii_lowercase())
}

/// Units and their bits per second.
const UNITS: [(&str, f64); 10] = [
    ("kbit/s", 1e3),
    ("Mbit/s", 1e6),
    ("Gbit/s", 1e9),
    ("B/s", BITS_OF_BYTE),
    ("kB/s", 1e3 * BITS_OF_BYTE),
    ("MB/s", 1e6 * BITS_OF_BYTE),
    ("GB/s", 1e9 * BITS_OF_BYTE),
    ("KiB/s", 1024.0 * BITS_OF_BYTE),
    ("MiB/s", 1_048_576.0 * BITS_OF_BYTE),
    ("GiB/s", 1_073_741_824.0 * BITS_OF_BYTE),
];
/// What a letter alone stands for.
const SCALES: [(&str, f64); 3] = [("k", 1e3), ("M", 1e6), ("G", 1e9)];
const BITS_OF_BYTE: f64 = 8.0;
/// In bits per second: above every link there is, and far from where a `u64` ends.
const MOST: f64 = 8e15;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rate_is_read_in_bits_and_bytes() {
        for (text, bytes) in [
            ("200 Mbit/s", 25_000_000),
            ("200Mbit/s", 25_000_000),
            ("200mbit", 25_000_000),
            ("200 Mbit", 25_000_000),
            ("1gbit", 125_000_000),
            ("64kbit", 8_000),
            ("1.5 Gbit/s", 187_500_000),
            ("25 MB/s", 25_000_000),
            ("24 MiB/s", 25_165_824),
            (" 1000 ", 1_000),
            ("1000 B/s", 1_000),
            ("100k", 100_000),
            ("1.5M", 1_500_000),
            ("2g", 2_000_000_000),
            ("25MB", 25_000_000),
            ("24 MiB", 25_165_824),
        ] {
            assert_eq!(parse(text), Ok(bytes), "{text}");
        }
    }

    #[test]
    fn the_rate_of_a_link_is_read_in_bits() {
        for (text, bits) in [
            ("1gbit", 1_000_000_000),
            ("1.5 Gbit/s", 1_500_000_000),
            ("9.999kbit", 9_999),
            ("1 MB/s", 8_000_000),
            ("77", 77),
            ("100M", 100_000_000),
            ("1 MB", 8_000_000),
        ] {
            assert_eq!(parse_bits(text), Ok(bits), "{text}");
        }
        assert!(parse_bits("fast").is_err());
    }

    #[test]
    fn what_is_no_rate_is_refused_with_an_example() {
        for text in [
            "",
            "fast",
            "200",
            "200 Mb/s",
            "5bit",
            "5 MBIT/s",
            "-1 Mbit/s",
            "1e9 B/s",
            "1.2.3 MB/s",
            "inf B/s",
            "M",
            "5 T",
            "9999999G",
            "99999999 GB/s",
        ] {
            let read = parse(text);
            if text == "200" {
                assert_eq!(read, Ok(200));
                continue;
            }
            let error = read.map(|_| ()).map_err(|error| error.to_string());
            assert!(error.as_ref().is_err_and(|error| error.contains("200 Mbit/s")), "{text}: {error:?}");
        }
    }

    #[test]
    fn a_rate_is_shown_as_links_are_sold() {
        assert_eq!(Shown(25_000_000).to_string(), "200 Mbit/s");
        assert_eq!(Shown(187_500_000).to_string(), "1.5 Gbit/s");
        assert_eq!(Shown(8_000).to_string(), "64 kbit/s");
    }
}
