//! `--wait`: a command that waits where someone else writes a file, and says once for each that it does. It never ends
//! another's write.

use std::sync::Arc;

use client::{Client, LeaseWait};
use terminal::{sanitize, show::say};

use crate::arguments::{Global, WaitArguments};

/// The client that waits as was asked for.
pub(crate) fn waiting(cloud: &Client, asked: &WaitArguments, global: &Global) -> Client {
    let Some(longest) = asked.wait else { return cloud.clone() };
    let is_quiet = global.quiet;
    let told = move |refusal: &client::Refusal| {
        if !is_quiet {
            say!("sector: waiting: {}", sanitize(&refusal.message));
        }
    };
    cloud.waiting(LeaseWait { longest, told: Arc::new(told) })
}
