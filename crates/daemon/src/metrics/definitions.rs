//! All metrics, in one place: names, units, labels, help. `docs/metrics.md` is made from this table. A name is stable:
//! it is never removed or given another meaning except with a major version.

use super::metric::{
    Metric,
    MetricKind::{Counter, Gauge},
    MetricRole::{Gateway, Master, Node, Security},
    MetricUnit::{Bytes, Ratio, Seconds},
};

/// All of them, in the order of the page.
pub static METRICS: &[&Metric] = &[
    &MASTER_REQUESTS,
    &MASTER_SESSIONS,
    &MASTER_LEASES,
    &MASTER_NAMES,
    &MASTER_FILES,
    &MASTER_FILES_UNHEALTHY,
    &MASTER_CORRUPT_COPIES,
    &MASTER_COPIES_MADE,
    &MASTER_COPIES_RUNNING,
    &MASTER_ORDERS,
    &MASTER_NODES,
    &MASTER_JOBS_RUNNING,
    &MASTER_TRASH_ENTRIES,
    &MASTER_AUDIT_WAITING,
    &MASTER_MARKS,
    &MASTER_EVENTS,
    &MASTER_EVENT_FOLLOWERS,
    &MASTER_EVENT_GAPS,
    &MASTER_REBUILD_RUNNING,
    &MASTER_REBUILD_NODES_MISSING,
    &JOURNAL_SAVES,
    &JOURNAL_SAVE_SECONDS,
    &JOURNAL_ROWS,
    &WORK_FAILING,
    &GMP_MESSAGES,
    &GMP_DATAGRAMS_DROPPED,
    &GMP_DATAGRAMS_RETRANSMITTED,
    &NODE_CARRIED,
    &NODE_TRANSFERS,
    &NODE_SPES,
    &NODE_SLICES,
    &NODE_DISKS,
    &NODE_DISK_USED,
    &NODE_DISK_FREE,
    &NODE_SCRUB_CHECKED,
    &NODE_SCRUB_TOTAL,
    &NODE_SCRUB_CORRUPT,
    &NODE_TICKETS_REFUSED,
    &MACHINE_PROCESSOR,
    &MACHINE_MEMORY,
    &MACHINE_NETWORK,
    &NODE_PROCESSOR,
    &NODE_MEMORY,
    &NODE_DISK_BYTES,
    &NODE_DISK_BUSY,
    &NODE_DISK_LATENCY,
    &NODE_DISK_QUEUE,
    &NODE_LINK_BYTES,
    &NODE_LINK_PACKETS,
    &NODE_LINK_RETRANSMITTED,
    &NODE_LINK_ROUND_TRIP,
    &SECURITY_QUESTIONS,
    &SECURITY_CERTIFICATES,
    &GATEWAY_REQUESTS,
    &GATEWAY_CONNECTIONS,
    &GATEWAY_SESSIONS,
    &GATEWAY_EVENT_STREAMS,
    &GATEWAY_WEBHOOK_MESSAGES,
];

#[allow(missing_docs)] // Its help says it.
pub static MASTER_REQUESTS: Metric = Metric {
    name: "sector_master_requests_total",
    kind: Counter,
    unit: None,
    labels: &["request", "outcome"],
    help: "Requests of clients that were answered, by name; the outcome is `done` or the kind of refusal.",
    roles: &[Master],
};

#[allow(missing_docs)] // Its help says it.
pub static MASTER_SESSIONS: Metric = Metric {
    name: "sector_master_sessions",
    kind: Gauge,
    unit: None,
    labels: &[],
    help: "Sessions of clients that are open.",
    roles: &[Master],
};

#[allow(missing_docs)] // Its help says it.
pub static MASTER_LEASES: Metric = Metric {
    name: "sector_master_leases",
    kind: Gauge,
    unit: None,
    labels: &[],
    help: "Files that clients are writing.",
    roles: &[Master],
};

#[allow(missing_docs)] // Its help says it.
pub static MASTER_NAMES: Metric = Metric {
    name: "sector_master_names",
    kind: Gauge,
    unit: None,
    labels: &["kind"],
    help: "Files and folders that have a name.",
    roles: &[Master],
};

#[allow(missing_docs)] // Its help says it.
pub static MASTER_FILES: Metric = Metric {
    name: "sector_master_files_bytes",
    kind: Gauge,
    unit: Some(Bytes),
    labels: &[],
    help: "Bytes of all files, each counted once.",
    roles: &[Master],
};

