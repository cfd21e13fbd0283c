//! Decides whether the wall clock can be trusted for removals by time. Serves the trash and lifetimes
//! (docs/decisions/0030-clock-jumps.md). While it cannot, nothing is removed by time, and health says so. That ends
//! when the clock is back in line, most nodes' clocks agree with it, or an administrator confirms it. Entries dated
//! before an accepted jump keep the time they had left. This file never moves a clock, and nothing but removals depends
//! on it.

use std::{collections::BTreeMap, time::Duration};

use protocol::{NodeId, Now, Version};
use serde::{Deserialize, Serialize};
use store::RowChange;

use crate::{
    actions::{CLOCK_TABLE, StoredRow},
    catalog::namespace::{damaged_row, decode_row, encode_row},
    error::MasterError,
};

/// What is known of the wall clock.
#[derive(Debug, Default)]
pub(crate) struct ClockGuard {
    /// The wall clock's time that can be vouched for: its reading when it was last trusted, plus the time passed since.
    vouched_unix_millis: u64,
    /// When that was, as time passed since the start.
    seen: Duration,
    /// A pair of the same kind, at most an hour old. It exposes a clock that drifts away slowly.
    anchor: (Duration, u64),
    hold: Option<Hold>,
    jumps: Vec<Jump>,
    /// What nodes have reported of their clocks in this life of the master.
    node_clocks: BTreeMap<NodeId, NodeClock>,
    /// The machine whose clock the master uses.
    machine: Option<u128>,
    /// How long the machine was suspended since the master was started.
    suspended: Duration,
    /// When the row is saved next, as time passed since the start.
    next_save: Duration,
}

/// Why nothing is removed by time. Its order is the format.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
enum Hold {
    /// The master was started, and the clock differs by more than a day from its reading at the end.
    Start,
    /// The clock was moved while the master ran.
    Step,
    /// The journal is new or was lost, and the earlier clock reading with it.
    Lost,
}

/// The clock went ahead. Entries dated before the jump live on for the time they had left. Where it went ahead by
/// nothing, versions were ahead of a clock that was accepted: at most one such entry, the first. Field order is the
/// format.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Jump {
    /// Entries dated up to here were dated before the jump. Without a jump: the newest version ahead of the clock.
    before_unix_millis: u64,
    /// By how much.
    ahead_millis: u64,
}

/// The stored form. Field order is the format.
#[derive(Debug, Serialize, Deserialize)]
struct ClockRow {
    vouched_unix_millis: u64,
    hold: Option<Hold>,
    jumps: Vec<Jump>,
}

/// A node's report of its clock.
#[derive(Clone, Copy, Debug)]
struct NodeClock {
    /// The reported time, less the time passed since the master's start.
    base_millis: i128,
    machine: Option<u128>,
}

impl ClockGuard {
    /// Begins with the row that an earlier life left. Without one, the journal is new, or nearly as old as this kind of
    /// row, and no earlier clock reading is known.
    ///
    /// # Errors
    /// When the row cannot be read.
    pub(crate) fn load(now: Now, row: Option<&StoredRow>) -> Result<Self, MasterError> {
        let row = row.map(read_row).transpose()?;
        let (last, hold, jumps) = match row {
            Some(row) => (row.vouched_unix_millis, row.hold, row.jumps),
            None => (now.unix_millis, Some(Hold::Lost), Vec::new()),
        };
        let (seen, anchor) = (now.monotonic, (now.monotonic, last));
        let vouched_unix_millis = last;
        let mut guard =
            Self { vouched_unix_millis, seen, anchor, hold, jumps, next_save: now.monotonic, ..Self::default() };
        match (is_within(now.unix_millis, last, STEP_MAX, START_GAP_MAX), hold) {
            (_, Some(Hold::Lost)) => {}
            (true, None) => {
                guard.anchor = (now.monotonic, now.unix_millis);
                guard.believe(now);
            }
            // The clock came back while the master was off.
            (true, Some(_)) => guard.believe(now),
            (false, _) => guard.hold = hold.or(Some(Hold::Start)),
        }
        Ok(guard)
    }

