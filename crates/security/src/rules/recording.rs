//! What the rules tell the audit record, and which answers wait for it. A login and whatever changes who may do what is
//! answered only when its line is on the disk: nobody has done a thing here of which there is no record.
//!
//! Refusals that a stranger can cause by the thousand are recorded one by one up to a rate, and counted above it, so that
//! nobody fills the disk; the count is recorded too.

use std::collections::{BTreeMap, VecDeque};

use protocol::{
    Now, Refusal, Status,
    message::{
        accounts::AccountsRequest,
        audit::{
            AuditBatch, AuditEvent, AuditHead, AuditKind, AuditOutcome, AuditReply, AuditRequest, BATCH_EVENTS_MAX,
        },
        master_security::{SecurityReply, SecurityRequest},
    },
};

use super::{Action, Caller, Security};

/// Counts batches of the record.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct RecordId(pub u64);

/// Events on their way to the record.
#[derive(Debug, Default)]
pub(super) struct Recording {
    /// Whether anything is recorded.
    is_on: bool,
    /// What is asked and not answered yet.
    noted: BTreeMap<Caller, Noted>,
    /// What goes with the next batch.
    waiting: Vec<Entry>,
    /// What goes out once the batch that is being written is on the disk.
    held: Option<(RecordId, Vec<Held>)>,
    last: RecordId,
    rate: Rate,
}

/// One thing for the record, and who waits for it.
#[derive(Debug)]
enum Entry {
    Own(Box<AuditEvent>, Option<(Caller, SecurityReply)>),
    Batch(AuditBatch, Caller),
}

/// What waits for the disk.
#[derive(Debug)]
enum Held {
    Answer(Caller, SecurityReply),
    /// A master that is told how the record ends now.
    Head(Caller),
}

/// What is to be recorded, in order.
#[derive(Debug)]
pub enum Record {
    /// The security server's own events.
    Own(Vec<AuditEvent>),
    /// Events that a master brought.
    Batch(AuditBatch),
}

/// What of a question is to be remembered.
#[derive(Debug)]
struct Noted {
    /// Also when it is not refused.
    always: bool,
    event: AuditEvent,
}

impl Security {
    /// A master speaks of the record.
    pub(super) fn handle_audit(&mut self, caller: Caller, request: AuditRequest) {
        match request {
            AuditRequest::Record(batch) if batch.events.len() > BATCH_EVENTS_MAX => {
                let sentence = format!("one batch may have {BATCH_EVENTS_MAX} events at most; send several");
                self.refuse(caller, Refusal::new(Status::Usage, sentence));
            }
            AuditRequest::Record(batch) => self.recording.waiting.push(Entry::Batch(batch, caller)),
            AuditRequest::Show { ref by, .. } | AuditRequest::Verify { ref by, .. } => {
                if self.accounts.user(&by.user).is_some_and(|user| user.admin) {
                    self.actions.push_back(Action::Inspect { caller, request });
                } else {
                    let sentence = format!("{} may not look at the audit record; ask an administrator", by.user);
                    self.refuse(caller, Refusal::new(Status::Refused, sentence));
                }
            }
        }
    }

    /// Remembers what is asked, until it is answered.
    pub(super) fn note_question(&mut self, now: Now, caller: Caller, request: &SecurityRequest) {
        if !self.recording.is_on {
            return;
        }
        self.recording.tell_uncounted(now);
        if let Some(noted) = noted(now, request) {
            self.recording.noted.insert(caller, noted);
        }
    }

    /// These and all events before them are on the disk: whoever waited for it hears.
    pub(super) fn note_recorded(&mut self, record: RecordId, head: AuditHead) {
        let Some((_, held)) = self.recording.held.take_if(|(id, _)| *id == record) else { return };
        for held in held {
            let (caller, reply) = match held {
                Held::Answer(caller, reply) => (caller, reply),
                Held::Head(caller) => (caller, SecurityReply::Audit(AuditReply::Recorded(head))),
            };
            self.actions.push_back(Action::Answer { caller, reply });
        }
        // Kept with the accounts too: who cuts the files off must change those as well. It may lag behind a little.
        self.save(vec![crate::accounts::set_audit_head(head)]);
    }
}

