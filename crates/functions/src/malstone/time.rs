//! Time in MalStone: `YYYY-MM-DD HH:MM:SS.ffffff`, the period that is looked at, and its weeks. It serves `malgen` and
//! `malstone`. It knows no zones and no leap seconds, and never asks for the present time.

use udf::{FunctionError, Input};

/// Days that are looked at, from the start of one.
#[derive(Clone, Debug)]
pub(crate) struct Period {
    /// Days from 1970-01-01 to its first.
    first_day: i64,
    /// Its length in microseconds.
    micros: u64,
    /// The year before its first.
    first_year: u64,
    /// From that year on, for each month its first day within the period, and its days; 16 places a year.
    months: Vec<(i64, u64)>,
}

impl Period {
    /// The period of the parameters `start` and `days`.
    pub(crate) fn of(input: &Input<'_>) -> Result<Self, FunctionError> {
        let start = input.required_parameter("start")?;
        let first_day =
            parse_date(start).map_err(|error| FunctionError::new(format!("the parameter `start`: {error}")))?;
        let days: u64 = input.parsed_parameter("days", DAYS_DEFAULT)?;
        if days == 0 || days > DAYS_MAX {
            return Err(FunctionError::new(format!("the parameter `days` must be 1 to {DAYS_MAX}, not {days}")));
        }
        Ok(Self::new(first_day, days))
    }

    fn new(first_day: i64, days: u64) -> Self {
        let year: u64 = date_text(first_day)[..4].parse().unwrap_or_default();
        let first_year = year.saturating_sub(1);
        let month =
            |at: u64| month_days(first_year + at / 16, at % 16).map_or((0, 0), |(day, days)| (day - first_day, days));
        Self { first_day, micros: days * DAY_MICROS, first_year, months: (0..16 * TABLE_YEARS).map(month).collect() }
    }

    /// Weeks of 7 × 24 hours from its start; the last may be shorter.
    pub(crate) fn weeks(&self) -> usize {
        self.micros.div_ceil(WEEK_MICROS) as usize
    }

    /// Microseconds since it began, of the bytes of a time; `Some(None)` if that is not within it, and `None` if it is no
    /// time. Eight characters are looked at together.
    #[inline(always)]
    pub(crate) fn micros_of(&self, text: &[u8; TIME_BYTES]) -> Option<Option<u64>> {
        let word = |at: usize| text[at..at + 8].first_chunk().map_or(0, |bytes| u64::from_le_bytes(*bytes));
        let (date, hour, end) = (word(0) ^ DATE_FORM, word(8) ^ HOUR_FORM, word(18) ^ END_FORM);
        // A sum that runs over the word comes of a byte that is too large by itself.
        let above = |word: u64, room: u64| word | word.wrapping_add(room);
        let is_formed = above(date, DATE_ROOM) | above(hour, HOUR_ROOM) | above(end, END_ROOM);
        // The colon and the tens of the seconds stand between.
        if is_formed & HIGH_HALVES != 0 || text[16] != b':' || text[17].wrapping_sub(b'0') > 5 {
            return None;
        }
        let digit = |word: u64, at: u32| (word >> (8 * at)) & 15;
        let pair = |word: u64, at: u32| digit(word, at) * 10 + digit(word, at + 1);
        let (year, month, day) = (pair(date, 0) * 100 + pair(date, 2), pair(date, 5), pair(hour, 0));
        let (first, days) = self.month(year, month)?;
        let (hours, minutes) = (pair(hour, 3), pair(hour, 6));
        let seconds = u64::from(text[17] - b'0') * 10 + digit(end, 0);
        if day == 0 || day > days || hours > 23 || minutes > 59 {
            return None;
        }
        let micros = pair(end, 2) * 10_000 + pair(end, 4) * 100 + pair(end, 6);
        let of_day = ((hours * 60 + minutes) * 60 + seconds) * 1_000_000 + micros;
        let since = (first + day as i64 - 1) * DAY_MICROS as i64 + of_day as i64;
        Some(u64::try_from(since).ok().filter(|since| *since < self.micros))
    }

