//! `login`, `logout`, `whoami`: a session for a person at a machine (Sector/Sphere paper, 2.3). The password is given
//! once and never stored; what is stored is a token that expires.

use std::{fs, path::Path};

use client::{BrowserLogin, Client, LoginTarget, Profile};
use serde::Serialize;
use terminal::{failure::Failure, interrupted, session, show};

use super::password_input::PasswordInput;
use crate::arguments::{Global, Login};

/// `sector login`.
pub(crate) async fn login(asked: Login, global: &Global) -> Result<(), Failure> {
    let file = session::profile_file(global)?;
    let known = if file.exists() { Some(Profile::load(&file)?) } else { None };
    // Where most commands look, which may be another file.
    let usual = Profile::default_file().ok().and_then(|file| Profile::load(&file).ok());
    check_kept(&file, known.as_ref(), usual.as_ref())?;
    let kept = known.as_ref().map(|known| (known.over_network, known.carrier, known.controller)).unwrap_or_default();
    let (address, authority) = match (asked.master.clone(), &asked.authority, known.or(usual)) {
        (Some(address), Some(authority), _) => (address, read(authority)?),
        (_, _, Some(known)) => (known.address, known.authority),
        _ => {
            let message = "say which cloud: --master HOST:PORT and --authority FILE, its authority's certificate";
            return Err(Failure::usage(message));
        }
    };
    let machine = rustix::system::uname().nodename().to_string_lossy().into_owned();
    let at = LoginTarget { address, authority, machine };
    let profile = match asked.user {
        Some(user) => {
            let prompt = format!("Password of {user} at {}: ", at.address);
            let password = PasswordInput::open(asked.password_stdin)?.current_password(&prompt)?;
            client::login(&at, &user, password).await?
        }
        None => in_browser(at, asked.provider.as_deref()).await?,
    };
    let (over_network, carrier, controller) = kept;
    let profile = Profile { over_network, carrier, controller, ..profile };
    profile.save(&file)?;
    if global.json {
        let session = profile.session.map(|session| session.to_string());
        return show::json(&LoggedIn { user: profile.user.to_string(), session, profile: file.display().to_string() });
    }
    if !global.quiet {
        terminal::say!("sector: you are {} now; `{}` holds the session", profile.user, file.display());
    }
    Ok(())
}

/// Shows where to log in with a browser, and waits.
async fn in_browser(at: LoginTarget, provider: Option<&str>) -> Result<Profile, Failure> {
    let begun = BrowserLogin::begin(at, provider).await?;
    // To standard error, like every question to a person, even with `--quiet`: without it there is no login.
    terminal::say!("Open {} and enter the code {}", begun.url(), begun.user_code());
    if let Some(url) = begun.complete_url() {
        terminal::say!("or open {url}");
    }
    tokio::select! {
        profile = begun.finish() => Ok(profile?),
        signal = interrupted() => Err(signal.failure("interrupted; nobody is logged in")),
    }
}

/// `sector logout`. The profile stays for the next login; its token is invalid from now on.
pub(crate) async fn logout(cloud: &Client, global: &Global) -> Result<(), Failure> {
    let file = session::profile_file(global)?;
    let Some(session) = Profile::load(&file)?.session else {
        let message = format!("`{}` holds a token, not a session; `sector user token revoke` ends it", file.display());
        return Err(Failure::usage(message));
    };
    Ok(cloud.revoke_session(session).await?)
}

/// `sector whoami`.
pub(crate) async fn whoami(cloud: &Client, global: &Global) -> Result<(), Failure> {
    let you = cloud.who_am_i().await?;
    let session = Profile::load(&session::profile_file(global)?)?.session.map(|session| session.to_string());
    let until = you.until_unix_millis;
    if global.json {
        return show::json(&You {
            user: you.rights.user.to_string(),
            groups: you.rights.groups,
            admin: you.rights.admin,
            session,
            until: until.map(show::json_time),
        });
    }
    show::line(format!("user     {}", you.rights.user));
    show::line(format!(
        "groups   {}",
        if you.rights.groups.is_empty() { "-".into() } else { you.rights.groups.join(", ") }
    ));
    show::line(format!("admin    {}", if you.rights.admin { "yes" } else { "no" }));
    show::line(format!("session  {}", session.unwrap_or_else(|| "-".into())));
    show::line(format!("until    {}", until.map_or_else(|| "it is revoked".into(), show::time)));
    Ok(())
}

/// Refuses to replace a token that was created under a name and is stored nowhere else.
fn check_kept(file: &Path, known: Option<&Profile>, usual: Option<&Profile>) -> Result<(), Failure> {
    let Some(known) = known.filter(|known| known.session.is_none()) else { return Ok(()) };
    let is_usual = Profile::default_file().is_ok_and(|usual| is_same_file(&usual, file));
    if !is_usual && usual.is_some_and(|usual| usual.token == known.token) {
        return Ok(());
    }
    let (file, user) = (file.display(), &known.user);
    let message = format!("`{file}` holds a token of {user} that would be lost; name another file with --profile");
    Err(Failure::usage(message))
}

fn is_same_file(one: &Path, other: &Path) -> bool {
    match (fs::canonicalize(one), fs::canonicalize(other)) {
        (Ok(one), Ok(other)) => one == other,
        _ => one == other,
    }
}

fn read(file: &Path) -> Result<String, Failure> {
    fs::read_to_string(file).map_err(|error| Failure::local("read", file, &error))
}

#[derive(Serialize)]
struct LoggedIn {
    user: String,
    session: Option<String>,
    profile: String,
}

#[derive(Serialize)]
struct You {
    user: String,
    groups: Vec<String>,
    admin: bool,
    session: Option<String>,
    until: Option<String>,
}
