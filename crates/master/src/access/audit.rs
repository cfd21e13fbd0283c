//! Events on their way to the audit record, in order. Serves every path that changes who may do what. Nothing is lost
//! silently: events that find no room are counted, and the count is an event itself. A secret is never noted.

use std::{collections::VecDeque, time::Duration};

use protocol::{
    Now, Refusal,
    message::{
        audit::{AuditBatch, AuditEvent, AuditHead, AuditKind, AuditOutcome, AuditRequest, BATCH_EVENTS_MAX},
        work::{WorkFault, WorkItem, WorkKind, WorkState},
    },
    refusals::{RecordBounds, RefusalBudget},
};

use crate::actions::SessionCaller;

/// Events on their way to the record.
#[derive(Debug)]
pub(crate) struct AuditQueue {
    /// Tells this life of the master from others.
    writer: u64,
    /// Number of the first event that waits.
    first: u64,
    waiting: VecDeque<AuditEvent>,
    /// How many of them are being sent.
    sent: usize,
    /// Events that found no room.
    missed: u64,
    /// The next attempt comes no earlier than this, on the monotonic clock.
    retry_at: Duration,
    /// Why events were last not taken.
    last_fault: Option<WorkFault>,
    /// The end of the record, as the security server last reported it.
    pub(crate) head: Option<AuditHead>,
    /// Questions about the record, each with the number of the first event that it need not wait for. As many as users
    /// may ask the security server at once.
    questions: Vec<(u64, SessionCaller, AuditRequest)>,
    /// Budget for refusals of users.
    pub(crate) of_users: RefusalBudget,
    /// Budget for what users remove and rename.
    pub(crate) of_removals: RefusalBudget,
    /// Budget for tickets that strangers showed to nodes.
    pub(crate) of_strangers: RefusalBudget,
}

impl AuditQueue {
    /// A queue that begins with the master's start. Events that an earlier life had not sent yet are missing before it.
    pub(crate) fn new(now: Now, writer: u64) -> Self {
        let mut queue = Self {
            writer,
            first: 0,
            waiting: VecDeque::new(),
            sent: 0,
            missed: 0,
            retry_at: Duration::ZERO,
            last_fault: None,
            head: None,
            questions: Vec::new(),
            of_users: RefusalBudget::default(),
            of_removals: RefusalBudget::within(RecordBounds::REMOVALS),
            of_strangers: RefusalBudget::default(),
        };
        let note = "what was not brought within a second before the last end of the master is not in the record";
        queue.note(event(now, AuditKind::Record, "start the master", String::new(), note.into()));
        queue
    }

    /// Takes an event, or counts it if there is no room.
    pub(crate) fn note(&mut self, event: AuditEvent) {
        self.note_gap(event.unix_millis);
        if self.waiting.len() < WAITING_MAX {
            self.waiting.push_back(event.clipped());
        } else {
            self.missed += 1;
        }
    }

    /// The next batch, unless one is being sent.
    pub(crate) fn next_batch(&mut self, now: Now) -> Option<AuditBatch> {
        if self.sent > 0 || self.waiting.is_empty() || now.monotonic < self.retry_at {
            return None;
        }
        let (mut events, mut bytes) = (Vec::new(), 0);
        for event in self.waiting.iter().take(BATCH_EVENTS_MAX) {
            bytes += event.who.len() + event.from.len() + event.what.len() + event.object.len() + event.note.len();
            if bytes > BATCH_BYTES_MAX && !events.is_empty() {
                break;
            }
            events.push(event.clone());
        }
        self.sent = events.len();
        Some(AuditBatch { writer: self.writer, first: self.first, events })
    }

    /// Has a question wait until the events that wait now are recorded, unless the security server is away: then it
    /// would wait for nothing.
    pub(crate) fn ask_when_recorded(&mut self, now: Now, from: SessionCaller, request: AuditRequest) {
        let waiting = if now.monotonic < self.retry_at { 0 } else { self.waiting.len() as u64 };
        self.questions.push((self.first + waiting, from, request));
    }

    /// Questions that need not wait any more.
    pub(crate) fn due_questions(&mut self) -> Vec<(SessionCaller, AuditRequest)> {
        let first = self.first;
        let due = self.questions.extract_if(.., |(until, ..)| *until <= first);
        due.map(|(_, from, request)| (from, request)).collect()
    }

    /// A batch was recorded, or could not be sent.
    pub(crate) fn finish(&mut self, now: Now, brought: Result<AuditHead, Refusal>) {
        match brought {
            Ok(head) => {
                self.waiting.drain(..self.sent);
                self.first += self.sent as u64;
                self.head = Some(head);
                self.note_gap(now.unix_millis);
            }
            Err(refusal) => {
                tracing::warn!(%refusal, waiting = self.waiting.len(), missed = self.missed, "audit events wait");
                self.retry_at = now.monotonic + RETRY_AFTER;
                self.last_fault = Some(WorkFault::new(now.unix_millis, &refusal.message));
                self.questions.iter_mut().for_each(|(until, ..)| *until = self.first);
            }
        }
        self.sent = 0;
    }

