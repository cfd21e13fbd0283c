//! Real processes, real disks, real faults. Each test has a cloud of its own, uses it through the command line, and
//! proves that its fault fired.

#![allow(clippy::unwrap_used, clippy::expect_used)]

mod accounts;
mod applications;
mod audit;
mod backup;
mod between_clouds;
mod chaos;
mod command_line;
mod copies;
mod counters;
mod detached;
mod disks;
mod events;
mod exit_codes;
mod faults;
mod files;
mod hostile;
mod job_faults;
mod jobs;
mod judgement;
mod logs;
mod machines;
mod malstone;
mod memory;
mod network;
#[path = "../../crates/security/tests/oidc/op.rs"]
mod op;
mod operations;
mod policies;
mod portal;
mod profiles;
mod programs;
mod providers;
mod rebuild;
mod records;
mod reductions;
mod remembering;
mod rights;
mod seen;
mod side_files;
#[path = "../../crates/security/tests/ldap/slapd.rs"]
mod slapd;
mod starting;
mod sync;
mod testbed;
mod testbed_faults;
mod top;
mod unauthenticated;
mod uploads;
mod web;
