//! Arguments of `sector top`. This file never draws.

use clap::{Args, ValueEnum};

#[derive(Clone, Copy, Debug, Args)]
pub(crate) struct TopArguments {
    /// What is shown first
    #[arg(value_enum, default_value_t)]
    pub(crate) pane: Pane,
    /// Print one screen as text, and end
    #[arg(long)]
    pub(crate) once: bool,
}

/// What one screen of it is about.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum Pane {
    /// The nodes by site, and how busy they are
    #[default]
    Nodes,
    /// Running jobs and the last ones
    Jobs,
    /// Background work that runs, is blocked or fails
    Work,
    /// Transfers between sites, and which of them wait for a limit
    Transfers,
    /// The links between sites: round trip, rate, loss, and which are slow
    Links,
}
