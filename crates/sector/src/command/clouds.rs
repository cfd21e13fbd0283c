//! The clouds of a command with a source and a destination (`cp`, `sync`): one, or two of which paths or options name
//! the profiles. It never copies anything itself.

use std::path::{Path, PathBuf};

use client::{Client, Profile, names::location::CloudName};
use protocol::HostAddress;
use terminal::{failure::Failure, session};

use super::transfer_limit;
use crate::arguments::{Global, TransferLimitArguments};

/// The sessions of a command. Both are the same one where source and destination lie in one cloud.
pub(crate) struct Clouds {
    from: Client,
    to: Client,
    is_one: bool,
}

/// Which cloud is meant.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) enum CloudChoice {
    /// That of the command.
    #[default]
    OfCommand,
    /// That of the profile of this name.
    Named(String),
    /// That of the master at this address, for which there is a profile.
    At(HostAddress),
    /// That of a profile that an option names, by its name or its file.
    Profile(PathBuf),
}

impl CloudChoice {
    /// The cloud that a path names.
    pub(crate) fn of(name: Option<CloudName>) -> Self {
        match name {
            None => Self::OfCommand,
            Some(CloudName::Profile(name)) => Self::Named(name),
            Some(CloudName::At(address)) => Self::At(address),
        }
    }

    fn profile_file(&self, global: &Global) -> Result<PathBuf, Failure> {
        match self {
            Self::OfCommand => session::profile_file(global),
            Self::Named(name) => Ok(Profile::named_file(name)?),
            Self::At(address) => Ok(Profile::file_at(address, &session::profile_file(global)?)?),
            Self::Profile(chosen) => Ok(Profile::chosen_file(chosen)?),
        }
    }
}

impl Clouds {
    /// Logs in where source and destination lie; both share the limit.
    pub(crate) async fn connect(
        from: &CloudChoice,
        to: &CloudChoice,
        limit: &TransferLimitArguments,
        global: &Global,
    ) -> Result<Self, Failure> {
        let (from, to) = (from.profile_file(global)?, to.profile_file(global)?);
        let is_one = from == to;
        // Both profiles are read before anything is done.
        let (there, here) = (Profile::load(&from)?, Profile::load(&to)?);
        let here = transfer_limit::throttled(&log_in(here, &to, is_one, global).await?, limit)?;
        if is_one {
            return Ok(Self { from: here.clone(), to: here, is_one });
        }
        match log_in(there, &from, is_one, global).await {
            Ok(there) => Ok(Self { from: there.throttled(here.throttle().clone()), to: here, is_one }),
            Err(failure) => {
                session::end_session(&here).await;
                Err(failure)
            }
        }
    }

    /// The clients of source and destination.
    pub(crate) fn pair(&self) -> (Client, Client) {
        (self.from.clone(), self.to.clone())
    }

    /// Runs the command until it ends or is interrupted, and ends the sessions.
    pub(crate) async fn run(self, command: impl Future<Output = Result<(), Failure>>) -> Result<(), Failure> {
        let result = tokio::select! {
            result = command => result,
            signal = terminal::interrupted() => Err(signal.failure(INTERRUPTED)),
        };
        if !self.is_one {
            session::end_session(&self.from).await;
        }
        session::close(&self.to).await;
        result
    }
}

/// Logs in. Where there are two clouds, each is called by the name of its profile.
async fn log_in(profile: Profile, file: &Path, is_one: bool, global: &Global) -> Result<Client, Failure> {
    let connected = session::connect_with(profile, global).await;
    if is_one {
        return connected;
    }
    let name = Profile::shown_file(file);
    match connected {
        Ok(cloud) => Ok(cloud.named(&name)),
        Err(mut failure) => {
            failure.message = format!("in the cloud `{name}`: {}", failure.message);
            Err(failure)
        }
    }
}

/// The message of a command that a person stopped.
pub(super) const INTERRUPTED: &str = "interrupted; nothing half-done is visible";
