//! What `sector top` shows: the state of the cloud at one moment, as the master answered. It is asked for each second,
//! beside the keys. It never draws anything, and never starts or stops work.

use std::{collections::BTreeMap, time::Duration};

use client::{
    Client, ClientError, JobRecord, LoadMetric, LoadPage, LoadSeries, Mark, MarkState, MarkSubject, MeasuredLink,
    NodeId, NodeLoad, Status, WorkRow,
    admin::room::HealthReport,
    views::{HealthView, NodeView, marked_nodes},
};
use tokio::{
    sync::{mpsc, watch},
    time::{MissedTickBehavior, interval, timeout},
};

/// The cloud at one moment.
pub(super) struct Snapshot {
    pub(super) health: HealthView,
    pub(super) nodes: Vec<ObservedNode>,
    /// Newest first.
    pub(super) jobs: Vec<JobRecord>,
    /// `None`: only administrators may know it.
    pub(super) work: Option<Vec<WorkRow>>,
    pub(super) links: Vec<ObservedLink>,
    /// When it was, in milliseconds since the Unix epoch, by the master's clock.
    pub(super) unix_millis: u64,
    /// One node over time, where that was asked for and the node is known.
    pub(super) series: Option<(SeriesQuestion, LoadSeries)>,
}

/// A node, and how busy it is.
pub(super) struct ObservedNode {
    pub(super) view: NodeView,
    /// `None` where the master has heard nothing of it yet.
    pub(super) load: Option<NodeLoad>,
}

/// A link in one direction, and why it is marked as slow.
pub(super) struct ObservedLink {
    pub(super) measured: MeasuredLink,
    pub(super) slow: Option<String>,
}

/// Which node to ask for over time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct SeriesQuestion {
    pub(super) node: NodeId,
    /// How far back.
    pub(super) seconds: u32,
}

/// What one round of questions brought: a snapshot, or a sentence that says why there is none.
pub(super) type Answer = Result<Box<Snapshot>, String>;

impl Snapshot {
    /// Puts together what the master has answered.
    pub(super) fn new(
        health: HealthReport,
        nodes: Vec<NodeView>,
        load: LoadPage,
        jobs: Vec<JobRecord>,
        work: Option<Vec<WorkRow>>,
    ) -> Self {
        let unix_millis = load.unix_millis;
        let mut loads: BTreeMap<_, _> = load.nodes.into_iter().map(|load| (load.node.to_string(), load)).collect();
        let nodes = nodes.into_iter().map(|view| ObservedNode { load: loads.remove(&view.id), view }).collect();
        Self { health: health.into(), nodes, jobs, work, links: Vec::new(), unix_millis, series: None }
    }

    /// Adds what was measured of links, each with its mark, which holds both ways.
    pub(super) fn with_links(self, links: Vec<MeasuredLink>, marks: &[Mark]) -> Self {
        let slow = |link: &MeasuredLink| {
            let subject = MarkSubject::link(&*link.from, &*link.to);
            let mark = marks.iter().find(|mark| mark.state == MarkState::Slow && mark.subject == subject)?;
            Some(mark.reason.clone())
        };
        let links = links.into_iter().map(|measured| ObservedLink { slow: slow(&measured), measured }).collect();
        Self { links, ..self }
    }

    /// Asks the master.
    pub(super) async fn ask(cloud: &Client, series: Option<SeriesQuestion>) -> Result<Self, ClientError> {
        let of_node = async {
            let Some(question) = series else { return Ok(None) };
            match cloud.load_series(question.node.clone(), question.seconds).await {
                // The node was removed meanwhile, or is too new to be known.
                Err(ClientError::Refused(_)) => Ok(None),
                answer => answer.map(|series| Some((question, series))),
            }
        };
        let work = async {
            match cloud.work().await {
                Err(error) if error.status() == Status::Refused => Ok(None),
                rows => rows.map(Some),
            }
        };
        // Boxed, since each has a login in it, should the session be lost: together they would fill a thread's stack.
        let (health, nodes, marks, links, load, jobs, work, series) = tokio::try_join!(
            Box::pin(cloud.health_report()),
            Box::pin(cloud.nodes()),
            Box::pin(cloud.marks()),
            Box::pin(cloud.links(0)),
            Box::pin(cloud.load(0)),
            Box::pin(cloud.jobs()),
            Box::pin(work),
            Box::pin(of_node)
        )?;
        let nodes = marked_nodes(nodes, &marks);
        Ok(Self { series, ..Self::new(health, nodes, load, jobs, work).with_links(links.links, &marks) })
    }
}

impl ObservedNode {
    /// A metric in its unit; `None` where the node did not report.
    pub(super) fn metric(&self, metric: LoadMetric) -> Option<u64> {
        Some(self.load.as_ref()?.sample?.get(metric))
    }

    /// A metric as a share in thousandths: memory is one of the machine's. `None` where that is not known.
    pub(super) fn share(&self, metric: LoadMetric) -> Option<u64> {
        let value = self.metric(metric)?;
        match metric {
            LoadMetric::Memory => {
                let whole = self.load.as_ref()?.machine.memory_bytes;
                value.saturating_mul(1_000).checked_div(whole)
            }
            _ => Some(value),
        }
    }
}

/// Asks each second, and at once when another node is wanted, until nobody takes the answers any more.
pub(super) async fn ask_each_second(
    cloud: &Client,
    mut wanted: watch::Receiver<Option<SeriesQuestion>>,
    answers: mpsc::Sender<Answer>,
) {
    let mut seconds = interval(PERIOD);
    seconds.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            _ = seconds.tick() => {}
            changed = wanted.changed() => if changed.is_err() { return },
        }
        let series = wanted.borrow_and_update().clone();
        let answer = match timeout(ANSWER_MAX, Snapshot::ask(cloud, series)).await {
            Ok(answer) => answer.map(Box::new).map_err(|error| error.to_string()),
            Err(_) => Err("the master does not answer".into()),
        };
        if answers.send(answer).await.is_err() {
            return;
        }
    }
}

/// As often as nodes report their load.
const PERIOD: Duration = Duration::from_secs(1);
/// How long the master may take. A person who looks at an old state should soon know that it is old.
const ANSWER_MAX: Duration = Duration::from_secs(5);
