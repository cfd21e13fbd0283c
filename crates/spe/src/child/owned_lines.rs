//! Decides which lines a segment owns. A file of lines is cut at any byte, since its lines are not known before they
//! are read. Serves the path *job*. A segment owns the lines that **start** in `from..until`, so two neighbours never
//! share a line and never miss one.

use std::io;

/// The bytes of the lines that a segment owns: their first one, and the first one that is no longer part of them. Both
/// are equal when no line starts in the segment. `read_at` fills a buffer from an offset in the file.
pub(super) fn owned_lines(
    (from, until): (u64, u64),
    file_bytes: u64,
    read_at: &mut dyn FnMut(&mut [u8], u64) -> io::Result<()>,
) -> io::Result<(u64, u64)> {
    Ok((line_start(from, file_bytes, read_at)?, line_start(until, file_bytes, read_at)?))
}

/// The first offset at or after `at` where a line starts, or `file_bytes` if there is none.
fn line_start(at: u64, file_bytes: u64, read_at: &mut dyn FnMut(&mut [u8], u64) -> io::Result<()>) -> io::Result<u64> {
    if at == 0 || at >= file_bytes {
        return Ok(at.min(file_bytes));
    }
    // A line starts at `at` when the byte before it ends one, so the search begins there.
    let mut place = at - 1;
    let mut block = vec![0; SEARCH_BYTES_FIRST];
    while place < file_bytes {
        let length = usize::try_from(file_bytes - place).map_or(block.len(), |rest| rest.min(block.len()));
        read_at(&mut block[..length], place)?;
        if let Some(end) = block[..length].iter().position(|byte| *byte == b'\n') {
            return Ok(place + end as u64 + 1);
        }
        place += length as u64;
        block.resize(SEARCH_BYTES, 0);
    }
    Ok(file_bytes)
}

/// Bytes of the first read for a line's end: most lines are shorter.
const SEARCH_BYTES_FIRST: usize = 1024;
/// Bytes of each further read.
const SEARCH_BYTES: usize = 64 * 1024;

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn owned(file: &[u8], from: u64, until: u64) -> (u64, u64) {
        owned_lines((from, until), file.len() as u64, &mut |buffer, place| {
            let place = place as usize;
            buffer.copy_from_slice(&file[place..place + buffer.len()]);
            Ok(())
        })
        .unwrap()
    }

    fn start(file: &[u8], at: u64) -> u64 {
        owned(file, at, at).0
    }

    #[test]
    fn a_line_belongs_to_the_segment_in_which_it_starts() {
        let text = b"ab\ncd\n\nefgh";
        assert_eq!(owned(text, 0, 3), (0, 3));
        assert_eq!(owned(text, 0, 2), (0, 3), "the line that starts before the cut is read to its end");
        assert_eq!(owned(text, 2, 3), (3, 3), "no line starts at byte 2");
        assert_eq!(owned(text, 3, 4), (3, 6), "a line that starts right at the cut is owned");
        assert_eq!(owned(text, 6, 7), (6, 7), "an empty line is a line");
        assert_eq!(owned(text, 8, 11), (11, 11));
        assert_eq!(owned(text, 7, 11), (7, 11), "the last line may lack its end");
        assert_eq!(owned(b"", 0, 0), (0, 0));
    }

    #[test]
    fn every_line_is_owned_once_whatever_the_cuts() {
        // All texts of seven bytes that are line ends or not, and all places of two cuts.
        for pattern in 0..1_u8 << 7 {
            let text: Vec<u8> = (0..7).map(|bit| if (pattern >> bit) & 1 == 1 { b'\n' } else { b'x' }).collect();
            for (first, second) in (0..=7).flat_map(|first| (first..=7).map(move |second| (first, second))) {
                let mut joined = Vec::new();
                for (from, until) in [(0, first), (first, second), (second, 7)] {
                    let (from, until) = owned(&text, from, until);
                    let part = &text[from as usize..until as usize];
                    assert!(part.is_empty() || from == 0 || text[from as usize - 1] == b'\n', "starts with a line");
                    joined.extend_from_slice(part);
                }
                assert_eq!(joined, text, "cut at {first} and {second}");
            }
        }
    }

    #[test]
    fn a_line_starts_at_the_file_and_after_each_line_end() {
        let file = b"ab\n\ncd";
        let starts: Vec<u64> = (0..=7).map(|at| start(file, at)).collect();
        assert_eq!(starts, [0, 3, 3, 3, 4, 6, 6, 6]);
    }

    #[test]
    fn every_cut_gives_every_line_to_exactly_one_side() {
        let long = [vec![b'x'; 3 * SEARCH_BYTES], b"\nshort\n\n".to_vec(), vec![b'y'; 5]].concat();
        for file in [&long[..], b"a\nbc\n", b"\n\n\n", b"none", b""] {
            let all: Vec<&[u8]> = file.split_inclusive(|byte| *byte == b'\n').collect();
            let cuts = (0..=file.len()).filter(|cut| *cut < 5 || file.len() - cut < 20 || cut % 30_011 == 0);
            for cut in cuts {
                let middle = start(file, cut as u64) as usize;
                let mut parts: Vec<&[u8]> = file[..middle].split_inclusive(|byte| *byte == b'\n').collect();
                parts.extend(file[middle..].split_inclusive(|byte| *byte == b'\n'));
                assert_eq!(parts, all, "cut at {cut}");
            }
        }
    }
}
