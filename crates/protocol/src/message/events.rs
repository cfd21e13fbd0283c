//! What happened in the cloud, as the master tells it: kinds, events, and pages of them (door 2). A new kind is one line in
//! [`EventKind`], where what is known of it fits the fields of [`CloudEvent`]. Serves the path *events*. It never decides who
//! may hear of what.

use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::{Digest, NodeId, SectorPath, UserName, Version};

/// The closed list of kinds, with all that is said of each.
macro_rules! event_kinds {
    ($($(#[doc = $says:literal])+ $variant:ident = $name:literal of $subject:ident, $fields:literal;)+) => {
        /// What kind of thing happened. The order is the wire format, and that of the journal: new ones go last.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        pub enum EventKind {
            $($(#[doc = $says])+ $variant,)+
        }

        impl EventKind {
            /// All of them, in the order of the list.
            pub const ALL: &'static [Self] = &[$(Self::$variant),+];

            /// Its name, which never changes.
            pub const fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $name,)+ }
            }

            /// What its subject is.
            pub const fn subject(self) -> EventSubject {
                match self { $(Self::$variant => EventSubject::$subject,)+ }
            }

            /// What it means, in one sentence.
            pub const fn meaning(self) -> &'static str {
                match self { $(Self::$variant => concat!($($says),+).trim_ascii(),)+ }
            }

            /// The fields that it has beside those of all events.
            pub const fn fields(self) -> &'static str {
                match self { $(Self::$variant => $fields,)+ }
            }
        }
    };
}

event_kinds! {
    /// A file was written where none was.
    FilePublished = "file_published" of Path, "user, version, bytes, digest";
    /// A file was written in the place of another content.
    FileReplaced = "file_replaced" of Path, "user, version, bytes, digest";
    /// A folder appeared with all that is in it: the output of a job.
    FolderPublished = "folder_published" of Path, "user, count, bytes";
    /// A file, or a folder with all in it, was removed: to the trash or for good.
    EntryRemoved = "entry_removed" of Path, "user, cause, count, bytes";
    /// A file, or a folder with all in it, has another path.
    EntryRenamed = "entry_renamed" of Path, "user, from, count, bytes";
    /// A file, or a folder with all in it, came back from the trash.
    EntryRestored = "entry_restored" of Path, "user, count, bytes";
    /// A copy of a file is corrupt, or gone from a node that is up.
    CopyLost = "copy_lost" of Path, "node, cause";
    /// A file that had lost a copy has all copies again; `/`: all files have them, after a lost node or disk.
    CopiesRestored = "copies_restored" of Path, "count";
    /// A node joined, for the first time or again.
    NodeJoined = "node_joined" of Node, "";
    /// A node was removed from the cloud.
    NodeLeft = "node_left" of Node, "user";
    /// A node is not heard of any more.
    NodeLost = "node_lost" of Node, "count";
    /// A node is being emptied, was emptied, or is to stay after all.
    NodeDraining = "node_draining" of Node, "state, user, count";
    /// A disk of a node has failed.
    DiskFailed = "disk_failed" of Node, "cause";
    /// A job was admitted.
    JobBegun = "job_begun" of Job, "user";
    /// A job has ended well.
    JobDone = "job_done" of Job, "user";
    /// A job has ended without its result, or was given up.
    JobFailed = "job_failed" of Job, "user, cause";
    /// A job was cancelled.
    JobCancelled = "job_cancelled" of Job, "user, cause";
    /// A write was refused for its quota, for the first time since the user last wrote a file.
    QuotaExceeded = "quota_exceeded" of Path, "user, cause";
    /// The cloud became healthy, or is not any more.
    HealthChanged = "health_changed" of Cloud, "state, cause, count";
    /// A node, disk or link is marked as slow, or counts as any other whatever is measured.
    MarkSet = "mark_set" of Mark, "state, cause, user";
    /// A node, disk or link is not marked any more.
    MarkCleared = "mark_cleared" of Mark, "user";
}

/// What an event is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EventSubject {
    /// A path: told to those who may read it.
    Path,
    /// A node: told to every user, as the list of nodes is.
    Node,
    /// A job: told to every user, as the list of jobs is.
    Job,
    /// The cloud as a whole: told to every user.
    Cloud,
    /// A node, disk or link, as `sector mark list` names it: told to every user, as that list is.
    Mark,
}

