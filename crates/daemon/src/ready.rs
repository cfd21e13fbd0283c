//! The one line on standard output by which a process says that it serves: `ready ADDRESS`. Whoever started the process
//! (a script, `sector up --processes`, systemd) waits for it instead of sleeping. A role never writes anything else to
//! standard output.

use std::{
    fmt,
    io::{self, Write},
};

use crate::DaemonError;

/// Prints the ready line and flushes, since the reader is at the other end of a pipe.
pub fn announce(address: impl fmt::Display) -> Result<(), DaemonError> {
    write_line(&mut io::stdout().lock(), address).map_err(DaemonError::ReadyLine)
}

/// The address in a line that [`announce`] wrote; `None` for any other line.
pub fn parse(line: &str) -> Option<&str> {
    line.strip_prefix(PREFIX).map(str::trim_end).filter(|address| !address.is_empty())
}

fn write_line(out: &mut impl Write, address: impl fmt::Display) -> io::Result<()> {
    writeln!(out, "{PREFIX}{address}")?;
    out.flush()
}

const PREFIX: &str = "ready ";

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn the_ready_line_is_written_whole_and_read_back() {
        let mut out = Vec::new();
        write_line(&mut out, "sector://127.0.0.1:7400").unwrap();
        assert_eq!(out, b"ready sector://127.0.0.1:7400\n");
        assert_eq!(parse(std::str::from_utf8(&out).unwrap()), Some("sector://127.0.0.1:7400"));
    }

    #[test]
    fn other_lines_are_not_taken_for_the_ready_line() {
        for line in ["", "ready", "ready ", "ready \n", "already 127.0.0.1:1", "not ready 127.0.0.1:1"] {
            assert_eq!(parse(line), None, "{line:?}");
        }
    }
}
