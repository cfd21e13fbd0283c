//! A record of MalStone (paper of the Open Cloud Testbed, 5): `event | time | site | flag | entity`, 100 bytes and a
//! newline. Serves `malgen` and `malstone`. It never passes over a damaged record.

use udf::{FunctionError, Input};

use super::time::{Period, TIME_BYTES};

/// Bytes of a record with its newline. Its fields have 31 (event), 26 (time), 19 (site), 1 (flag) and 19 (entity), with
/// a separator between any two.
pub const RECORD_BYTES: usize = 101;

/// A record as MalStone looks at it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Event {
    /// Microseconds since the period began; `None` if it is not within the period.
    pub(crate) time: Option<u64>,
    pub(crate) site: u64,
    pub(crate) entity: u64,
    pub(crate) flag: bool,
}

/// Calls `each` with the events of a segment, and says how many were outside of the period. Every so many records
/// `progress` hears how many bytes are done.
pub(crate) fn read_events(
    input: &Input<'_>,
    period: &Period,
    mut each: impl FnMut(u64, Event) -> Result<(), FunctionError>,
) -> Result<u64, FunctionError> {
    let (records, rest) = input.bytes().as_chunks::<RECORD_BYTES>();
    let mut outside = 0;
    for (number, record) in records.iter().enumerate() {
        let event = parse(record, period).ok_or_else(|| damage(input, number, record, period))?;
        match event.time {
            Some(time) => each(time, event)?,
            None => outside += 1,
        }
    }
    if !rest.is_empty() {
        let at = input.from() + (records.len() * RECORD_BYTES) as u64;
        let path = input.path();
        return Err(
            FunctionError::new(format!("`{path}` ends within the record at byte {at}")).at_record(records.len() as u64)
        );
    }
    Ok(outside)
}

/// The event of a record; `None` if it is damaged.
#[inline(always)]
fn parse(record: &[u8; RECORD_BYTES], period: &Period) -> Option<Event> {
    let flag = record[FLAG] ^ b'0';
    let marks = (record[31] ^ b'|') | (record[58] ^ b'|') | (record[78] ^ b'|') | (record[80] ^ b'|');
    if marks | (record[100] ^ b'\n') | (flag & !1) != 0 {
        return None;
    }
    let time = period.micros_of(record[TIME..].first_chunk::<TIME_BYTES>()?)?;
    let site = number(record[SITE..].first_chunk()?)?;
    let entity = number(record[ENTITY..].first_chunk()?)?;
    Some(Event { time, site, entity, flag: flag == 1 })
}

/// What is wrong with a record, and where.
#[cold]
fn damage(input: &Input<'_>, number_of: usize, record: &[u8; RECORD_BYTES], period: &Period) -> FunctionError {
    let is_time = || record[TIME..].first_chunk().is_some_and(|text| period.micros_of(text).is_some());
    let is_number = |at: usize| record[at..].first_chunk().is_some_and(|text| number(text).is_some());
    let what = if [31, 58, 78, 80].iter().any(|at| record[*at] != b'|') || record[100] != b'\n' {
        "its five fields are not where they should be"
    } else if !is_time() {
        "its time is none"
    } else if !is_number(SITE) {
        "its site is not a number of 19 digits"
    } else if !is_number(ENTITY) {
        "its entity is not a number of 19 digits"
    } else {
        "its flag is neither 0 nor 1"
    };
    let at = input.from() + (number_of * RECORD_BYTES) as u64;
    FunctionError::new(format!("the record at byte {at} of `{}` is damaged: {what}", input.path()))
        .at_record(number_of as u64)
}

/// The number of 19 digits.
#[inline(always)]
fn number(text: &[u8; 19]) -> Option<u64> {
    let first = u64::from_le_bytes(*text.first_chunk()?) ^ ZEROS;
    let middle = u64::from_le_bytes(*text[8..].first_chunk()?) ^ ZEROS;
    // The last three, behind five zeros.
    let last = (u64::from_le_bytes(*text.last_chunk()?) ^ ZEROS) & !0xff_ffff_ffff;
    // Ten and more, and what is no digit at all, has something in the upper half of its byte.
    let above = |digits: u64| digits | digits.wrapping_add(0x0606_0606_0606_0606);
    if (above(first) | above(middle) | above(last)) & 0xf0f0_f0f0_f0f0_f0f0 != 0 {
        return None;
    }
    Some((value(first) * 100_000_000 + value(middle)) * 1_000 + value(last))
}

