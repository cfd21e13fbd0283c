//! The session of a command: it logs in with the profile that the user selected, and ends with the command. What it
//! learned of the paths to nodes is kept for the next one. It never asks for a password.

use std::{
    path::PathBuf,
    str::FromStr,
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};

use client::{
    Client, Profile, peers_file,
    session::delay::{Delay, DelayTold, TOLD_AFTER},
};

use crate::{Failure, Global, sanitize, say};

/// Logs in with the profile that the user selected.
///
/// # Errors
/// When there is no such profile, or the login fails.
pub async fn connect(global: &Global) -> Result<Client, Failure> {
    connect_with(profile(global)?, global).await
}

/// Logs in with this profile.
///
/// # Errors
/// When the login fails.
pub async fn connect_with(mut profile: Profile, global: &Global) -> Result<Client, Failure> {
    profile.carrier = chosen(global.carrier, "SECTOR_CARRIER")?.unwrap_or(profile.carrier);
    profile.controller = chosen(global.controller, "SECTOR_CONTROLLER")?.or(profile.controller);
    // In boxes, like all that is waited for twice: such frames would lie on one stack with those of the command.
    let mut connecting = Box::pin(Client::connect_with_peers(&profile, peers_file::load(&learned_peers()?)));
    let connected = match tokio::time::timeout(TOLD_AFTER, &mut connecting).await {
        Ok(connected) => connected,
        Err(_) => {
            if !global.quiet {
                say!("sector: waiting: the master at {} does not answer", profile.address);
            }
            connecting.await
        }
    };
    Ok(connected?.telling(delays_told(global.quiet)))
}

/// Says what a command waits for: at once, and then now and then.
fn delays_told(is_quiet: bool) -> DelayTold {
    let last = Mutex::<Option<Instant>>::default();
    Arc::new(move |delay: &Delay| {
        let mut last = last.lock().unwrap_or_else(PoisonError::into_inner);
        if is_quiet || last.is_some_and(|last| last.elapsed() < TOLD_PERIOD) {
            return;
        }
        *last = Some(Instant::now());
        say!("sector: waiting: {}; for {} s at most", sanitize(&delay.what), delay.at_most.as_secs().max(1));
    })
}

/// Ends a command's session and keeps what it learned. Nothing here makes the command fail.
pub async fn close(cloud: &Client) {
    end_session(cloud).await;
    if let Ok(file) = learned_peers()
        && let Err(error) = peers_file::save(&file, &cloud.cached_peers())
    {
        tracing::info!(file = %file.display(), %error, "what was learned of the ways to nodes is not kept");
    }
}

/// Ends a session. A master that no longer answers must not delay the command.
pub async fn end_session(cloud: &Client) {
    let _ = tokio::time::timeout(LOGOUT_DEADLINE, cloud.logout()).await;
}

/// The profile that the user selected.
///
/// # Errors
/// When it cannot be read.
pub fn profile(global: &Global) -> Result<Profile, Failure> {
    Ok(Profile::load(&profile_file(global)?)?)
}

/// The file of the profile that the user selected.
///
/// # Errors
/// When none was selected, and there is no home for one.
pub fn profile_file(global: &Global) -> Result<PathBuf, Failure> {
    match &global.profile {
        Some(chosen) => Ok(Profile::chosen_file(chosen)?),
        None => Ok(Profile::default_file()?),
    }
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
fn learned_peers() -> Result<PathBuf, Failure> {
    Ok(Profile::home()?.join("peers.toml"))
}

/// Of many files that wait, one speaks, and not all the time.
const TOLD_PERIOD: Duration = Duration::from_secs(10);
/// How long the end of a session may take.
const LOGOUT_DEADLINE: Duration = Duration::from_secs(1);