    /// Checks that a row can be read.
    pub(crate) fn check_row(row: &StoredRow) -> Result<(), MasterError> {
        read_row(row).map(drop)
    }

    /// The time up to which expired entries may be removed; `None`: nothing may be removed.
    pub(crate) fn limit(&self, now: Now) -> Option<u64> {
        self.hold.is_none().then(|| self.vouched_at(now))
    }

    /// The date given to something now. It is never earlier than the vouched time. Otherwise, once the clock comes
    /// back, the entry would look older than it is. Nor is it later by a jump, noticed or not. Otherwise it would seem
    /// to be dated after the next jump that is accepted. But for a time that the master was off nothing can be vouched.
    pub(crate) fn date(&self, now: Now) -> u64 {
        let vouched = self.vouched_at(now);
        let ahead = match self.hold {
            Some(Hold::Start | Hold::Lost) => Duration::MAX,
            Some(Hold::Step) | None => STEP_MAX,
        };
        if is_within(now.unix_millis, vouched, STEP_MAX, ahead) { now.unix_millis } else { vouched }
    }

    /// Whether a version that is given now says when it was given. It does not where versions are ahead of the clock.
    pub(crate) fn is_date_of_write(&self, version: Version) -> bool {
        Self::is_date(version, self.vouched_unix_millis)
    }

    /// The date that a version is, if it is one. One from before the clock went back is a date too, in the future.
    pub(crate) fn written(&self, version: Version) -> Option<u64> {
        let was_ahead = |jump: &Jump| jump.ahead_millis == 0 && version.0 <= jump.before_unix_millis;
        (self.is_date_of_write(version) || self.jumps.iter().any(was_ahead)).then_some(version.0)
    }

    /// Converts a recorded date to a date of the current clock: it gets every jump before which it was dated. Also where
    /// the clock had come back after one of them, and nobody can say on which side of that it was dated.
    pub(crate) fn to_current_date(&self, dated: u64) -> u64 {
        let later = self.jumps.iter().filter(|jump| dated <= jump.before_unix_millis);
        later.fold(dated, |date, jump| date.saturating_add(jump.ahead_millis))
    }

    /// Sets the machine on which the master runs.
    pub(crate) fn set_machine(&mut self, machine: Option<u128>) {
        self.machine = machine;
    }

    /// Sets how long the machine was suspended since the master was started. The monotonic clock does not count that
    /// time.
    pub(crate) fn note_suspended(&mut self, slept: Duration) {
        self.suspended = self.suspended.max(slept);
    }

    /// Whether nothing is removed by time.
    pub(crate) fn is_in_doubt(&self) -> bool {
        self.hold.is_some()
    }

    /// Takes a node's report of its clock.
    pub(crate) fn record_node_clock(&mut self, now: Now, node: NodeId, unix_millis: u64, machine: Option<u128>) {
        let base_millis = i128::from(unix_millis) - millis(self.passed(now));
        self.node_clocks.insert(node, NodeClock { base_millis, machine });
    }

    /// Checks the clock before anything is removed by it; `nodes` are all there are, `newest` the last version given.
    /// Returns the row to save if one is due.
    pub(crate) fn watch(&mut self, now: Now, nodes: &[NodeId], newest: Version) -> Option<RowChange> {
        if self.node_clocks.len() > nodes.len() {
            self.node_clocks.retain(|node, _| nodes.contains(node));
        }
        self.check(now, nodes, newest)
    }

    /// An administrator says that the clock is right; `newest` is the last version given. Returns the row to save.
    pub(crate) fn confirm(&mut self, now: Now, newest: Version) -> RowChange {
        if self.hold.is_some() {
            // An administrator who checked a clock knows the time of day, but not how long entries have been lying
            // there.
            self.accept(now, false, newest);
        }
        self.row(self.passed(now))
    }

