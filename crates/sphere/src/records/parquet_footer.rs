//! Where the row groups of a Parquet file lie. A driver needs only that, since a row group is a segment (path *job*).
//! It parses the footer's Thrift (compact protocol, with permanent field numbers) and skips all but some offsets and
//! counts. Column bytes belong to the reader of the function. Anyone who can write a file can write its footer. So
//! nothing in it is believed beyond the file's own length, and a column's bytes are never read.

use thiserror::Error;

/// A row group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RowGroup {
    /// Its first byte in the file. It extends to the next row group, or to the footer.
    pub from: u64,
    /// Its rows.
    pub rows: u64,
}

/// Why bytes are not the end of a Parquet file that can be cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum FooterError {
    /// They belong to another kind of file.
    #[error("it is no Parquet file")]
    NoParquet,
    /// Its footer is encrypted.
    #[error("its footer is encrypted; write it with a plain one")]
    Encrypted,
    /// The footer makes no sense.
    #[error("its footer is damaged")]
    Damaged,
    /// Its columns are in other files, or its row groups are not in order.
    #[error("its row groups do not follow each other in this file; write it anew")]
    Scattered,
}

/// The length of the footer of a file of `file_bytes` bytes, by the file's last [`TAIL_BYTES`]; the footer ends just
/// before these.
///
/// # Errors
/// What the file is instead.
pub fn footer_bytes(tail: &[u8], file_bytes: u64) -> Result<u64, FooterError> {
    let tail: [u8; TAIL_BYTES] = tail.try_into().map_err(|_| FooterError::NoParquet)?;
    let [a, b, c, d, magic @ ..] = tail;
    match &magic {
        b"PAR1" => {}
        b"PARE" => return Err(FooterError::Encrypted),
        _ => return Err(FooterError::NoParquet),
    }
    let bytes = u64::from(u32::from_le_bytes([a, b, c, d]));
    // The file begins with four bytes of its own.
    let fits = bytes + TAIL_BYTES as u64 + 4 <= file_bytes;
    if fits && bytes <= FOOTER_BYTES_MAX { Ok(bytes) } else { Err(FooterError::Damaged) }
}

/// The row groups listed in a footer, which begins at byte `footer_from` of the file.
///
/// # Errors
/// Why they cannot be read.
pub fn row_groups(footer: &[u8], footer_from: u64) -> Result<Vec<RowGroup>, FooterError> {
    let mut reader = Reader { rest: footer, depth: 0 };
    let mut groups = Vec::new();
    reader.structure(&mut |reader, field, kind| match (field, kind) {
        (ROW_GROUPS, LIST) => reader.list(&mut |reader| {
            groups.push(row_group(reader)?);
            Ok(())
        }),
        _ => reader.skip(kind),
    })?;
    let ordered = groups.is_sorted_by_key(|group| group.from);
    if !ordered || groups.iter().any(|group| group.from < 4 || group.from > footer_from) {
        return Err(FooterError::Scattered);
    }
    // The sum cannot overflow, so code that numbers the rows need not check.
    let rows = groups.iter().try_fold(0_u64, |sum, group| sum.checked_add(group.rows));
    rows.map(|_| groups).ok_or(FooterError::Damaged)
}

fn row_group(reader: &mut Reader<'_>) -> Result<RowGroup, FooterError> {
    let (mut from, mut rows) = (None, None);
    reader.structure(&mut |reader, field, kind| match (field, kind) {
        (GROUP_COLUMNS, LIST) => reader.list(&mut |reader| {
            let column = column_from(reader)?;
            from = Some(from.map_or(column, |from: u64| from.min(column)));
            Ok(())
        }),
        (GROUP_ROWS, I64) => {
            rows = Some(reader.number()?);
            Ok(())
        }
        _ => reader.skip(kind),
    })?;
    let (Some(from), Some(rows)) = (from, rows) else { return Err(FooterError::Damaged) };
    Ok(RowGroup { from, rows: u64::try_from(rows).map_err(|_| FooterError::Damaged)? })
}

/// The first byte of a column of a row group: of its dictionary, which comes first where there is one, or its pages.
fn column_from(reader: &mut Reader<'_>) -> Result<u64, FooterError> {
    let mut from = None;
    reader.structure(&mut |reader, field, kind| match (field, kind) {
        (COLUMN_FILE, BINARY) => Err(FooterError::Scattered),
        (COLUMN_DESCRIPTION, STRUCTURE) => reader.structure(&mut |reader, field, kind| match (field, kind) {
            (DATA_PAGE | DICTIONARY_PAGE, I64) => {
                // Some writers put 0 where there is no dictionary.
                let at = u64::try_from(reader.number()?).map_err(|_| FooterError::Damaged)?;
                from = Some(from.unwrap_or(u64::MAX).min(if at == 0 { u64::MAX } else { at }));
                Ok(())
            }
            _ => reader.skip(kind),
        }),
        _ => reader.skip(kind),
    })?;
    from.ok_or(FooterError::Damaged)
}

