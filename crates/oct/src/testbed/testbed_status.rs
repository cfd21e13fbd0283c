//! `sector oct testbed status`: the links, their rules and their counts, as a table or as JSON with a unit in every name.
//! It never changes a link.

use serde::Serialize;
use terminal::{Failure, Global, show};
use testbed::{
    Blocked, DirectionCounts, NetworkStatus, PathRules, PathStatus,
    control::{ControlReply, ControlRequest, ask},
};

use super::{
    refused,
    running_testbed::{self, RunningTestbed, control_socket},
};

/// Asks the running testbed and prints its reply.
pub(super) fn status(global: &Global) -> Result<(), Failure> {
    let folder = running_testbed::folder()?;
    let note = RunningTestbed::needed(&folder)?;
    let ControlReply::Status(status) = ask(&control_socket(&folder), &ControlRequest::Status).map_err(refused)? else {
        return Err(Failure::failed("the testbed answered something else; are both of one version?"));
    };
    if global.json {
        return show::json(&Document::new(note.process.pid, &status));
    }
    let rows: Vec<_> = status.ways.iter().flat_map(rows).collect();
    let head =
        ["from", "to", " rate", " round trip", " loss", "state", " packets", " lost", " dropped", " cut", " carried"];
    show::table(&head, &rows);
    let vanished = status.strange + status.full + status.refused;
    if vanished > 0 {
        show::line(format!("{vanished} packets vanished that were for no other site, or that no device took"));
    }
    Ok(())
}

/// Both directions of a path.
fn rows(way: &PathStatus) -> [Vec<String>; 2] {
    [row(&way.one, &way.other, &way.rules, &way.there), row(&way.other, &way.one, &way.rules, &way.back)]
}

fn row(from: &str, to: &str, rules: &PathRules, passed: &DirectionCounts) -> Vec<String> {
    vec![
        from.into(),
        to.into(),
        rules.rate.to_string(),
        format!("{} ms", rules.rtt.as_secs_f64() * 1e3),
        rules.loss.to_string(),
        state(rules),
        passed.sent.to_string(),
        passed.lost.to_string(),
        (passed.overflowed + passed.too_large + passed.blocked).to_string(),
        passed.cut.to_string(),
        show::size(passed.carried_bytes),
    ]
}

/// What is unusual about a path, in words.
fn state(rules: &PathRules) -> String {
    let blocks = match rules.blocks {
        Blocked::Nothing => None,
        Blocked::Udp => Some("no UDP".to_owned()),
        Blocked::Tcp => Some("no TCP".to_owned()),
    };
    let mtu = rules.mtu_bytes.map(|bytes| format!("MTU {bytes}"));
    let cut = rules.is_cut.then(|| "cut".to_owned());
    let words: Vec<_> = [cut, blocks, mtu].into_iter().flatten().collect();
    if words.is_empty() { "open".into() } else { words.join(", ") }
}

#[derive(Serialize)]
struct Document<'a> {
    pid: i32,
    sites: &'a [String],
    links: Vec<Link<'a>>,
    underway_bytes: u64,
    strange: u64,
    full: u64,
    refused: u64,
}

/// One direction.
#[derive(Serialize)]
struct Link<'a> {
    from: &'a str,
    to: &'a str,
    rate_bps: u64,
    rtt_ms: f64,
    queue_bytes: u64,
    loss: f64,
    burst_packets: f64,
    reorder: f64,
    reorder_by_ms: f64,
    duplicate: f64,
    mtu_bytes: Option<u16>,
    icmp: bool,
    block: Blocked,
    cut: bool,
    passed: &'a DirectionCounts,
}

impl<'a> Document<'a> {
    fn new(pid: i32, status: &'a NetworkStatus) -> Self {
        let links = status.ways.iter().flat_map(|way| {
            [
                Link::new(&way.one, &way.other, &way.rules, &way.there),
                Link::new(&way.other, &way.one, &way.rules, &way.back),
            ]
        });
        let NetworkStatus { ref sites, underway_bytes, strange, full, refused, .. } = *status;
        Self { pid, sites, links: links.collect(), underway_bytes, strange, full, refused }
    }
}

impl<'a> Link<'a> {
    fn new(from: &'a str, to: &'a str, rules: &PathRules, passed: &'a DirectionCounts) -> Self {
        let link = rules.link();
        Self {
            from,
            to,
            rate_bps: rules.rate.0,
            rtt_ms: rules.rtt.as_secs_f64() * 1e3,
            queue_bytes: link.queue_bytes,
            loss: rules.loss.0,
            burst_packets: rules.burst_packets,
            reorder: link.reorder,
            reorder_by_ms: link.reorder_by.as_secs_f64() * 1e3,
            duplicate: link.duplicate,
            mtu_bytes: rules.mtu_bytes,
            icmp: rules.tells_mtu,
            block: rules.blocks,
            cut: rules.is_cut,
            passed,
        }
    }
}
