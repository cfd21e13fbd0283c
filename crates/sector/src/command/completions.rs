//! `completions` and `man`: what shells and `man` want to know of the command line. Both are made from the parser, so
//! they never disagree with it.

use std::{fs, path::Path};

use clap::CommandFactory;
use clap_complete::Shell;
use terminal::{failure::Failure, show};

use crate::arguments::Arguments;

/// `sector completions`.
pub(crate) fn completions(shell: Shell) {
    let mut text = Vec::new();
    clap_complete::generate(shell, &mut Arguments::command(), "sector", &mut text);
    show::bytes(&text);
}

/// `sector man`.
pub(crate) fn manual(folder: &Path) -> Result<(), Failure> {
    let failed = |error| Failure::local("write manual pages to", folder, &error);
    fs::create_dir_all(folder).map_err(failed)?;
    clap_mangen::generate_to(Arguments::command().disable_help_subcommand(true), folder).map_err(failed)
}
