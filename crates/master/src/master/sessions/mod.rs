//! What the master does about sessions: keys and bearers of tickets, rechecks, the audit record. It never decides what
//! a user may do with a name.

pub(crate) mod audit_delivery;
pub(crate) mod revocations;
pub(crate) mod security_requests;
pub(crate) mod session_endings;
pub(crate) mod ticket_keys;
