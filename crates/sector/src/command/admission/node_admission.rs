//! `node ticket`, `requests`, `approve`, `reject`, `allow`: an administrator admits nodes. The command never decides
//! by itself who is admitted.

use client::Client;
use protocol::{HostAddress, NodeId, message::admission::WaitingMachine};
use serde::Serialize;
use terminal::{failure::Failure, session, show};

use crate::{
    arguments::{Allow, Approve, Global, NodeTicket},
    command::node::say,
};

/// `sector node ticket`.
pub(crate) async fn ticket(cloud: &Client, arguments: NodeTicket, global: &Global) -> Result<(), Failure> {
    let profile = session::profile(global)?;
    let NodeTicket { name, life, master } = arguments;
    let master = master.unwrap_or(profile.address);
    let is_local = master.is_loopback();
    let ticket = cloud.node_ticket(master.clone(), &profile.authority, name, life).await?;
    if global.json {
        return show::json(&TicketView { ticket: ticket.to_string(), address: master, life_seconds: life.as_secs() });
    }
    show::line(ticket.to_string());
    if !global.quiet && is_local {
        terminal::say!("{master} is this machine alone; for another one say with --master where it reaches the master");
    }
    Ok(())
}

/// `sector node requests`.
pub(crate) async fn requests(cloud: &Client, global: &Global) -> Result<(), Failure> {
    let waiting = cloud.waiting_machines().await?;
    let views: Vec<_> = waiting.into_iter().map(WaitingView::from).collect();
    if global.json {
        return show::json(&views);
    }
    let rows: Vec<_> = views
        .into_iter()
        .map(|view| vec![view.id, view.fingerprint, view.address, show::time_of(&view.asked)])
        .collect();
    show::table(&["id", "fingerprint", "address", "asked"], &rows);
    Ok(())
}

/// `sector node approve`.
pub(crate) async fn approve(cloud: &Client, arguments: &Approve, global: &Global) -> Result<(), Failure> {
    cloud.approve_machine(&arguments.id, arguments.fingerprint).await?;
    say(global, &format!("{} may come in; it fetches its certificate within seconds", arguments.id))
}

/// `sector node reject`.
pub(crate) async fn reject(cloud: &Client, id: &NodeId, global: &Global) -> Result<(), Failure> {
    cloud.reject_machine(id).await?;
    say(global, &format!("{id} was turned away"))
}

/// `sector node allow`.
pub(crate) async fn allow(cloud: &Client, arguments: Allow, global: &Global) -> Result<(), Failure> {
    let Allow { id, addresses } = arguments;
    let ranges: Vec<_> = addresses.0.iter().map(ToString::to_string).collect();
    cloud.allow_node(&id, addresses.0).await?;
    let from = if ranges.is_empty() { "anywhere".to_owned() } else { ranges.join(", ") };
    say(global, &format!("{id} may join from {from}"))
}

#[derive(Serialize)]
pub(super) struct TicketView {
    pub(super) ticket: String,
    pub(super) address: HostAddress,
    pub(super) life_seconds: u64,
}

#[derive(Serialize)]
struct WaitingView {
    id: String,
    fingerprint: String,
    address: String,
    asked: String,
}

impl From<WaitingMachine> for WaitingView {
    fn from(waiting: WaitingMachine) -> Self {
        Self {
            id: waiting.name.to_string(),
            fingerprint: waiting.key.to_string(),
            address: waiting.address.to_string(),
            asked: show::json_time(waiting.asked_unix_millis),
        }
    }
}
