//! Who may do what: access lists, tickets and their check, the ticket to join, what a function may touch, and how refusals
//! are recorded. Nothing here asks the security server.

pub mod acl;
pub mod join_ticket;
pub mod refusals;
pub mod sandbox;
pub mod ticket;
pub mod ticket_verifier;
