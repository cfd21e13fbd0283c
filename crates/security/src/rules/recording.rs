//! What the rules record, and what they say about the room for it. A login, or a change of rights, is never answered
//! before its line is on the disk.

use std::fmt::Write;

use protocol::{
    Now, Reason, Refusal, UserName,
    disk::size,
    message::{
        admission::AdmissionRequest,
        audit::{AuditHead, AuditKind, AuditOutcome, AuditReply, AuditRequest, BATCH_EVENTS_MAX},
        master_security::{SecurityReply, SecurityRequest},
    },
};

use super::{
    Security,
    actions::{AuditWriteId, SecurityAction, SecurityCaller},
    audit_buffer::{Asked, Entry, Held, Noted, about_admission, event, noted},
    audit_space::AuditSpace,
};
use crate::accounts::Origin;

impl Security {
    /// Handles a master's request about the record.
    pub(super) fn handle_audit(&mut self, caller: SecurityCaller, request: AuditRequest) {
        match request {
            AuditRequest::Record(batch) if batch.events.len() > BATCH_EVENTS_MAX => {
                let message = format!("one batch may have {BATCH_EVENTS_MAX} events at most; send several");
                self.refuse(caller, Refusal::new(Reason::Invalid, message));
            }
            AuditRequest::Record(batch) => self.audit_buffer.waiting.push(Entry::Batch(batch, caller)),
            AuditRequest::Show { ref by, .. } | AuditRequest::Verify { ref by, .. } => {
                if self.accounts.user(&by.user).is_some_and(|user| user.admin) {
                    self.actions.push_back(SecurityAction::Inspect { caller, request });
                } else {
                    let message = format!("{} may not look at the audit record; ask an administrator", by.user);
                    self.refuse(caller, Refusal::new(Reason::NoRight, message));
                }
            }
        }
    }

    /// Notes a request until it is answered; refuses it where its line, or its change, would find no room.
    pub(super) fn note_question(
        &mut self,
        now: Now,
        caller: SecurityCaller,
        request: &SecurityRequest,
    ) -> Result<(), Refusal> {
        let Some(noted) = noted(now, request) else { return Ok(()) };
        let is_check = matches!(request, SecurityRequest::CheckUser { .. } | SecurityRequest::CheckNode { .. });
        self.check_room(noted.always, noted.always && !is_check)?;
        if self.audit_buffer.is_on {
            self.audit_buffer.record_uncounted(now);
            self.audit_buffer.noted.insert(caller, noted);
        }
        Ok(())
    }

    /// Refuses what is always recorded while the record finds no room, and what changes accounts while they find none.
    fn check_room(&self, is_recorded: bool, changes: bool) -> Result<(), Refusal> {
        if (is_recorded && self.audit_buffer.retry_at.is_some()) || (changes && self.saves.is_full) {
            return Err(Refusal::new(Reason::NoSpace, DISK_FULL));
        }
        Ok(())
    }

    /// The same for requests about machines.
    pub(super) fn note_admission(
        &mut self,
        now: Now,
        caller: SecurityCaller,
        request: &AdmissionRequest,
    ) -> Result<(), Refusal> {
        let changes = about_admission(request).2.changes;
        self.check_room(changes, changes)?;
        if !self.audit_buffer.is_on {
            return Ok(());
        }
        self.audit_buffer.record_uncounted(now);
        let (who, from, Asked { changes, what, object, note }) = about_admission(request);
        let event = event(now, AuditKind::Grant, (who, from), what, object, note);
        let is_known = !matches!(request, AdmissionRequest::Enrol { .. });
        self.audit_buffer.noted.insert(caller, Noted { always: changes, at: now, is_known, event });
        Ok(())
    }

    /// An identity provider reported a change of one of its users, and it was applied. There was no request, so nobody
    /// waits.
    pub(super) fn record_provider_change(&mut self, now: Now, user: &UserName, origin: &Origin) {
        if !self.audit_buffer.is_on {
            return;
        }
        let what = if origin.is_disowned { "put out" } else { "follow provider" };
        let who = (origin.provider.clone(), String::new());
        let event = event(now, AuditKind::Grant, who, what, user.to_string(), String::new());
        self.audit_buffer.waiting.push(Entry::Own(Box::new(event), None));
    }

