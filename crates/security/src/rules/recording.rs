//! What the rules record, and what they say about the room for it. A login, or a change of rights, is never answered
//! before its line is on the disk.

use std::fmt::Write;

use protocol::{
    Now, Reason, Refusal, UserName,
    message::{
        admission::AdmissionRequest,
        audit::{AuditHead, AuditKind, AuditReply, AuditRequest, BATCH_EVENTS_MAX},
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

    /// Notes a request until it is answered.
    pub(super) fn note_question(&mut self, now: Now, caller: SecurityCaller, request: &SecurityRequest) {
        if !self.audit_buffer.is_on {
            return;
        }
        self.audit_buffer.record_uncounted(now);
        if let Some(noted) = noted(now, request) {
            self.audit_buffer.noted.insert(caller, noted);
        }
    }

    /// The same for requests about machines.
    pub(super) fn note_admission(&mut self, now: Now, caller: SecurityCaller, request: &AdmissionRequest) {
        if !self.audit_buffer.is_on {
            return;
        }
        self.audit_buffer.record_uncounted(now);
        let (who, from, Asked { changes, what, object, note }) = about_admission(request);
        let event = event(now, AuditKind::Grant, (who, from), what, object, note);
        let is_known = !matches!(request, AdmissionRequest::Enrol { .. });
        self.audit_buffer.noted.insert(caller, Noted { always: changes, at: now, is_known, event });
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
        for held in held {
            let (caller, reply) = match held {
                Held::Answer(caller, reply) => (caller, reply),
                Held::Head(caller) => (caller, SecurityReply::Audit(AuditReply::Recorded(head))),
            };
            self.actions.push_back(SecurityAction::Answer { caller, reply });
        }
        // The head is stored with the accounts too: anyone who truncates the files must change those as well. It may
        // lag behind a little.
        self.save(vec![crate::accounts::set_audit_head(head)]);
    }

    /// Takes how much room there is.
    pub fn note_audit_space(&mut self, room: AuditSpace) {
        self.audit_space = room;
        self.audit_buffer.note_space(room.is_low());
    }

    /// What is wrong, one sentence each.
    pub(super) fn health(&self) -> Vec<String> {
        let AuditSpace { free_bytes, record_bytes, .. } = self.audit_space;
        let mut reason = if self.audit_space.is_low() {
            format!(
                "the disk of the security server has {free_bytes} bytes left, which are kept for logins and grants: refusals \
                 of strangers are only counted"
            )
        } else if self.audit_space.is_large() {
            format!("the audit record takes {record_bytes} bytes, a large share of the security server's disk")
        } else {
            return Vec::new();
        };
        // Writing to a `String` cannot fail.
        let _ = write!(reason, "; make room there, or move the oldest files of its `audit/` away");
        vec![reason]
    }
}