    /// Events that wait.
    pub(crate) fn waiting_count(&self) -> usize {
        self.waiting.len()
    }

    /// How far it is.
    pub(crate) fn work(&self, now: Now) -> WorkItem {
        let left = self.waiting.len() as u64;
        let is_failing = left > 0 && now.monotonic < self.retry_at;
        let state = match (is_failing, left) {
            (true, _) => WorkState::Failing,
            (false, 0) => WorkState::Idle,
            (false, _) => WorkState::Running,
        };
        WorkItem {
            state,
            done: Some(self.first),
            left: Some(left),
            last_fault: self.last_fault.clone(),
            next_unix_millis: is_failing.then(|| now.unix_millis_at(self.retry_at)),
            ..WorkItem::idle(WorkKind::AuditDelivery)
        }
    }

    /// Once there is room again, an event says how many are missing.
    fn note_gap(&mut self, unix_millis: u64) {
        if self.missed > 0 && self.waiting.len() < WAITING_MAX {
            let note = format!("{} events are missing here: the security server was away for too long", self.missed);
            let now = Now { unix_millis, ..Now::default() };
            let gap = event(now, AuditKind::Record, "lose events", String::new(), note);
            self.waiting.push_back(AuditEvent { outcome: AuditOutcome::Failed, ..gap });
            self.missed = 0;
        }
    }
}

/// An event of the master's own that was carried out.
pub(crate) fn event(now: Now, kind: AuditKind, what: &str, object: String, note: String) -> AuditEvent {
    AuditEvent {
        unix_millis: now.unix_millis,
        kind,
        who: "master".into(),
        from: String::new(),
        what: what.to_owned(),
        object,
        outcome: AuditOutcome::Done,
        note,
    }
}

/// Events that wait while the security server is away: minutes of a busy cloud, some megabytes.
const WAITING_MAX: usize = 10_000;
/// Bytes of text in one batch, after which the next begins. It fits well within one message.
const BATCH_BYTES_MAX: usize = 256 * 1024;
/// Pause before the security server is tried again after it could not be reached.
const RETRY_AFTER: Duration = Duration::from_secs(2);

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use protocol::Reason;

    use super::*;

    fn at(seconds: u64) -> Now {
        Now::default().after(Duration::from_secs(seconds))
    }

    fn queue() -> AuditQueue {
        let mut queue = AuditQueue::new(at(0), 7);
        queue.waiting.clear();
        queue
    }

    fn note(queue: &mut AuditQueue, number: usize) {
        queue.note(event(at(0), AuditKind::Grant, "set quota", number.to_string(), String::new()));
    }

    fn head(number: u64) -> AuditHead {
        AuditHead { number, hash: [1; 32] }
    }

    #[test]
    fn events_are_sent_in_one_batch_at_a_time_and_kept_until_recorded() {
        let mut queue = queue();
        for number in 0..BATCH_EVENTS_MAX + 1 {
            note(&mut queue, number);
        }
        let batch = queue.next_batch(at(0)).unwrap();
        assert_eq!((batch.first, batch.events.len()), (0, BATCH_EVENTS_MAX));
        assert!(queue.next_batch(at(0)).is_none(), "one at a time");
        let away = Refusal::new(Reason::Unavailable, "away");
        queue.finish(at(0), Err(away));
        assert!(queue.next_batch(at(1)).is_none());
        assert_eq!(queue.next_batch(at(2)).unwrap(), batch, "the very same again, under the same number");
        queue.finish(at(2), Ok(head(64)));
        let rest = queue.next_batch(at(2)).unwrap();
        assert_eq!((rest.first, rest.events.len()), (BATCH_EVENTS_MAX as u64, 1));
        queue.finish(at(2), Ok(head(65)));
        assert!(queue.next_batch(at(3)).is_none());
        assert_eq!(queue.head, Some(head(65)));
    }

    // Promise 26b.
    #[test]
    fn what_finds_no_room_is_counted_and_the_gap_is_an_event() {
        let mut queue = queue();
        for number in 0..WAITING_MAX + 5 {
            note(&mut queue, number);
        }
        assert_eq!((queue.waiting.len(), queue.missed), (WAITING_MAX, 5));
        queue.next_batch(at(0)).unwrap();
        queue.finish(at(0), Ok(head(1)));
        note(&mut queue, 1);
        let texts: Vec<_> =
            queue.waiting.iter().rev().take(2).map(|event| (event.what.as_str(), event.note.as_str())).collect();
        assert_eq!(texts[0].0, "set quota");
        assert!(texts[1].0 == "lose events" && texts[1].1.starts_with("5 events are missing here"), "{texts:?}");
    }
}