    /// The first day of a month, counted from the period's, and its days.
    #[inline]
    fn month(&self, year: u64, month: u64) -> Option<(i64, u64)> {
        // A year before the table wraps around to far behind it.
        let place = year.wrapping_sub(self.first_year).wrapping_mul(16).wrapping_add(month);
        match self.months.get(place as usize) {
            Some((_, 0)) => None,
            Some(found) if month < 16 => Some(*found),
            _ => month_days(year, month).map(|(day, days)| (day - self.first_day, days)),
        }
    }
}

/// The day of a date `YYYY-MM-DD`, counted from 1970-01-01.
///
/// # Errors
/// A sentence, if it is none.
pub fn parse_date(text: &str) -> Result<i64, String> {
    let date = text.as_bytes().first_chunk::<10>().filter(|_| text.len() == 10);
    date.and_then(day_of).ok_or_else(|| format!("`{text}` is no date: write it like 2009-01-01"))
}

/// A day, counted from 1970-01-01, as `YYYY-MM-DD`.
pub(crate) fn date_text(day: i64) -> String {
    // Years that begin in March have their leap day last (Hinnant's days and civil dates).
    let day = day + DAYS_TO_1970;
    let (era, day) = (day.div_euclid(ERA_DAYS), day.rem_euclid(ERA_DAYS));
    let year = (day - day / 1_460 + day / 36_524 - day / 146_096) / 365;
    let of_year = day - (365 * year + year / 4 - year / 100);
    let march = (5 * of_year + 2) / 153;
    let month = if march < 10 { march + 3 } else { march - 9 };
    let year = year + era * 400 + i64::from(month <= 2);
    format!("{year:04}-{month:02}-{:02}", of_year - (153 * march + 2) / 5 + 1)
}

fn day_of(text: &[u8; 10]) -> Option<i64> {
    let pair = |at: usize| {
        let (tens, ones) = (text[at].wrapping_sub(b'0'), text[at + 1].wrapping_sub(b'0'));
        (tens < 10 && ones < 10).then(|| u64::from(tens) * 10 + u64::from(ones))
    };
    let (first, days) = month_days(pair(0)? * 100 + pair(2)?, pair(5)?)?;
    let day = pair(8)?;
    let is_day = text[4] == b'-' && text[7] == b'-' && day > 0 && day <= days;
    is_day.then_some(first + day as i64 - 1)
}

/// The first day of a month, counted from 1970-01-01, and its days.
fn month_days(year: u64, month: u64) -> Option<(i64, u64)> {
    let is_leap = year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400));
    let days = MONTH_DAYS.get(month as usize).filter(|days| **days > 0)? + u64::from(is_leap && month == 2);
    let (year, month) = (year as i64, month as i64);
    let (year, month) = if month <= 2 { (year - 1, month + 9) } else { (year, month - 3) };
    let (era, of_era) = (year.div_euclid(400), year.rem_euclid(400));
    let day = era * ERA_DAYS + of_era * 365 + of_era / 4 - of_era / 100 + (153 * month + 2) / 5;
    Some((day - DAYS_TO_1970, days))
}