#[allow(missing_docs)] // Its help says it.
pub static MASTER_FILES_UNHEALTHY: Metric = Metric {
    name: "sector_master_files_unhealthy",
    kind: Gauge,
    unit: None,
    labels: &["problem"],
    help: "Files with fewer copies than wanted, without any, with misplaced ones, or that want more than there are nodes for.",
    roles: &[Master],
};

#[allow(missing_docs)] // Its help says it.
pub static MASTER_CORRUPT_COPIES: Metric = Metric {
    name: "sector_master_corrupt_copies",
    kind: Gauge,
    unit: None,
    labels: &[],
    help: "Copies found corrupt and not yet replaced.",
    roles: &[Master],
};

#[allow(missing_docs)] // Its help says it.
pub static MASTER_COPIES_MADE: Metric = Metric {
    name: "sector_master_copies_made_total",
    kind: Counter,
    unit: None,
    labels: &[],
    help: "Copies that nodes have made for repair, drain and rebalance.",
    roles: &[Master],
};

#[allow(missing_docs)] // Its help says it.
pub static MASTER_COPIES_RUNNING: Metric = Metric {
    name: "sector_master_copies_running",
    kind: Gauge,
    unit: None,
    labels: &[],
    help: "Copies that nodes are making.",
    roles: &[Master],
};

#[allow(missing_docs)] // Its help says it.
pub static MASTER_ORDERS: Metric = Metric {
    name: "sector_master_orders",
    kind: Gauge,
    unit: None,
    labels: &["state"],
    help: "Orders to nodes that are under way, and work that waits to become one.",
    roles: &[Master],
};

#[allow(missing_docs)] // Its help says it.
pub static MASTER_NODES: Metric = Metric {
    name: "sector_master_nodes",
    kind: Gauge,
    unit: None,
    labels: &["state"],
    help: "Nodes of the cloud, by state.",
    roles: &[Master],
};

#[allow(missing_docs)] // Its help says it.
pub static MASTER_JOBS_RUNNING: Metric = Metric {
    name: "sector_master_jobs_running",
    kind: Gauge,
    unit: None,
    labels: &[],
    help: "Sphere jobs that run.",
    roles: &[Master],
};

#[allow(missing_docs)] // Its help says it.
pub static MASTER_TRASH_ENTRIES: Metric = Metric {
    name: "sector_master_trash_entries",
    kind: Gauge,
    unit: None,
    labels: &[],
    help: "Entries of the trash: removed, or replaced.",
    roles: &[Master],
};

#[allow(missing_docs)] // Its help says it.
pub static MASTER_AUDIT_WAITING: Metric = Metric {
    name: "sector_master_audit_waiting",
    kind: Gauge,
    unit: None,
    labels: &[],
    help: "Events that wait to be taken to the audit record.",
    roles: &[Master],
};

#[allow(missing_docs)] // Its help says it.
pub static MASTER_MARKS: Metric = Metric {
    name: "sector_master_marks",
    kind: Gauge,
    unit: None,
    labels: &["kind"],
    help: "Nodes, disks and links that are marked as slow.",
    roles: &[Master],
};

#[allow(missing_docs)] // Its help says it.
pub static MASTER_EVENTS: Metric = Metric {
    name: "sector_master_events_total",
    kind: Counter,
    unit: None,
    labels: &["kind"],
    help: "Events that were written to the journal, by kind.",
    roles: &[Master],
};

#[allow(missing_docs)] // Its help says it.
pub static MASTER_EVENT_FOLLOWERS: Metric = Metric {
    name: "sector_master_event_followers",
    kind: Gauge,
    unit: None,
    labels: &[],
    help: "Readers of events that wait for the next one.",
    roles: &[Master],
};

#[allow(missing_docs)] // Its help says it.
pub static MASTER_EVENT_GAPS: Metric = Metric {
    name: "sector_master_event_gaps_total",
    kind: Counter,
    unit: None,
    labels: &[],
    help: "Answers to readers of events that told of a gap: what they asked for is not kept any more.",
    roles: &[Master],
};

#[allow(missing_docs)] // Its help says it.
pub static MASTER_REBUILD_RUNNING: Metric = Metric {
    name: "sector_master_rebuild_running",
    kind: Gauge,
    unit: None,
    labels: &[],
    help: "1 while the names are put together after a lost journal, else 0.",
    roles: &[Master],
};

