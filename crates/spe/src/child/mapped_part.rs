//! A segment's bytes as memory: its files mapped read-only, whole records only. Serves the path *job*, door 7; in the
//! SPE process alone. It never copies: what is mapped is the page cache of the node.
#![allow(unsafe_code)]

use std::{fs::File, io, os::unix::fs::FileExt};

use memmap2::{Advice, Mmap, MmapOptions};
use protocol::RecordFraming;
use thiserror::Error;

use super::owned_lines::owned_lines;
use crate::messages::{GuideSpec, PartSpec};

/// A mapped part of a segment: what one input stream has of it.
pub(super) struct MappedPart {
    /// `None` for a part without bytes: nothing can be mapped of length 0.
    map: Option<Mmap>,
    from: u64,
    /// The offsets of its records, where an index tells them.
    starts: Option<Mmap>,
}

/// Why a part cannot be mapped.
#[derive(Debug, Error)]
pub(super) enum MapError {
    /// The node or the disk is at fault: may be tried elsewhere.
    #[error("{path} cannot be read: {why}")]
    Unreadable { path: String, why: String },
    /// The input does not suit its record format: it fails everywhere.
    #[error("the segment has {bytes} bytes, which is no multiple of its record length of {record_bytes} bytes")]
    PartOfRecord { bytes: u64, record_bytes: u32 },
    /// The index does not suit the input: it fails everywhere.
    #[error("the index of {path} does not fit it: make it again with `sector index {path}`")]
    Index { path: String },
}

impl MappedPart {
    /// Maps the records of `file` that `word` owns; `index` is the file of its index.
    pub(super) fn new(word: &PartSpec, file: &File, index: Option<&File>) -> Result<Self, MapError> {
        let unreadable = |why: String| MapError::Unreadable { path: word.path.clone(), why };
        let file_bytes = file.metadata().map_err(|error| unreadable(error.to_string()))?.len();
        if word.from > word.until || word.until > file_bytes {
            return Err(unreadable(format!(
                "its segment is {}..{}, but the file has {file_bytes} bytes",
                word.from, word.until
            )));
        }
        let (mut from, mut until) = (word.from, word.until);
        match word.records {
            RecordFraming::File | RecordFraming::Index | RecordFraming::Parquet => {}
            RecordFraming::Lines => {
                let mut read_at = |buffer: &mut [u8], place| file.read_exact_at(buffer, place);
                (from, until) = owned_lines((from, until), file_bytes, &mut read_at)
                    .map_err(|error| unreadable(error.to_string()))?;
            }
            RecordFraming::Fixed(record_bytes) => {
                let bytes = until - from;
                if !bytes.is_multiple_of(u64::from(record_bytes)) {
                    return Err(MapError::PartOfRecord { bytes, record_bytes });
                }
            }
        }
        let starts = match (word.guide, index) {
            (Some(GuideSpec::Offsets { from, until }), Some(index)) => {
                Some(map(index, from, until).map_err(&unreadable)?)
            }
            _ => None,
        };
        let map = if from == until { None } else { Some(map(file, from, until).map_err(&unreadable)?) };
        let part = Self { map, from, starts };
        if word.records == RecordFraming::Index && !part.starts_fit(until) {
            return Err(MapError::Index { path: word.path.clone() });
        }
        Ok(part)
    }

    /// The part's bytes.
    pub(super) fn bytes(&self) -> &[u8] {
        self.map.as_deref().unwrap_or_default()
    }

    /// Where in the file they begin.
    pub(super) fn from(&self) -> u64 {
        self.from
    }

    /// Where in the file its records begin and the last one ends, little-endian; empty where no index tells.
    pub(super) fn starts(&self) -> &[u64] {
        let Some(starts) = &self.starts else { return &[] };
        // SAFETY: any eight bytes are a number.
        let (before, starts, after) = unsafe { starts.align_to::<u64>() };
        // An index has them aligned; what is not so is none.
        if before.is_empty() && after.is_empty() { starts } else { &[] }
    }

    /// Whether the offsets are those of just these bytes: in order, from the first to behind the last.
    fn starts_fit(&self, until: u64) -> bool {
        let mut starts = self.starts().iter().map(|start| u64::from_le(*start));
        let Some(first) = starts.next() else { return false };
        let last = starts.try_fold(first, |before, start| (start >= before).then_some(start));
        first == self.from && last == Some(until)
    }
}

/// Maps a whole file; nothing for one without bytes.
pub(super) fn map_file(file: &File) -> Result<Option<Mmap>, String> {
    let bytes = file.metadata().map_err(|error| error.to_string())?.len();
    if bytes == 0 { Ok(None) } else { map(file, 0, bytes).map(Some) }
}

