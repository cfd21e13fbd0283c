//! What people see: sizes, times, tables, progress. Progress is a bar on a terminal; elsewhere it is a line every few
//! seconds. Progress never goes to standard output, where the results are.

use std::{
    io::{self, IsTerminal, Write},
    process::ExitCode,
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant, SystemTime},
};

use bytesize::ByteSize;
use client::{Client, Throttle};
use indicatif::{ProgressBar, ProgressStyle};
use protocol::{Status, rate};
use serde::Serialize;

use crate::{Failure, Global};
pub use crate::{safe_text::sanitize, say};

/// Writes a line of results. All output of commands goes through here, so that a failed write is never silent.
pub fn line(text: impl AsRef<str>) {
    if let Err(error) = writeln!(io::stdout().lock(), "{}", sanitize(text.as_ref())) {
        end_without_output(&error);
    }
}

/// Prints clap's message, either help or an error, and returns the exit code.
pub fn usage(error: &clap::Error) -> ExitCode {
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

/// Text in red for a person; unchanged for a program.
pub fn red(text: &str) -> String {
    if io::stdout().is_terminal() { format!("\x1b[31m{text}\x1b[0m") } else { text.to_owned() }
}

/// A time as RFC 3339, to the second for people and to the millisecond for JSON.
pub fn time(unix_millis: u64, exact: bool) -> String {
    let time = SystemTime::UNIX_EPOCH + Duration::from_millis(unix_millis);
    if exact {
        humantime::format_rfc3339_millis(time).to_string()
    } else {
        humantime::format_rfc3339_seconds(time).to_string()
    }
}

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

/// Progress of long work over a known or unknown number of bytes.
pub struct Meter {
    what: String,
    bar: Option<ProgressBar>,
    lines: Option<Mutex<Instant>>,
    begun: Instant,
    done: AtomicU64,
    total: AtomicU64,
    /// What the work waits for.
    waiting_for: Mutex<Option<String>>,
    /// The rate limit of the work's transfers.
    throttle: Option<Throttle>,
}

impl Meter {
    /// Begins to show `what`; shows nothing with `--quiet` or JSON.
    pub fn start(what: impl Into<String>, total_bytes: u64, global: &Global) -> Self {
        let what = what.into();
        let silent = global.quiet || global.json;
        let terminal = io::stderr().is_terminal();
        let bar = (!silent && terminal).then(|| {
            let bar = ProgressBar::new(total_bytes).with_message(what.clone()).with_style(bar_style());
            bar.enable_steady_tick(Duration::from_millis(100));
            bar
        });
        let lines = (!silent && !terminal).then(|| Mutex::new(Instant::now()));
        Self {
            what,
            bar,
            lines,
            begun: Instant::now(),
            done: AtomicU64::new(0),
            total: AtomicU64::new(total_bytes),
            waiting_for: Mutex::new(None),
            throttle: None,
        }
    }

    /// Also shows when a limit of these transfers slows them.
    pub fn of(mut self, cloud: &Client) -> Self {
        self.throttle = Some(cloud.throttle().clone());
        self
    }

    /// Adds to what is done.
    pub fn add(&self, bytes: u64) {
        let done = self.done.fetch_add(bytes, Ordering::Relaxed) + bytes;
        self.show(done);
    }

    /// Sets what is done in all.
    pub fn set(&self, bytes: u64, total_bytes: u64) {
        self.done.store(bytes, Ordering::Relaxed);
        self.total.store(total_bytes, Ordering::Relaxed);
        if let Some(bar) = &self.bar {
            bar.set_length(total_bytes);
        }
        self.show(bytes);
    }

    /// Sets what the work waits for; `None` if it waits for nothing any more.
    pub fn set_waiting_for(&self, held: Option<String>) {
        *self.waiting_for.lock().unwrap_or_else(PoisonError::into_inner) = held;
    }

    /// Removes the bar.
    pub fn finish(&self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }

    fn show(&self, done: u64) {
        if let Some(bar) = &self.bar {
            bar.set_position(done);
            bar.set_message(match self.why_slow() {
                Some(why) => format!("{why}: {}", self.what),
                None => self.what.clone(),
            });
        }
        let Some(last) = &self.lines else { return };
        let mut last = last.lock().unwrap_or_else(PoisonError::into_inner);
        if last.elapsed() < LINE_PERIOD {
            return;
        }
        *last = Instant::now();
        let rate = done as f64 / self.begun.elapsed().as_secs_f64();
        let total = self.total.load(Ordering::Relaxed);
        let left = if rate > 0.0 { (total.saturating_sub(done) as f64 / rate).ceil() } else { 0.0 };
        let held = self.why_slow().map(|why| format!(", {why}")).unwrap_or_default();
        say!("{}: {} of {}, {}/s, {left} s left{held}", self.what, size(done), size(total), size(rate as u64));
    }

    /// What the work waits for, or the limit that slows its transfers now.
    fn why_slow(&self) -> Option<String> {
        let held = self.waiting_for.lock().unwrap_or_else(PoisonError::into_inner).clone();
        held.or_else(|| self.limit())
    }

    fn limit(&self) -> Option<String> {
        let throttle = self.throttle.as_ref()?;
        let rate = throttle.rate_bytes_per_second()?;
        Some(format!("limit {}", rate::Shown(rate)))
    }
}

impl Drop for Meter {
    fn drop(&mut self) {
        self.finish();
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

fn bar_style() -> ProgressStyle {
    let template =
        "{msg:24!} {wide_bar} {binary_bytes:>11} / {binary_total_bytes:<11} {binary_bytes_per_sec:>13} {eta:>5}";
    ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar())
}

/// Lines of progress are this far apart where there is no terminal.
const LINE_PERIOD: Duration = Duration::from_secs(3);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_others_wrote_commands_no_terminal() {
        assert_eq!(sanitize("two\n\twords, é"), "two\n\twords, é");
        assert_eq!(sanitize("\u{1b}[2J\rroot# \u{9b}1m\u{7f}"), "\u{fffd}[2J\u{fffd}root# \u{fffd}1m\u{fffd}");
    }
}
