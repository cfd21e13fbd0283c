//! `lease`: the writes that are under way, and the end of one. It never takes part in a write.

use client::{Client, OpenLease, SectorPath};
use serde::Serialize;
use terminal::{failure::Failure, show};

use crate::arguments::{Global, LeaseCommand};

/// `sector lease`.
pub(crate) async fn run(cloud: &Client, command: LeaseCommand, global: &Global) -> Result<(), Failure> {
    match command {
        LeaseCommand::List { all_users } => list(cloud, all_users, global).await,
        LeaseCommand::Break { path } => Ok(cloud.break_lease(&SectorPath::parse(&path)?).await?),
    }
}

async fn list(cloud: &Client, all_users: bool, global: &Global) -> Result<(), Failure> {
    let leases = cloud.leases(all_users).await?;
    if global.json {
        return show::json(&leases.into_iter().map(LeaseView::of).collect::<Vec<_>>());
    }
    let cells = |lease: OpenLease| {
        let writer = match lease.job {
            Some(job) => format!("{} (job {job})", lease.user),
            None => lease.user.to_string(),
        };
        let expected = if lease.expected_bytes == 0 { "-".into() } else { show::size(lease.expected_bytes) };
        let left = format!("{} s", lease.seconds_left);
        vec![show::size(lease.received_bytes), expected, writer, lease.node.to_string(), left, lease.path.to_string()]
    };
    let rows: Vec<_> = leases.into_iter().map(cells).collect();
    show::table(&[" received", " expected", "user", "node", " ends in", "path"], &rows);
    Ok(())
}

/// A write, as JSON.
#[derive(Serialize)]
struct LeaseView {
    path: String,
    user: String,
    job: Option<String>,
    node: String,
    received_bytes: u64,
    expected_bytes: Option<u64>,
    seconds_left: u32,
}

impl LeaseView {
    fn of(lease: OpenLease) -> Self {
        let OpenLease { path, user, job, node, received_bytes, expected_bytes, seconds_left } = lease;
        Self {
            path: path.to_string(),
            user: user.to_string(),
            job: job.map(|job| job.to_string()),
            node: node.to_string(),
            received_bytes,
            expected_bytes: Some(expected_bytes).filter(|bytes| *bytes > 0),
            seconds_left,
        }
    }
}
