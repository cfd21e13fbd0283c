//! Test vectors of the audit record's messages. A vector never changes without a new codec version.

use super::{Vectors, user};
use crate::{
    message::{
        audit::{
            AuditBatch, AuditCheck, AuditEvent, AuditFault, AuditHead, AuditKind, AuditOutcome, AuditPage, AuditQuery,
            AuditQuestion, AuditReply, AuditRequest, RefusedTickets,
        },
        master_security::UserRights,
        node_master::TicketRefusal,
        request::VerifyAuditRequest,
    },
    ticket::TicketFault,
};

#[test]
fn the_words_of_the_audit_record_have_their_bytes() {
    let mut vectors = Vectors::of("audit", include_str!("../../../tests/vectors/audit.txt"));
    let by = || UserRights { user: user(), groups: vec![], admin: true };
    let query = || AuditQuery { after: 7, since_unix_millis: Some(1_700_000_000_000), user: Some(user()) };
    let head = AuditHead { number: 9, hash: [3; 32] };
    compare!(vectors, AuditRequest {
        "record": AuditRequest::Record(_) => batch(),
        "show": AuditRequest::Show { .. } => AuditRequest::Show { by: by(), query: query() },
        "verify": AuditRequest::Verify { .. } => AuditRequest::Verify { by: by(), head: Some(head) },
    });
    compare!(vectors, AuditQuestion {
        "show": AuditQuestion::Show(_) => AuditQuestion::Show(query()),
        "verify": AuditQuestion::Verify(VerifyAuditRequest) => AuditQuestion::Verify(VerifyAuditRequest),
    });
    let fault = AuditFault { file: "audit-1.jsonl".into(), line: 4, why: "its hash is another".into() };
    compare!(vectors, AuditReply {
        "recorded": AuditReply::Recorded(_) => AuditReply::Recorded(head),
        "page": AuditReply::Page(_) =>
            AuditReply::Page(AuditPage { lines: vec!["{}".into()], last: 8, more: true }),
        "checked": AuditReply::Checked(_) =>
            AuditReply::Checked(AuditCheck { first: 1, head, files: 2, fault: Some(fault) }),
    });
    compare!(vectors, AuditKind {
        "login": AuditKind::Login => AuditKind::Login,
        "refusal": AuditKind::Refusal => AuditKind::Refusal,
        "grant": AuditKind::Grant => AuditKind::Grant,
        "admin": AuditKind::Admin => AuditKind::Admin,
        "job": AuditKind::Job => AuditKind::Job,
        "ticket": AuditKind::Ticket => AuditKind::Ticket,
        "record": AuditKind::Record => AuditKind::Record,
        "removal": AuditKind::Removal => AuditKind::Removal,
    });
    compare!(vectors, AuditOutcome {
        "done": AuditOutcome::Done => AuditOutcome::Done,
        "refused": AuditOutcome::Refused => AuditOutcome::Refused,
        "failed": AuditOutcome::Failed => AuditOutcome::Failed,
    });
    vectors.finish();
}

pub(super) fn batch() -> AuditRequest {
    let event = AuditEvent {
        unix_millis: 1_700_000_000_000,
        kind: AuditKind::Grant,
        who: "alice".into(),
        from: "192.0.2.7".into(),
        what: "set quota".into(),
        object: "bob".into(),
        outcome: AuditOutcome::Refused,
        note: "no, because".into(),
    };
    AuditRequest::Record(AuditBatch { writer: 0xfeed, first: 12, events: vec![event] })
}

pub(super) fn refused() -> RefusedTickets {
    RefusedTickets::from([(TicketFault::Expired, 3), (TicketFault::NotHolder, 1)])
}

pub(super) fn refusal() -> TicketRefusal {
    TicketRefusal {
        unix_millis: 1_700_000_000_000,
        fault: TicketFault::NotHolder,
        user: Some(user()),
        from: "192.0.2.9".into(),
        why: "whoever shows it is not its holder".into(),
    }
}
