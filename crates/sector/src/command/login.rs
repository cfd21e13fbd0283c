//! `login --oidc`: shows where to log in with a browser, waits, and writes the profile.

use std::{fs, net::SocketAddr};

use client::{BrowserLogin, Profile};
use serde::Serialize;

use super::interrupted;
use crate::{
    arguments::{Global, Login},
    cloud::layout::write_private,
    failure::Failure,
    show,
};

/// `sector login --oidc`.
pub(crate) async fn log_in(login: Login, global: &Global) -> Result<(), Failure> {
    let file = match &global.profile {
        Some(file) => file.clone(),
        None => Profile::default_file()?,
    };
    let (address, authority) = cloud_of(&login, &file)?;
    let begun = BrowserLogin::begin(address, &authority, login.provider.as_deref()).await?;
    // To standard error, like every question to a person: standard output may be a program's.
    eprintln!("Open {} and enter the code {}", begun.url(), begun.user_code());
    if let Some(url) = begun.complete_url() {
        eprintln!("or open {url}");
    }
    let mut profile = tokio::select! {
        profile = begun.finish() => profile?,
        () = interrupted() => return Err(Failure::failed("interrupted; nobody is logged in")),
    };
    // What else the profile says stays.
    profile.over_network = Profile::load(&file).is_ok_and(|known| known.over_network);
    write_private(&file, profile.to_text().as_bytes())?;
    if global.json {
        return show::json(&View { user: profile.user.to_string(), profile: file.display().to_string() });
    }
    if !global.quiet {
        show::line(format!("logged in as {}", profile.user));
    }
    Ok(())
}

/// Where the cloud is and whom to trust: as named, else as the profile says.
fn cloud_of(login: &Login, file: &std::path::Path) -> Result<(SocketAddr, String), Failure> {
    if let (Some(address), Some(authority)) = (login.master, &login.authority) {
        let pem = fs::read_to_string(authority).map_err(|error| Failure::local("read", authority, &error))?;
        return Ok((address, pem));
    }
    let known = Profile::load(file).map_err(|error| {
        Failure::new(error.status(), format!("{error}; or name the cloud with `--master` and `--authority`"))
    })?;
    Ok((known.address, known.authority))
}

#[derive(Serialize)]
struct View {
    user: String,
    profile: String,
}