/// Thrift's compact protocol, as far as it is needed.
struct Reader<'a> {
    rest: &'a [u8],
    depth: usize,
}

type Field<'f, 'a> = &'f mut dyn FnMut(&mut Reader<'a>, i64, u8) -> Result<(), FooterError>;

impl<'a> Reader<'a> {
    /// Reads a structure: `field` gets the number and the kind of each field, and reads or skips its value.
    fn structure(&mut self, field: Field<'_, 'a>) -> Result<(), FooterError> {
        self.deeper()?;
        let mut number = 0_i64;
        loop {
            let head = self.byte()?;
            let (step, kind) = (head >> 4, head & 15);
            if kind == 0 {
                break;
            }
            number = if step == 0 { self.number()? } else { number.saturating_add(step.into()) };
            field(self, number, kind)?;
        }
        self.depth -= 1;
        Ok(())
    }

    /// Reads a list of structures.
    fn list(&mut self, element: &mut dyn FnMut(&mut Self) -> Result<(), FooterError>) -> Result<(), FooterError> {
        let (count, kind) = self.list_head()?;
        if kind != STRUCTURE && count > 0 {
            return Err(FooterError::Damaged);
        }
        (0..count).try_for_each(|_| element(self))
    }

    fn skip(&mut self, kind: u8) -> Result<(), FooterError> {
        match kind {
            // For a field, true and false are the kind itself.
            TRUE | FALSE => Ok(()),
            BYTE => self.byte().map(drop),
            I16..=I64 => self.number().map(drop),
            DOUBLE => self.take(8),
            BINARY => {
                let bytes = self.varint()?;
                self.take(bytes)
            }
            LIST | SET => {
                self.deeper()?;
                let (count, kind) = self.list_head()?;
                for _ in 0..count {
                    self.skip_element(kind)?;
                }
                self.depth -= 1;
                Ok(())
            }
            MAP => self.skip_map(),
            STRUCTURE => self.structure(&mut |reader, _, kind| reader.skip(kind)),
            _ => Err(FooterError::Damaged),
        }
    }

    fn skip_map(&mut self) -> Result<(), FooterError> {
        let count = self.varint()?;
        if count == 0 {
            return Ok(());
        }
        self.deeper()?;
        let kinds = self.byte()?;
        for _ in 0..self.bounded(count)? {
            self.skip_element(kinds >> 4)?;
            self.skip_element(kinds & 15)?;
        }
        self.depth -= 1;
        Ok(())
    }

    /// A value that is not a field: there a boolean takes a byte.
    fn skip_element(&mut self, kind: u8) -> Result<(), FooterError> {
        if matches!(kind, TRUE | FALSE) { self.byte().map(drop) } else { self.skip(kind) }
    }

    fn list_head(&mut self) -> Result<(u64, u8), FooterError> {
        let head = self.byte()?;
        let count = if head >> 4 == 15 { self.varint()? } else { u64::from(head >> 4) };
        Ok((self.bounded(count)?, head & 15))
    }

    /// A count of things that take at least a byte each.
    fn bounded(&self, count: u64) -> Result<u64, FooterError> {
        if count <= self.rest.len() as u64 { Ok(count) } else { Err(FooterError::Damaged) }
    }

    /// A signed number, zigzag.
    fn number(&mut self) -> Result<i64, FooterError> {
        let number = self.varint()?;
        Ok((number >> 1) as i64 ^ -((number & 1) as i64))
    }

    fn varint(&mut self) -> Result<u64, FooterError> {
        let mut number = 0_u64;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            number |= u64::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                return Ok(number);
            }
        }
        Err(FooterError::Damaged)
    }

    fn byte(&mut self) -> Result<u8, FooterError> {
        let (byte, rest) = self.rest.split_first().ok_or(FooterError::Damaged)?;
        self.rest = rest;
        Ok(*byte)
    }

    fn take(&mut self, bytes: u64) -> Result<(), FooterError> {
        let bytes = usize::try_from(bytes).map_err(|_| FooterError::Damaged)?;
        self.rest = self.rest.get(bytes..).ok_or(FooterError::Damaged)?;
        Ok(())
    }

    fn deeper(&mut self) -> Result<(), FooterError> {
        self.depth += 1;
        if self.depth > DEPTH_MAX { Err(FooterError::Damaged) } else { Ok(()) }
    }
}

/// Bytes at the end of a Parquet file: the footer's length, and four that say what file it is.
pub const TAIL_BYTES: usize = 8;
/// Longest footer in bytes: a million columns in a hundred row groups would have less.
pub const FOOTER_BYTES_MAX: u64 = 256 << 20;
/// How deep a footer's structures may be nested: those of the format go less than half as deep.
const DEPTH_MAX: usize = 16;

