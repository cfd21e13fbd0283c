//! What goes into the master's rules and what comes out of them, for every path. The file only defines types and never
//! decides anything.

use std::net::{IpAddr, SocketAddr};

use protocol::{
    JobId, NodeId, Place, Refusal, SessionId, Topology,
    message::{
        audit::{AuditBatch, AuditHead},
        client_master::{ClientReply, ClientRequest},
        master_security::{KnownUser, SecurityReply, SecurityRequest},
        node_master::{Ack, Order, Report},
        work::WorkItem,
    },
    ticket::HolderKey,
};
use store::RowChange;

/// What the master wants done. Actions are performed in the order in which they are polled, with one exception. A
/// [`Save`](Self::Save) may still be on its way to the disk while later actions are performed. That is safe: every
/// reply and every order that depends on a batch is given out only after [`MasterCompletion::Saved`] for it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MasterAction {
    /// Make these rows durable, in order with other batches (several may share one transaction). Then complete with
    /// [`MasterCompletion::Saved`]. If that fails for good, the master must stop: its memory is ahead of its disk.
    Save {
        /// Which batch; counts up.
        batch: BatchId,
        /// The rows.
        changes: Vec<RowChange>,
    },
    /// Answer a client.
    Reply {
        /// The receiver.
        to: SessionCaller,
        /// The answer.
        reply: ClientReply,
    },
    /// Answer a node's report.
    Ack {
        /// The receiver.
        to: SessionCaller,
        /// The answer.
        ack: Ack,
    },
    /// Give a node an order. Complete with [`MasterCompletion::OrderFinished`], even if no answer comes.
    Order {
        /// The node's session.
        session: SessionId,
        /// Identifies the order in its completion.
        order: OrderId,
        /// The order.
        body: Order,
    },
    /// Ask the security server. Complete with [`MasterCompletion::SecurityAnswered`], even if it cannot be reached.
    AskSecurity {
        /// The caller who asked; named in the completion.
        to: SessionCaller,
        /// The question.
        request: SecurityRequest,
    },
    /// Send these events to the security server. Complete with [`MasterCompletion::AuditSent`], even if it cannot be
    /// reached. One batch at a time.
    SendAudit(AuditBatch),
    /// Read the topology file and complete with [`MasterCompletion::TopologyRead`].
    ReadTopology {
        /// The caller who asked; named in the completion.
        to: SessionCaller,
    },
    /// Say what the server around the rules does in the background: [`MasterCompletion::WorkRead`].
    ReadWork {
        /// The caller who asked; named in the completion.
        to: SessionCaller,
        /// The last node of the page before; named in the completion.
        after: Option<NodeId>,
    },
    /// Say what the master counts: [`MasterCompletion::MetricsRead`].
    ReadMetrics {
        /// The caller who asked; named in the completion.
        to: SessionCaller,
    },
    /// Forget a session's keys: its peer logged out, was lost or came back under another session. Replies polled before
    /// this one are still sent.
    CloseSession(SessionId),
}

/// What the server around the rules has finished.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MasterCompletion {
    /// This batch and every earlier one are durable.
    Saved {
        /// The newest durable batch.
        batch: BatchId,
    },
    /// An order was answered, or given up.
    OrderFinished {
        /// Which.
        order: OrderId,
        /// How it ended.
        outcome: OrderOutcome,
    },
    /// The security server answered, or could not be reached.
    SecurityAnswered {
        /// The caller who asked.
        to: SessionCaller,
        /// The answer. A refusal here is the master's own, for a question that was not answered.
        reply: Result<SecurityReply, Refusal>,
    },
    /// The events are in the audit record, whose new end is given; or they could not be sent.
    AuditSent(Result<AuditHead, Refusal>),
    /// The topology file was read, because someone asked for it or because it has changed.
    TopologyRead {
        /// The caller who asked for it.
        to: Option<SessionCaller>,
        /// Its content, or what is wrong with it.
        topology: Result<Topology, Refusal>,
    },
    /// What the server around the rules does in the background.
    WorkRead {
        /// The caller who asked.
        to: SessionCaller,
        /// The last node of the page before.
        after: Option<NodeId>,
        /// Its rows.
        own: Vec<WorkItem>,
    },
    /// What the master counts.
    MetricsRead {
        /// The caller who asked.
        to: SessionCaller,
        /// In the text format of Prometheus.
        text: String,
    },
}

/// How an order ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OrderOutcome {
    /// The node answered.
    Answered(Ack),
    /// No answer came before the deadline, or the session was lost.
    Unanswered,
}

/// What arrives in a session. The session's [`Peer`](crate::Peer) decides which of the two it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MasterMessage {
    /// From a client.
    Client(ClientRequest),
    /// From a node.
    Node(Report),
}

