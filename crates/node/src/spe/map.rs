//! A segment's bytes as memory: its file mapped read-only, whole records only. Serves the path *job*, door 7; in the SPE
//! process alone. It never copies: what is mapped is the page cache of the node.
#![allow(unsafe_code)]

use std::{fs::File, os::unix::fs::FileExt};

use memmap2::{Advice, Mmap, MmapOptions};
use protocol::RecordFormat;
use thiserror::Error;

use super::{lines::line_start, words::SegmentWord};

/// A mapped segment.
pub(super) struct SegmentMap {
    /// `None` for a segment without bytes: nothing can be mapped of length 0.
    map: Option<Mmap>,
    from: u64,
}

/// Why a segment cannot be mapped.
#[derive(Debug, Error)]
pub(super) enum MapError {
    /// The node or the disk is at fault: may be tried elsewhere.
    #[error("segment {segment} of {path} cannot be read: {why}")]
    Unreadable { segment: u64, path: String, why: String },
    /// The input does not suit its record format: it fails everywhere.
    #[error("the segment has {bytes} bytes, which is no multiple of its record length of {record_bytes} bytes")]
    PartOfRecord { bytes: u64, record_bytes: u32 },
}

impl SegmentMap {
    /// Maps the records of `file` that `word` owns.
    pub(super) fn new(word: &SegmentWord, file: &File) -> Result<Self, MapError> {
        let unreadable = |why: String| MapError::Unreadable { segment: word.segment, path: word.path.clone(), why };
        let file_bytes = file.metadata().map_err(|error| unreadable(error.to_string()))?.len();
        if word.from > word.until || word.until > file_bytes {
            return Err(unreadable(format!(
                "it is {}..{}, but the file has {file_bytes} bytes",
                word.from, word.until
            )));
        }
        let (mut from, mut until) = (word.from, word.until);
        match word.records {
            RecordFormat::File => {}
            RecordFormat::Lines => {
                let mut read_at = |buffer: &mut [u8], place| file.read_exact_at(buffer, place);
                from = line_start(from, file_bytes, &mut read_at).map_err(|error| unreadable(error.to_string()))?;
                until = line_start(until, file_bytes, &mut read_at).map_err(|error| unreadable(error.to_string()))?;
            }
            RecordFormat::Fixed(record_bytes) => {
                let bytes = until - from;
                if !bytes.is_multiple_of(u64::from(record_bytes)) {
                    return Err(MapError::PartOfRecord { bytes, record_bytes });
                }
            }
        }
        let map = if from == until { None } else { Some(map(file, from, until).map_err(&unreadable)?) };
        Ok(Self { map, from })
    }

    /// The segment's bytes.
    pub(super) fn bytes(&self) -> &[u8] {
        self.map.as_deref().unwrap_or_default()
    }

    /// Where in the file they begin.
    pub(super) fn from(&self) -> u64 {
        self.from
    }
}

/// Maps `from..until` of a file, which need not lie on page borders.
fn map(file: &File, from: u64, until: u64) -> Result<Mmap, String> {
    let bytes = usize::try_from(until - from).map_err(|_| "it does not fit the address space".to_owned())?;
    // SAFETY: slices and sealed buckets do not change, so the bytes stay what they are while they are borrowed. Were a
    // file cut short all the same, this process would get SIGBUS and end; the node, which maps nothing, learns of it.
    let map = unsafe { MmapOptions::new().offset(from).len(bytes).map(file) }.map_err(|error| error.to_string())?;
    // A hint: reading ahead begins at once. Where it is not taken, pages come as they are touched.
    let _ = map.advise(Advice::WillNeed);
    Ok(map)
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

    fn word(from: u64, until: u64, records: RecordFormat) -> SegmentWord {
        SegmentWord { segment: 3, path: "/a".into(), from, until, records }
    }

    #[test]
    fn a_range_off_the_page_borders_is_mapped_and_an_empty_one_too() {
        let bytes: Vec<u8> = (0..10_000u32).map(|at| at as u8).collect();
        let file = file(&bytes);
        let map = SegmentMap::new(&word(4_099, 9_099, RecordFormat::Fixed(1000)), &file).unwrap();
        assert_eq!((map.bytes(), map.from()), (&bytes[4_099..9_099], 4_099));
        assert_eq!(SegmentMap::new(&word(10_000, 10_000, RecordFormat::File), &file).unwrap().bytes(), b"");
    }

    #[test]
    fn lines_are_owned_by_the_segment_in_which_they_start() {
        let file = file(b"one\ntwo\nthree");
        let bytes = |from, until| {
            let map = SegmentMap::new(&word(from, until, RecordFormat::Lines), &file).unwrap();
            (String::from_utf8(map.bytes().to_vec()).unwrap(), map.from())
        };
        assert_eq!(bytes(0, 5), ("one\ntwo\n".into(), 0));
        assert_eq!(bytes(5, 13), ("three".into(), 8));
        assert_eq!(bytes(5, 8), (String::new(), 8));
    }

    #[test]
    fn a_part_of_a_record_and_a_range_beyond_the_file_are_told_apart() {
        let file = file(&[0; 250]);
        let part = SegmentMap::new(&word(0, 250, RecordFormat::Fixed(100)), &file);
        assert!(matches!(part, Err(MapError::PartOfRecord { bytes: 250, record_bytes: 100 })));
        let beyond = SegmentMap::new(&word(0, 300, RecordFormat::Fixed(100)), &file);
        assert!(beyond.is_err_and(|error| error.to_string().contains("the file has 250 bytes")));
    }
}