/// Maps `from..until` of a file, which need not lie on page borders.
fn map(file: &File, from: u64, until: u64) -> Result<Mmap, String> {
    let bytes = usize::try_from(until - from).map_err(|_| "it does not fit the address space".to_owned())?;
    // As private memory that nobody writes to: no sandbox refuses that, and it is the same pages.
    // SAFETY: slices, sealed buckets and what was fetched of a slice do not change, so the bytes stay what they are
    // while they are borrowed. Were a file cut short all the same, this process would get SIGBUS and end; the node,
    // which maps nothing, learns of it.
    let map = unsafe { MmapOptions::new().offset(from).len(bytes).map_copy_read_only(file) };
    let map = map.map_err(|error| unmapped(&error))?;
    // A hint: reading ahead begins at once. Where it is not taken, pages come as they are touched.
    let _ = map.advise(Advice::WillNeed);
    Ok(map)
}

fn unmapped(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::OutOfMemory => {
            "it does not fit the addresses of an SPE: give it smaller segments (`--segment-bytes`), or raise \
             `spe_memory_bytes` of the node"
                .into()
        }
        _ => error.to_string(),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::io::Write;

    use super::*;

    fn file(bytes: &[u8]) -> File {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(bytes).unwrap();
        file
    }

    fn word(from: u64, until: u64, records: RecordFraming) -> PartSpec {
        PartSpec { path: "/a".into(), from, until, records, guide: None }
    }

    #[test]
    fn a_range_off_the_page_borders_is_mapped_and_an_empty_one_too() {
        let bytes: Vec<u8> = (0..10_000u32).map(|at| at as u8).collect();
        let file = file(&bytes);
        let map = MappedPart::new(&word(4_099, 9_099, RecordFraming::Fixed(1000)), &file, None).unwrap();
        assert_eq!((map.bytes(), map.from()), (&bytes[4_099..9_099], 4_099));
        assert_eq!(MappedPart::new(&word(10_000, 10_000, RecordFraming::File), &file, None).unwrap().bytes(), b"");
    }

    #[test]
    fn lines_are_owned_by_the_segment_in_which_they_start() {
        let file = file(b"one\ntwo\nthree");
        let bytes = |from, until| {
            let map = MappedPart::new(&word(from, until, RecordFraming::Lines), &file, None).unwrap();
            (String::from_utf8(map.bytes().to_vec()).unwrap(), map.from())
        };
        assert_eq!(bytes(0, 5), ("one\ntwo\n".into(), 0));
        assert_eq!(bytes(5, 13), ("three".into(), 8));
        assert_eq!(bytes(5, 8), (String::new(), 8));
    }

    #[test]
    fn a_part_of_a_record_and_a_range_beyond_the_file_are_told_apart() {
        let file = file(&[0; 250]);
        let part = MappedPart::new(&word(0, 250, RecordFraming::Fixed(100)), &file, None);
        assert!(matches!(part, Err(MapError::PartOfRecord { bytes: 250, record_bytes: 100 })));
        let beyond = MappedPart::new(&word(0, 300, RecordFraming::Fixed(100)), &file, None);
        assert!(beyond.is_err_and(|error| error.to_string().contains("the file has 250 bytes")));
    }

    #[test]
    fn an_index_is_believed_only_where_it_fits_the_segment() {
        let bytes = file(&[0; 250]);
        let mapped = |starts: &[u64], from, until| {
            let index: Vec<u8> = starts.iter().flat_map(|start| start.to_le_bytes()).collect();
            let guide = Some(GuideSpec::Offsets { from: 8, until: index.len() as u64 });
            let word = PartSpec { guide, ..word(from, until, RecordFraming::Index) };
            MappedPart::new(&word, &bytes, Some(&file(&index))).map(|part| part.starts().to_vec())
        };
        assert_eq!(mapped(&[0, 100, 130, 130, 250], 100, 250).unwrap(), [100, 130, 130, 250].map(u64::to_le));
        for (starts, from, until) in [
            (&[0, 90, 130, 250][..], 100, 250),
            (&[0, 100, 130, 240], 100, 250),
            (&[0, 100, 260, 250], 100, 250),
            (&[0, 100, 90, 250], 100, 250),
        ] {
            assert!(matches!(mapped(starts, from, until), Err(MapError::Index { .. })), "{starts:?}");
        }
        let without = MappedPart::new(&word(0, 250, RecordFraming::Index), &bytes, None);
        assert!(matches!(without, Err(MapError::Index { .. })));
    }
}
