//! Real processes, real disks, real faults. Each test has a cloud of its own, uses it through the command line, and
//! proves that its fault fired.

#![allow(clippy::unwrap_used, clippy::expect_used)]

mod accounts;
mod chaos;
mod disks;
mod faults;
mod files;
mod hostile;
mod jobs;
mod keeping;
mod machines;
mod network;
mod rebuild;
mod rights;
mod starting;
mod uploads;