#[allow(missing_docs)] // Its help says it.
pub static MASTER_REBUILD_NODES_MISSING: Metric = Metric {
    name: "sector_master_rebuild_nodes_missing",
    kind: Gauge,
    unit: None,
    labels: &[],
    help: "Nodes that a rebuild still waits for.",
    roles: &[Master],
};

#[allow(missing_docs)] // Its help says it.
pub static JOURNAL_SAVES: Metric = Metric {
    name: "sector_journal_saves_total",
    kind: Counter,
    unit: None,
    labels: &[],
    help: "Transactions that were written to the journal and synced.",
    roles: &[Master, Security],
};

#[allow(missing_docs)] // Its help says it.
pub static JOURNAL_SAVE_SECONDS: Metric = Metric {
    name: "sector_journal_save_seconds_total",
    kind: Counter,
    unit: Some(Seconds),
    labels: &[],
    help: "Time that these transactions took.",
    roles: &[Master, Security],
};

#[allow(missing_docs)] // Its help says it.
pub static JOURNAL_ROWS: Metric = Metric {
    name: "sector_journal_rows_total",
    kind: Counter,
    unit: None,
    labels: &[],
    help: "Rows in these transactions.",
    roles: &[Master, Security],
};

#[allow(missing_docs)] // Its help says it.
pub static WORK_FAILING: Metric = Metric {
    name: "sector_work_stuck",
    kind: Gauge,
    unit: None,
    labels: &["work"],
    help: "Pieces of background work that fail or are blocked; `sector work` says why.",
    roles: &[Master, Node],
};

#[allow(missing_docs)] // Its help says it.
pub static GMP_MESSAGES: Metric = Metric {
    name: "sector_gmp_messages_total",
    kind: Counter,
    unit: None,
    labels: &["direction"],
    help: "Messages sent to, and received from, clients, nodes or the master.",
    roles: &[Master, Node],
};

#[allow(missing_docs)] // Its help says it.
pub static GMP_DATAGRAMS_DROPPED: Metric = Metric {
    name: "sector_gmp_datagrams_dropped_total",
    kind: Counter,
    unit: None,
    labels: &[],
    help: "Datagrams that were dropped: foreign, replayed, incomplete, or with a wrong seal.",
    roles: &[Master, Node],
};

#[allow(missing_docs)] // Its help says it.
pub static GMP_DATAGRAMS_RETRANSMITTED: Metric = Metric {
    name: "sector_gmp_datagrams_retransmitted_total",
    kind: Counter,
    unit: None,
    labels: &[],
    help: "Datagrams sent again because no acknowledgement came.",
    roles: &[Master, Node],
};

#[allow(missing_docs)] // Its help says it.
pub static NODE_CARRIED: Metric = Metric {
    name: "sector_node_carried_bytes_total",
    kind: Counter,
    unit: Some(Bytes),
    labels: &["carrier", "direction"],
    help: "Bytes of files and results that passed the transfer port; reads through a passed descriptor are not among them.",
    roles: &[Node],
};

#[allow(missing_docs)] // Its help says it.
pub static NODE_TRANSFERS: Metric = Metric {
    name: "sector_node_transfers",
    kind: Gauge,
    unit: None,
    labels: &[],
    help: "Transfers of files and results that are under way.",
    roles: &[Node],
};

#[allow(missing_docs)] // Its help says it.
pub static NODE_SPES: Metric = Metric {
    name: "sector_node_spes",
    kind: Gauge,
    unit: None,
    labels: &[],
    help: "SPEs that work on a task.",
    roles: &[Node],
};

#[allow(missing_docs)] // Its help says it.
pub static NODE_SLICES: Metric = Metric {
    name: "sector_node_slices",
    kind: Gauge,
    unit: None,
    labels: &[],
    help: "Slices on the node's disks.",
    roles: &[Node],
};

#[allow(missing_docs)] // Its help says it.
pub static NODE_DISKS: Metric = Metric {
    name: "sector_node_disks",
    kind: Gauge,
    unit: None,
    labels: &["state"],
    help: "The node's disks, by state.",
    roles: &[Node],
};

#[allow(missing_docs)] // Its help says it.
pub static NODE_DISK_USED: Metric = Metric {
    name: "sector_node_disk_used_bytes",
    kind: Gauge,
    unit: Some(Bytes),
    labels: &["disk"],
    help: "Bytes that slices take on a disk; disks are numbered as in the settings, from 1.",
    roles: &[Node],
};

