//! How a job hands cutouts over: one after another, each with its row of the manifest. A parcel is the row's length
//! (u32, little-endian), the row as JSON, and the content, whose length is in the row. It never needs to know how many
//! parcels follow.

use std::io::{self, Read};

use thiserror::Error;

use super::ManifestRow;

/// A cutout, or why there is none.
#[derive(Clone, Debug, PartialEq)]
pub struct Parcel {
    /// The row of the manifest.
    pub outcome: ManifestRow,
    /// The file; empty where there is none.
    pub content: Vec<u8>,
}

/// The bytes are no parcels.
#[derive(Debug, Error)]
pub enum ParcelError {
    /// A row is too long or no JSON, or a content is not the one of its row.
    #[error("a parcel is damaged: {0}")]
    Damaged(String),
    /// The bytes cannot be read.
    #[error("cannot read a parcel: {0}")]
    Read(#[from] io::Error),
}

impl Parcel {
    /// Appends the parcel's bytes.
    ///
    /// # Errors
    /// If the row cannot be written as JSON.
    pub fn write_to(&self, bytes: &mut Vec<u8>) -> Result<(), serde_json::Error> {
        let row = serde_json::to_vec(&self.outcome)?;
        bytes.extend((row.len() as u32).to_le_bytes());
        bytes.extend(row);
        bytes.extend_from_slice(&self.content);
        Ok(())
    }
}

/// Parcels from a stream of bytes.
#[derive(Debug)]
pub struct ParcelReader<R> {
    bytes: R,
}

impl<R: Read> ParcelReader<R> {
    /// Reads parcels from a stream.
    pub fn new(bytes: R) -> Self {
        Self { bytes }
    }

    /// The next parcel, with its digest verified; `None` at the end.
    ///
    /// # Errors
    /// If the bytes are no parcel, or end within one.
    pub fn next_parcel(&mut self) -> Result<Option<Parcel>, ParcelError> {
        let mut length = [0; 4];
        let mut filled = 0;
        while filled < length.len() {
            match self.bytes.read(&mut length[filled..])? {
                0 if filled == 0 => return Ok(None),
                0 => return Err(ParcelError::Damaged("it ends within a length".into())),
                read => filled += read,
            }
        }
        let row = self.take(u64::from(u32::from_le_bytes(length)), ROW_BYTES_MAX)?;
        let outcome: ManifestRow =
            serde_json::from_slice(&row).map_err(|error| ParcelError::Damaged(error.to_string()))?;
        let content = self.take(outcome.bytes, CONTENT_BYTES_MAX)?;
        if outcome.is_ok() && blake3::hash(&content).to_hex().as_str() != outcome.blake3 {
            return Err(ParcelError::Damaged(format!("the content of tuple {} is another", outcome.tuple)));
        }
        Ok(Some(Parcel { outcome, content }))
    }

    fn take(&mut self, bytes: u64, most: u64) -> Result<Vec<u8>, ParcelError> {
        if bytes > most {
            return Err(ParcelError::Damaged(format!("{bytes} bytes are more than {most}")));
        }
        let mut taken = Vec::new();
        (&mut self.bytes).take(bytes).read_to_end(&mut taken)?;
        if (taken.len() as u64) < bytes {
            return Err(ParcelError::Damaged("it ends too early".into()));
        }
        Ok(taken)
    }
}

/// Longest row: a path, a polygon of many corners and a message.
const ROW_BYTES_MAX: u64 = 1 << 20;
/// Largest cutout, with some room for its headers.
const CONTENT_BYTES_MAX: u64 = 1 << 30;

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::tuples::Tuple;

    fn parcel(number: u64, content: &[u8]) -> Parcel {
        let selection = "[1:2,3:4]".parse().unwrap();
        let tuple = Tuple { number, path: "/a".into(), selection, name: "a.fits".into() };
        Parcel { outcome: ManifestRow::made(&tuple, content, 0.5, "node"), content: content.to_vec() }
    }

    #[test]
    fn parcels_come_out_as_they_went_in() {
        let parcels = [parcel(1, b"abc"), parcel(2, b"")];
        let mut bytes = Vec::new();
        parcels.iter().for_each(|parcel| parcel.write_to(&mut bytes).unwrap());
        let mut reader = ParcelReader::new(bytes.as_slice());
        assert_eq!(reader.next_parcel().unwrap().as_ref(), Some(&parcels[0]));
        assert_eq!(reader.next_parcel().unwrap().as_ref(), Some(&parcels[1]));
        assert_eq!(reader.next_parcel().unwrap(), None);
    }

    #[test]
    fn a_damaged_parcel_is_never_given_out() {
        let mut bytes = Vec::new();
        parcel(1, b"abc").write_to(&mut bytes).unwrap();
        for length in 1..bytes.len() {
            assert!(ParcelReader::new(&bytes[..length]).next_parcel().is_err(), "{length}");
        }
        *bytes.last_mut().unwrap() ^= 1;
        assert!(ParcelReader::new(bytes.as_slice()).next_parcel().is_err());
        assert!(ParcelReader::new(&b"\xff\xff\xff\xff"[..]).next_parcel().is_err());
    }
}