    /// What is wrong with the clock, if anything. `is_new`: nothing waits for removal.
    pub(crate) fn reason(&self, is_new: bool) -> Option<String> {
        let hold = self.hold?;
        if hold == Hold::Lost && is_new {
            return None;
        }
        let why = match hold {
            Hold::Start => "is far from what it said when the master ended",
            Hold::Step => "was moved while the master ran",
            Hold::Lost => "cannot be compared with what it said before, which the journal does not know",
        };
        Some(format!(
            "the master's wall clock {why}, and most nodes' clocks do not confirm it: trash and lifetimes wait; set the clock \
             right, or if it is right, `sector trash confirm-clock`"
        ))
    }

    /// Checks the clock; returns the row to save if one is due.
    fn check(&mut self, now: Now, nodes: &[NodeId], newest: Version) -> Option<RowChange> {
        let (passed, before) = (self.passed(now), (self.hold, self.jumps.len()));
        let line = self.vouched_at(now);
        (self.vouched_unix_millis, self.seen) = (line, passed);
        match self.hold {
            None => {
                let (since, then) = self.anchor;
                let expected = then.saturating_add(whole_millis(passed.saturating_sub(since)));
                if is_within(now.unix_millis, expected, STEP_MAX, STEP_MAX) {
                    self.believe(now);
                } else {
                    tracing::error!(
                        clock = now.unix_millis,
                        expected,
                        "the wall clock was moved: nothing is removed by time"
                    );
                    // Not its reading of a moment ago: the clock may have drifted away.
                    self.vouched_unix_millis = expected;
                    self.hold = Some(Hold::Step);
                }
            }
            Some(hold) if hold != Hold::Lost && is_within(now.unix_millis, line, STEP_MAX, STEP_MAX) => {
                self.believe(now)
            }
            Some(hold) => match self.clock_agreement(now, nodes) {
                ClockAgreement::Agree => self.accept(now, hold == Hold::Start, newest),
                // No other clock can tell, and a machine that was off for long needs no human decision. Entries in the
                // trash keep the time they had left.
                ClockAgreement::None if hold != Hold::Step => self.accept(now, false, newest),
                ClockAgreement::None | ClockAgreement::Differ => {}
            },
        }
        let is_due = passed >= self.next_save || before != (self.hold, self.jumps.len());
        is_due.then(|| self.row(passed))
    }

    fn row(&mut self, passed: Duration) -> RowChange {
        self.next_save = passed + SAVE_EVERY;
        let row =
            ClockRow { vouched_unix_millis: self.vouched_unix_millis, hold: self.hold, jumps: self.jumps.clone() };
        RowChange::Set { table: CLOCK_TABLE, key: Vec::new(), value: encode_row(&row) }
    }

    /// The clock is right, whatever it was before. `has_passed`: whether the time between the two readings really
    /// passed.
    fn accept(&mut self, now: Now, has_passed: bool, newest: Version) {
        let line = self.vouched_at(now);
        if !Self::is_date(newest, now.unix_millis) {
            // One of them is enough, since versions only grow.
            self.jumps.retain(|jump| jump.ahead_millis > 0);
            self.jumps.insert(0, Jump { before_unix_millis: newest.0, ahead_millis: 0 });
        }
        if !has_passed && !is_within(now.unix_millis, line, Duration::MAX, STEP_MAX) {
            if self.jumps.len() >= JUMPS_MAX {
                // Entries dated before the oldest jump are gone, or get a little more time.
                let at = usize::from(self.jumps.first().is_some_and(|jump| jump.ahead_millis == 0));
                let oldest = self.jumps.remove(at);
                if let Some(next) = self.jumps.get_mut(at) {
                    next.ahead_millis = next.ahead_millis.saturating_add(oldest.ahead_millis);
                }
            }
            let ahead_millis = now.unix_millis.saturating_sub(line);
            // Entries may have been dated since the row was saved. A jump is longer than this.
            let before_unix_millis = line.saturating_add(whole_millis(DATED_SINCE_MAX));
            self.jumps.push(Jump { before_unix_millis, ahead_millis });
        }
        self.believe(now);
    }

    fn is_date(version: Version, unix_millis: u64) -> bool {
        version.0 <= unix_millis.saturating_add(VERSION_AHEAD_MAX_MILLIS)
    }

