//! The wall clock jumps, by itself or while the master is off: nothing is removed by it until it is confirmed, and
//! nothing early afterwards.

#![allow(clippy::unwrap_used)]

use protocol::{
    Policy,
    message::request::{ConfirmClockRequest, EmptyTrashRequest, RemoveRequest},
};

use super::*;

const DAY: u64 = 86_400;

/// A removed file that is in the trash for a week, and one that ends two days after it was written.
struct Clocked(Bench);

impl Clocked {
    fn new(places: &[&str]) -> Self {
        let mut bench = Bench::with_nodes(places);
        bench.set_policy("admin", "/", Policy { lifetime_seconds: Some(2 * DAY), ..Policy::default() });
        bench.put("ann", create("/removed"), 1);
        bench.put("ann", create("/ends"), 1);
        bench
            .done("ann", ClientRequest::Remove(RemoveRequest { path: path("/removed"), recursive: false, now: false }));
        let mut clocked = Self(bench);
        clocked.days(1);
        clocked
    }

    /// All on the machine of the master.
    fn on_one_machine() -> Self {
        let mut clocked = Self::new(&["a/1"]);
        clocked.0.node_mut("n1").machine = Some(HERE);
        clocked.0.master.set_machine(Some(HERE));
        clocked.0.advance(seconds(2));
        clocked
    }

    /// Moves the wall clock of the master.
    fn jump(&mut self, days: i64) {
        let millis = days * DAY as i64 * 1_000;
        self.0.now.unix_millis = self.0.now.unix_millis.saturating_add_signed(millis);
        self.0.clock_ahead_millis += millis;
    }

    /// As [`jump`](Self::jump), of a machine on which nodes are too.
    fn jump_all(&mut self, days: i64) {
        self.jump(days);
        let ahead = self.0.clock_ahead_millis;
        self.0.nodes.values_mut().for_each(|node| node.clock_ahead_millis = Some(ahead));
    }

    /// The master is off for some days.
    fn off(&mut self, days: u64) {
        self.0.now = self.0.now.after(seconds(days * DAY));
        self.restart();
    }

    fn restart(&mut self) {
        self.0.restart_master();
        if self.0.nodes.values().all(|node| node.machine == Some(HERE)) {
            self.0.master.set_machine(Some(HERE));
        }
    }

    fn join_all(&mut self) {
        for id in self.0.nodes.keys().map(ToString::to_string).collect::<Vec<_>>() {
            self.0.join(&id);
        }
        self.wait(5);
    }

    fn wait(&mut self, span: u64) {
        self.0.advance(seconds(span));
    }

    /// Days pass as they should.
    fn days(&mut self, days: u64) {
        self.0.sleep(seconds(days * DAY));
        self.wait(5);
    }

    fn confirm(&mut self) {
        self.0.done("admin", ClientRequest::ConfirmClock(ConfirmClockRequest));
        self.wait(5);
    }

    fn is_held(&mut self) -> bool {
        self.0.health().reasons.iter().any(|reason| reason.contains("sector trash confirm-clock"))
    }

    fn removed(&mut self) -> bool {
        self.entries("/.trash").iter().any(|at| at.ends_with("/removed"))
    }

    fn entries(&mut self, at: &str) -> Vec<String> {
        if !self.0.exists(at) {
            return Vec::new();
        }
        self.0.page("admin", at, None).entries.into_iter().map(|entry| entry.path.to_string()).collect()
    }

    fn both_are_there(&mut self) -> bool {
        self.removed() && self.0.exists("/ends")
    }
}

// Promise 30a.
#[test]
fn a_clock_that_jumps_ahead_removes_nothing_before_it_is_confirmed_nor_early_then() {
    let mut cloud = Clocked::new(&["a/1", "a/2", "a/3"]);
    cloud.jump(30);
    cloud.wait(3_600);
    assert!(cloud.is_held() && cloud.both_are_there());
    assert_eq!(cloud.0.status_of("ann", ClientRequest::ConfirmClock(ConfirmClockRequest)), Status::Refused);
    cloud.confirm();
    assert!(!cloud.is_held() && cloud.both_are_there(), "each has the time that it had left");
    cloud.days(1);
    assert!(!cloud.0.exists("/ends") && cloud.removed());
    cloud.restart();
    cloud.join_all();
    cloud.days(4);
    assert!(cloud.removed());
    cloud.days(1);
    assert!(!cloud.removed());
}

