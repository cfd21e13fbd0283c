//! Finds the reports of a program on standard error, in whole lines as for Hadoop streaming. `reporter:counter:NAME,N`
//! adds to a counter (Hadoop's `GROUP,COUNTER,N` is one with a comma in its name), and `reporter:status:…` is a sign of
//! life. In the SPE process alone. It never interprets any other line.

use udf::{FunctionError, Output};

/// Finds reports in text that arrives piece by piece.
#[derive(Default)]
pub(super) struct Reporter {
    /// The beginning of a line whose end has not arrived.
    line: Vec<u8>,
    /// The first line that looks like a counter but is none.
    wrong: Option<String>,
}

impl Reporter {
    /// Takes the program's text; the program has been fed `fed` bytes of its segment.
    pub(super) fn take(&mut self, mut bytes: &[u8], fed: u64, output: &mut Output<'_>) {
        while let Some(end) = bytes.iter().position(|byte| *byte == b'\n') {
            self.keep(&bytes[..end]);
            self.end_line(fed, output);
            bytes = &bytes[end + 1..];
        }
        self.keep(bytes);
    }

    /// The program has ended well: a last line needs no end.
    ///
    /// # Errors
    /// If a line begins like a counter but is none: its count would be missing without notice.
    pub(super) fn finish(mut self, fed: u64, output: &mut Output<'_>) -> Result<(), FunctionError> {
        self.end_line(fed, output);
        let Some(line) = self.wrong else { return Ok(()) };
        let line = line.escape_debug();
        Err(FunctionError::new(format!(
            "`{line}` counts nothing: write reporter:counter:NAME,N with a whole number from 0"
        )))
    }

    fn keep(&mut self, bytes: &[u8]) {
        // One byte more than a report may have shows that the line is none.
        let room = (LINE_BYTES_MAX + 1).saturating_sub(self.line.len());
        self.line.extend_from_slice(&bytes[..bytes.len().min(room)]);
    }

    fn end_line(&mut self, fed: u64, output: &mut Output<'_>) {
        let line = std::mem::take(&mut self.line);
        let line = String::from_utf8_lossy(line.strip_suffix(b"\r").unwrap_or(&line));
        if line.starts_with(STATUS) {
            output.progress(fed);
        } else if let Some(report) = line.strip_prefix(COUNTER) {
            let counted = report.rsplit_once(',').and_then(|(name, count)| Some((name, count.trim().parse().ok()?)));
            match counted.filter(|_| line.len() <= LINE_BYTES_MAX) {
                Some((name, count)) => output.count(name, count),
                None => {
                    self.wrong.get_or_insert(line.chars().take(SHOWN_CHARS).collect());
                }
            }
        }
    }
}

/// Whether a line is a report and not ordinary text.
pub(crate) fn is_report(line: &str) -> bool {
    line.starts_with(STATUS) || line.starts_with(COUNTER)
}

const STATUS: &str = "reporter:status:";
const COUNTER: &str = "reporter:counter:";
/// Longest report in bytes: a name, and room for a group.
const LINE_BYTES_MAX: usize = 512;
/// Characters shown of an invalid report.
const SHOWN_CHARS: usize = 80;

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use udf::Collected;

    use super::*;

    fn counted(pieces: &[&[u8]]) -> (Collected, Result<(), FunctionError>) {
        let (mut collected, mut reporter) = (Collected::default(), Reporter::default());
        for piece in pieces {
            reporter.take(piece, 7, &mut Output::new(&mut collected));
        }
        let ended = reporter.finish(7, &mut Output::new(&mut collected));
        (collected, ended)
    }

    #[test]
    fn however_reports_arrive_each_is_counted_once_and_other_lines_are_left_alone() {
        let all =
            b"hello\nreporter:counter:bad lines,2\r\nreporter:counter:Words,long, 3\nreporter:counter:bad lines,1";
        for cut in 0..=all.len() {
            let (collected, ended) = counted(&[&all[..cut], &all[cut..]]);
            let expected = [("bad lines".to_owned(), 3), ("Words,long".to_owned(), 3)].into();
            assert_eq!((collected.counters, ended), (expected, Ok(())), "cut at {cut}");
            assert_eq!(collected.bytes_done, 0);
        }
        assert_eq!(counted(&[b"reporter:status:half\n"]).0.bytes_done, 7);
        let long = [b"reporter".repeat(100_000), b"\n".to_vec()].concat();
        assert_eq!(counted(&[&long, &long]).1, Ok(()));
    }

    #[test]
    fn a_counter_without_a_number_is_an_error_that_quotes_it() {
        for line in ["reporter:counter:x,-1", "reporter:counter:x", "reporter:counter:x,1.5", "reporter:counter:x,y"] {
            let (collected, ended) = counted(&[line.as_bytes(), b"\nreporter:counter:good,1\n"]);
            assert!(ended.unwrap_err().message().contains(line), "{line}");
            assert_eq!(collected.counters, [("good".to_owned(), 1)].into());
        }
        let long = format!("reporter:counter:{},1\n", "x".repeat(600));
        assert!(counted(&[long.as_bytes()]).1.is_err());
    }
}
