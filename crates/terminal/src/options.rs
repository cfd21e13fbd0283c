//! The options that every command of every program takes. This file never acts on them.

use std::{ffi::OsString, path::PathBuf};

use clap::Args;
use client::{CarrierChoice, ControllerKind};

/// What every command takes.
#[derive(Clone, Debug, Default, Args)]
#[command(next_help_heading = "Options of every command")]
pub struct Global {
    /// Use this profile, which says the cloud and the user: a name, or a file [default: $SECTOR_PROFILE, else the one in use]
    #[arg(long, global = true, value_name = "NAME")]
    pub profile: Option<PathBuf>,
    /// Transport of bytes to and from nodes: auto, tcp or quic [default: $SECTOR_CARRIER, else the profile's, else
    /// auto]
    #[arg(long, global = true, value_name = "CARRIER")]
    pub carrier: Option<CarrierChoice>,
    /// How QUIC decides how fast it sends: udt, bbr or cubic [default: $SECTOR_CONTROLLER, else the profile's, else ours]
    #[arg(long, global = true, value_name = "CONTROLLER")]
    pub controller: Option<ControllerKind>,
    /// Print one JSON document
    #[arg(long, global = true)]
    pub json: bool,
    /// Print nothing but results and errors
    #[arg(short, long, global = true)]
    pub quiet: bool,
    /// Say more on standard error; twice for still more
    #[arg(short, long, global = true, action = clap::ArgAction::Count)]
    pub verbose: u8,
}

impl Global {
    /// The same options as words of a command line.
    pub fn words(&self) -> Vec<OsString> {
        let mut words: Vec<OsString> = Vec::new();
        if let Some(profile) = &self.profile {
            words.extend(["--profile".into(), profile.into()]);
        }
        if let Some(carrier) = self.carrier {
            words.extend(["--carrier".into(), carrier.name().into()]);
        }
        if let Some(controller) = self.controller {
            words.extend(["--controller".into(), controller.name().into()]);
        }
        words.extend(self.json.then(|| "--json".into()));
        words.extend(self.quiet.then(|| "--quiet".into()));
        words.extend((0..self.verbose).map(|_| "--verbose".into()));
        words
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Program {
        #[command(flatten)]
        global: Global,
    }

    #[test]
    fn options_become_the_words_that_they_were_read_from() {
        let text = "--profile a.toml --carrier quic --controller bbr --json --quiet --verbose --verbose";
        let words: Vec<_> = text.split(' ').map(OsString::from).collect();
        let program = Program::try_parse_from([OsString::from("sector")].iter().chain(&words)).unwrap();
        assert_eq!(program.global.words(), words);
        assert_eq!(Program::try_parse_from(["sector"]).unwrap().global.words(), Vec::<OsString>::new());
    }
}