#[allow(missing_docs)] // Its help says it.
pub static NODE_DISK_FREE: Metric = Metric {
    name: "sector_node_disk_free_bytes",
    kind: Gauge,
    unit: Some(Bytes),
    labels: &["disk"],
    help: "Bytes that a disk can still take, above what is kept free.",
    roles: &[Node],
};

#[allow(missing_docs)] // Its help says it.
pub static NODE_SCRUB_CHECKED: Metric = Metric {
    name: "sector_node_scrub_checked_bytes",
    kind: Gauge,
    unit: Some(Bytes),
    labels: &["disk"],
    help: "Bytes that the present pass of the scrub, or the last one, has read.",
    roles: &[Node],
};

#[allow(missing_docs)] // Its help says it.
pub static NODE_SCRUB_TOTAL: Metric = Metric {
    name: "sector_node_scrub_total_bytes",
    kind: Gauge,
    unit: Some(Bytes),
    labels: &["disk"],
    help: "Bytes that this pass reads in all.",
    roles: &[Node],
};

#[allow(missing_docs)] // Its help says it.
pub static NODE_SCRUB_CORRUPT: Metric = Metric {
    name: "sector_node_scrub_corrupt",
    kind: Gauge,
    unit: None,
    labels: &["disk"],
    help: "Damaged slices that this pass has found.",
    roles: &[Node],
};

#[allow(missing_docs)] // Its help says it.
pub static NODE_TICKETS_REFUSED: Metric = Metric {
    name: "sector_node_tickets_refused_total",
    kind: Counter,
    unit: None,
    labels: &["fault"],
    help: "Tickets that the node has refused, by fault.",
    roles: &[Node],
};

#[allow(missing_docs)] // Its help says it.
pub static MACHINE_PROCESSOR: Metric = Metric {
    name: "sector_machine_processor_ratio",
    kind: Gauge,
    unit: Some(Ratio),
    labels: &[],
    help: "The share of the machine's processor time that was used in the last second.",
    roles: &[Node],
};

#[allow(missing_docs)] // Its help says it.
pub static MACHINE_MEMORY: Metric = Metric {
    name: "sector_machine_memory_used_bytes",
    kind: Gauge,
    unit: Some(Bytes),
    labels: &[],
    help: "Memory of the machine that is in use and could not be given to others.",
    roles: &[Node],
};

#[allow(missing_docs)] // Its help says it.
pub static MACHINE_NETWORK: Metric = Metric {
    name: "sector_machine_network_bytes_total",
    kind: Counter,
    unit: Some(Bytes),
    labels: &["direction"],
    help: "Bytes that the network interfaces of the machine have carried.",
    roles: &[Node],
};

#[allow(missing_docs)] // Its help says it.
pub static NODE_PROCESSOR: Metric = Metric {
    name: "sector_node_processor_ratio",
    kind: Gauge,
    unit: Some(Ratio),
    labels: &["process"],
    help: "Processor time in the last second, of the node itself and of its SPEs and drivers, as a share of one processor.",
    roles: &[Node],
};

#[allow(missing_docs)] // Its help says it.
pub static NODE_MEMORY: Metric = Metric {
    name: "sector_node_memory_bytes",
    kind: Gauge,
    unit: Some(Bytes),
    labels: &["process"],
    help: "Memory of the node itself, and of the SPEs and drivers that it has started.",
    roles: &[Node],
};

#[allow(missing_docs)] // Its help says it.
pub static NODE_DISK_BYTES: Metric = Metric {
    name: "sector_node_disk_bytes_total",
    kind: Counter,
    unit: Some(Bytes),
    labels: &["disk", "direction"],
    help: "Bytes that were read from and written to the disk of a data folder, by whatever program.",
    roles: &[Node],
};

#[allow(missing_docs)] // Its help says it.
pub static NODE_DISK_BUSY: Metric = Metric {
    name: "sector_node_disk_busy_ratio",
    kind: Gauge,
    unit: Some(Ratio),
    labels: &["disk"],
    help: "The share of the last second in which the disk had something to do.",
    roles: &[Node],
};

