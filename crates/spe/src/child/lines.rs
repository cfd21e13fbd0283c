//! Decides which lines a segment owns. A file of lines is cut at any byte, since its lines are not known before they
//! are read. Serves the path *job*. A segment owns the lines that **start** in `from..until`, so two neighbours never
//! share a line and never miss one.

use std::io;

/// The first offset at or after `at` where a line starts, or `file_bytes` if there is none. `read_at` fills a buffer
/// from an offset in the file.
pub(super) fn line_start(
    at: u64,
    file_bytes: u64,
    read_at: &mut dyn FnMut(&mut [u8], u64) -> io::Result<()>,
) -> io::Result<u64> {
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

    fn start(file: &[u8], at: u64) -> u64 {
        line_start(at, file.len() as u64, &mut |buffer, place| {
            let place = place as usize;
            buffer.copy_from_slice(&file[place..place + buffer.len()]);
            Ok(())
        })
        .unwrap()
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
