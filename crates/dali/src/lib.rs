//! What services of the Virtual Observatory share over the web door (IVOA standards DALI 1.1, UWS 1.1). Begin with
//! [`bind`] and [`serve`]; a request is a [`DaliRequest`], and jobs lie in a [`JobFolder`]. It never knows what a
//! service does, and never acts with other rights than those of who sends a request.

mod answers;
mod fetch;
mod form;
mod job_folder;
mod jobs;
mod request;
mod server;
mod service_address;

pub use answers::{fault, of_client, of_reason, of_refusal, typed};
pub use fetch::Fetcher;
pub use form::Upload;
pub use job_folder::JobFolder;
pub use jobs::{answer_jobs, respond};
pub use request::DaliRequest;
pub use server::{DoorSecurity, Listen, bind, serve, sweep};
pub use service_address::ServiceAddress;
