//! `node drain`, `node remove` and `rebalance`: nodes that leave, and slices that move. `--dry-run` prints what would
//! happen, and `--wait` shows the progress. It never chooses where slices go: the master does.

use std::time::Duration;

use client::{Client, Membership, MovePlan, NodeStatus, RebalanceStatus, RebalanceVerb, RemoveNodeRequest};
use protocol::{NodeId, Reason};
use serde::Serialize;
use terminal::{failure::Failure, show};

use super::{admission, nodes};
use crate::arguments::{Drain, Global, NodeVerb, Rebalance, RemoveNode};

/// `sector node VERB`.
pub(crate) async fn run(cloud: &Client, verb: NodeVerb, global: &Global) -> Result<(), Failure> {
    match verb {
        NodeVerb::List => nodes::list(cloud, global).await,
        NodeVerb::Ticket(arguments) => admission::node_admission::ticket(cloud, arguments, global).await,
        NodeVerb::Requests => admission::node_admission::requests(cloud, global).await,
        NodeVerb::Approve(arguments) => admission::node_admission::approve(cloud, &arguments, global).await,
        NodeVerb::Reject { id } => admission::node_admission::reject(cloud, &id, global).await,
        NodeVerb::Allow(arguments) => admission::node_admission::allow(cloud, arguments, global).await,
        // It needs no login: see `command::run`.
        NodeVerb::Join(_) => Err(Failure::failed("this command needs no login")),
        NodeVerb::Drain(arguments) => drain(cloud, arguments, global).await,
        NodeVerb::Remove(arguments) => remove(cloud, arguments, global).await,
    }
}

/// `sector rebalance`.
pub(crate) async fn rebalance(cloud: &Client, arguments: Rebalance, global: &Global) -> Result<(), Failure> {
    let verb = match (arguments.dry_run, arguments.stop) {
        (true, _) => RebalanceVerb::Plan,
        (_, true) => RebalanceVerb::Stop,
        _ => RebalanceVerb::Begin,
    };
    let mut status = cloud.rebalance(verb).await?;
    if arguments.wait && verb == RebalanceVerb::Begin {
        let total = status.plan.bytes;
        let meter = show::Meter::start("rebalancing", total, global);
        while status.running {
            tokio::time::sleep(LOOK_AFTER).await;
            status = cloud.rebalance(RebalanceVerb::Status).await?;
            meter.set(status.moved_bytes, total.max(status.moved_bytes));
        }
    }
    if global.json {
        return show::json(&RebalanceView::from(status));
    }
    if status.plan.moves.is_empty() {
        let (least, most) = (percent(status.fill_least_permille), percent(status.fill_most_permille));
        show::line(format!("the nodes are even: from {least} to {most} full"));
        return Ok(());
    }
    show_plan(&status.plan);
    match verb {
        RebalanceVerb::Begin if arguments.wait => show::line("stopped: nothing further can be moved, or it was ended"),
        RebalanceVerb::Begin => show::line("begun; `sector rebalance --wait` shows how far it is"),
        RebalanceVerb::Stop => show::line("stopped; what was moved stays moved"),
        RebalanceVerb::Plan | RebalanceVerb::Status => {}
    }
    Ok(())
}

async fn drain(cloud: &Client, arguments: Drain, global: &Global) -> Result<(), Failure> {
    let id = &arguments.id;
    if arguments.undo {
        cloud.undo_drain(id).await?;
        return say(global, &format!("{id} is in use again"));
    }
    let plan = cloud.drain_node(id, arguments.dry_run).await?;
    if arguments.dry_run {
        let is_possible = plan.problems.is_empty();
        if global.json {
            show::json(&PlanView::from(plan))?;
        } else {
            show_plan(&plan);
        }
        let refused = || Failure::new(Reason::Unavailable, "");
        return if is_possible { Ok(()) } else { Err(refused()) };
    }
    if arguments.wait {
        wait_until_drained(cloud, id, &plan, global).await?;
        return say(global, &format!("{id} is empty; remove it with `sector node remove {id}`"));
    }
    if global.json {
        return show::json(&PlanView::from(plan));
    }
    show_plan(&plan);
    show::line(format!("begun; `sector node drain {id} --wait` shows how far it is"));
    Ok(())
}

