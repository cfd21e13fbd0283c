//! Requests of clients, a family a file. Each asks the rooms, saves what they changed, and answers once it is durable.
//! It never holds state.

mod acl_requests;
mod job_inputs;
pub(super) mod metadata_requests;
mod name_requests;
mod policy_requests;
mod trash_requests;
