//! What people see: sizes, times, tables, documents. All of it goes to standard output. A write that fails there is
//! never silent.

use std::{
    io::{self, IsTerminal, Write},
    process::ExitCode,
    sync::atomic::{AtomicBool, Ordering},
};

use bytesize::ByteSize;
use client::views;
use jiff::{Timestamp, tz::TimeZone};
use protocol::Status;
use serde::Serialize;

use crate::Failure;
pub use crate::{meter::Meter, safe_text::sanitize, say};

/// Writes a line of results. All output of commands goes through here, so that a failed write is never silent.
pub fn line(text: impl AsRef<str>) {
    mark_output();
    if let Err(error) = writeln!(io::stdout().lock(), "{}", sanitize(text.as_ref())) {
        end_without_output(&error);
    }
}

/// Writes results that are no text, such as a file's bytes made by this program.
pub fn bytes(bytes: &[u8]) {
    mark_output();
    let mut out = io::stdout().lock();
    if let Err(error) = out.write_all(bytes).and_then(|()| out.flush()) {
        end_without_output(&error);
    }
}

/// Notes that standard output belongs to the command: no document of the program itself follows there.
pub fn mark_output() {
    HAS_OUTPUT.store(true, Ordering::Relaxed);
}

/// Whether something stands on standard output, or will.
pub(crate) fn has_output() -> bool {
    HAS_OUTPUT.load(Ordering::Relaxed)
}

static HAS_OUTPUT: AtomicBool = AtomicBool::new(false);

/// Prints clap's message, either help or an error, and returns the exit code. With `--json` an error is a document
/// too.
pub fn usage(error: &clap::Error) -> ExitCode {
    if error.use_stderr() && std::env::args_os().take_while(|word| word != "--").any(|word| word == "--json") {
        let text = error.to_string();
        let sentence = text.lines().next().unwrap_or_default().trim_start_matches("error: ").to_owned();
        document(&serde_json::json!({ "error": Failure::usage(sentence).view() }));
    }
    let printed = error.print().and_then(|()| io::stdout().flush());
    match printed {
        Err(error_of_output) if !error.use_stderr() => end_without_output(&error_of_output),
        _ if error.use_stderr() => ExitCode::from(Status::Usage.exit_code()),
        _ => ExitCode::SUCCESS,
    }
}

/// Results cannot be written. A closed pipe ends the process quietly, as `head` expects; everything else is a
/// failure.
fn end_without_output(error: &io::Error) -> ! {
    if error.kind() == io::ErrorKind::BrokenPipe {
        std::process::exit(0);
    }
    say!("sector: cannot write to standard output: {error}");
    std::process::exit(i32::from(Status::Failed.exit_code()));
}

/// Prints a document that can always be printed.
pub(crate) fn document(value: &serde_json::Value) {
    line(format!("{value:#}"));
}

/// Prints one JSON document.
pub fn json(value: &impl Serialize) -> Result<(), Failure> {
    let text =
        serde_json::to_string_pretty(value).map_err(|error| Failure::failed(format!("cannot print JSON: {error}")))?;
    line(text);
    Ok(())
}

/// A size in IEC units, for people.
pub fn size(bytes: u64) -> String {
    ByteSize::b(bytes).display().iec().to_string()
}

/// So many of them, for people.
pub fn count(number: usize, what: &str) -> String {
    if number == 1 { format!("1 {what}") } else { format!("{number} {what}s") }
}

/// Text in red for a person; unchanged for a program.
pub fn red(text: &str) -> String {
    if io::stdout().is_terminal() { format!("\x1b[31m{text}\x1b[0m") } else { text.to_owned() }
}

/// A time for a person, to the second, in the zone of who looks (`TZ`, else the machine's): RFC 3339 with the offset. A
/// time after the year 9999, as a wrong clock may say it, is `-`.
pub fn time(unix_millis: u64) -> String {
    time_in(unix_millis, TimeZone::system(), TO_THE_SECOND)
}

/// The same to the millisecond, for records in which the order counts.
pub fn exact_time(unix_millis: u64) -> String {
    time_in(unix_millis, TimeZone::system(), TO_THE_MILLISECOND)
}

/// A time that a view has for programs, in UTC, as [`time`] shows it. What is no time stays as it is.
pub fn time_of(view: &str) -> String {
    views::parse_rfc3339(view).map_or_else(|| view.to_owned(), time)
}