/// `YYYY-MM-`, `DD HH:MM`, and `S.ffffff`, with zeros for digits. What is left of a text without them are digits, and
/// zeros.
const DATE_FORM: u64 = u64::from_le_bytes(*b"0000-00-");
const HOUR_FORM: u64 = u64::from_le_bytes(*b"00 00:00");
const END_FORM: u64 = u64::from_le_bytes(*b"0.000000");
/// What makes the upper half of a byte of that other than zero: 10 or more for a digit, anything for other characters.
const DATE_ROOM: u64 = 0x0f06_060f_0606_0606;
const HOUR_ROOM: u64 = 0x0606_0f06_060f_0606;
const END_ROOM: u64 = 0x0606_0606_0606_0f06;
const HIGH_HALVES: u64 = 0xf0f0_f0f0_f0f0_f0f0;
/// Years in the table of months: the one before the period, and those that it may have.
const TABLE_YEARS: u64 = 7;
/// Bytes of a time.
pub(crate) const TIME_BYTES: usize = 26;
/// Microseconds of a day, and of a week.
pub(crate) const DAY_MICROS: u64 = 86_400_000_000;
pub(crate) const WEEK_MICROS: u64 = 7 * DAY_MICROS;
/// Most days of a period: six bytes have room for a microsecond of it and a flag.
pub const DAYS_MAX: u64 = 1_461;
/// Days of a period of which nothing is said.
const DAYS_DEFAULT: u64 = 365;
/// Days of each month, from 1; 0 has none.
const MONTH_DAYS: [u64; 13] = [0, 31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];
/// Days of 400 years, and from 0000-03-01 to 1970-01-01.
const ERA_DAYS: i64 = 146_097;
const DAYS_TO_1970: i64 = 719_468;

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn days_and_dates_are_those_of_the_calendar() {
        assert_eq!((parse_date("1970-01-01"), parse_date("2009-01-01")), (Ok(0), Ok(14_245)));
        assert_eq!((parse_date("0000-03-01"), parse_date("2000-02-29")), (Ok(-719_468), Ok(11_016)));
        let mut last = String::new();
        for day in (-719_000..3_000).step_by(7).chain(3_000..60_000) {
            let text = date_text(day);
            assert!(parse_date(&text) == Ok(day) && text > last, "{day} {text}");
            last = text;
        }
        for wrong in
            ["", "2009-02-29", "1900-02-29", "2009-13-01", "2009-00-01", "2009-04-31", "2009/01/01", "2009-1-01"]
        {
            assert!(parse_date(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_time_is_within_the_period_or_not_or_is_none() {
        let period = Period::new(14_245, 8);
        let micros = |text: &str| period.micros_of(text.as_bytes().first_chunk().unwrap());
        assert_eq!(micros("2009-01-01 00:00:00.000000"), Some(Some(0)));
        assert_eq!(micros("2009-01-02 01:02:03.000004"), Some(Some(DAY_MICROS + 3_723_000_004)));
        assert_eq!(micros("2009-01-08 23:59:59.999999"), Some(Some(8 * DAY_MICROS - 1)));
        assert_eq!(micros("2009-01-09 00:00:00.000000"), Some(None));
        assert_eq!(micros("2008-12-31 23:59:59.999999"), Some(None));
        assert_eq!(period.weeks(), 2);
        let wrong = ["2009-01-01T00:00:00.000000", "2009-01-01 24:00:00.000000", "2009-01-01 00:60:00.000000"];
        let more = ["2009-01-01 00:00:60.000000", "2009-01-01 00:00:00,000000", "2009-01-01 00:00:00.00000x"];
        for wrong in wrong.into_iter().chain(more) {
            assert_eq!(micros(wrong), None, "{wrong}");
        }
        for far in ["0000-03-01 00:00:00.000000", "9999-12-31 00:00:00.000000", "2007-12-31 00:00:00.000000"] {
            assert_eq!(micros(far), Some(None), "{far}");
        }
        for wrong in ["2007-00-01", "2009-16-01", "2009-99-01", "1000-13-01", "2009-02-29", "2009-01-00", "2009-01-32"]
        {
            assert_eq!(micros(&format!("{wrong} 00:00:00.000000")), None, "{wrong}");
        }
    }

    #[test]
    fn a_character_that_is_none_of_a_time_is_found_at_every_place() {
        let period = Period::new(14_245, 365);
        let good = *b"2009-11-11 11:11:11.111111";
        for at in 0..TIME_BYTES {
            for byte in 0..=255u8 {
                let mut text = good;
                text[at] = byte;
                let is_time = period.micros_of(&text).is_some();
                let is_good = if good[at].is_ascii_digit() { byte.is_ascii_digit() } else { byte == good[at] };
                // A digit may still make an hour, a month or so that there is not.
                assert!(is_good || !is_time, "{at} {byte}");
                assert!(is_time || !is_good || matches!(at, 5 | 6 | 8 | 11 | 14 | 17), "{at} {byte}");
            }
        }
    }
}
