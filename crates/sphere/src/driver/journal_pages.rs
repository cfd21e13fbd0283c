//! The numbered pages of a job's journal: what the job was told, in order. One page is written at a time, and only
//! where no page of its number exists. So of two drivers that both believe they own the job, only one goes on
//! ([`PageWrite`]); the other learns of it before it does harm. It never decides what must be written before an action:
//! [`DriverCore`](crate::DriverCore) does.

use std::time::Duration;

use protocol::{Now, Reason, Refusal, Status};
use serde::{Deserialize, Serialize};

use crate::Event;

/// What a job was told, and at which time of its clock.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct JournalEntry {
    /// The time of the job.
    pub at: Duration,
    /// The event; `None` means that only time has passed.
    pub event: Option<Event>,
}

/// What is in no page yet, and the number of the next page.
#[derive(Debug)]
pub(crate) struct JournalPages {
    /// The number of the next page.
    next: u32,
    waiting: Vec<JournalEntry>,
    /// When the last page was begun, by the job's clock.
    last_page: Duration,
}

impl JournalPages {
    /// Continues after `next` pages, the last of which was begun at `last_page`.
    pub(crate) fn behind(next: u32, last_page: Duration) -> Self {
        Self { next, waiting: Vec::new(), last_page }
    }

    pub(crate) fn note(&mut self, told: JournalEntry) {
        self.waiting.push(told);
    }

    /// Whether a page is due: every second at first, and less often as the job gets older. A takeover then costs a
    /// two-thousandth of the work done, and even after weeks there are only a few thousand pages to read.
    pub(crate) fn is_due(&self, at: Duration) -> bool {
        at.saturating_sub(self.last_page) >= PAGE_PERIOD_MIN + self.last_page / PAGES_PER_AGE
    }

    /// The page to be written now, if there is anything to write.
    pub(crate) fn take(&mut self) -> Option<JournalPage> {
        self.last_page = self.waiting.last()?.at;
        let page = JournalPage { number: self.next, entries: std::mem::take(&mut self.waiting) };
        self.next += 1;
        Some(page)
    }
}

/// A page that is to be written.
#[derive(Clone, Debug, PartialEq)]
pub struct JournalPage {
    /// Its number, from 0.
    pub number: u32,
    /// What the job was told.
    pub entries: Vec<JournalEntry>,
}

/// How one page gets written, even if the master or nodes are away for some minutes, or the answer to a successful try
/// was lost.
#[derive(Debug)]
pub struct PageWrite {
    begun: Duration,
}

/// What follows from a try at a page.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PageWriteStep {
    /// It is tried again after this pause.
    Retry(Duration),
    /// A page of this number exists: read it, and report [what it is](PageWrite::found).
    Compare(Refusal),
    /// The attempt is over. `Exists`: another driver has written a page of this number.
    Ended(Result<(), Refusal>),
}

impl PageWrite {
    /// A page that is begun now.
    pub fn new(now: Now) -> Self {
        Self { begun: now.monotonic }
    }

    /// The result of a try to write the page where nothing was.
    pub fn tried(&self, now: Now, result: Result<(), Refusal>) -> PageWriteStep {
        match result {
            Err(refusal) if refusal.status() == Status::Exists => PageWriteStep::Compare(refusal),
            result => self.judge(now, result),
        }
    }

    /// A page of this number was read. `is_same` says whether it is this one, or why it cannot be read. If it is
    /// another, the write ends with `refusal`, the answer to the try.
    pub fn found(&self, now: Now, refusal: Refusal, is_same: Result<bool, Refusal>) -> PageWriteStep {
        let result = is_same.and_then(|is_same| if is_same { Ok(()) } else { Err(refusal) });
        self.judge(now, result)
    }

    /// Gives [`PageWriteStep::Retry`] where a page cannot be read for now: nothing else is tried again.
    pub fn judge(&self, now: Now, result: Result<(), Refusal>) -> PageWriteStep {
        let is_early = now.monotonic.saturating_sub(self.begun) < PATIENCE;
        match result {
            Err(refusal) if refusal.status() == Status::Unavailable && is_early => PageWriteStep::Retry(RETRY_PAUSE),
            result => PageWriteStep::Ended(result),
        }
    }

    /// Why a file of the journal that must exist cannot be read: the head, and each page before the last. A missing one
    /// is treated like one that cannot be read for now, since a rebuild may still name it.
    pub fn must_be_there(refusal: Refusal) -> Refusal {
        match refusal.status() {
            Status::NotFound => Refusal { reason: Reason::Unavailable, ..refusal },
            _ => refusal,
        }
    }

