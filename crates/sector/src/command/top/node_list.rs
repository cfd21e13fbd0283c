//! The nodes in the order in which they are shown: by site, and within a site by what a person chose. It never draws
//! them, and never looks at more than an order needs.

use std::{cmp::Ordering, collections::BTreeSet};

use client::LoadMetric;

use super::{
    cursor::Cursor,
    snapshot::{ObservedNode, Snapshot},
};

/// The lines of the pane of nodes, and which one is chosen.
#[derive(Default)]
pub(super) struct NodeList {
    pub(super) cursor: Cursor,
    lines: Vec<NodeLine>,
    /// Where in [`NodeOrder::ALL`].
    order: usize,
    is_reversed: bool,
    /// Sites whose nodes are not shown.
    folded: BTreeSet<String>,
}

/// A line of the pane.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum NodeLine {
    /// The head of a site.
    Site(SiteSummary),
    /// A node: where it is in the snapshot, and its name.
    Node(usize, String),
}

/// A site in one line.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct SiteSummary {
    pub(super) name: String,
    pub(super) nodes: usize,
    pub(super) up: usize,
    /// The mean of the nodes that report it, in thousandths.
    pub(super) processor: Option<u64>,
    /// Bytes per second of all its nodes.
    pub(super) received: u64,
    /// The same.
    pub(super) sent: u64,
    pub(super) is_folded: bool,
}

/// By what nodes are sorted within their site.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NodeOrder {
    Name,
    /// What needs a person first.
    State,
    /// The most first.
    Load(LoadMetric),
}

impl NodeList {
    /// All lines.
    pub(super) fn lines(&self) -> &[NodeLine] {
        &self.lines
    }

    /// The order, and whether it is from the other end.
    pub(super) fn order(&self) -> (NodeOrder, bool) {
        (NodeOrder::ALL[self.order], self.is_reversed)
    }

    /// Takes the order so many further on.
    pub(super) fn turn_order(&mut self, by: isize, snapshot: &Snapshot) {
        let orders = NodeOrder::ALL.len().cast_signed();
        self.order = (self.order.cast_signed() + by).rem_euclid(orders).cast_unsigned();
        self.is_reversed = false;
        self.update(snapshot);
    }

    /// Takes the same order from the other end.
    pub(super) fn reverse(&mut self, snapshot: &Snapshot) {
        self.is_reversed = !self.is_reversed;
        self.update(snapshot);
    }

    /// Folds or unfolds a site.
    pub(super) fn fold(&mut self, site: &str, snapshot: &Snapshot) {
        if !self.folded.remove(site) {
            self.folded.insert(site.to_owned());
        }
        self.update(snapshot);
    }

    /// Takes in a snapshot. The chosen line stays that of the same node or site.
    pub(super) fn update(&mut self, snapshot: &Snapshot) {
        let chosen = self.lines.get(self.cursor.at()).cloned();
        self.lines = self.arranged(&snapshot.nodes);
        let again = chosen.and_then(|chosen| self.lines.iter().position(|line| line.is_same(&chosen)));
        self.cursor.choose(again.unwrap_or(self.cursor.at()), self.lines.len());
    }

    fn arranged(&self, nodes: &[ObservedNode]) -> Vec<NodeLine> {
        let mut indices: Vec<_> = (0..nodes.len()).collect();
        indices.sort_by(|a, b| {
            let (a, b) = (&nodes[*a], &nodes[*b]);
            (a.view.site.cmp(&b.view.site)).then_with(|| self.compared(a, b)).then_with(|| a.view.id.cmp(&b.view.id))
        });
        let mut lines = Vec::with_capacity(nodes.len());
        for of_site in indices.chunk_by(|a, b| nodes[*a].view.site == nodes[*b].view.site) {
            let mut site = SiteSummary::of(of_site.iter().map(|at| &nodes[*at]));
            site.is_folded = self.folded.contains(&site.name);
            let is_folded = site.is_folded;
            lines.push(NodeLine::Site(site));
            if !is_folded {
                lines.extend(of_site.iter().map(|at| NodeLine::Node(*at, nodes[*at].view.id.clone())));
            }
        }
        lines
    }

    fn compared(&self, a: &ObservedNode, b: &ObservedNode) -> Ordering {
        let (order, is_reversed) = self.order();
        let first_to_last = match order {
            NodeOrder::Name => a.view.id.cmp(&b.view.id),
            NodeOrder::State => trouble(b).cmp(&trouble(a)),
            NodeOrder::Load(metric) => b.share(metric).cmp(&a.share(metric)),
        };
        if is_reversed { first_to_last.reverse() } else { first_to_last }
    }
}

impl NodeLine {
    /// Whether it is the line of the same site or node, whatever its figures.
    fn is_same(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Site(one), Self::Site(other)) => one.name == other.name,
            (Self::Node(_, one), Self::Node(_, other)) => one == other,
            _ => false,
        }
    }
}

impl SiteSummary {
    fn of<'a>(nodes: impl Iterator<Item = &'a ObservedNode>) -> Self {
        let mut site = Self::default();
        let (mut processor, mut reports) = (0, 0);
        for node in nodes {
            site.name.clone_from(&node.view.site);
            site.nodes += 1;
            site.up += usize::from(node.view.state == "up");
            site.received += node.metric(LoadMetric::NetworkReceived).unwrap_or(0);
            site.sent += node.metric(LoadMetric::NetworkSent).unwrap_or(0);
            if let Some(share) = node.share(LoadMetric::Processor) {
                (processor, reports) = (processor + share, reports + 1);
            }
        }
        site.processor = u64::checked_div(processor, reports);
        site
    }
}

impl NodeOrder {
    /// In the order of the columns.
    pub(super) const ALL: [Self; 10] = [
        Self::Name,
        Self::State,
        Self::Load(LoadMetric::Processor),
        Self::Load(LoadMetric::Memory),
        Self::Load(LoadMetric::DiskBusy),
        Self::Load(LoadMetric::DiskLatency),
        Self::Load(LoadMetric::NetworkReceived),
        Self::Load(LoadMetric::NetworkSent),
        Self::Load(LoadMetric::Spes),
        Self::Load(LoadMetric::Transfers),
    ];
}

/// How much a node needs a person: a lost one most.
fn trouble(node: &ObservedNode) -> (bool, bool, bool, u32) {
    let view = &node.view;
    (view.state == "lost", view.state != "up", view.full || view.standing != "active", view.marks.failed)
}
