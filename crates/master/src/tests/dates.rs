//! Dates of files that their clients give: what becomes of them, and that nothing but the date follows from them.

#![allow(clippy::unwrap_used)]

use protocol::{
    Policy,
    message::request::{ConfirmClockRequest, CreateDatedRequest},
};

use super::*;

const DAY_MILLIS: u64 = 86_400_000;
/// Years before the bench begins.
const LONG_AGO: u64 = 1_400_000_000_123;

impl Bench {
    /// A whole upload of a file that was changed then.
    fn put_dated(&mut self, at: &str, modified_unix_millis: u64, bytes: u64) -> Entry {
        let request = CreateDatedRequest { create: create(at), modified_unix_millis };
        let ClientReply::Created(created) = self.ask("ann", ClientRequest::CreateDated(request)) else {
            panic!("not created")
        };
        self.write(&created, bytes);
        let number = self.commit_later("ann", created.lease, bytes);
        match self.answer(number) {
            Some(ClientReply::Entry(entry)) => entry,
            other => panic!("not committed: {other:?}"),
        }
    }

    fn modified(&mut self, at: &str) -> u64 {
        self.stat(at).entry.modified_unix_millis
    }
}

#[test]
fn a_file_keeps_the_date_that_its_client_gave_also_after_a_rebuild() {
    let mut bench = Bench::with_nodes(&["a/1"]);
    for (at, given) in [("/old", LONG_AGO), ("/older", 0), ("/yesterday", 1_700_000_000_000 - DAY_MILLIS)] {
        assert_eq!(bench.put_dated(at, given, 1).modified_unix_millis, given);
        bench.restart_master();
        bench.join("n1");
        assert_eq!(bench.modified(at), given);
    }
    let today = bench.now.unix_millis;
    for given in [today + DAY_MILLIS, u64::MAX] {
        let dated = bench.put_dated("/tomorrow", given, 1).modified_unix_millis;
        assert!((today..=bench.now.unix_millis).contains(&dated), "no later than the master's clock: {dated}");
    }
    bench.lose_journal(0);
    bench.join("n1");
    bench.advance(seconds(100));
    assert_eq!((bench.modified("/old"), bench.modified("/older")), (LONG_AGO, 0));
}

#[test]
fn versions_follow_the_order_of_writes_whatever_the_dates_say() {
    let mut bench = Bench::with_nodes(&["a/1"]);
    let first = content(&bench.put("ann", create("/f"), 1)).version;
    let second = content(&bench.put_dated("/f", LONG_AGO, 2)).version;
    assert!(second > first);
    bench.lose_journal(0);
    bench.join("n1");
    bench.advance(seconds(100));
    assert_eq!(content(&bench.stat("/f").entry).bytes, 2, "a rebuild takes what was written last, not the newer date");
}

// Promise 29.
#[test]
fn a_lifetime_counts_from_the_write_also_of_a_file_with_an_older_date() {
    let mut bench = Bench::with_nodes(&["a/1"]);
    bench.set_policy("admin", "/", Policy { lifetime_seconds: Some(10 * 3_600), ..Policy::default() });
    bench.put_dated("/f", LONG_AGO, 1);
    let hours = |bench: &mut Bench, hours: u64| {
        for _ in 0..hours {
            bench.sleep(Duration::from_secs(3_600));
            bench.advance(seconds(1));
        }
    };
    hours(&mut bench, 9);
    assert!(bench.exists("/f"));
    bench.restart_master();
    bench.join("n1");
    bench.advance(seconds(1));
    assert!(bench.exists("/f"), "the queue is made again from the rows");
    hours(&mut bench, 2);
    assert!(!bench.exists("/f"));
}

#[test]
fn where_versions_are_ahead_of_the_clock_a_file_gets_todays_date() {
    // After a rebuild with a clock that is behind: a lifetime could be counted from nothing but the date.
    let mut bench = Bench::with_nodes(&["a/1"]);
    bench.put_dated("/f", LONG_AGO, 1);
    bench.lose_journal(-1_000_000);
    bench.join("n1");
    bench.advance(seconds(100));
    let (today, put) = (bench.now.unix_millis, bench.put_dated("/g", LONG_AGO, 1));
    assert!(content(&put).version.0 > today + DAY_MILLIS, "the version is no date");
    assert!((today..=bench.now.unix_millis).contains(&put.modified_unix_millis), "{put:?}");
}

// Promise 30a.
#[test]
fn a_clock_that_goes_back_ends_no_lifetime_of_a_file_with_an_older_date() {
    let mut bench = Bench::with_nodes(&["a/1"]);
    bench.set_policy("admin", "/", Policy { lifetime_seconds: Some(10 * 3_600), ..Policy::default() });
    bench.put_dated("/f", LONG_AGO, 1);
    // The clock was wrong from the beginning, and is set right now.
    bench.now.unix_millis -= 5 * DAY_MILLIS;
    bench.advance(seconds(60));
    bench.done("admin", ClientRequest::ConfirmClock(ConfirmClockRequest));
    bench.advance(seconds(60));
    assert!(bench.exists("/f"), "its version is no date of this clock, and its own date is not that of the write");
    let put = bench.put_dated("/later", LONG_AGO, 1);
    assert!(put.modified_unix_millis > LONG_AGO, "the master's date, since the version says nothing");
    bench.restart_master();
    bench.join("n1");
    bench.sleep(seconds(11 * 3_600));
    bench.advance(seconds(1));
    assert!(bench.exists("/f"));
    assert!(!bench.exists("/later"));
}
