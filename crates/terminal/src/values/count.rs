//! Counts as people write them: `5000`, `5k`, `2.5M`, `1G`. A letter stands for thousands, since nobody counts things in
//! powers of two. It never reads sizes in bytes or rates, which have units of their own.

use std::{fmt::Display, ops::RangeBounds};

/// Reads a count; what is left of a fraction of its unit must be whole.
///
/// # Errors
/// A sentence, if it is none, or too large for `T`.
pub fn count_of<T: TryFrom<u64>>(text: &str) -> Result<T, String> {
    let wrong = || format!("`{text}` is no count: write it like 5000, 5k, 2.5M or 1G");
    let (number, zeros) = match text.char_indices().next_back() {
        Some((at, 'k' | 'K')) => (&text[..at], 3),
        Some((at, 'M')) => (&text[..at], 6),
        Some((at, 'G')) => (&text[..at], 9),
        Some((at, 'T')) => (&text[..at], 12),
        _ => (text, 0),
    };
    let (whole, part) = number.split_once('.').unwrap_or((number, "0"));
    let are_digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    if !are_digits(whole) || !are_digits(part) || (zeros == 0 && number.contains('.')) {
        return Err(wrong());
    }
    let part = part.trim_end_matches('0');
    if part.len() > zeros {
        return Err(format!("`{text}` is no whole number"));
    }
    let count = format!("{whole}{part:0<zeros$}").parse::<u64>().map_err(|_| format!("`{text}` is too large"))?;
    T::try_from(count).map_err(|_| format!("`{text}` is too large"))
}

/// Reads a count within these bounds, for a command line.
pub fn count_within<T>(bounds: impl RangeBounds<T> + Clone) -> impl Fn(&str) -> Result<T, String> + Clone
where
    T: TryFrom<u64> + PartialOrd + Display,
{
    move |text| {
        let count: T = count_of(text)?;
        if bounds.contains(&count) {
            return Ok(count);
        }
        let from = bound("at least", bounds.start_bound());
        let to = bound("at most", bounds.end_bound());
        Err(format!("give {}", [from, to].into_iter().flatten().collect::<Vec<_>>().join(" and ")))
    }
}

fn bound<T: Display>(what: &str, bound: std::ops::Bound<&T>) -> Option<String> {
    match bound {
        std::ops::Bound::Included(bound) => Some(format!("{what} {bound}")),
        std::ops::Bound::Excluded(bound) => Some(format!("{what} {bound}, and not that")),
        std::ops::Bound::Unbounded => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_count_has_thousands_as_a_letter_and_is_whole() {
        for (text, count) in [
            ("0", 0),
            ("5000", 5_000),
            ("5k", 5_000),
            ("5K", 5_000),
            ("2.5M", 2_500_000),
            ("0.001k", 1),
            ("1.50k", 1_500),
            ("1G", 1_000_000_000),
            ("3T", 3_000_000_000_000),
            ("18446744073709551615", u64::MAX),
        ] {
            assert_eq!(count_of(text), Ok(count), "{text}");
        }
        for text in ["", "k", "-1", "+1", "1.5", "1.", ".5k", "5m", "5kB", "5 k", "1e3", "0.0001k", "99999999999T", "é"]
        {
            assert!(count_of::<u64>(text).is_err(), "{text}");
        }
        assert_eq!(count_of::<u32>("5G"), Err("`5G` is too large".into()));
    }

    #[test]
    fn a_count_beyond_its_bounds_is_refused_with_them() {
        let read = count_within(1..=512_u32);
        assert_eq!((read("1"), read("0.5k")), (Ok(1), Ok(500)));
        assert_eq!(read("1k"), Err("give at least 1 and at most 512".into()));
        assert_eq!(count_within(1_u32..)("0"), Err("give at least 1".into()));
    }
}
