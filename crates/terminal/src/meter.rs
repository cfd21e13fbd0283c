//! Progress of long work: a bar on a terminal, and elsewhere a line every few seconds. It fits 60 columns. It never goes
//! to standard output, where the results are.

use std::{
    io::{self, IsTerminal},
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicU64, AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use client::{Client, Throttle};
use indicatif::{ProgressBar, ProgressStyle};
use protocol::rate;

use crate::{Global, say, show::size};

/// Progress of long work over a known or unknown number of bytes.
pub struct Meter {
    what: String,
    bar: Option<ProgressBar>,
    lines: Option<Mutex<Instant>>,
    begun: Instant,
    done: AtomicU64,
    total: AtomicU64,
    files_done: AtomicUsize,
    /// How many files there are, where several are counted.
    files: Option<usize>,
    /// What the work waits for.
    waiting_for: Mutex<Option<String>>,
    /// The rate limit of the work's transfers.
    throttle: Option<Throttle>,
}

impl Meter {
    /// Begins to show `what`; shows nothing with `--quiet` or JSON.
    pub fn start(what: impl Into<String>, total_bytes: u64, global: &Global) -> Self {
        let silent = global.quiet || global.json;
        let terminal = io::stderr().is_terminal();
        let bar = (!silent && terminal).then(|| {
            let bar = ProgressBar::new(total_bytes).with_style(bar_style());
            bar.enable_steady_tick(Duration::from_millis(100));
            bar
        });
        Self {
            what: what.into(),
            bar,
            lines: (!silent && !terminal).then(|| Mutex::new(Instant::now())),
            begun: Instant::now(),
            done: AtomicU64::new(0),
            total: AtomicU64::new(total_bytes),
            files_done: AtomicUsize::new(0),
            files: None,
            waiting_for: Mutex::new(None),
            throttle: None,
        }
    }

    /// Also shows when a limit of these transfers slows them.
    #[must_use]
    pub fn of(mut self, cloud: &Client) -> Self {
        self.throttle = Some(cloud.throttle().clone());
        self
    }

    /// Also counts files, where there are several.
    #[must_use]
    pub fn counting(mut self, files: usize) -> Self {
        self.files = (files > 1).then_some(files);
        self
    }

    /// Adds to what is done.
    pub fn add(&self, bytes: u64) {
        let done = self.done.fetch_add(bytes, Ordering::Relaxed) + bytes;
        self.show(done);
    }

    /// A further file is done.
    pub fn add_file(&self) {
        self.files_done.fetch_add(1, Ordering::Relaxed);
        self.show(self.done.load(Ordering::Relaxed));
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
            bar.set_message(self.state(done).text());
        }
        let Some(last) = &self.lines else { return };
        let mut last = last.lock().unwrap_or_else(PoisonError::into_inner);
        if last.elapsed() < LINE_PERIOD {
            return;
        }
        *last = Instant::now();
        let held = self.why_slow().map(|why| format!(", {why}")).unwrap_or_default();
        say!("{}{held}", self.state(done).text());
    }

    fn state(&self, done: u64) -> WorkState {
        WorkState {
            // What holds it up is more than what it is called. Lines say both.
            what: match self.why_slow() {
                Some(why) if self.bar.is_some() => why,
                _ => self.what.clone(),
            },
            files: self.files.map(|files| (self.files_done.load(Ordering::Relaxed), files)),
            done,
            total: self.total.load(Ordering::Relaxed),
            seconds: self.begun.elapsed().as_secs_f64(),
        }
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

/// How far work is at a moment.
struct WorkState {
    what: String,
    /// Files that are done, and all.
    files: Option<(usize, usize)>,
    done: u64,
    total: u64,
    /// Since it began.
    seconds: f64,
}

impl WorkState {
    /// `put 12/20000: 1.2 GiB/3.4 GiB, 12.0 MiB/s, 12 s left`. Work that stands still has no time left to tell.
    fn text(&self) -> String {
        let files = self.files.map(|(done, all)| format!(" {done}/{all}")).unwrap_or_default();
        let mut text = format!("{}{files}: {}/{}", self.what, size(self.done), size(self.total));
        let rate = if self.seconds > 0.0 { self.done as f64 / self.seconds } else { 0.0 };
        text += &format!(", {}/s", size(rate as u64));
        if rate >= 1.0 {
            text += &format!(", {} s left", (self.total.saturating_sub(self.done) as f64 / rate).ceil());
        }
        text
    }
}

fn bar_style() -> ProgressStyle {
    // The bar takes what the text leaves.
    ProgressStyle::with_template("{msg} {wide_bar}").unwrap_or_else(|_| ProgressStyle::default_bar())
}

/// Lines of progress are this far apart where there is no terminal.
const LINE_PERIOD: Duration = Duration::from_secs(3);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn progress_counts_files_and_bytes_and_fits_60_columns() {
        let state = WorkState {
            what: "put".into(),
            files: Some((12_345, 20_000)),
            done: 900 << 30,
            total: 999 << 30,
            seconds: 900.0,
        };
        assert_eq!(state.text(), "put 12345/20000: 900.0 GiB/999.0 GiB, 1.0 GiB/s, 99 s left");
        assert!(state.text().chars().count() <= 60);
        let still = WorkState { what: "run".into(), files: None, done: 0, total: 1 << 20, seconds: 9.0 };
        assert_eq!(still.text(), "run: 0 B/1.0 MiB, 0 B/s", "nobody knows how long that takes");
    }
}
