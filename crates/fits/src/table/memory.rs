//! What the values of a table take in memory, counted before they are decoded. Rows of no bytes and arrays that share
//! their bytes let a small file claim much. It never knows what an allocator takes beyond that.

use super::FitsTableError;

/// The memory that a table may take, and what was taken.
#[derive(Debug)]
pub(super) struct Memory {
    taken_bytes: u64,
    limit_bytes: u64,
}

impl Memory {
    /// For a file of this length.
    pub(super) fn of_file(file_bytes: usize) -> Self {
        let limit_bytes = (file_bytes as u64).saturating_mul(BYTES_PER_FILE_BYTE).saturating_add(BYTES_MIN);
        Self { taken_bytes: 0, limit_bytes }
    }

    /// Takes so many bytes for each row of a column, and so many for all.
    pub(super) fn take(&mut self, rows: usize, row_bytes: u64, further_bytes: u64) -> Result<(), FitsTableError> {
        let bytes = (rows as u64).saturating_mul(row_bytes).saturating_add(further_bytes);
        self.taken_bytes = self.taken_bytes.saturating_add(bytes);
        if self.taken_bytes <= self.limit_bytes {
            return Ok(());
        }
        Err(FitsTableError::TooLarge { bytes: self.taken_bytes, limit_bytes: self.limit_bytes })
    }
}

/// Refuses rows that take no bytes: a header may claim any number of them.
pub(super) fn check_rows(rows: usize, row_bytes: usize) -> Result<(), FitsTableError> {
    if rows > 0 && row_bytes == 0 {
        return Err(FitsTableError::damaged("the table's header", format!("{rows} rows have no bytes")));
    }
    Ok(())
}

/// Most that a single value takes.
pub(super) const VALUE_BYTES: u64 = size_of::<Option<i64>>() as u64;
/// A text or an array without its elements: where it is, and what an allocator adds.
pub(super) const LIST_BYTES: u64 = size_of::<Option<String>>() as u64 + 16;
/// An element of an array, or one component of a complex value.
pub(super) const ELEMENT_BYTES: u64 = size_of::<f64>() as u64;
/// A column of single characters takes 41 times its bytes; that of bits alone, eight to a row, is refused.
const BYTES_PER_FILE_BYTE: u64 = 64;
/// What the smallest file may take.
const BYTES_MIN: u64 = 1 << 20;
