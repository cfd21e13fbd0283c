//! What a person sees of a transfer of many files: files and bytes meanwhile, each failure when it happens, and one
//! line at the end. It never decides which file goes where.

use std::{
    fmt::Display,
    path::PathBuf,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use client::{
    Client, ClientError,
    tree::{FailedFile, TreeEvent, TreeObserver, TreeOutcome},
};
use serde::Serialize;
use terminal::{
    failure::{Failure, FailureView},
    sanitize,
    show::{self, Meter, say, size},
};

use crate::arguments::Global;

/// A transfer while it is shown.
pub(crate) struct ShownTransfer {
    what: &'static str,
    meter: Arc<Meter>,
    begun: Instant,
    /// Files that were removed at the destination, where the command removes any.
    deleted: Option<usize>,
    is_quiet: bool,
    is_json: bool,
    /// How many failures are named as they happen.
    named_max: usize,
}

impl ShownTransfer {
    /// Begins to show the transfer of so many files and bytes.
    pub(crate) fn start(what: &'static str, files: usize, bytes: u64, cloud: &Client, global: &Global) -> Self {
        let meter = Arc::new(Meter::start(what, bytes, global).of(cloud).counting(files));
        Self {
            what,
            meter,
            begun: Instant::now(),
            deleted: None,
            is_quiet: global.quiet,
            is_json: global.json,
            named_max: named_max(global),
        }
    }

    /// Shows files and bytes, and prints each failure in the words of `failure_of`.
    pub(crate) fn observer(&self, failure_of: fn(&FailedFile) -> Failure) -> TreeObserver {
        let meter = Arc::clone(&self.meter);
        let (named, named_max) = (AtomicUsize::new(0), self.named_max);
        Arc::new(move |event| match event {
            TreeEvent::Bytes(bytes) => meter.add(bytes),
            TreeEvent::Failed(failed) => {
                if named.fetch_add(1, Ordering::Relaxed) < named_max {
                    say!("sector: {}", sanitize(&failure_of(failed).message));
                }
            }
            TreeEvent::Done(_) => meter.add_file(),
        })
    }

    /// Says also how many files were removed.
    pub(crate) fn deleting(self, files: usize) -> Self {
        Self { deleted: Some(files), ..self }
    }

    /// Says what became of all, and how the command ends: the first failure decides the exit code.
    pub(crate) fn finish(
        self,
        outcome: &TreeOutcome,
        left_out: &[PathBuf],
        failure_of: fn(&FailedFile) -> Failure,
    ) -> Result<(), Failure> {
        let failures: Vec<_> = outcome.failures.iter().map(|failed| about(failed, failure_of(failed))).collect();
        let skipped_bytes: u64 = outcome.files.iter().filter(|file| file.is_skipped).map(|file| file.bytes).sum();
        let sums = TransferView {
            files: outcome.files.len(),
            bytes: outcome.bytes(),
            skipped: outcome.skipped(),
            deleted: self.deleted,
            kept_bytes: outcome.kept_bytes,
            seconds: self.begun.elapsed().as_secs_f64(),
            failed: failures.iter().map(Failure::view).collect(),
            not_begun: outcome.not_begun,
            left_out: left_out.iter().map(|item| item.display().to_string()).collect(),
        };
        if let Some(message) = further(failures.len(), self.named_max, "failed") {
            say!("sector: {message}");
        }
        let passed_bytes = sums.bytes.saturating_sub(skipped_bytes).saturating_sub(sums.kept_bytes);
        self.end(sums, passed_bytes)?;
        failures.into_iter().next().map_or(Ok(()), |failure| Err(failure.printed()))
    }

    /// The same for one file that went well.
    pub(crate) fn finish_one(self, bytes: u64) -> Result<(), Failure> {
        let seconds = self.begun.elapsed().as_secs_f64();
        self.end(TransferView { files: 1, bytes, seconds, ..TransferView::default() }, bytes)
    }

    /// The meter, for bytes that are counted by hand.
    pub(crate) fn meter(&self) -> &Meter {
        &self.meter
    }

    fn end(self, sums: TransferView, passed_bytes: u64) -> Result<(), Failure> {
        self.meter.finish();
        if self.is_json {
            return show::json(&sums);
        }
        if !self.is_quiet {
            say!("{}: {}", self.what, sums.message(passed_bytes));
        }
        Ok(())
    }
}

/// How many of a list are named: the first few, or all with `-v`.
fn named_max(global: &Global) -> usize {
    if global.verbose > 0 { usize::MAX } else { NAMED_MAX }
}

/// The sentence about what was not named.
fn further(count: usize, named_max: usize, what: &str) -> Option<String> {
    let count = count.checked_sub(named_max).filter(|count| *count > 0)?;
    Some(format!("{count} more {what}; -v names each"))
}

/// Names what does not go: the first few, or all with `-v`.
pub(crate) fn say_left_out(left_out: &[PathBuf], of_link: &str, global: &Global) {
    let most = named_max(global);
    for item in left_out.iter().take(most) {
        let why = if item.is_symlink() { of_link } else { "it is no ordinary file" };
        say!("sector: `{}` is left out: {why}", sanitize(&item.display().to_string()));
    }
    let is_one = left_out.len() == most.saturating_add(1);
    if let Some(message) = further(left_out.len(), most, if is_one { "is left out" } else { "are left out" }) {
        say!("sector: {message}");
    }
}

/// The files and bytes of a transfer as JSON (contract: `put`, `get`, `cp`, `sync`).
#[derive(Debug, Default, Serialize)]
struct TransferView {
    /// Files in place, those among them that were there before, and their bytes.
    files: usize,
    bytes: u64,
    skipped: usize,
    /// Only of `sync`.
    #[serde(skip_serializing_if = "Option::is_none")]
    deleted: Option<usize>,
    /// Bytes that an earlier call had brought.
    kept_bytes: u64,
    seconds: f64,
    failed: Vec<FailureView>,
    /// Files that were not tried, since the disk here is full.
    not_begun: usize,
    left_out: Vec<String>,
}

impl TransferView {
    /// `passed_bytes` are those that passed now.
    fn message(&self, passed_bytes: u64) -> String {
        let mut text = format!("{}, {}", show::count(self.files, "file"), size(self.bytes));
        let counts = [
            (self.skipped, "skipped"),
            (self.deleted.unwrap_or(0), "deleted"),
            (self.failed.len(), "failed"),
            (self.not_begun, "not begun: the disk here is full"),
        ];
        for (count, what) in counts {
            if count > 0 {
                text += &format!(", {count} {what}");
            }
        }
        if self.kept_bytes > 0 {
            text += &format!(", {} had arrived before", size(self.kept_bytes));
        }
        text += &format!(", {:.1} s", self.seconds);
        if self.seconds >= RATED.as_secs_f64() && passed_bytes > 0 {
            text += &format!(", {}/s", size((passed_bytes as f64 / self.seconds) as u64));
        }
        text
    }
}

/// A failure in the client's own words.
pub(crate) fn failure(failed: &FailedFile) -> Failure {
    Failure::from(&failed.error)
}

/// The same, with the source that it is about.
pub(crate) fn failure_about(failed: &FailedFile) -> Failure {
    about(failed, failure(failed))
}

/// A failure with the source that it is about.
fn about(failed: &FailedFile, failure: Failure) -> Failure {
    failure.about(failed.from.display())
}

/// Why there is no plan. A folder needs an option.
pub(crate) fn plan_failure(error: ClientError) -> Failure {
    let asks_for_option = |folder: &dyn Display| {
        Failure::usage(format!("`{folder}` is a folder; use -r for all that it holds")).about(folder)
    };
    match error.cause() {
        ClientError::IsFolder { path } => asks_for_option(path),
        ClientError::IsLocalFolder { folder } => asks_for_option(&folder.display()),
        _ => error.into(),
    }
}

/// The sources, and where they go: the last of what was named.
pub(crate) fn split(paths: &[String]) -> Result<(&[String], &str), Failure> {
    match paths.split_last() {
        Some((to, from)) if !from.is_empty() => Ok((from, to)),
        _ => Err(Failure::usage("name what goes and where to: SRC... DST")),
    }
}

/// So many failures, or files that are left out, are named. Of thousands a count says more.
const NAMED_MAX: usize = 10;
/// A rate over less than this says nothing.
const RATED: Duration = Duration::from_millis(50);

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn the_last_line_counts_files_and_bytes_and_rates_only_what_passed_now() {
        let mut sums = TransferView { files: 3, bytes: 3 << 20, seconds: 2.0, ..TransferView::default() };
        assert_eq!(sums.message(2 << 20), "3 files, 3.0 MiB, 2.0 s, 1.0 MiB/s");
        (sums.skipped, sums.kept_bytes) = (1, 1 << 20);
        assert_eq!(sums.message(0), "3 files, 3.0 MiB, 1 skipped, 1.0 MiB had arrived before, 2.0 s");
        (sums.kept_bytes, sums.deleted) = (0, Some(2));
        assert_eq!(sums.message(0), "3 files, 3.0 MiB, 1 skipped, 2 deleted, 2.0 s");
        sums = TransferView { files: 1, bytes: 5, ..TransferView::default() };
        assert_eq!(sums.message(5), "1 file, 5 B, 0.0 s");
    }

    #[test]
    fn of_many_failures_the_first_ten_are_named_and_the_others_counted() {
        assert_eq!((further(0, NAMED_MAX, "failed"), further(10, NAMED_MAX, "failed")), (None, None));
        assert_eq!(further(61_000, NAMED_MAX, "failed").as_deref(), Some("60990 more failed; -v names each"));
        let verbose = Global { verbose: 1, ..Global::default() };
        assert_eq!(further(61_000, named_max(&verbose), "failed"), None);
    }

    #[test]
    fn sources_and_destination_are_told_apart() {
        let words = |text: &str| text.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
        let all = words("a b /x");
        assert_eq!(split(&all).unwrap(), (&all[..2], "/x"));
        assert!(split(&words("a")).is_err() && split(&[]).is_err());
    }
}
