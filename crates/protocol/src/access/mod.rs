//! Who may do what: access lists, tickets and their check, the ticket to join, what a function may touch, and how
//! refusals are recorded. These rules never ask anyone.

pub mod acl;
pub mod join_ticket;
pub mod refusals;
pub mod sandbox;
pub mod ticket;
pub mod ticket_verifier;
pub(crate) mod user_rights;