/// Fields of `FileMetaData`, `RowGroup`, `ColumnChunk` and `ColumnMetaData` (`parquet.thrift`).
const ROW_GROUPS: i64 = 4;
const GROUP_COLUMNS: i64 = 1;
const GROUP_ROWS: i64 = 3;
const COLUMN_FILE: i64 = 1;
const COLUMN_DESCRIPTION: i64 = 3;
const DATA_PAGE: i64 = 9;
const DICTIONARY_PAGE: i64 = 11;

/// Kinds of values.
const TRUE: u8 = 1;
const FALSE: u8 = 2;
const BYTE: u8 = 3;
const I16: u8 = 4;
const I64: u8 = 6;
const DOUBLE: u8 = 7;
const BINARY: u8 = 8;
const LIST: u8 = 9;
const SET: u8 = 10;
const MAP: u8 = 11;
const STRUCTURE: u8 = 12;

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use proptest::prelude::{any, prop, proptest};

    use super::*;

    fn number(value: i64) -> Vec<u8> {
        let mut rest = ((value << 1) ^ (value >> 63)) as u64;
        let mut bytes = Vec::new();
        while rest >= 0x80 {
            bytes.push(rest as u8 | 0x80);
            rest >>= 7;
        }
        bytes.push(rest as u8);
        bytes
    }

    /// A column chunk: its offset in the file, and a description with its first data page and dictionary.
    fn column(data_page: i64, dictionary: i64) -> Vec<u8> {
        [
            vec![0x26],
            number(data_page),
            vec![0x1c, 0x15, 2, 0x19, 0x15, 0, 0x19, 0x18, 1, b'x'],
            vec![0x66],
            number(data_page),
            vec![0x26],
            number(dictionary),
            vec![0, 0],
        ]
        .concat()
    }

    /// A footer of row groups, each with rows and columns, among other fields of every kind.
    fn footer(groups: &[(i64, &[(i64, i64)])]) -> Vec<u8> {
        let group = |(rows, columns): &(i64, &[(i64, i64)])| {
            let columns_list: Vec<u8> =
                columns.iter().flat_map(|(data, dictionary)| column(*data, *dictionary)).collect();
            [
                vec![0x19, (columns.len() as u8) << 4 | 12],
                columns_list,
                vec![0x16],
                number(77),
                vec![0x16],
                number(*rows),
                vec![0],
            ]
            .concat()
        };
        let list: Vec<u8> = groups.iter().flat_map(group).collect();
        [
            vec![0x15, 4, 0x19, 0x1c, 0x48, 2, b'h', b'i', 0x11, 0, 0x16],
            number(5),
            vec![0x19, (groups.len() as u8) << 4 | 12],
            list,
            vec![0x1b, 1, 0x88, 1, b'k', 1, b'v', 0x17, 0, 0, 0, 0, 0, 0, 0, 0, 0],
        ]
        .concat()
    }

    #[test]
    fn row_groups_begin_with_their_first_column_or_its_dictionary() {
        let footer = footer(&[(10, &[(104, 4), (300, 0)]), (20, &[(900, 0), (700, 600)])]);
        let groups = row_groups(&footer, 1000).unwrap();
        assert_eq!(groups, [RowGroup { from: 4, rows: 10 }, RowGroup { from: 600, rows: 20 }]);
        assert_eq!(row_groups(&footer, 599), Err(FooterError::Scattered), "beyond the footer");
        for cut in 0..footer.len() {
            assert!(row_groups(&footer[..cut], 1000).is_err(), "cut at {cut}");
        }
    }

    #[test]
    fn groups_in_no_order_and_footers_without_end_are_refused() {
        let unordered = footer(&[(1, &[(500, 0)]), (1, &[(400, 0)])]);
        assert_eq!(row_groups(&unordered, 1000), Err(FooterError::Scattered));
        assert_eq!(row_groups(&[0x1c; 100_000], 1000), Err(FooterError::Damaged), "nested");
        let endless = footer(&[(i64::MAX, &[(100, 0)]), (i64::MAX, &[(200, 0)]), (i64::MAX, &[(300, 0)])]);
        assert_eq!(row_groups(&endless, 1000), Err(FooterError::Damaged), "more rows than have numbers");
        assert_eq!(row_groups(&[0x49, 0xfc, 0xff, 0xff, 0xff, 0x0f], 1000), Err(FooterError::Damaged), "counts");
    }

    #[test]
    fn the_tail_says_how_long_the_footer_is() {
        assert_eq!(footer_bytes(b"\x10\0\0\0PAR1", 28), Ok(16));
        assert_eq!(footer_bytes(b"\x10\0\0\0PAR1", 27), Err(FooterError::Damaged));
        assert_eq!(footer_bytes(b"\x10\0\0\0PARE", 99), Err(FooterError::Encrypted));
        assert_eq!(footer_bytes(b"text", 99), Err(FooterError::NoParquet));
    }

    proptest! {
        #[test]
        fn no_bytes_are_a_panic(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
            let _ = row_groups(&bytes, 1 << 40);
        }
    }
}
