//! Arguments for what is marked as slow. This file never asks for a mark, and never sets one.

use clap::{Args, Subcommand};
use protocol::message::marks::MarkSubject;

#[derive(Clone, Debug, Subcommand)]
pub(crate) enum MarkCommand {
    /// What is marked, why, and until when
    #[command(after_help = "Example: sector mark list")]
    List,
    /// Mark something as slow until you clear it: it is used less
    #[command(after_help = "Example: sector mark add disk node-3 /srv/disk-2 --reason 'it rattles'")]
    Add(MarkDecision),
    /// Take a mark away, or what was decided about it; it may be measured again
    #[command(after_help = "Example: sector mark clear node node-3")]
    Clear(MarkedThing),
    /// Use something like any other, whatever is measured, until you clear that
    #[command(after_help = "Example: sector mark ignore link jhu uic --reason 'a thin line, as agreed'")]
    Ignore(MarkDecision),
}

#[derive(Clone, Debug, Args)]
pub(crate) struct MarkedThing {
    /// `node NODE`, `disk NODE FOLDER` or `link SITE SITE`
    #[arg(required = true, num_args = 2..=3, value_name = "WHAT")]
    words: Vec<String>,
}

#[derive(Clone, Debug, Args)]
pub(crate) struct MarkDecision {
    #[command(flatten)]
    pub(crate) thing: MarkedThing,
    /// Why, for others who look at the list
    #[arg(long, default_value = "", hide_default_value = true, value_name = "TEXT")]
    pub(crate) reason: String,
}

impl MarkedThing {
    /// What it names; otherwise a sentence.
    pub(crate) fn subject(&self) -> Result<MarkSubject, String> {
        MarkSubject::of_words(&self.words.iter().map(String::as_str).collect::<Vec<_>>())
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn subject(words: &str) -> Result<String, String> {
        let words = words.split(' ').map(str::to_owned).collect();
        MarkedThing { words }.subject().map(|subject| subject.to_string())
    }

    #[test]
    fn a_node_a_disk_or_a_link_can_be_marked_and_nothing_else() {
        assert_eq!(subject("node n1").unwrap(), "node n1");
        assert_eq!(subject("disk n1 /srv/a").unwrap(), "disk n1 /srv/a");
        assert_eq!(subject("link uic jhu").unwrap(), "link jhu uic", "whichever way");
        for wrong in ["node", "disk n1", "link a", "rack r1", "node n1 x", "node a/b"] {
            assert!(subject(wrong).is_err(), "{wrong}");
        }
        let disk = MarkSubject::of_words(&["disk", "n1", "/srv/a b"]).unwrap();
        assert_eq!((disk.kind(), disk.names()), ("disk", vec!["n1".to_owned(), "/srv/a b".to_owned()]));
    }
}
