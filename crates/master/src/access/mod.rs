//! Who is here: joins, sessions, tickets, the security server's answers and the audit record. It never decides what a
//! user may do with a name; `catalog::rights` does.

pub(crate) mod audit;
pub(crate) mod certificate_renewal;
pub(crate) mod closed_sessions;
pub(crate) mod fair_queue;
pub(crate) mod joins;
pub(crate) mod per_user;
pub(crate) mod security_client;
pub(crate) mod security_proxy;
pub(crate) mod session_recheck;
pub(crate) mod sessions;
pub(crate) mod tickets;