    /// These and all events before them are on the disk: everyone who waited for that is answered.
    pub(super) fn note_recorded(&mut self, record: AuditWriteId, head: AuditHead) {
        let Some((_, held)) = self.audit_buffer.held.take_if(|(id, _)| *id == record) else { return };
        self.audit_buffer.is_full = false;
        for held in held {
            let answer = match held {
                Held::Event(_, answer) => answer,
                Held::Head(caller) => Some((caller, SecurityReply::Audit(AuditReply::Recorded(head)))),
            };
            self.actions.extend(answer.map(|(caller, reply)| SecurityAction::Answer { caller, reply }));
        }
        // The head is stored with the accounts too: anyone who truncates the files must change those as well. It may
        // lag behind a little.
        self.save(vec![crate::accounts::set_audit_head(head)]);
    }

    /// The record found no room: nobody is told that something was done of which there is no line. The events wait.
    pub(super) fn note_unrecorded(&mut self, now: Now, record: AuditWriteId) {
        let Some((_, held)) = self.audit_buffer.held.take_if(|(id, _)| *id == record) else { return };
        self.audit_buffer.note_full(now);
        let full = |message: &str| SecurityReply::Refused(Refusal::new(Reason::NoSpace, message));
        let mut events = Vec::new();
        for held in held {
            let (mut event, answer) = match held {
                Held::Event(event, answer) => (event, answer),
                // The master keeps its events, and brings them again.
                Held::Head(caller) => {
                    self.actions.push_back(SecurityAction::Answer { caller, reply: full(DISK_FULL) });
                    continue;
                }
            };
            if let Some((caller, reply)) = answer {
                let reply = match reply {
                    SecurityReply::Refused(refusal) => SecurityReply::Refused(refusal),
                    _ if event.kind == AuditKind::Grant => {
                        full(&format!("{DISK_FULL}; what was asked just now is done"))
                    }
                    _ => {
                        event.outcome = AuditOutcome::Failed;
                        event.note = DISK_FULL.into();
                        full(DISK_FULL)
                    }
                };
                self.actions.push_back(SecurityAction::Answer { caller, reply });
            }
            events.push(event);
        }
        self.audit_buffer.wait_again(events.into_iter());
    }

    /// The accounts found no room: answers that tell of a change must not wait until somebody makes some.
    pub(super) fn note_unsaved(&mut self) {
        for (caller, reply) in self.saves.note_full() {
            let reply = match reply {
                SecurityReply::Session(_)
                | SecurityReply::NodeAllowed
                | SecurityReply::Accounts(_)
                | SecurityReply::Admission(_)
                | SecurityReply::Device(_) => SecurityReply::Refused(Refusal::new(
                    Reason::NoSpace,
                    format!("{DISK_FULL}; what was asked just now may be done once there is room"),
                )),
                tells_of_no_change => tells_of_no_change,
            };
            self.actions.push_back(SecurityAction::Answer { caller, reply });
        }
    }

    /// Takes how much room there is.
    pub fn note_audit_space(&mut self, room: AuditSpace) {
        self.audit_space = room;
        self.audit_buffer.note_space(room.is_low());
    }

    /// What is wrong, one sentence each.
    pub(super) fn health(&self) -> Vec<String> {
        if self.audit_buffer.is_full || self.saves.is_full {
            return vec![DISK_FULL.into()];
        }
        let AuditSpace { free_bytes, record_bytes, .. } = self.audit_space;
        let mut reason = if self.audit_space.is_low() {
            format!(
                "the disk of the security server has {} left, which is kept for logins and grants: refusals \
                 of strangers are only counted",
                size(free_bytes)
            )
        } else if self.audit_space.is_large() {
            format!("the audit record takes {}, a large share of the security server's disk", size(record_bytes))
        } else {
            return Vec::new();
        };
        // Writing to a `String` cannot fail.
        let _ = write!(reason, "; make room there, or move the oldest files of its `audit/` away");
        vec![reason]
    }
}

/// What is said while the record or the accounts find no room.
const DISK_FULL: &str = "the disk of the security server is full, and it can let nobody in and change no account; \
     make room there (it then goes on by itself)";
