//! Arguments of logging in.

use std::{net::SocketAddr, path::PathBuf};

use clap::Args;

/// `sector login`.
#[derive(Debug, Args)]
pub(crate) struct Login {
    /// Log in with a browser, at an OpenID Connect provider of the cloud
    #[arg(long, required = true)]
    pub(crate) oidc: bool,
    /// Which provider [default: the only one]
    #[arg(long, value_name = "NAME")]
    pub(crate) provider: Option<String>,
    /// The master's address [default: that of the profile]
    #[arg(long, value_name = "ADDRESS", requires = "authority")]
    pub(crate) master: Option<SocketAddr>,
    /// The certificate of the cloud's authority [default: that of the profile]
    #[arg(long, value_name = "FILE", requires = "master")]
    pub(crate) authority: Option<PathBuf>,
}
