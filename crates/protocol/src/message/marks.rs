//! Marks: nodes, disks and links that deliver far less than their peers, and why the master thinks so. (Open Cloud
//! Testbed paper, section 3: slow nodes and links are found and removed.) Nodes send the evidence (door 4); users see
//! the marks, and administrators overrule them (door 2). A mark never makes anything unavailable.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::{JobId, NodeId, UserName};

/// What can be marked.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum MarkSubject {
    /// A node.
    Node(NodeId),
    /// A disk of a node.
    Disk {
        /// The node.
        node: NodeId,
        /// Its data folder there.
        folder: String,
    },
    /// The link between two sites, whichever way; see [`link`](Self::link).
    Link {
        /// The site whose name comes first.
        a: String,
        /// The other one.
        b: String,
    },
}

impl MarkSubject {
    /// The link between two sites; their order does not matter.
    pub fn link(a: impl Into<String>, b: impl Into<String>) -> Self {
        let (a, b) = (a.into(), b.into());
        if a <= b { Self::Link { a, b } } else { Self::Link { a: b, b: a } }
    }

    /// What `sector mark` and Python's marks name with these words: `node NODE`, `disk NODE FOLDER` or `link SITE SITE`.
    ///
    /// # Errors
    /// A sentence that says how to name something.
    pub fn of_words(words: &[&str]) -> Result<Self, String> {
        let node = |name: &str| name.parse::<NodeId>().map_err(|error| format!("`{name}` is no node: {error}"));
        match *words {
            ["node", name] => Ok(Self::Node(node(name)?)),
            ["disk", name, folder] => Ok(Self::Disk { node: node(name)?, folder: folder.to_owned() }),
            ["link", a, b] => Ok(Self::link(a, b)),
            _ => Err(format!(
                "`{}` is nothing to mark: write `node NODE`, `disk NODE FOLDER` or `link SITE SITE`",
                words.join(" ")
            )),
        }
    }

    /// What stands after its kind in those words.
    pub fn names(&self) -> Vec<String> {
        match self {
            Self::Node(node) => vec![node.to_string()],
            Self::Disk { node, folder } => vec![node.to_string(), folder.clone()],
            Self::Link { a, b } => vec![a.clone(), b.clone()],
        }
    }

    /// What kind of thing it is.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Node(_) => "node",
            Self::Disk { .. } => "disk",
            Self::Link { .. } => "link",
        }
    }
}

impl fmt::Display for MarkSubject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Node(node) => write!(f, "node {node}"),
            Self::Disk { node, folder } => write!(f, "disk {node} {folder}"),
            Self::Link { a, b } => write!(f, "link {a} {b}"),
        }
    }
}

/// What a mark does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum MarkState {
    /// It is used less than its peers.
    Slow,
    /// An administrator has said that it counts as any other, whatever is measured.
    Ignored,
}

impl MarkState {
    /// Its name, for people and programs.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Slow => "slow",
            Self::Ignored => "ignored",
        }
    }
}

/// One mark.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Mark {
    /// What is marked.
    pub subject: MarkSubject,
    /// What it does.
    pub state: MarkState,
    /// The administrator who set it; `None` where it was measured.
    pub by: Option<UserName>,
    /// Why, in a sentence.
    pub reason: String,
    /// Since when, in milliseconds since the Unix epoch.
    pub since_unix_millis: u64,
    /// When it ends without further evidence; `None` where an administrator has set it.
    pub expires_unix_millis: Option<u64>,
}

/// What an administrator does about a mark.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum MarkChange {
    /// Marks something as slow, for this reason, until the mark is cleared.
    Add(String),
    /// Takes the mark away, and what was decided about it. It may be measured again.
    Clear,
    /// Lets it count as any other, for this reason, until that is cleared.
    Ignore(String),
}

impl MarkChange {
    /// What is done, for people.
    pub fn verb(&self) -> &'static str {
        match self {
            Self::Add(_) => "add mark",
            Self::Clear => "clear mark",
            Self::Ignore(_) => "ignore marks of",
        }
    }
}

/// What a node has to say about slowness, after a status in which there is something. It never says that something is
/// slow: that shows only beside its peers.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct EvidenceReport {
    /// What its SPEs have done over bytes of its own since the last such report; at most [`STAGES_MAX`].
    pub stages: Vec<StageWork>,
    /// Sites to which the network held up what the node sent, all through the last second; at most
    /// [`LINK_SITES_MAX`](super::links::LINK_SITES_MAX).
    pub full_links: Vec<String>,
}

/// What a node's SPEs have done of one stage: tasks all of whose bytes were on the node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StageWork {
    /// The job.
    pub job: JobId,
    /// The stage.
    pub stage: u32,
    /// Bytes that they read.
    pub bytes: u64,
    /// How long SPEs worked on them, added up, in microseconds.
    pub busy_micros: u64,
}

/// Most stages of one report: more do not run at a node in a second.
pub const STAGES_MAX: usize = 64;
/// Longest reason that an administrator may give, in bytes.
pub const REASON_BYTES_MAX: usize = 512;