    fn believe(&mut self, now: Now) {
        let passed = self.passed(now);
        (self.vouched_unix_millis, self.seen) = (now.unix_millis, passed);
        if self.hold.take().is_some() || passed.saturating_sub(self.anchor.0) >= ANCHOR_EVERY {
            self.anchor = (passed, now.unix_millis);
        }
    }

    /// What the nodes' clocks say of the master's. Nodes that have not reported yet count as not agreeing.
    fn clock_agreement(&self, now: Now, nodes: &[NodeId]) -> ClockAgreement {
        let ours = i128::from(now.unix_millis) - millis(self.passed(now));
        let (mut others, mut agree, mut here) = (0_usize, 0_usize, 0_usize);
        for node in nodes {
            match self.node_clocks.get(node) {
                Some(told) if told.machine.is_some() && told.machine == self.machine => here += 1,
                Some(told) if (told.base_millis - ours).abs() <= millis(STEP_MAX) => {
                    (others, agree) = (others + 1, agree + 1)
                }
                Some(_) | None => others += 1,
            }
        }
        match others {
            0 if here > 0 => ClockAgreement::None,
            _ if 2 * agree > others => ClockAgreement::Agree,
            _ => ClockAgreement::Differ,
        }
    }

    fn vouched_at(&self, now: Now) -> u64 {
        self.vouched_unix_millis.saturating_add(whole_millis(self.passed(now).saturating_sub(self.seen)))
    }

    /// Time passed since the start, also while the machine was suspended.
    fn passed(&self, now: Now) -> Duration {
        now.monotonic + self.suspended
    }
}

/// The verdict of the nodes' clocks.
enum ClockAgreement {
    /// Most of them agree.
    Agree,
    /// Most differ, or have not reported.
    Differ,
    /// All nodes are on the master's own machine.
    None,
}

fn read_row(row: &StoredRow) -> Result<ClockRow, MasterError> {
    decode_row(&row.value).ok_or_else(|| damaged_row(row))
}

/// Whether a time is no further behind another than `behind` and no further ahead than `ahead`.
fn is_within(time: u64, of: u64, behind: Duration, ahead: Duration) -> bool {
    time.saturating_add(whole_millis(behind)) >= of && of.saturating_add(whole_millis(ahead)) >= time
}

fn whole_millis(span: Duration) -> u64 {
    u64::try_from(span.as_millis()).unwrap_or(u64::MAX)
}

fn millis(span: Duration) -> i128 {
    i128::try_from(span.as_millis()).unwrap_or(i128::MAX)
}

/// How far the wall clock may deviate from the time that passed, within an hour. That is more than any clock drifts,
/// and more than a change to summer time by hand. Clocks closer than this agree.
const STEP_MAX: Duration = Duration::from_secs(3_600);
/// How often the pair that exposes a slow drift is renewed.
const ANCHOR_EVERY: Duration = Duration::from_secs(3_600);
/// How long a master may have been off without asking anyone for the time. Anything removed too early through this had
/// less than a day left.
const START_GAP_MAX: Duration = Duration::from_secs(24 * 3_600);
/// How often the row is saved: far more often than the gap requires, and still no real work.
const SAVE_EVERY: Duration = Duration::from_secs(1_800);
/// How far an entry that was dated before a jump may be ahead of what could be vouched for at the jump. The row may be
/// older than the end of the earlier life by [`SAVE_EVERY`] and a stall, and a clock may have drifted. No longer than
/// [`STEP_MAX`], which every remembered jump exceeds: what is dated after a jump is not taken for older.
const DATED_SINCE_MAX: Duration = STEP_MAX;
/// How far a version may be ahead of the clock's last trusted reading, and still be a date, in milliseconds. Versions
/// of a burst run ahead of the clock, and the clock is read now and then.
const VERSION_AHEAD_MAX_MILLIS: u64 = 60 * 60 * 1_000;
/// Jumps that are remembered; beyond this number the oldest are merged.
const JUMPS_MAX: usize = 16;