/// A time for a person who asked for UTC, to the second.
pub fn utc_time(unix_millis: u64) -> String {
    if unix_millis > views::YEAR_9999_END_UNIX_MILLIS { "-".into() } else { views::rfc3339_seconds(unix_millis) }
}

/// A time for programs: RFC 3339 in UTC, to the millisecond.
pub fn json_time(unix_millis: u64) -> String {
    views::rfc3339(unix_millis)
}

fn time_in(unix_millis: u64, zone: TimeZone, format: &str) -> String {
    let instant = i64::try_from(unix_millis).ok().and_then(|millis| Timestamp::from_millisecond(millis).ok());
    match instant {
        Some(instant) => instant.to_zoned(zone).strftime(format).to_string(),
        // Beyond the year 9999.
        None => "-".into(),
    }
}

const TO_THE_SECOND: &str = "%Y-%m-%dT%H:%M:%S%:z";
const TO_THE_MILLISECOND: &str = "%Y-%m-%dT%H:%M:%S%.3f%:z";

/// Prints rows in columns, with numbers to the right and texts to the left. A heading that begins with a blank marks
/// a column of numbers.
pub fn table(head: &[&str], rows: &[Vec<String>]) {
    let mut widths: Vec<usize> = head.iter().map(|name| name.trim().chars().count()).collect();
    for row in rows {
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = (*width).max(cell.chars().count());
        }
    }
    let format_row = |cells: Vec<&str>| {
        let mut text = String::new();
        for ((cell, width), name) in cells.iter().zip(&widths).zip(head) {
            let pad = " ".repeat(width - cell.chars().count());
            let cell = if name.starts_with(' ') { format!("{pad}{cell}") } else { format!("{cell}{pad}") };
            text.push_str(&cell);
            text.push_str("  ");
        }
        text.trim_end().to_owned()
    };
    line(format_row(head.iter().map(|name| name.trim()).collect()));
    for row in rows {
        line(format_row(row.iter().map(String::as_str).collect()));
    }
}

/// Reports a bug in one sentence. Rust ignores SIGPIPE, so a library that prints to a closed pipe panics. That is not
/// our bug, but its work is not done.
pub fn install_panic_hook() {
    std::panic::set_hook(Box::new(|panic| {
        let text = panic.to_string();
        if text.contains("failed printing to") {
            std::process::exit(i32::from(Status::Failed.exit_code()));
        }
        say!("sector: a bug in sector itself: {text}; please report it");
    }));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_is_shown_in_the_zone_that_holds_at_that_time() {
        let berlin = TimeZone::posix("CET-1CEST,M3.5.0,M10.5.0/3").expect("a zone");
        let seconds = |unix_millis, zone: &TimeZone| time_in(unix_millis, zone.clone(), TO_THE_SECOND);
        assert_eq!(seconds(1_768_478_400_999, &berlin), "2026-01-15T13:00:00+01:00");
        assert_eq!(seconds(1_784_116_800_000, &berlin), "2026-07-15T14:00:00+02:00");
        assert_eq!(seconds(1_784_116_800_000, &TimeZone::UTC), "2026-07-15T12:00:00+00:00");
        assert_eq!(seconds(u64::MAX, &berlin), "-");
        let exact = time_in(1_768_478_400_999, berlin, TO_THE_MILLISECOND);
        assert_eq!(exact, "2026-01-15T13:00:00.999+01:00");
    }

    #[test]
    fn a_time_of_a_view_is_shown_as_any_other_and_what_is_none_stays() {
        let view = views::rfc3339_seconds(1_768_478_400_000);
        assert_eq!(time_of(&view), time(1_768_478_400_000));
        assert_eq!(time_of("cleared"), "cleared");
    }

    #[test]
    fn a_time_after_the_year_9999_is_no_panic() {
        assert_eq!(utc_time(views::YEAR_9999_END_UNIX_MILLIS), "9999-12-31T23:59:59Z");
        assert_eq!((time(u64::MAX), utc_time(u64::MAX)), ("-".into(), "-".into()));
        assert_eq!(json_time(u64::MAX), "9999-12-31T23:59:59.999Z");
    }

    #[test]
    fn what_others_wrote_commands_no_terminal() {
        assert_eq!(sanitize("two\n\twords, é"), "two\n\twords, é");
        assert_eq!(sanitize("\u{1b}[2J\rroot# \u{9b}1m\u{7f}"), "\u{fffd}[2J\u{fffd}root# \u{fffd}1m\u{fffd}");
    }
}