/// Shows the progress of a drain until the node is empty.
async fn wait_until_drained(cloud: &Client, id: &NodeId, plan: &MovePlan, global: &Global) -> Result<(), Failure> {
    let meter = show::Meter::start(format!("draining {id}"), plan.bytes, global);
    loop {
        let nodes = cloud.nodes().await?;
        let Some(node) = nodes.into_iter().find(|node| node.node == *id) else {
            return Err(Failure::new(Reason::NotFound, format!("node {id} was removed meanwhile")));
        };
        match node.membership {
            Membership::Drained => return Ok(()),
            Membership::Active => return Err(Failure::failed(format!("draining {id} was taken back meanwhile"))),
            Membership::Draining => meter.set(plan.bytes.saturating_sub(left_bytes(&node)), plan.bytes),
        }
        tokio::time::sleep(LOOK_AFTER).await;
    }
}

fn left_bytes(node: &NodeStatus) -> u64 {
    if node.slices == 0 { 0 } else { node.used_bytes }
}

async fn remove(cloud: &Client, arguments: RemoveNode, global: &Global) -> Result<(), Failure> {
    let RemoveNode { id, force, dry_run, undo } = arguments;
    let removal = cloud.remove_node(RemoveNodeRequest { node: id.clone(), force, dry_run, undo }).await?;
    if undo {
        return say(global, &format!("{id} may join again"));
    }
    if global.json {
        return show::json(&RemovalView {
            removed: removal.removed,
            lost: removal.lost,
            lost_paths: removal.lost_paths.iter().map(ToString::to_string).collect(),
            fewer_copies: removal.fewer_copies,
        });
    }
    removal.lost_paths.iter().for_each(|path| show::line(format!("no other copy: {path}")));
    let (lost, fewer) = (removal.lost, removal.fewer_copies);
    let (word, gone) = if removal.removed { ("have", "is removed") } else { ("would have", "is still there") };
    let lost = show::count(usize::try_from(lost).unwrap_or(usize::MAX), "file");
    show::line(format!("{id} {gone}; {lost} {word} no copy, {fewer} further ones {word} fewer than wanted"));
    Ok(())
}

pub(super) fn say(global: &Global, message: &str) -> Result<(), Failure> {
    if global.json {
        return show::json(&serde_json::json!({ "done": message }));
    }
    show::line(message);
    Ok(())
}

fn show_plan(plan: &MovePlan) {
    let rows: Vec<_> = plan
        .moves
        .iter()
        .map(|to| vec![to.from.to_string(), to.to.to_string(), to.files.to_string(), show::size(to.bytes)])
        .collect();
    if !rows.is_empty() {
        show::table(&["from", "to", " files", " bytes"], &rows);
    }
    let sample = if plan.planned_files > 0 && plan.planned_files < plan.files {
        format!(" (by a look at {} of them)", plan.planned_files)
    } else {
        String::new()
    };
    show::line(format!("{} files, {}{sample}", plan.files, show::size(plan.bytes)));
    plan.problems.iter().for_each(|problem| show::line(format!("not possible: {problem}")));
}

fn percent(permille: u32) -> String {
    format!("{}.{} %", permille / 10, permille % 10)
}

#[derive(Serialize)]
struct PlanView {
    files: u64,
    bytes: u64,
    planned_files: u64,
    moves: Vec<MoveView>,
    problems: Vec<String>,
}

#[derive(Serialize)]
struct MoveView {
    from: String,
    to: String,
    files: u64,
    bytes: u64,
}

impl From<MovePlan> for PlanView {
    fn from(plan: MovePlan) -> Self {
        let view = |to: client::PlannedMove| MoveView {
            from: to.from.to_string(),
            to: to.to.to_string(),
            files: to.files,
            bytes: to.bytes,
        };
        Self {
            files: plan.files,
            bytes: plan.bytes,
            planned_files: plan.planned_files,
            moves: plan.moves.into_iter().map(view).collect(),
            problems: plan.problems,
        }
    }
}

#[derive(Serialize)]
struct RebalanceView {
    running: bool,
    moved_files: u64,
    moved_bytes: u64,
    fill_least_percent: f64,
    fill_most_percent: f64,
    plan: PlanView,
}

impl From<RebalanceStatus> for RebalanceView {
    fn from(status: RebalanceStatus) -> Self {
        Self {
            running: status.running,
            moved_files: status.moved_files,
            moved_bytes: status.moved_bytes,
            fill_least_percent: f64::from(status.fill_least_permille) / 10.0,
            fill_most_percent: f64::from(status.fill_most_permille) / 10.0,
            plan: status.plan.into(),
        }
    }
}

#[derive(Serialize)]
struct RemovalView {
    removed: bool,
    lost: u64,
    lost_paths: Vec<String>,
    fewer_copies: u64,
}

/// How often the progress is requested.
const LOOK_AFTER: Duration = Duration::from_millis(500);
