//! What is marked, until when, and what administrators have decided, as rows of the journal: key = the subject, value = a
//! version byte, then postcard. Serves the path *judgement* and the restart of the master. The wall clock counts only
//! over a restart, and never for longer than a mark lives. It never decides what is slow.

use std::{collections::BTreeMap, time::Duration};

use protocol::{
    NodeId, Now, UserName,
    message::marks::{Mark, MarkState, MarkSubject},
};
use serde::{Deserialize, Serialize};
use store::RowChange;

use crate::{
    actions::{MARKS_TABLE, StoredRow},
    catalog::namespace::{damaged_row, decode_row, encode_row},
    error::MasterError,
};

/// All marks.
#[derive(Debug, Default)]
pub(crate) struct MarkTable {
    by_subject: BTreeMap<MarkSubject, KeptMark>,
}

#[derive(Debug)]
struct KeptMark {
    state: MarkState,
    by: Option<UserName>,
    reason: String,
    since_unix_millis: u64,
    /// When it ends, on the monotonic clock; `None` for one of an administrator.
    expires: Option<Duration>,
    /// The end that its row has.
    saved_expires: Option<Duration>,
}

/// The stored form of a mark. Field order is the format.
#[derive(Serialize, Deserialize)]
struct MarkRow {
    subject: MarkSubject,
    state: MarkState,
    by: Option<UserName>,
    reason: String,
    since_unix_millis: u64,
    expires_unix_millis: Option<u64>,
}

impl MarkTable {
    /// Takes a mark from its row.
    pub(crate) fn load(&mut self, now: Now, row: &StoredRow) -> Result<(), MasterError> {
        let MarkRow { subject, state, by, reason, since_unix_millis, expires_unix_millis } =
            decode_row(&row.value).ok_or_else(|| damaged_row(row))?;
        // A clock that went back must not make it live for longer, nor one that went ahead make it end in the past.
        let left = |at: u64| Duration::from_millis(at.saturating_sub(now.unix_millis)).min(MARK_LIFE);
        let expires = expires_unix_millis.map(|at| now.monotonic + left(at));
        let kept = KeptMark { state, by, reason, since_unix_millis, expires, saved_expires: expires };
        self.by_subject.insert(subject, kept);
        Ok(())
    }

    /// Something was found to be slow, again or for the first time. What an administrator has decided stays.
    pub(crate) fn note_slow(&mut self, now: Now, subject: &MarkSubject, reason: String) -> Option<RowChange> {
        let expires = now.monotonic + MARK_LIFE;
        let is_full = self.by_subject.len() >= MARKS_MAX;
        match self.by_subject.get_mut(subject) {
            Some(kept) => {
                kept.expires?;
                (kept.expires, kept.reason) = (Some(expires), reason);
                // Not every time: evidence comes every few seconds.
                kept.saved_expires.is_none_or(|saved| expires.saturating_sub(saved) >= MARK_LIFE / SAVED_PARTS)
            }
            None if is_full => return None,
            None => {
                let since_unix_millis = now.unix_millis;
                let (state, saved_expires) = (MarkState::Slow, None);
                let kept =
                    KeptMark { state, by: None, reason, since_unix_millis, expires: Some(expires), saved_expires };
                self.by_subject.insert(subject.clone(), kept);
                true
            }
        }
        .then(|| self.row(now, subject))
        .flatten()
    }

    /// Takes away what was measured about something.
    pub(crate) fn clear_measured(&mut self, subject: &MarkSubject) -> Option<RowChange> {
        self.by_subject.get(subject)?.expires?;
        self.clear(subject)
    }

    /// An administrator decides.
    pub(crate) fn set(
        &mut self,
        now: Now,
        subject: &MarkSubject,
        (state, by, reason): (MarkState, UserName, String),
    ) -> Option<RowChange> {
        if self.by_subject.len() >= MARKS_MAX && !self.by_subject.contains_key(subject) {
            return None;
        }
        let since_unix_millis = now.unix_millis;
        let kept = KeptMark { state, by: Some(by), reason, since_unix_millis, expires: None, saved_expires: None };
        self.by_subject.insert(subject.clone(), kept);
        self.row(now, subject)
    }

    /// Takes a mark away, whoever has set it.
    pub(crate) fn clear(&mut self, subject: &MarkSubject) -> Option<RowChange> {
        self.by_subject.remove(subject)?;
        Some(RowChange::Remove { table: MARKS_TABLE, key: encode_row(subject) })
    }

    /// Takes away what has expired, and what `is_gone`.
    pub(crate) fn expire(&mut self, now: Now, is_gone: impl Fn(&MarkSubject) -> bool) -> Vec<RowChange> {
        let has_ended = |kept: &KeptMark| kept.expires.is_some_and(|at| at <= now.monotonic);
        let ended = self.by_subject.iter().filter(|(subject, kept)| has_ended(kept) || is_gone(subject));
        let ended: Vec<_> = ended.map(|(subject, _)| subject.clone()).collect();
        ended.iter().filter_map(|subject| self.clear(subject)).collect()
    }

    /// Whether it is to be used less.
    pub(crate) fn is_slow(&self, subject: &MarkSubject) -> bool {
        self.by_subject.get(subject).is_some_and(|kept| kept.state == MarkState::Slow)
    }

