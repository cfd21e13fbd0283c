//! Rows as TABLEDATA and as the bytes of BINARY2 (VOTable 1.4, 5.1, 5.4 and 6). Both write behind what is there, and
//! allocate nothing for a value. It never checks a value: what does not fit its column is null before.

use std::io::Write;

use super::super::column::{ColumnKind, Value};
use crate::xml;

/// A row of elements (VOTable 1.4, 5.1).
pub(super) fn tabledata<'a>(cells: impl Iterator<Item = (ColumnKind, Value<'a>)>, bytes: &mut Vec<u8>) {
    bytes.extend_from_slice(b"\n<TR>");
    for (kind, value) in cells {
        if value == Value::Null {
            bytes.extend_from_slice(b"<TD/>");
            continue;
        }
        bytes.extend_from_slice(b"<TD>");
        match value {
            Value::Null => {}
            Value::Boolean(is_true) => bytes.extend_from_slice(if is_true { b"true" } else { b"false" }),
            Value::Integer(number) => write_integer(number, bytes),
            Value::Real(number) => write_real(kind, number, bytes),
            Value::Text(text) if kind == ColumnKind::AsciiText && !text.is_ascii() => {
                let letters: String = text.chars().map(|letter| char::from(ascii(letter))).collect();
                xml::escape_onto(bytes, &letters);
            }
            Value::Text(text) => xml::escape_onto(bytes, text),
            Value::Integers(numbers) => {
                for (at, &number) in numbers.iter().enumerate() {
                    separate(at, bytes);
                    write_integer(number, bytes);
                }
            }
            Value::Reals(numbers) => {
                for (at, &number) in numbers.iter().enumerate() {
                    separate(at, bytes);
                    write_real(kind, number, bytes);
                }
            }
        }
        bytes.extend_from_slice(b"</TD>");
    }
    bytes.extend_from_slice(b"</TR>");
}

fn separate(at: usize, bytes: &mut Vec<u8>) {
    if at > 0 {
        bytes.push(b' ');
    }
}

fn write_integer(number: i64, bytes: &mut Vec<u8>) {
    // Writing to memory does not fail.
    let _ = write!(bytes, "{number}");
}

/// As short as reading it again allows, and in VOTable's words where it is no number (1.4, 6).
fn write_real(kind: ColumnKind, number: f64, bytes: &mut Vec<u8>) {
    let single = number as f32;
    // What is too large for 32 bits is infinite there, and said so.
    let stored = if kind.is_single() { single.into() } else { number };
    if stored.is_nan() {
        bytes.extend_from_slice(b"NaN");
    } else if stored.is_infinite() {
        bytes.extend_from_slice(if stored > 0.0 { b"+Inf" } else { b"-Inf" });
    } else {
        let _ = if kind.is_single() { write!(bytes, "{single:?}") } else { write!(bytes, "{number:?}") };
    }
}

/// A row of bytes behind the mask of its nulls (VOTable 1.4, 5.4).
pub(super) fn binary2<'a>(columns: usize, cells: impl Iterator<Item = (ColumnKind, Value<'a>)>, bytes: &mut Vec<u8>) {
    let mask = bytes.len();
    bytes.resize(mask + columns.div_ceil(8), 0);
    for (at, (kind, value)) in cells.enumerate() {
        match value {
            Value::Null => {
                bytes[mask + at / 8] |= 0x80 >> (at % 8);
                push_null(kind, bytes);
            }
            Value::Boolean(is_true) => bytes.push(if is_true { b'T' } else { b'F' }),
            Value::Integer(number) => push_integer(kind, number, bytes),
            Value::Real(number) => push_real(kind, number, bytes),
            Value::Text(text) if kind == ColumnKind::AsciiText => {
                push_count(text.chars().count(), bytes);
                bytes.extend(text.chars().map(ascii));
            }
            Value::Text(text) => push_text(text, bytes),
            Value::Integers(numbers) => {
                push_count(numbers.len(), bytes);
                numbers.iter().for_each(|&number| push_integer(kind, number, bytes));
            }
            Value::Reals(numbers) => {
                push_count(numbers.len(), bytes);
                numbers.iter().for_each(|&number| push_real(kind, number, bytes));
            }
        }
    }
}

/// What is masked takes its bytes all the same. What no mask is read for should look like nothing, too.
fn push_null(kind: ColumnKind, bytes: &mut Vec<u8>) {
    match kind {
        ColumnKind::Boolean => bytes.push(b'?'),
        ColumnKind::Float | ColumnKind::Double => push_real(kind, f64::NAN, bytes),
        _ if kind.arraysize().is_some() => push_count(0, bytes),
        _ => push_integer(kind, 0, bytes),
    }
}

/// A letter of a column that has ASCII alone.
fn ascii(letter: char) -> u8 {
    u8::try_from(letter).ok().filter(u8::is_ascii).unwrap_or(b'?')
}

fn push_count(count: usize, bytes: &mut Vec<u8>) {
    // Whoever calls this has seen that it fits.
    bytes.extend_from_slice(&u32::try_from(count).unwrap_or(u32::MAX).to_be_bytes());
}

/// Small numbers are the last bytes of large ones.
fn push_integer(kind: ColumnKind, number: i64, bytes: &mut Vec<u8>) {
    let all = number.to_be_bytes();
    bytes.extend_from_slice(&all[all.len() - kind.width()..]);
}

fn push_real(kind: ColumnKind, number: f64, bytes: &mut Vec<u8>) {
    if kind.is_single() {
        bytes.extend_from_slice(&(number as f32).to_be_bytes());
    } else {
        bytes.extend_from_slice(&number.to_be_bytes());
    }
}

/// Units of UTF-16 behind their count, which is known afterwards. The table is the same as in TABLEDATA.
fn push_text(text: &str, bytes: &mut Vec<u8>) {
    let count_at = bytes.len();
    push_count(0, bytes);
    let from = bytes.len();
    bytes.reserve(2 * text.len());
    for c in text.chars().map(xml::allowed) {
        for unit in c.encode_utf16(&mut [0; 2]) {
            bytes.extend_from_slice(&unit.to_be_bytes());
        }
    }
    let count = u32::try_from((bytes.len() - from) / 2).unwrap_or(u32::MAX);
    bytes[count_at..from].copy_from_slice(&count.to_be_bytes());
}