impl Recording {
    /// From now on events are recorded.
    pub(super) fn begin(&mut self) {
        self.is_on = true;
    }

    /// Lets an answer go, or holds it until what was asked is recorded with it.
    pub(super) fn pass(&mut self, caller: Caller, reply: SecurityReply) -> Option<(Caller, SecurityReply)> {
        let Some(Noted { always, mut event }) = self.noted.remove(&caller) else { return Some((caller, reply)) };
        match &reply {
            SecurityReply::Refused(refusal) => {
                let is_refused = refusal.status == Status::Refused;
                if !is_refused && !always {
                    return Some((caller, reply));
                }
                event.outcome = if is_refused { AuditOutcome::Refused } else { AuditOutcome::Failed };
                event.note.clone_from(&refusal.sentence);
                if !self.rate.allows(event.unix_millis) {
                    return Some((caller, reply));
                }
            }
            _ if !always => return Some((caller, reply)),
            _ => {}
        }
        self.waiting.push(Entry::Own(Box::new(event), Some((caller, reply))));
        None
    }

    /// The next batch, where none is being written.
    pub(super) fn next(&mut self) -> Option<Action> {
        if self.held.is_some() || self.waiting.is_empty() {
            return None;
        }
        let (mut records, mut held): (VecDeque<Record>, Vec<Held>) = Default::default();
        for entry in self.waiting.drain(..) {
            match entry {
                Entry::Own(event, answer) => {
                    held.extend(answer.map(|(caller, reply)| Held::Answer(caller, reply)));
                    match records.back_mut() {
                        Some(Record::Own(events)) => events.push(*event),
                        _ => records.push_back(Record::Own(vec![*event])),
                    }
                }
                Entry::Batch(batch, caller) => {
                    held.push(Held::Head(caller));
                    records.push_back(Record::Batch(batch));
                }
            }
        }
        self.last.0 += 1;
        self.held = Some((self.last, held));
        Some(Action::Record { record: self.last, records: records.into() })
    }

    /// Records how many refusals were only counted, once their second is over.
    fn tell_uncounted(&mut self, now: Now) {
        let Some(count) = self.rate.take_uncounted(now.unix_millis) else { return };
        let event = AuditEvent {
            unix_millis: now.unix_millis,
            kind: AuditKind::Record,
            who: "security".into(),
            from: String::new(),
            what: "leave out refusals".into(),
            object: String::new(),
            outcome: AuditOutcome::Done,
            note: format!("{count} further refusals came faster than they are recorded one by one"),
        };
        self.waiting.push(Entry::Own(Box::new(event), None));
    }
}

/// How many refusals were recorded in this second, and how many only counted.
#[derive(Debug, Default)]
struct Rate {
    second: u64,
    recorded: u64,
    uncounted: u64,
}

impl Rate {
    fn allows(&mut self, unix_millis: u64) -> bool {
        let second = unix_millis / 1_000;
        if second > self.second {
            (self.second, self.recorded) = (second, 0);
        }
        self.recorded += 1;
        let allowed = self.recorded <= REFUSALS_PER_SECOND_MAX;
        self.uncounted += u64::from(!allowed);
        allowed
    }

    fn take_uncounted(&mut self, unix_millis: u64) -> Option<u64> {
        (self.uncounted > 0 && unix_millis / 1_000 > self.second).then(|| std::mem::take(&mut self.uncounted))
    }
}