/// Who sent a message, and the key under which the answer goes back.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SessionCaller {
    /// The session.
    pub session: SessionId,
    /// The request's number in that session; `None` for a notice, which is not answered.
    pub request: Option<u64>,
}

/// Counts batches of rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct BatchId(pub u64);

/// Counts orders.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct OrderId(pub u64);

/// A client that was let in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClientJoin {
    /// The user, as the security server knows them.
    pub user: KnownUser,
    /// The address the client came from.
    pub address: IpAddr,
    /// The key that its tickets must name.
    pub holder: HolderKey,
    /// The address from which the user proved their identity. It differs for a driver, which joins on the user's
    /// behalf.
    pub proved_from: IpAddr,
    /// The job that it drives for its user, if it was let in as a driver.
    pub drives: Option<JobId>,
}

/// A node that was let in, as it described itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeJoin {
    /// Its name, as its certificate proved it.
    pub node: NodeId,
    /// Where it stands.
    pub place: Place,
    /// Its transfer address.
    pub transfer: SocketAddr,
    /// SPEs it can run at once.
    pub spe_slots: u32,
    /// Its process id.
    pub pid: u32,
    /// Its data folder.
    pub folder: String,
    /// Name of its local socket.
    pub local: Option<String>,
    /// The address it joined from.
    pub address: IpAddr,
}

/// A row as found in the journal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredRow {
    /// The table, one of [`TABLES`].
    pub table: &'static str,
    /// The key.
    pub key: Vec<u8>,
    /// The value.
    pub value: Vec<u8>,
}

/// Table of files and folders, by [`FileId`](protocol::FileId).
pub(crate) const NAMES_TABLE: &str = "names";
/// Table of jobs, by [`JobId`](protocol::JobId).
pub(crate) const JOBS_TABLE: &str = "jobs";
/// Table of the outcomes of jobs' attempts, by [`JobId`](protocol::JobId).
pub(crate) const HISTORIES_TABLE: &str = "histories";
/// Table of what jobs' functions printed, by [`JobId`](protocol::JobId) and a number that counts up.
pub(crate) const LOGS_TABLE: &str = "logs";
/// Table of nodes, by [`NodeId`].
pub(crate) const NODES_TABLE: &str = "nodes";
/// Table of policies, by [`FileId`](protocol::FileId).
pub(crate) const POLICIES_TABLE: &str = "policies";
/// Table of entries in the trash, by [`FileId`](protocol::FileId).
pub(crate) const TRASH_TABLE: &str = "trash";
/// Table of users' quotas, by [`UserName`](protocol::UserName).
pub(crate) const QUOTAS_TABLE: &str = "quotas";
/// Table of the journal's own id and state.
pub(crate) const JOURNAL_TABLE: &str = "journal";
/// Table of the nodes that have ever reported an inventory, by name.
pub(crate) const MEMBERS_TABLE: &str = "members";
/// Table of removals that nodes missed, by slice.
pub(crate) const REMOVED_TABLE: &str = "removed";
/// Table of outdated paths: nodes hold files under them that have other paths by now. By slice.
pub(crate) const OUTDATED_TABLE: &str = "outdated";
/// Table of slices in doubt, by slice.
pub(crate) const CONFLICTS_TABLE: &str = "conflicts";
/// Table of the changes that this journal, and those before it, counted.
pub(crate) const LINEAGE_TABLE: &str = "lineage";
/// Table of one row: the largest version of a file that was removed.
pub(crate) const VERSIONS_TABLE: &str = "versions";
/// Table of one row: the time of the wall clock when it was last trusted.
pub(crate) const CLOCK_TABLE: &str = "clock";
/// Table of the answers of changes that are made once, by a number that counts up.
pub(crate) const ANSWERS_TABLE: &str = "answers";
/// Table of what is marked as slow.
pub(crate) const MARKS_TABLE: &str = "marks";
/// Table of events, by their places in the ring of those that are kept.
pub(crate) const EVENTS_TABLE: &str = "events";
/// All tables, in the order in which they are loaded.
pub const TABLES: [&str; 19] = [
    NAMES_TABLE,
    JOBS_TABLE,
    NODES_TABLE,
    POLICIES_TABLE,
    TRASH_TABLE,
    QUOTAS_TABLE,
    JOURNAL_TABLE,
    MEMBERS_TABLE,
    REMOVED_TABLE,
    OUTDATED_TABLE,
    CONFLICTS_TABLE,
    VERSIONS_TABLE,
    HISTORIES_TABLE,
    LINEAGE_TABLE,
    CLOCK_TABLE,
    ANSWERS_TABLE,
    LOGS_TABLE,
    MARKS_TABLE,
    EVENTS_TABLE,
];
