//! Who is here: joins, sessions, tickets, the security server's answers and the audit record. It never decides what a
//! user may do with a name; `catalog::rights` does.

pub(crate) mod audit;
pub(crate) mod certificate_renewal;
pub(crate) mod closed_sessions;
pub(crate) mod duplicate_requests;
pub(crate) mod fair_queue;
pub(crate) mod joins;
pub(crate) mod per_user;
pub(crate) mod security_client;
pub(crate) mod security_proxy;
pub(crate) mod session_recheck;
pub(crate) mod sessions;
pub(crate) mod tickets;

use audit::AuditQueue;
use duplicate_requests::Answers;
use security_proxy::SecurityProxy;
use session_recheck::SessionRecheck;
use sessions::Sessions;
use tickets::TicketIssuer;

/// Who is connected, and what is said of them elsewhere.
pub(crate) struct Access {
    pub(crate) tickets: TicketIssuer,
    pub(crate) security_proxy: SecurityProxy,
    pub(crate) session_recheck: SessionRecheck,
    pub(crate) audit: AuditQueue,
    pub(crate) sessions: Sessions,
    pub(crate) answers: Answers,
}

impl Access {
    /// Nobody is connected yet.
    pub(crate) fn new(tickets: TicketIssuer, audit: AuditQueue, answers: Answers) -> Self {
        Self {
            tickets,
            security_proxy: SecurityProxy::default(),
            session_recheck: SessionRecheck::default(),
            audit,
            sessions: Sessions::default(),
            answers,
        }
    }
}