// Promise 30a.
#[test]
fn a_clock_that_comes_back_by_itself_needs_nobody() {
    let mut cloud = Clocked::new(&["a/1"]);
    for days in [30, -30] {
        cloud.jump(days);
        cloud.wait(60);
        assert!(cloud.is_held());
        // What is dated meanwhile is not older than it is once the clock is right again.
        cloud.0.put("ann", create("/meanwhile"), 1);
        cloud.0.done(
            "ann",
            ClientRequest::Remove(RemoveRequest { path: path("/meanwhile"), recursive: false, now: false }),
        );
        cloud.jump(-days);
        cloud.wait(60);
        assert!(!cloud.is_held() && cloud.both_are_there());
        assert!(cloud.entries("/.trash").iter().filter(|at| at.ends_with("/meanwhile")).count() > 0);
    }
    cloud.days(1);
    assert!(!cloud.0.exists("/ends"), "and then all goes on");
}

// Promise 30a.
#[test]
fn what_was_written_under_a_wrong_clock_ends_no_earlier_when_another_is_confirmed() {
    for is_noticed in [true, false] {
        let mut clocked = Clocked::new(&["a/1"]);
        clocked.jump(3);
        if is_noticed {
            clocked.wait(5);
            assert!(clocked.is_held());
        }
        clocked.0.put("ann", create("/meanwhile"), 1);
        clocked.jump(-3);
        clocked.wait(5);
        assert!(!clocked.is_held());
        clocked.jump(10);
        clocked.wait(5);
        clocked.confirm();
        assert!(clocked.0.exists("/meanwhile"), "noticed: {is_noticed}");
        clocked.days(1);
        assert!(clocked.0.exists("/meanwhile"), "it has a day left");
        clocked.days(2);
        assert!(!clocked.0.exists("/meanwhile"), "but no more");
    }
}

// Promise 30a.
#[test]
fn one_confirmed_jump_after_another_ends_nothing_early_whatever_came_back_between() {
    for comes_back in [true, false] {
        let mut clocked = Clocked::new(&["a/1"]);
        clocked.jump(3);
        clocked.wait(5);
        clocked.confirm();
        if comes_back {
            clocked.jump(-3);
            clocked.wait(5);
            clocked.confirm();
        }
        assert!(!clocked.is_held());
        clocked.0.put("ann", create("/between"), 1);
        clocked.jump(10);
        clocked.wait(5);
        clocked.confirm();
        assert!(clocked.both_are_there() && clocked.0.exists("/between"), "comes back: {comes_back}");
        clocked.days(1);
        assert!(clocked.0.exists("/between"), "it has a day left");
        clocked.days(30);
        assert!(!clocked.removed() && clocked.entries("/").iter().all(|at| !at.contains("between")), "but no more");
    }
}

// Promise 30a.
#[test]
fn a_clock_that_was_wrong_and_is_put_right_is_confirmed_by_most_nodes() {
    for (ahead_days, is_believed) in [([0, 0, -30], true), ([0, -30, -31], false), ([3, -5, 40], false)] {
        let mut cloud = Clocked::new(&["a/1", "a/2", "a/3"]);
        // As if it had been behind until now: those that are right agree with it after the jump.
        cloud.jump(30);
        let ahead = cloud.0.clock_ahead_millis;
        for (node, days) in cloud.0.nodes.values_mut().zip(ahead_days) {
            node.clock_ahead_millis = Some(ahead + days * DAY as i64 * 1_000);
        }
        cloud.wait(10);
        assert_eq!(cloud.is_held(), !is_believed, "{ahead_days:?}");
        assert!(cloud.both_are_there());
    }
}

// Promise 30a.
#[test]
fn a_master_that_was_off_for_a_month_goes_on_when_most_nodes_agree_and_else_waits() {
    let mut cloud = Clocked::new(&["a/1", "a/2", "a/3"]);
    cloud.off(30);
    cloud.wait(600);
    assert!(cloud.is_held() && cloud.both_are_there(), "no node is there yet");
    cloud.0.join("n1");
    cloud.wait(5);
    assert!(cloud.is_held() && cloud.both_are_there(), "one of three");
    cloud.0.join("n2");
    cloud.wait(5);
    assert!(!cloud.is_held() && !cloud.removed() && !cloud.0.exists("/ends"), "a month has passed");

    let mut cloud = Clocked::new(&["a/1", "a/2", "a/3"]);
    cloud.jump(30);
    cloud.restart();
    cloud.join_all();
    assert!(cloud.is_held() && cloud.both_are_there(), "the nodes say that none has");
    cloud.restart();
    cloud.join_all();
    assert!(cloud.is_held(), "over another start too");
    cloud.jump(-30);
    cloud.wait(60);
    assert!(!cloud.is_held() && cloud.both_are_there());
}

// Promise 30a.
#[test]
fn a_master_that_was_off_for_less_than_a_day_asks_nobody() {
    let mut cloud = Clocked::new(&["a/1", "a/2"]);
    cloud.0.now = cloud.0.now.after(seconds(20 * 3_600));
    cloud.restart();
    cloud.wait(7_300);
    assert!(!cloud.is_held() && cloud.removed());
    cloud.0.join("n1");
    cloud.wait(3 * 3_600);
    assert!(!cloud.0.exists("/ends"), "the time that it was off has passed");
}