impl EventSubject {
    /// In a word.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Path => "path",
            Self::Node => "node",
            Self::Job => "job",
            Self::Cloud => "cloud",
            Self::Mark => "mark",
        }
    }
}

impl FromStr for EventKind {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        Self::ALL.iter().find(|kind| kind.as_str() == text).copied().ok_or_else(|| {
            let all: Vec<_> = Self::ALL.iter().map(|kind| kind.as_str()).collect();
            let shown: String = text.chars().take(80).flat_map(char::escape_debug).collect();
            format!("there is no kind of event `{shown}`; there are {}", all.join(", "))
        })
    }
}

/// One thing that happened. Which fields it has follows from its kind.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CloudEvent {
    /// Its number: larger than that of every event before, for ever. The next one has the next number.
    pub number: u64,
    /// When, by the master's clock, in milliseconds since the Unix epoch.
    pub unix_millis: u64,
    /// What.
    pub kind: EventKind,
    /// To what: a path, a node, a job, or `cloud`.
    pub subject: String,
    /// All else that is known of it.
    pub fields: EventFields,
}

/// What is known of an event beside kind and subject.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct EventFields {
    /// Who did it, or whose it is.
    pub user: Option<UserName>,
    /// The file's version.
    pub version: Option<Version>,
    /// Bytes of the file, or of all files in a folder.
    pub bytes: Option<u64>,
    /// The digest of the file's content.
    pub digest: Option<Digest>,
    /// The former path. Absent where the reader may not know it.
    pub from: Option<SectorPath>,
    /// The node of a copy.
    pub node: Option<NodeId>,
    /// Why, in a sentence or a word.
    pub cause: Option<String>,
    /// How many: files of a folder, copies of a node, or what is wrong.
    pub count: Option<u64>,
    /// The state from now on.
    pub state: Option<String>,
}

/// Some events, in order.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct EventPage {
    /// What happened before these and is not kept any more.
    pub gap: Option<EventGap>,
    /// Those that the user may hear of and asked for; at most [`EVENTS_PAGE_MAX`].
    pub events: Vec<CloudEvent>,
    /// The number up to which all has been looked at: the next page is what comes after it.
    pub last: u64,
    /// Whether the next page can be had at once.
    pub more: bool,
}

/// Events that a reader asked for and that are not kept any more, or that a lost journal has taken along.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct EventGap {
    /// The last number that the reader has seen; `None` where it asked by time.
    pub after: Option<u64>,
    /// The number of the first event that is kept.
    pub first: u64,
}

/// Most events of a page.
pub const EVENTS_PAGE_MAX: usize = 500;
/// Longest wait for an event, in milliseconds: half of the time after which a client gives up an answer.
pub const EVENTS_WAIT_MILLIS_MAX: u32 = 5_000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_has_a_name_of_its_own_that_leads_back_to_it() {
        for kind in EventKind::ALL {
            assert_eq!(kind.as_str().parse(), Ok(*kind));
            assert!(kind.as_str().bytes().all(|byte| byte == b'_' || byte.is_ascii_lowercase()), "{kind:?}");
            assert!(kind.meaning().ends_with('.'), "{kind:?} is said in one sentence");
        }
        assert!("file_publisht".parse::<EventKind>().is_err_and(|why| why.contains("file_published")));
    }
    #[test]
    fn the_table_in_the_docs_is_that_of_the_code() {
        let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/events.md");
        let page = std::fs::read_to_string(page).unwrap_or_default();
        let row = |kind: &EventKind| {
            let fields = kind.fields().split(", ").filter(|field| !field.is_empty());
            let fields: Vec<_> = fields.map(|field| format!("`{field}`")).collect();
            let (name, subject) = (kind.as_str(), kind.subject().as_str());
            format!("| `{name}` | {subject} | {} | {} |", kind.meaning(), fields.join(", "))
        };
        let expected: Vec<_> = EventKind::ALL.iter().map(row).collect();
        let head = "| kind | subject | it means | fields |\n|---|---|---|---|\n";
        let found: Vec<_> = page.split(head).nth(1).unwrap_or_default().lines().take(expected.len() + 1).collect();
        assert_eq!(found.join("\n"), expected.join("\n") + "\n", "the kinds of docs/events.md");
    }
}
