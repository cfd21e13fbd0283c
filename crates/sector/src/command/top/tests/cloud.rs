//! A small cloud for the tests of `sector top`: nodes, jobs and work made up here. It never asks a master.

use client::{
    DiskLoad, Health, JobId, JobRecord, JobState, LinkRates, LoadMetric, LoadPage, LoadSample, MachineSize, Mark,
    MeasuredLink, Membership, NodeId, NodeLoad, NodeMarks, NodeState, NodeStatus, StageRecord, UserName, WorkItem,
    WorkKind, WorkRow, WorkState,
    admin::room::{HealthReport, Room, Total},
    views::NodeView,
};
use protocol::{Place, message::node_master::LinkUse};

use super::super::snapshot::{Answer, Snapshot};

/// What the master knows, before it is asked.
pub(super) struct Observed {
    pub(super) health: Health,
    pub(super) nodes: Vec<(NodeStatus, Option<LoadSample>)>,
    pub(super) jobs: Vec<JobRecord>,
    pub(super) work: Option<Vec<WorkRow>>,
    pub(super) links: Vec<MeasuredLink>,
    pub(super) marks: Vec<Mark>,
    pub(super) unix_millis: u64,
}

impl Observed {
    /// Nothing at all.
    pub(super) fn empty() -> Self {
        let health = Health {
            reasons: Vec::new(),
            under_replicated: 0,
            corrupt: 0,
            lost: 0,
            misplaced: 0,
            short_of_nodes: 0,
            refused_tickets: Default::default(),
            insecure_sites: Vec::new(),
        };
        Self {
            health,
            nodes: Vec::new(),
            jobs: Vec::new(),
            work: Some(Vec::new()),
            links: Vec::new(),
            marks: Vec::new(),
            unix_millis: 1_700_000_000_000,
        }
    }

    /// So many nodes in so many sites. The processor of each is as busy as its number says, in percent.
    pub(super) fn of_nodes(nodes: usize, sites: usize) -> Self {
        let node = |number: usize| {
            let site = format!("site-{}", number % sites + 1);
            (node(&format!("node-{}", number + 1), &site), Some(sample(number as u64 + 1)))
        };
        Self { nodes: (0..nodes).map(node).collect(), ..Self::empty() }
    }

    /// The answer of the master.
    pub(super) fn answer(&self) -> Answer {
        let load = |(node, sample): &(NodeStatus, Option<LoadSample>)| NodeLoad {
            node: node.node.clone(),
            place: node.place.clone(),
            machine: MachineSize { processors: 4, memory_bytes: 8 << 30 },
            sample: *sample,
            disks: vec![Some(DiskLoad::default())],
            processes: Vec::new(),
        };
        let page = LoadPage {
            unix_millis: self.unix_millis,
            sample_seconds: 1,
            nodes: self.nodes.iter().map(load).collect(),
            next: None,
        };
        let health = HealthReport {
            health: self.health.clone(),
            room: Room::default(),
            total: Total { used_bytes: 3 << 30, free_bytes: 5 << 30 },
        };
        let nodes = self.nodes.iter().map(|(node, _)| NodeView::from(node.clone())).collect();
        let snapshot = Snapshot::new(health, nodes, page, self.jobs.clone(), self.work.clone());
        Ok(Box::new(snapshot.with_links(self.links.clone(), &self.marks)))
    }
}

/// A node that is well.
fn node(name: &str, site: &str) -> NodeStatus {
    NodeStatus {
        node: NodeId::new(name).unwrap(),
        place: Place::new(site, "rack-1"),
        address: ([127, 0, 0, 1], 7).into(),
        state: NodeState::Up,
        used_bytes: 1 << 30,
        free_bytes: 9 << 30,
        pid: 12,
        folder: format!("/srv/{name}"),
        membership: Membership::Active,
        reserve_bytes: 0,
        is_full: false,
        slices: 3,
        disks: Vec::new(),
        sandbox_missing: None,
        refused_tickets: Default::default(),
        links: Vec::new(),
        marks: NodeMarks::default(),
    }
}

/// A second in which the processor was so busy, and the rest was what it always is.
pub(super) fn sample(processor_percent: u64) -> LoadSample {
    let mut sample = LoadSample::default();
    sample.set(LoadMetric::Processor, processor_percent * 10);
    sample.set(LoadMetric::Memory, 2 << 30);
    sample.set(LoadMetric::DiskBusy, 500);
    sample.set(LoadMetric::DiskLatency, 1_500);
    sample.set(LoadMetric::NetworkReceived, 3 << 20);
    sample.set(LoadMetric::NetworkSent, 1 << 20);
    sample.set(LoadMetric::Spes, 2);
    sample.set(LoadMetric::Transfers, 1);
    sample
}

/// A job that has read so much: half of its ten segments, four of them where their bytes lie.
pub(in super::super) fn job(number: u64, state: JobState, bytes_in: u64) -> JobRecord {
    let stage = StageRecord { segments: 10, done: 5, local: 4, bytes_in, ..StageRecord::default() };
    JobRecord {
        job: JobId(number),
        user: UserName::new("alice").unwrap(),
        title: "words over /text".into(),
        state,
        started_unix_millis: 1_700_000_000_000,
        stages: vec![stage],
        errors: Vec::new(),
        error_slice: None,
        counters: Vec::new(),
        driver: None,
    }
}

/// A piece of background work at the master.
pub(super) fn work(kind: WorkKind, state: WorkState) -> WorkRow {
    WorkRow { node: None, unix_millis: 0, item: WorkItem { state, ..WorkItem::idle(kind) } }
}

/// Transfers with a site.
pub(super) fn link(site: &str, conversations: u32, waiting: u32) -> LinkUse {
    LinkUse { site: site.into(), conversations, waiting, rate_bytes_per_second: Some(1_250_000) }
}

/// A link that carries so much, in one direction.
pub(super) fn measured(from: &str, to: &str, sent_bytes_per_second: u64) -> MeasuredLink {
    let rates = LinkRates {
        sent_bytes_per_second,
        retransmitted_bytes_per_second: 0,
        loss_millionths: Some(0),
        round_trip_micros: Some(16_000),
    };
    MeasuredLink { from: from.into(), to: to.into(), rates: Some(rates), limit_bytes_per_second: None }
}