// Promise 30a.
#[test]
fn on_one_machine_a_month_off_needs_nobody_and_a_jump_needs_somebody() {
    let mut cloud = Clocked::on_one_machine();
    cloud.off(30);
    cloud.join_all();
    assert!(!cloud.is_held() && cloud.both_are_there(), "the time that it was off does not count");
    cloud.days(1);
    assert!(!cloud.0.exists("/ends") && cloud.removed());

    let mut cloud = Clocked::on_one_machine();
    cloud.jump_all(30);
    cloud.wait(600);
    assert!(cloud.is_held() && cloud.both_are_there(), "its nodes have the same clock");
    cloud.restart();
    cloud.join_all();
    assert!(cloud.is_held() && cloud.both_are_there());
    cloud.confirm();
    assert!(!cloud.is_held() && cloud.both_are_there());
}

// Promise 30a.
#[test]
fn what_is_newer_than_the_saved_clock_has_the_time_that_it_had_left() {
    for (age, off) in [(1, 0), (60, 0), (3_500, 0), (60, 30)] {
        let mut cloud = Clocked::on_one_machine();
        cloud.wait(age);
        for at in ["/late", "/late-removed"] {
            cloud.0.put("ann", create(at), 1);
        }
        cloud.0.done(
            "ann",
            ClientRequest::Remove(RemoveRequest { path: path("/late-removed"), recursive: false, now: false }),
        );
        cloud.wait(20);
        // The master dies, and begins with a clock that is far ahead, as its nodes' clocks are.
        match off {
            0 => cloud.jump_all(30),
            _ => cloud.0.now = cloud.0.now.after(seconds(off * DAY)),
        }
        // Twice: the second life has what the first one saved.
        for _ in 0..2 {
            cloud.restart();
            cloud.join_all();
        }
        cloud.wait(60);
        let is_in_trash = |cloud: &mut Clocked| cloud.entries("/.trash").iter().any(|at| at.ends_with("/late-removed"));
        assert!(!cloud.is_held() && cloud.both_are_there(), "{age} {off}");
        assert!(cloud.0.exists("/late") && is_in_trash(&mut cloud), "{age} {off}");
        cloud.0.put("ann", create("/after"), 1);
        cloud.days(1);
        assert!(!cloud.0.exists("/ends") && cloud.0.exists("/late") && cloud.0.exists("/after"), "{age} {off}");
        // By less than an hour later than it would have.
        cloud.days(1);
        assert!(!cloud.0.exists("/after"), "{age} {off}");
        cloud.wait(3_600);
        assert!(!cloud.0.exists("/late") && is_in_trash(&mut cloud), "{age} {off}");
        cloud.days(5);
        assert!(!is_in_trash(&mut cloud), "{age} {off}");
    }
}

// Promise 30a.
#[test]
fn a_machine_that_slept_for_a_month_has_a_clock_that_is_right() {
    let mut cloud = Clocked::on_one_machine();
    cloud.days(30);
    assert!(!cloud.is_held() && !cloud.removed());
}

// Promise 30a.
#[test]
fn a_clock_that_creeps_away_is_found() {
    let mut cloud = Clocked::new(&["a/1"]);
    for _ in 0..70 {
        cloud.wait(30);
        cloud.0.now.unix_millis += 60_000;
        cloud.0.clock_ahead_millis += 60_000;
    }
    cloud.wait(5);
    assert!(cloud.is_held());
}

// Promise 30a.
#[test]
fn what_a_user_gives_up_goes_although_the_clock_is_in_doubt() {
    let mut cloud = Clocked::new(&["a/1"]);
    cloud.jump(30);
    cloud.wait(60);
    cloud.0.done("ann", ClientRequest::EmptyTrash(EmptyTrashRequest { all_users: false }));
    cloud.wait(5);
    assert!(cloud.is_held() && !cloud.removed() && cloud.0.exists("/ends"));
}

// Promise 30a.
#[test]
fn after_a_lost_journal_nothing_ends_before_clocks_agree() {
    let mut cloud = Clocked::new(&["a/1", "a/2", "a/3"]);
    cloud.jump(30);
    cloud.0.rows.clear();
    cloud.0.unsaved.clear();
    cloud.restart();
    cloud.join_all();
    cloud.wait(600);
    assert!(cloud.is_held() && cloud.both_are_there(), "the new one knows of no time before");
    cloud.jump(-30);
    cloud.wait(5);
    assert!(!cloud.is_held() && cloud.both_are_there());
    cloud.days(1);
    assert!(!cloud.0.exists("/ends") && cloud.removed());
}

const HERE: u128 = 4_711;