    /// What each mark says now, to find out what a change brings.
    pub(crate) fn states(&self) -> BTreeMap<MarkSubject, (MarkState, Option<UserName>)> {
        self.by_subject.iter().map(|(subject, kept)| (subject.clone(), (kept.state, kept.by.clone()))).collect()
    }

    /// Why something is marked, in a sentence; empty where nobody said.
    pub(crate) fn reason(&self, subject: &MarkSubject) -> &str {
        self.by_subject.get(subject).map_or("", |kept| &kept.reason)
    }

    /// Everything that is to be used less.
    pub(crate) fn slow(&self) -> impl Iterator<Item = &MarkSubject> {
        self.by_subject.iter().filter(|(_, kept)| kept.state == MarkState::Slow).map(|(subject, _)| subject)
    }

    /// Whether a disk of this node is to be used less.
    pub(crate) fn has_slow_disk(&self, node: &NodeId) -> bool {
        self.slow().any(|subject| matches!(subject, MarkSubject::Disk { node: of, .. } if of == node))
    }

    /// All marks, for people.
    pub(crate) fn list(&self, now: Now) -> Vec<Mark> {
        let mark = |(subject, kept): (&MarkSubject, &KeptMark)| Mark {
            subject: subject.clone(),
            state: kept.state,
            by: kept.by.clone(),
            reason: kept.reason.clone(),
            since_unix_millis: kept.since_unix_millis,
            expires_unix_millis: kept.expires.map(|at| now.unix_millis_at(at)),
        };
        self.by_subject.iter().map(mark).collect()
    }

    fn row(&mut self, now: Now, subject: &MarkSubject) -> Option<RowChange> {
        let kept = self.by_subject.get_mut(subject)?;
        kept.saved_expires = kept.expires;
        let value = encode_row(&MarkRow {
            subject: subject.clone(),
            state: kept.state,
            by: kept.by.clone(),
            reason: kept.reason.clone(),
            since_unix_millis: kept.since_unix_millis,
            expires_unix_millis: kept.expires.map(|at| now.unix_millis_at(at)),
        });
        Some(RowChange::Set { table: MARKS_TABLE, key: encode_row(subject), value })
    }
}

/// How long a mark holds without further evidence. What is marked is used less, so evidence comes more seldom.
pub(crate) const MARK_LIFE: Duration = Duration::from_secs(3_600);
/// Its row is written again when a part like this of its life has passed.
const SAVED_PARTS: u32 = 4;
/// Most marks: more than anybody looks through.
const MARKS_MAX: usize = 4_096;

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn subject() -> MarkSubject {
        MarkSubject::Node(NodeId::new("n1").unwrap())
    }

    fn at(second: u64) -> Now {
        Now { monotonic: Duration::from_secs(second), unix_millis: 1_800_000_000_000 + second * 1_000 }
    }

    fn stored(change: RowChange) -> StoredRow {
        let RowChange::Set { table, key, value } = change else { panic!("a row") };
        StoredRow { table, key, value }
    }

    #[test]
    fn a_mark_ends_without_evidence_and_is_written_now_and_then_with_it() {
        let mut table = MarkTable::default();
        assert!(table.note_slow(at(0), &subject(), "slow".into()).is_some());
        assert!(table.note_slow(at(5), &subject(), "slow".into()).is_none(), "that was just written");
        assert!(table.note_slow(at(901), &subject(), "slow".into()).is_some());
        assert!(table.expire(at(4_500), |_| false).is_empty());
        assert_eq!(table.expire(at(4_501), |_| false).len(), 1);
        assert!(table.list(at(4_501)).is_empty());
        table.note_slow(at(5_000), &subject(), "slow".into());
        assert_eq!(table.expire(at(5_001), |_| true).len(), 1, "its node was removed");
    }

    #[test]
    fn a_restart_keeps_it_for_as_long_as_it_had_whatever_the_clock_does() {
        let row = stored(MarkTable::default().note_slow(at(1_000), &subject(), "slow".into()).unwrap());
        let left = |unix_millis: u64| {
            let mut table = MarkTable::default();
            let now = Now { monotonic: Duration::from_secs(7), unix_millis };
            table.load(now, &row).unwrap();
            (0..).step_by(100).find(|second| !table.expire(at(7 + second), |_| false).is_empty()).unwrap()
        };
        assert_eq!(left(at(1_600).unix_millis), 3_000);
        assert_eq!(left(0), 3_600, "years back");
        assert_eq!(left(u64::MAX / 2), 0, "years ahead");
    }

    #[test]
    fn what_an_administrator_decides_holds_against_what_is_measured_until_it_is_cleared() {
        let (mut table, admin) = (MarkTable::default(), UserName::new("admin").unwrap());
        let ignored = (MarkState::Ignored, admin.clone(), "it is meant to be".to_owned());
        let row = stored(table.set(at(0), &subject(), ignored).unwrap());
        assert!(table.note_slow(at(5), &subject(), "slow".into()).is_none());
        assert!(table.clear_measured(&subject()).is_none());
        let mut table = MarkTable::default();
        table.load(at(0), &row).unwrap();
        assert!(table.expire(at(1_000_000), |_| false).is_empty());
        assert!(!table.is_slow(&subject()));
        assert_eq!(table.list(at(0))[0].by, Some(admin));
        assert!(table.clear(&subject()).is_some() && table.clear(&subject()).is_none());
        assert!(table.note_slow(at(6), &subject(), "slow".into()).is_some());
        assert!(table.is_slow(&subject()));
    }
}