/// What of this question is to be remembered; `None`: nothing.
fn noted(now: Now, request: &SecurityRequest) -> Option<Noted> {
    let event = |kind, who: String, from: String, what: &str, object: String| AuditEvent {
        unix_millis: now.unix_millis,
        kind,
        who,
        from,
        what: what.into(),
        object,
        outcome: AuditOutcome::Done,
        note: String::new(),
    };
    let (always, event) = match request {
        SecurityRequest::CheckUser { user, address, .. } => {
            let from = address.to_canonical().to_string();
            (true, event(AuditKind::Login, user.to_string(), from, "log in", String::new()))
        }
        SecurityRequest::CheckNode { node, address, .. } => {
            let from = address.to_canonical().to_string();
            (true, event(AuditKind::Login, node.to_string(), from, "join", String::new()))
        }
        SecurityRequest::Accounts { by, request } => {
            let (what, object) = about_accounts(request);
            let changes = !object.is_empty();
            let kind = if changes { AuditKind::Grant } else { AuditKind::Refusal };
            let (who, from) = (by.rights.user.to_string(), by.address.to_string());
            (changes, event(kind, who, from, what, object))
        }
        // The master notes who looks at the record, as it does with all that is asked of it.
        SecurityRequest::Audit(_) => return None,
    };
    Some(Noted { always, event })
}

/// What is done to which account; without an account nothing is changed.
fn about_accounts(request: &AccountsRequest) -> (&'static str, String) {
    match request {
        AccountsRequest::WhoAmI => ("ask who I am", String::new()),
        AccountsRequest::Users { .. } => ("list users", String::new()),
        AccountsRequest::AddUser(new) => ("add user", new.user.to_string()),
        AccountsRequest::RemoveUser(user) => ("remove user", user.to_string()),
    }
}

