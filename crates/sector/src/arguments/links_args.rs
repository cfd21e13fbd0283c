//! Arguments for what goes over the links between sites. This file never asks for it.

use clap::Args;

use super::load_args::seconds;

#[derive(Clone, Debug, Args)]
pub(crate) struct Links {
    /// The site that sends, of one link over time, instead of all links at one moment
    #[arg(requires = "to")]
    pub(crate) from: Option<String>,
    /// The site that receives
    pub(crate) to: Option<String>,
    /// All links at an earlier moment: so long ago, such as 10m; a day is kept
    #[arg(long, value_name = "TIME", value_parser = seconds, conflicts_with = "from")]
    pub(crate) ago: Option<u32>,
    /// How far back, of a link: such as 1h; at most a day [default: 1m]
    #[arg(long, value_name = "TIME", value_parser = seconds, requires = "to")]
    pub(crate) last: Option<u32>,
}
