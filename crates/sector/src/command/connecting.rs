//! How a command logs in with the profile that the user selected, and how its session ends. It never says what a
//! command does.

use std::str::FromStr;

use client::{Client, Profile};

use crate::{arguments::Global, failure::Failure};

/// Logs in with the profile that the user selected.
pub(crate) async fn connect(global: &Global) -> Result<Client, Failure> {
    connect_with(profile(global)?, global).await
}

/// Logs in with this profile.
pub(crate) async fn connect_with(mut profile: Profile, global: &Global) -> Result<Client, Failure> {
    profile.carrier = chosen(global.carrier, "SECTOR_CARRIER")?.unwrap_or(profile.carrier);
    profile.controller = chosen(global.controller, "SECTOR_CONTROLLER")?.or(profile.controller);
    Ok(Client::connect_with_peers(&profile, client::peers_file::load(&peers_file()?)).await?)
}

/// The value from the command line, else from the environment.
fn chosen<T: FromStr<Err = String>>(argument: Option<T>, variable: &str) -> Result<Option<T>, Failure> {
    match (argument, std::env::var(variable)) {
        (Some(argument), _) => Ok(Some(argument)),
        (None, Err(_)) => Ok(None),
        (None, Ok(text)) => text.parse().map(Some).map_err(|why| Failure::usage(format!("{variable}: {why}"))),
    }
}

/// Where commands store what they learn about the paths to nodes.
pub(super) fn peers_file() -> Result<std::path::PathBuf, Failure> {
    Ok(Profile::home()?.join("peers.toml"))
}

/// The profile that the user selected.
pub(super) fn profile(global: &Global) -> Result<Profile, Failure> {
    Ok(Profile::load(&profile_file(global)?)?)
}

/// The file of the profile that the user selected.
pub(super) fn profile_file(global: &Global) -> Result<std::path::PathBuf, Failure> {
    match &global.profile {
        Some(file) => Ok(file.clone()),
        None => Ok(Profile::default_file()?),
    }
}

/// Ends at Ctrl-C or SIGTERM.
pub(crate) async fn interrupted() {
    if let Err(error) = daemon::shutdown::on_signal().await {
        // Then the system's default handling of signals remains.
        tracing::warn!(%error, "cannot listen for Ctrl-C");
        std::future::pending::<()>().await;
    }
}

/// Ends a session. A master that no longer answers must not delay the command.
pub(crate) async fn end_session(cloud: &Client) {
    let _ = tokio::time::timeout(LOGOUT_DEADLINE, cloud.logout()).await;
}

/// The message of a command that a person stopped.
pub(super) const INTERRUPTED: &str = "interrupted; nothing half-done is visible";
/// How long the end of a session may take.
const LOGOUT_DEADLINE: std::time::Duration = std::time::Duration::from_secs(1);
