//! `profile`: clouds by name. It works without a cloud, and never prints a token.

use std::{
    fs,
    io::{self, Read},
    path::{Path, PathBuf},
};

use client::Profile;
use net::identity::fingerprint;
use protocol::Reason;
use serde::Serialize;
use terminal::{failure::Failure, session, show};

use crate::arguments::{Global, ProfileCommand};

/// `sector profile`.
pub(crate) fn run(command: ProfileCommand, global: &Global) -> Result<(), Failure> {
    match command {
        ProfileCommand::List => list(global),
        ProfileCommand::Use { name } => {
            Profile::use_named(&name)?;
            if !global.quiet && std::env::var_os("SECTOR_PROFILE").is_some() {
                terminal::say!("sector: $SECTOR_PROFILE is set, and stands above it");
            }
            Ok(())
        }
        ProfileCommand::Add { name, file, force } => add(&name, file, force, global),
        ProfileCommand::Remove { name } => remove(&name),
        ProfileCommand::Show { name } => show(name.as_deref(), global),
    }
}

fn list(global: &Global) -> Result<(), Failure> {
    let used = session::profile_file(global)?;
    let mut views = Vec::new();
    for name in Profile::names()? {
        views.push(ListedProfile::read(name, &used)?);
    }
    if global.json {
        return show::json(&views);
    }
    let rows: Vec<_> = views
        .into_iter()
        .map(|view| {
            let mark = if view.in_use { "*" } else { "" };
            let (user, address) = (view.user.unwrap_or_default(), view.address.unwrap_or(view.why));
            vec![mark.to_owned(), view.name, user, address, view.file.display().to_string()]
        })
        .collect();
    show::table(&["", "name", "user", "address", "file"], &rows);
    Ok(())
}

fn add(name: &str, file: Option<PathBuf>, force: bool, global: &Global) -> Result<(), Failure> {
    let target = Profile::named_file(name)?;
    if target.exists() && !force {
        let message = format!("there is a profile `{name}` already; replace it with --force");
        return Err(Failure::new(Reason::Exists, message));
    }
    let profile = match file {
        Some(file) if file == Path::new("-") => {
            let mut text = String::new();
            let read = io::stdin().lock().take(PROFILE_BYTES_MAX).read_to_string(&mut text);
            read.map_err(|error| Failure::failed(format!("cannot read standard input: {error}")))?;
            Profile::parse(&text).map_err(|why| Failure::usage(format!("standard input is no profile: {why}")))?
        }
        Some(file) => Profile::load(&file)?,
        None => session::profile(global)?,
    };
    Ok(profile.save(&target)?)
}

fn remove(name: &str) -> Result<(), Failure> {
    let file = Profile::named_file(name)?;
    if !file.exists() {
        return Err(Failure::new(Reason::NotFound, format!("there is no profile `{name}`; see `sector profile list`")));
    }
    if Profile::in_use()? == name {
        let message = format!("the profile `{name}` is in use; say first with `sector profile use` which shall be");
        return Err(Failure::new(Reason::InUse, message));
    }
    fs::remove_file(&file).map_err(|error| Failure::local("remove", &file, &error))
}

fn show(name: Option<&str>, global: &Global) -> Result<(), Failure> {
    let used = session::profile_file(global)?;
    let file = name.map_or_else(|| Ok(used.clone()), Profile::named_file)?;
    let profile = Profile::load(&file)?;
    let digest = fingerprint(&profile.authority).map_err(|error| Failure::from(error.refusal()))?;
    let view = ShownProfile {
        in_use: file == used,
        user: profile.user.to_string(),
        address: profile.address.to_string(),
        authority: digest.iter().map(|byte| format!("{byte:02x}")).collect(),
        session: profile.session.map(|session| session.to_string()),
        carrier: profile.carrier.name(),
        file,
    };
    if global.json {
        return show::json(&view);
    }
    for (name, value) in [
        ("file", view.file.display().to_string()),
        ("user", view.user),
        ("address", view.address),
        ("authority", view.authority),
        ("session", view.session.unwrap_or_else(|| "none: it holds a token of its own".into())),
        ("carrier", view.carrier.into()),
    ] {
        show::line(format!("{name:14} {value}"));
    }
    Ok(())
}

/// A profile in the list.
#[derive(Serialize)]
struct ListedProfile {
    name: String,
    in_use: bool,
    /// `None` where the file is no profile.
    user: Option<String>,
    address: Option<String>,
    file: PathBuf,
    /// Why the file is no profile.
    #[serde(skip)]
    why: String,
}

impl ListedProfile {
    fn read(name: String, used: &Path) -> Result<Self, Failure> {
        let file = Profile::named_file(&name)?;
        let in_use = file == used;
        Ok(match Profile::load(&file) {
            Ok(profile) => Self {
                user: Some(profile.user.to_string()),
                address: Some(profile.address.to_string()),
                why: String::new(),
                name,
                in_use,
                file,
            },
            // The others can still be used.
            Err(_) => Self { user: None, address: None, why: "is broken".into(), name, in_use, file },
        })
    }
}

/// What a profile says.
#[derive(Serialize)]
struct ShownProfile {
    file: PathBuf,
    in_use: bool,
    user: String,
    address: String,
    /// The fingerprint of the authority's certificate.
    authority: String,
    session: Option<String>,
    carrier: &'static str,
}

/// Most bytes that are read of standard input: a profile is some kilobytes.
const PROFILE_BYTES_MAX: u64 = 1 << 20;