    /// Whether a journal ends before the page of this number, which is missing: no file of its folder is a later page.
    /// A driver that continued in a gap would meet the later pages, which tell of another course of the job.
    pub fn is_end<'a>(number: u32, mut names: impl Iterator<Item = &'a str>) -> bool {
        !names.any(|name| name.parse().is_ok_and(|page: u32| page >= number))
    }

    /// Whether a journal that could not be read for this reason, until patience ran out, is out of reach for others
    /// too. Then the job ends when a second driver, at another node if there is one, finds the same. What another
    /// driver does is no such reason.
    pub fn is_out_of_reach(refusal: &Refusal) -> bool {
        refusal.status() == Status::Unavailable
    }
}

/// Time between two pages of a young job.
const PAGE_PERIOD_MIN: Duration = Duration::from_millis(900);
/// The age of a job is divided by this to give the time between two pages.
const PAGES_PER_AGE: u32 = 2_000;
/// How long a page is tried again: a machine is restarted in less. What was in memory is gone for good.
const PATIENCE: Duration = Duration::from_secs(10 * 60);
/// Pause before a page is tried again.
const RETRY_PAUSE: Duration = Duration::from_secs(1);

#[cfg(test)]
mod tests {
    use super::*;

    fn second(second: u64) -> Now {
        Now { monotonic: Duration::from_secs(second), ..Now::default() }
    }

    #[test]
    fn a_journal_that_cannot_be_read_is_out_of_reach_when_patience_is_over() {
        let reading = PageWrite::new(second(0));
        let away = || Refusal::new(Reason::Unavailable, "no copy can be read now".to_owned());
        assert_eq!(reading.judge(second(599), Err(away())), PageWriteStep::Retry(RETRY_PAUSE));
        let PageWriteStep::Ended(Err(refusal)) = reading.judge(second(600), Err(away())) else { panic!("it goes on") };
        assert!(PageWrite::is_out_of_reach(&refusal));
        for reason in [Reason::NotFound, Reason::NoRight, Reason::Exists] {
            assert!(!PageWrite::is_out_of_reach(&Refusal::new(reason, String::new())), "{reason:?}");
        }
    }

    #[test]
    fn a_journal_without_its_head_or_a_page_in_the_middle_cannot_be_read_for_now() {
        let missing = Refusal::new(Reason::NotFound, "there is no file".to_owned());
        assert!(PageWrite::is_out_of_reach(&PageWrite::must_be_there(missing)));
        let refused = Refusal::new(Reason::NoRight, "another drives the job".to_owned());
        assert_eq!(PageWrite::must_be_there(refused.clone()), refused);
        let pages = || ["00000000", "00000001", "00000003", "head"].into_iter();
        assert!(!PageWrite::is_end(2, pages()));
        assert!(PageWrite::is_end(4, pages()));
        // It was written since it was looked for.
        assert!(!PageWrite::is_end(3, pages()));
    }

    #[test]
    fn pages_are_written_every_second_and_of_an_old_job_more_seldom() {
        let mut pages = JournalPages::behind(0, Duration::ZERO);
        let mut count = |until: u64| {
            let seconds = pages.last_page.as_secs() + 1..=until;
            let due = |second: &u64| {
                let at = Duration::from_secs(*second);
                pages.note(JournalEntry { at, event: None });
                pages.is_due(at) && pages.take().is_some()
            };
            seconds.filter(due).count()
        };
        assert_eq!(count(60), 60);
        let of_a_day = count(86_400);
        assert!((3_000..8_000).contains(&of_a_day), "{of_a_day}");
        let of_a_month = count(2_592_000);
        assert!((2_000..8_000).contains(&of_a_month), "{of_a_month}");
    }

    #[test]
    fn a_page_is_tried_again_for_ten_minutes_and_then_given_up() {
        let write = PageWrite::new(second(5));
        let away = Refusal::new(Reason::Unavailable, "no copy can be read now");
        for try_at in [5, 100, 604] {
            assert_eq!(write.tried(second(try_at), Err(away.clone())), PageWriteStep::Retry(RETRY_PAUSE));
        }
        assert_eq!(write.tried(second(605), Err(away.clone())), PageWriteStep::Ended(Err(away)));
        assert_eq!(write.tried(second(605), Ok(())), PageWriteStep::Ended(Ok(())));
    }

    #[test]
    fn that_another_driver_has_written_a_page_is_told_at_once_and_an_own_one_is_known() {
        let write = PageWrite::new(second(0));
        let taken = Refusal::new(Reason::Exists, "it is there");
        assert_eq!(write.tried(second(1), Err(taken.clone())), PageWriteStep::Compare(taken.clone()));
        assert_eq!(write.found(second(1), taken.clone(), Ok(true)), PageWriteStep::Ended(Ok(())));
        assert_eq!(write.found(second(1), taken.clone(), Ok(false)), PageWriteStep::Ended(Err(taken.clone())));
        let away = Refusal::new(Reason::Unavailable, "no copy can be read now");
        assert_eq!(write.found(second(1), taken, Err(away)), PageWriteStep::Retry(RETRY_PAUSE));
    }
}
