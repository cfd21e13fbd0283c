//! Jobs of the Virtual Observatory (UWS 1.1): requests that take longer than a connection lasts. [`Jobs`] keeps them, runs
//! them by a [`Service`], and answers what clients ask of them. Jobs outlive a restart: the service keeps their records.
//! It never knows what a job does, or where its results lie.

mod document;
mod job;
mod jobs;
mod requests;

#[cfg(test)]
mod tests;

pub use job::{JobFault, JobResult, Phase, UwsJob};
pub use jobs::{Jobs, JobsLimits, ResultSink, Service};
pub use requests::Reply;