#[allow(missing_docs)] // Its help says it.
pub static NODE_DISK_LATENCY: Metric = Metric {
    name: "sector_node_disk_latency_seconds",
    kind: Gauge,
    unit: Some(Seconds),
    labels: &["disk"],
    help: "Mean time of an operation of the disk in the last second, waiting included.",
    roles: &[Node],
};

#[allow(missing_docs)] // Its help says it.
pub static NODE_DISK_QUEUE: Metric = Metric {
    name: "sector_node_disk_queue",
    kind: Gauge,
    unit: None,
    labels: &["disk"],
    help: "Operations of the disk that waited or ran in the last second, on average.",
    roles: &[Node],
};

#[allow(missing_docs)] // Its help says it.
pub static NODE_LINK_BYTES: Metric = Metric {
    name: "sector_node_link_bytes_total",
    kind: Counter,
    unit: Some(Bytes),
    labels: &["site", "direction"],
    help: "Bytes of files that this node has exchanged with a site, and that no other node counts.",
    roles: &[Node],
};

#[allow(missing_docs)] // Its help says it.
pub static NODE_LINK_PACKETS: Metric = Metric {
    name: "sector_node_link_packets_total",
    kind: Counter,
    unit: None,
    labels: &["site", "state"],
    help: "Packets of QUIC and segments of TCP that this node has sent to a site, and those of them that were lost.",
    roles: &[Node],
};

#[allow(missing_docs)] // Its help says it.
pub static NODE_LINK_RETRANSMITTED: Metric = Metric {
    name: "sector_node_link_retransmitted_bytes_total",
    kind: Counter,
    unit: Some(Bytes),
    labels: &["site"],
    help: "Bytes that this node has sent to a site again.",
    roles: &[Node],
};

#[allow(missing_docs)] // Its help says it.
pub static NODE_LINK_ROUND_TRIP: Metric = Metric {
    name: "sector_node_link_round_trip_seconds",
    kind: Gauge,
    unit: Some(Seconds),
    labels: &["site"],
    help: "Mean round trip to a site, in the last second in which packets left for it.",
    roles: &[Node],
};

#[allow(missing_docs)] // Its help says it.
pub static SECURITY_QUESTIONS: Metric = Metric {
    name: "sector_security_questions_total",
    kind: Counter,
    unit: None,
    labels: &["question", "outcome"],
    help: "Questions that were answered; logins are `open-session` (at a master) and `log-in`. The outcome is `done` or the kind of refusal.",
    roles: &[Security],
};

#[allow(missing_docs)] // Its help says it.
pub static SECURITY_CERTIFICATES: Metric = Metric {
    name: "sector_security_certificates_total",
    kind: Counter,
    unit: None,
    labels: &["kind", "outcome"],
    help: "Certificates that the authority was asked for, by the kind of machine.",
    roles: &[Security],
};

#[allow(missing_docs)] // Its help says it.
pub static GATEWAY_REQUESTS: Metric = Metric {
    name: "sector_gateway_requests_total",
    kind: Counter,
    unit: None,
    labels: &["request", "status"],
    help: "Requests that were answered, by method and route, and the HTTP status; `page` are the files of the page.",
    roles: &[Gateway],
};

#[allow(missing_docs)] // Its help says it.
pub static GATEWAY_CONNECTIONS: Metric = Metric {
    name: "sector_gateway_connections",
    kind: Gauge,
    unit: None,
    labels: &[],
    help: "Connections of browsers and programs.",
    roles: &[Gateway],
};

#[allow(missing_docs)] // Its help says it.
pub static GATEWAY_SESSIONS: Metric = Metric {
    name: "sector_gateway_sessions",
    kind: Gauge,
    unit: None,
    labels: &[],
    help: "Sessions of people and programs with this gateway.",
    roles: &[Gateway],
};

#[allow(missing_docs)] // Its help says it.
pub static GATEWAY_EVENT_STREAMS: Metric = Metric {
    name: "sector_gateway_event_streams",
    kind: Gauge,
    unit: None,
    labels: &["stream"],
    help: "Streams of server-sent events that are open: `live` of the page, and `events`.",
    roles: &[Gateway],
};

#[allow(missing_docs)] // Its help says it.
pub static GATEWAY_WEBHOOK_MESSAGES: Metric = Metric {
    name: "sector_gateway_webhook_messages_total",
    kind: Counter,
    unit: None,
    labels: &["webhook", "outcome"],
    help: "Messages of webhooks: `taken`, `failed` (tried again later), or `given-up`.",
    roles: &[Gateway],
};
