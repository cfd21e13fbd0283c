//! The audit record: who did what, from where, and how it ended. The master sends its events to the security server
//! (door 3), which keeps them as a chain of lines (`docs/formats-on-disk.md`). Administrators read it through the
//! master.
//!
//! An event never contains a secret: no password, no token, no key, no ticket.

use serde::{Deserialize, Serialize};

pub use super::request::AuditQuestion;
use crate::{UserName, access::user_rights::UserRights, ticket::TicketFault};

/// An event to be recorded.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AuditEvent {
    /// When it happened, in milliseconds since the Unix epoch, by the clock of the process that saw it.
    pub unix_millis: u64,
    /// What kind of thing.
    pub kind: AuditKind,
    /// Who: a user, a node, or a role of the cloud.
    pub who: String,
    /// From where: an address, or the node that reports it; empty where there is no such place.
    pub from: String,
    /// What was done or asked, in a few fixed words.
    pub what: String,
    /// To what: a path, a node, a user, a job; may be empty.
    pub object: String,
    /// How it ended.
    pub outcome: AuditOutcome,
    /// Why, or any other remark, in a sentence; may be empty.
    pub note: String,
}

/// What kind of thing an event is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum AuditKind {
    /// A user logged in, or a node joined; also where it was refused.
    Login,
    /// A user asked for something without the right to it.
    Refusal,
    /// A right, an account, an admission, a policy or a quota was given, changed or taken.
    Grant,
    /// An administrator acted on the cloud.
    Admin,
    /// A job was admitted, ended, was cancelled or given up.
    Job,
    /// A node refused a ticket.
    Ticket,
    /// About the record itself: a file was begun, events are missing.
    Record,
    /// A user removed, renamed or restored files, or emptied a trash.
    Removal,
}

/// How it ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum AuditOutcome {
    /// It was done, or begun.
    Done,
    /// It was refused.
    Refused,
    /// It failed.
    Failed,
}

/// The end of the record. With it one notices that lines before it were changed or cut off.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct AuditHead {
    /// Number of the last line; the first is 1, and 0 stands for none.
    pub number: u64,
    /// SHA-256 of the last line, as it stands in the line itself.
    pub hash: [u8; 32],
}

/// Events of one writer, in their order.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AuditBatch {
    /// A random number of this run of the master.
    pub writer: u64,
    /// The number of the first of these among the writer's events. Events that were recorded already are not recorded
    /// again.
    pub first: u64,
    /// At most [`BATCH_EVENTS_MAX`].
    pub events: Vec<AuditEvent>,
}

/// A request of the master about the record.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum AuditRequest {
    /// Record these; answered by [`AuditReply::Recorded`] once they are on the disk.
    Record(AuditBatch),
    /// Lines for an administrator: [`AuditReply::Page`].
    Show {
        /// Who asks.
        by: UserRights,
        /// Which lines.
        query: AuditQuery,
    },
    /// Check the whole chain for an administrator: [`AuditReply::Checked`].
    Verify {
        /// Who asks.
        by: UserRights,
        /// The head that the master was last told.
        head: Option<AuditHead>,
    },
}

/// Which lines are wanted.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct AuditQuery {
    /// Only lines behind this number: the last of the page before.
    pub after: u64,
    /// Only what happened at this time or later, in milliseconds since the Unix epoch.
    pub since_unix_millis: Option<u64>,
    /// Only what this user did.
    pub user: Option<UserName>,
}

/// What the security server answers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum AuditReply {
    /// The events are on the disk.
    Recorded(AuditHead),
    /// Lines.
    Page(AuditPage),
    /// The chain was read.
    Checked(AuditCheck),
}

/// A page of lines as they stand in the record.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AuditPage {
    /// The lines, oldest first, without their line ends.
    pub lines: Vec<String>,
    /// Number of the last line that was looked at.
    pub last: u64,
    /// Whether there may be further ones.
    pub more: bool,
}

/// What came of reading the whole chain.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AuditCheck {
    /// Number of the first line that is there: more than 1 where older files were taken away.
    pub first: u64,
    /// The last line of the chain as far as it is whole.
    pub head: AuditHead,
    /// Files read.
    pub files: u64,
    /// The first thing that is wrong.
    pub fault: Option<AuditFault>,
}

/// What is wrong with the record.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AuditFault {
    /// The file, by its name in the folder.
    pub file: String,
    /// The line within the file, from 1.
    pub line: u64,
    /// What is wrong with it, in a sentence.
    pub why: String,
}

/// Tickets that a node has refused, by fault; what is 0 need not be named.
pub type RefusedTickets = std::collections::BTreeMap<TicketFault, u64>;

/// Most events in one batch: at most some hundred kilobytes.
pub const BATCH_EVENTS_MAX: usize = 64;
/// Longest text of an event, in bytes; an object holds the longest path.
pub const TEXT_BYTES_MAX: usize = 3_600;
/// Bytes of lines in one page, after which it ends: half a message.
pub const PAGE_BYTES_MAX: usize = 512 * 1024;
/// Most lines searched for one page, so that no question holds up the record: some tens of milliseconds.
pub const PAGE_LINES_MAX: u64 = 100_000;

impl AuditEvent {
    /// An event with its texts cut to [`TEXT_BYTES_MAX`] each.
    #[must_use]
    pub fn clipped(mut self) -> Self {
        for text in [&mut self.who, &mut self.from, &mut self.what, &mut self.object, &mut self.note] {
            let mut end = text.len().min(TEXT_BYTES_MAX);
            while !text.is_char_boundary(end) {
                end -= 1;
            }
            text.truncate(end);
        }
        self
    }
}

impl AuditKind {
    /// All of them.
    pub const ALL: [Self; 8] =
        [Self::Login, Self::Refusal, Self::Grant, Self::Admin, Self::Job, Self::Ticket, Self::Record, Self::Removal];

    /// The word that stands in a line.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Login => "login",
            Self::Refusal => "refusal",
            Self::Grant => "grant",
            Self::Admin => "admin",
            Self::Job => "job",
            Self::Ticket => "ticket",
            Self::Record => "record",
            Self::Removal => "removal",
        }
    }
}

impl AuditOutcome {
    /// The word that stands in a line.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Done => "done",
            Self::Refused => "refused",
            Self::Failed => "failed",
        }
    }
}

impl AuditHead {
    /// The end of a record without lines.
    pub const EMPTY: Self = Self { number: 0, hash: [0; 32] };
}