/// Refusals recorded one by one in a second: far more than people cause, and some megabytes an hour at worst.
const REFUSALS_PER_SECOND_MAX: u64 = 20;

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::time::Duration;

    use protocol::{
        CredentialId,
        message::{
            accounts::{AccountsReply, NewUser, Password},
            join::Secret,
            master_security::{Asker, UserRights},
        },
    };

    use super::*;
    use crate::{
        accounts::{self, Accounts, User},
        rules::Completion,
        secret::TokenHash,
    };

    /// Alice administers the cloud, and proves herself by a token of ones.
    fn security() -> Security {
        let mut accounts = Accounts::default();
        let alice = User { tokens: vec![TokenHash::new(&[1; 32])], admin: true, ..User::default() };
        accounts.apply(&accounts::set_user(&"alice".parse().unwrap(), &alice).unwrap()).unwrap();
        Security::new(accounts).unwrap().recorded()
    }

    fn at(seconds: u64) -> Now {
        Now::default().after(Duration::from_secs(seconds))
    }

    fn login(token: u8) -> SecurityRequest {
        let address = [192, 0, 2, 7].into();
        SecurityRequest::CheckUser { user: "alice".parse().unwrap(), secret: Secret::Token([token; 32]), address }
    }

    fn add(user: &str) -> SecurityRequest {
        let rights = UserRights { user: "alice".parse().unwrap(), groups: vec![], admin: true };
        let by = Asker { rights, credential: CredentialId(0), address: [192, 0, 2, 7].into() };
        let password = Some(Password("a secret of bob".into()));
        let new = NewUser { user: user.parse().unwrap(), password, groups: vec![], admin: false, addresses: vec![] };
        SecurityRequest::Accounts { by, request: AccountsRequest::AddUser(new) }
    }

    /// Does what the rules want until they want something recorded, or nothing; the answers that went out.
    fn until_recorded(security: &mut Security, now: Now) -> (Vec<SecurityReply>, Option<(RecordId, Vec<Record>)>) {
        let mut answers = Vec::new();
        while let Some(action) = security.poll_action() {
            match action {
                Action::Answer { reply, .. } => answers.push(reply),
                Action::Verify { check, verification } => {
                    security.handle_completion(now, Completion::Verified { check, matches: verification.run() });
                }
                Action::Hash { check, hashing } => {
                    security.handle_completion(now, Completion::Hashed { check, hash: hashing.run() });
                }
                Action::Save { batch, .. } => security.handle_completion(now, Completion::Saved { batch }),
                Action::Record { record, records } => return (answers, Some((record, records))),
                Action::Inspect { .. } => panic!("nobody looks"),
            }
        }
        (answers, None)
    }

    fn head(number: u64) -> AuditHead {
        AuditHead { number, hash: [1; 32] }
    }

    #[test]
    fn a_login_and_a_grant_are_answered_only_when_their_lines_are_on_the_disk_and_hold_no_secret() {
        let mut security = security();
        security.handle_message(at(1), Caller(1), login(1));
        let (answers, recorded) = until_recorded(&mut security, at(1));
        assert!(answers.is_empty(), "{answers:?}");
        let (first, records) = recorded.unwrap();
        let [Record::Own(events)] = &records[..] else { panic!("{records:?}") };
        let event = &events[0];
        assert_eq!((event.who.as_str(), event.from.as_str(), event.what.as_str()), ("alice", "192.0.2.7", "log in"));
        assert_eq!((event.kind, event.outcome, event.unix_millis), (AuditKind::Login, AuditOutcome::Done, 1_000));
        // What comes meanwhile waits for the next batch.
        security.handle_message(at(2), Caller(2), add("bob"));
        let (answers, recorded) = until_recorded(&mut security, at(2));
        assert!(answers.is_empty() && recorded.is_none());
        security.handle_completion(at(2), Completion::Recorded { record: first, head: head(2) });
        let (answers, recorded) = until_recorded(&mut security, at(2));
        assert!(matches!(&answers[..], [SecurityReply::User(_)]), "{answers:?}");
        let (second, records) = recorded.unwrap();
        let told = format!("{records:?}");
        assert!(told.contains("add user") && told.contains("bob") && !told.contains("a secret"), "{told}");
        security.handle_completion(at(2), Completion::Recorded { record: second, head: head(3) });
        let (answers, _) = until_recorded(&mut security, at(2));
        assert_eq!(answers, [SecurityReply::Accounts(AccountsReply::Done)]);
    }

    #[test]
    fn refusals_faster_than_a_person_are_answered_and_counted_and_the_count_is_recorded() {
        let mut security = security();
        for caller in 0..REFUSALS_PER_SECOND_MAX + 7 {
            security.handle_message(at(1), Caller(caller), login(9));
        }
        // The first is being recorded; the rest are answered or wait for the next batch.
        let mut recorded = 0;
        let mut answered = 0;
        let mut number = 0;
        loop {
            let (answers, record) = until_recorded(&mut security, at(1));
            answered += answers.len() as u64;
            let Some((record, records)) = record else { break };
            for record in &records {
                let Record::Own(events) = record else { panic!("{record:?}") };
                recorded += events.len() as u64;
            }
            number += 1;
            security.handle_completion(at(1), Completion::Recorded { record, head: head(number) });
        }
        assert_eq!((recorded, answered), (REFUSALS_PER_SECOND_MAX, REFUSALS_PER_SECOND_MAX + 7));
        security.handle_message(at(2), Caller(100), login(1));
        let mut told = String::new();
        while let (_, Some((record, records))) = until_recorded(&mut security, at(2)) {
            told += &format!("{records:?}");
            security.handle_completion(at(2), Completion::Recorded { record, head: head(99) });
        }
        assert!(told.contains("7 further refusals"), "{told}");
    }

    #[test]
    fn a_master_hears_how_the_record_ends_when_its_events_are_on_the_disk() {
        let mut security = security();
        let batch = AuditBatch { writer: 7, first: 0, events: vec![] };
        security.handle_message(at(1), Caller(1), SecurityRequest::Audit(AuditRequest::Record(batch)));
        let (answers, recorded) = until_recorded(&mut security, at(1));
        assert!(answers.is_empty());
        let (record, _) = recorded.unwrap();
        security.handle_completion(at(1), Completion::Recorded { record, head: head(5) });
        let (answers, _) = until_recorded(&mut security, at(1));
        assert_eq!(answers, [SecurityReply::Audit(AuditReply::Recorded(head(5)))]);
    }

    #[test]
    fn only_who_is_an_administrator_here_may_look_at_the_record() {
        let mut security = security();
        let by = UserRights { user: "mallory".parse().unwrap(), groups: vec![], admin: true };
        let verify = AuditRequest::Verify { by, head: None };
        security.handle_message(at(1), Caller(1), SecurityRequest::Audit(verify));
        let (answers, _) = until_recorded(&mut security, at(1));
        assert!(matches!(&answers[..], [SecurityReply::Refused(no)] if no.status == Status::Refused), "{answers:?}");
    }
}
