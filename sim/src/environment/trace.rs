//! The trace of a run, as lines for a person (`-v`) and as one number for comparing two runs. Lines are made in every
//! run, shown or not. So a difference between two runs of a seed never hides in lines that were not printed.

use std::{
    fmt::Write as _,
    io::{self, Write as _},
};

use protocol::Now;

/// See the module.
#[derive(Debug)]
pub(crate) struct Trace {
    digest: u64,
    lines: u64,
    is_shown: bool,
    line: String,
}

impl Trace {
    pub(crate) fn new(is_shown: bool) -> Self {
        Self { digest: OFFSET, lines: 0, is_shown, line: String::new() }
    }

    /// Notes a line.
    pub(crate) fn note(&mut self, now: Now, what: std::fmt::Arguments<'_>) {
        self.line.clear();
        // Writing to a string cannot fail.
        let _ = write!(self.line, "{:>11.6} {what}", now.monotonic.as_secs_f64());
        let line = std::mem::take(&mut self.line);
        self.mix(line.as_bytes());
        self.lines += 1;
        if self.is_shown {
            // A reader who closed the pipe does not want the rest.
            self.is_shown = writeln!(io::stdout().lock(), "{line}").is_ok();
        }
        self.line = line;
    }

    /// Mixes bytes into the number without a line: for data too large to read.
    pub(crate) fn mix(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.digest = (self.digest ^ u64::from(*byte)).wrapping_mul(PRIME);
        }
    }

    /// The number that stands for everything noted.
    pub(crate) fn digest(&self) -> u64 {
        self.digest
    }

    /// How many lines were noted.
    pub(crate) fn lines(&self) -> u64 {
        self.lines
    }
}

/// FNV-1a in 64 bits: quick, and the same everywhere.
const OFFSET: u64 = 0xcbf2_9ce4_8422_2325;
const PRIME: u64 = 0x0000_0100_0000_01b3;