/// The number of eight digits, a byte each, the first in the lowest: two, four, then eight are put together at once.
#[inline(always)]
fn value(digits: u64) -> u64 {
    let twos = digits.wrapping_mul(2_561) >> 8;
    let fours = (twos & 0x00ff_00ff_00ff_00ff).wrapping_mul(6_553_601) >> 16;
    (fours & 0x0000_ffff_0000_ffff).wrapping_mul(42_949_672_960_001) >> 32
}

/// Eight digits that are zero.
const ZEROS: u64 = 0x3030_3030_3030_3030;
/// Where a record's fields begin; its flag is a byte.
pub(crate) const TIME: usize = 32;
pub(crate) const SITE: usize = 59;
pub(crate) const FLAG: usize = 79;
pub(crate) const ENTITY: usize = 81;
/// The bytes of a record that are its site, 19 digits.
pub const SITE_COLUMN: std::ops::Range<usize> = SITE..SITE + NUMBER_BYTES;
/// Bytes of a site or an entity.
pub(crate) const NUMBER_BYTES: usize = 19;

#[cfg(test)]
pub(crate) mod tests {
    #![allow(clippy::unwrap_used)]
    use udf::RecordFormat;

    use super::*;

    /// A record as text.
    pub(crate) fn record(time: &str, site: u64, flag: u8, entity: u64) -> String {
        format!("{:031}|{time}|{site:019}|{flag}|{entity:019}\n", 7)
    }

    fn read(bytes: &[u8]) -> Result<(Vec<Event>, u64), FunctionError> {
        let parameters: Vec<(String, String)> =
            vec![("start".into(), "2009-01-01".into()), ("days".into(), "365".into())];
        let input = Input::new(bytes, RecordFormat::Fixed(101)).at("/log", 0, 1_010).with_parameters(&parameters);
        let mut events = Vec::new();
        let outside = read_events(&input, &Period::of(&input)?, |_, event| {
            events.push(event);
            Ok(())
        })?;
        Ok((events, outside))
    }

    #[test]
    fn a_record_is_read_field_by_field() {
        let most = 9_999_999_999_999_999_999;
        let text = [
            record("2009-01-01 00:00:00.000001", 1_234_567_890_123_456_789, 1, most),
            record("2009-12-31 23:59:59.999999", 0, 0, 42),
            record("2010-01-01 00:00:00.000000", 1, 0, 1),
        ];
        assert!(text.iter().all(|record| record.len() == RECORD_BYTES));
        let (events, outside) = read(text.concat().as_bytes()).unwrap();
        let first = Event { time: Some(1), site: 1_234_567_890_123_456_789, entity: most, flag: true };
        let second = Event { time: Some(365 * 86_400_000_000 - 1), site: 0, entity: 42, flag: false };
        assert_eq!((events, outside), (vec![first, second], 1));
    }

    #[test]
    fn a_damaged_record_is_named_by_file_and_byte() {
        let good = record("2009-01-01 00:00:00.000001", 5, 1, 6);
        let damaged = |at: usize, byte: u8| {
            let mut bytes = [good.as_bytes(), good.as_bytes()].concat();
            bytes[RECORD_BYTES + at] = byte;
            read(&bytes).unwrap_err()
        };
        for (at, byte, what) in [
            (31, b'-', "its five fields are not where they should be"),
            (58, b'0', "its five fields are not where they should be"),
            (78, b'0', "its five fields are not where they should be"),
            (80, b'0', "its five fields are not where they should be"),
            (100, b' ', "its five fields are not where they should be"),
            (36, b'/', "its time is none"),
            (59, b'-', "its site is not a number of 19 digits"),
            (77, b':', "its site is not a number of 19 digits"),
            (90, b'/', "its entity is not a number of 19 digits"),
            (99, b' ', "its entity is not a number of 19 digits"),
            (79, b'2', "its flag is neither 0 nor 1"),
        ] {
            let error = damaged(at, byte);
            assert_eq!(error.message(), format!("the record at byte 1111 of `/log` is damaged: {what}"));
            assert_eq!(error.record(), Some(1));
        }
        let error = read(&good.as_bytes()[..50]).unwrap_err();
        assert_eq!((error.message(), error.record()), ("`/log` ends within the record at byte 1010", Some(0)));
    }

    #[test]
    fn a_byte_that_is_no_digit_is_found_at_every_place() {
        for at in 0..19 {
            for byte in 0..=255u8 {
                let mut text = *b"1234567890123456789";
                text[at] = byte;
                let expected: Option<u64> = str::from_utf8(&text)
                    .ok()
                    .filter(|text| text.bytes().all(|byte| byte.is_ascii_digit()))
                    .and_then(|text| text.parse().ok());
                assert_eq!(number(&text), expected, "{at} {byte}");
            }
        }
    }
}
