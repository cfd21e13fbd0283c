//! One role of a real cluster in the foreground: read settings, bind, print `ready`, run until a signal. It never
//! starts another role.

use std::path::Path;

use client::Profile;
use daemon::{
    ready,
    settings::{Checked, GatewaySettings, MasterSettings, NodeSettings, SecuritySettings},
    shutdown::{Signals, TaskGroup},
};
use protocol::Refusal;
use spe::SpeProgram;
use terminal::{failure::Failure, show};

use super::{
    layout::security_failure,
    page::{dav_room, with_s3},
    processes,
};

/// `sector security`.
pub(crate) async fn security(config: &Path) -> Result<(), Failure> {
    let settings = Checked::<SecuritySettings>::read(config)?;
    let server = security::SecurityServer::bind(&settings).await.map_err(security_failure)?;
    ready::announce(server.address())?;
    run_until_signal(|stopping| async move { server.run(stopping).await.map_err(|error| error.refusal()) }).await
}

/// `sector master`.
pub(crate) async fn master(config: &Path) -> Result<(), Failure> {
    let settings = Checked::<MasterSettings>::read(config)?;
    let server = master::MasterServer::bind(&settings).await.map_err(|error| error.refusal())?;
    ready::announce(server.address())?;
    run_until_signal(|stopping| async move { server.run(stopping).await.map_err(|error| error.refusal()) }).await
}

/// `sector node`.
pub(crate) async fn node(config: &Path) -> Result<(), Failure> {
    let settings = Checked::<NodeSettings>::read(config)?;
    let spe = SpeProgram::this_executable().map_err(|error| Failure::failed(error.to_string()))?;
    let server = node::NodeServer::bind(&settings, spe).await.map_err(|error| error.refusal())?;
    ready::announce(server.address())?;
    run_until_signal(|stopping| async move { server.run(stopping).await.map_err(|error| error.refusal()) }).await
}

/// `sector gateway`.
pub(crate) async fn gateway(config: &Path) -> Result<(), Failure> {
    let settings = Checked::<GatewaySettings>::read(config)?;
    let mut server = gateway::GatewayServer::bind(&settings).await.map_err(|error| error.refusal())?;
    if let Some(file) = &settings.s3_profile {
        server = with_s3(server, Profile::load(file)?, settings.s3_domain.as_deref())?;
    }
    let rooms = dav_room(&server, &settings)?;
    ready::announce(server.url())?;
    run_until_signal(|stopping| async move {
        server.run(rooms, stopping).await;
        Ok(())
    })
    .await
}

/// Runs a role until it ends by itself, or until a signal asks it to stop and it has stopped in order.
async fn run_until_signal<F: Future<Output = Result<(), Refusal>>>(
    run: impl FnOnce(daemon::shutdown::ShutdownToken) -> F,
) -> Result<(), Failure> {
    processes::end_with_parent();
    show::mark_output();
    let mut signals = Signals::listen()?;
    let stop = TaskGroup::new();
    let role = run(stop.token());
    tokio::pin!(role);
    tokio::select! {
        ended = &mut role => return Ok(ended?),
        _ = signals.next() => stop.cancel(),
    }
    // A second signal ends it at once.
    tokio::select! {
        ended = role => Ok(ended?),
        _ = signals.next() => Err(Failure::failed("stopped before it had finished")),
    }
}
