//! The web door of a program that is a service: it listens as the command line says, and serves until it is
//! interrupted. It never announces itself: programs say in their own words where they are.

use std::{net::SocketAddr, path::PathBuf, time::Duration};

use axum::Router;
use clap::Args;
use client::{Client, Profile};
use daemon::{
    settings::{Checked, GatewaySettings},
    shutdown::{ShutdownToken, TaskGroup},
};
use gateway::GatewayServer;
use terminal::{Failure, Global, interrupted, say};
use vo::{
    Timestamp,
    uws::{Jobs, Service},
};

/// Where and how a program listens.
#[derive(Clone, Debug)]
pub struct Listen {
    /// Address and port. Port 0 takes any free one.
    pub listen: SocketAddr,
    /// Visitors without a login read what the program's user may read.
    pub public: bool,
    /// Its certificate.
    pub security: DoorSecurity,
}

/// How what passes a door is kept from others.
#[derive(Clone, Debug, Args)]
pub struct DoorSecurity {
    /// Its certificate, PEM
    #[arg(long, value_name = "FILE", requires = "key")]
    pub certificate: Option<PathBuf>,
    /// The private key of the certificate
    #[arg(long, value_name = "FILE", requires = "certificate")]
    pub key: Option<PathBuf>,
    /// Serve readable text beyond this machine too, for example behind a server that adds TLS
    #[arg(long)]
    pub insecure_http: bool,
}

/// Binds the port, for the cloud of this client.
///
/// # Errors
/// What is wrong with the settings, and what the port or a file of theirs is refused for.
pub async fn bind(cloud: &Client, listen: &Listen) -> Result<GatewayServer, Failure> {
    let profile = cloud.profile().clone();
    let settings = settings(listen, &profile)?;
    let public = listen.public.then(|| profile.clone());
    let server = GatewayServer::bind_as(&settings, profile.authority, public).await;
    Ok(server.map_err(|error| error.refusal())?)
}

/// Serves `rooms` beside the page until Ctrl-C, and does `work` meanwhile.
///
/// # Errors
/// If requests, or the work, do not end in time when it stops.
pub async fn serve<W: Future<Output = ()> + Send + 'static>(
    server: GatewayServer,
    rooms: Router,
    work: impl FnOnce(ShutdownToken) -> W,
    global: &Global,
) -> Result<(), Failure> {
    let tasks = TaskGroup::new();
    let stopping = tasks.token();
    tasks.spawn("web door", async move { server.run(rooms, stopping).await });
    tasks.spawn("its work", work(tasks.token()));
    let interruption = interrupted().await;
    if !global.quiet {
        say!("sector: stopping");
    }
    let stopped = tasks.finish(STOP_PATIENCE).await;
    stopped.map_err(|error| interruption.failure(error.to_string()))
}

/// Removes jobs whose time has come, until it is asked to stop.
pub async fn sweep<S: Service>(jobs: Jobs<S>, stopping: ShutdownToken) {
    while stopping.run_until_cancelled(tokio::time::sleep(SWEEP_PERIOD)).await.is_some() {
        jobs.sweep(Timestamp::now()).await;
    }
}

fn settings(listen: &Listen, profile: &Profile) -> Result<Checked<GatewaySettings>, Failure> {
    let mut table = toml::Table::new();
    table.insert("master".into(), profile.address.to_string().into());
    table.insert("listen".into(), listen.listen.to_string().into());
    let DoorSecurity { certificate, key, insecure_http } = &listen.security;
    table.insert("insecure_http".into(), (*insecure_http).into());
    for (name, file) in [("certificate", certificate), ("key", key)] {
        if let Some(file) = file {
            table.insert(name.into(), file.display().to_string().into());
        }
    }
    let settings: GatewaySettings = table.try_into().map_err(|error| Failure::usage(format!("{error}")))?;
    let here = std::env::current_dir().map_err(|error| Failure::failed(error.to_string()))?;
    Checked::of(settings, &here).map_err(|error| Failure::usage(error.to_string()))
}

/// How often it looks for jobs whose time has come.
const SWEEP_PERIOD: Duration = Duration::from_secs(60);
/// How long requests may take to end when it stops.
const STOP_PATIENCE: Duration = Duration::from_secs(5);
