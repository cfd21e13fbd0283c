//! `session`: who is logged in where, and ending a session. It never shows a token.

use client::Client;
use serde::Serialize;
use terminal::{failure::Failure, show};

use crate::arguments::{Global, SessionCommand};

/// `sector session`.
pub(crate) async fn run(cloud: &Client, command: SessionCommand, global: &Global) -> Result<(), Failure> {
    match command {
        SessionCommand::List => list(cloud, global).await,
        SessionCommand::Revoke { session, user } => match (session, user) {
            (Some(session), _) => Ok(cloud.revoke_session(session).await?),
            (None, Some(user)) => Ok(cloud.revoke_sessions_of(&user).await?),
            (None, None) => Err(Failure::usage("say which session, or whose: --user NAME")),
        },
    }
}

async fn list(cloud: &Client, global: &Global) -> Result<(), Failure> {
    let time = if global.json { show::json_time } else { show::time };
    let sessions = cloud.sessions().await?.into_iter().map(|session| SessionView {
        session: session.session.to_string(),
        user: session.user.to_string(),
        machine: session.machine,
        address: session.address.to_string(),
        began: time(session.began_unix_millis),
        used: time(session.used_unix_millis),
        until: time(session.until_unix_millis),
    });
    if global.json {
        return show::json(&sessions.collect::<Vec<_>>());
    }
    let row = |session: SessionView| {
        let SessionView { session, user, machine, address, began, used, until } = session;
        vec![session, user, machine, address, began, used, until]
    };
    let rows: Vec<_> = sessions.map(row).collect();
    show::table(&["session", "user", "machine", "from", "began", "last used", "until"], &rows);
    Ok(())
}

#[derive(Serialize)]
struct SessionView {
    session: String,
    user: String,
    machine: String,
    address: String,
    began: String,
    used: String,
    until: String,
}
