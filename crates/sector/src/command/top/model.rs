//! What is on the screen of `sector top`: the last snapshot, and where in it a person looks. It is told of snapshots and
//! keys, and says which node to ask for. It never asks the cloud, reads no clock, and touches no terminal.

use std::ops::Range;

use client::{NodeId, WorkState};

use super::{
    cursor::Cursor,
    job_list::JobList,
    job_rates::JobRates,
    keys::Input,
    node_list::{NodeLine, NodeList},
    snapshot::{Answer, SeriesQuestion, Snapshot},
};
use crate::arguments::Pane;

/// See the module.
#[derive(Default)]
pub(super) struct Top {
    pub(super) look: Look,
    /// The newest state; kept while the master is away.
    pub(super) last: Option<Box<Snapshot>>,
    /// Why the newest state is not that of now.
    pub(super) failure: Option<String>,
    pub(super) rates: JobRates,
    pub(super) pane: Pane,
    pub(super) nodes: NodeList,
    pub(super) jobs: JobList,
    pub(super) work: WorkList,
    pub(super) transfers: TransferList,
    pub(super) links: LinkList,
    /// The node that is shown over time.
    pub(super) detail: Option<NodeDetail>,
    pub(super) is_help: bool,
    is_over: bool,
}

/// How the screen is drawn.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Look {
    /// Whether colours help to find what the words say.
    pub(super) has_colour: bool,
    /// Whether it is text for a file: without what only helps with keys.
    pub(super) is_printed: bool,
}

/// Background work that is not idle: what fails first.
#[derive(Default)]
pub(super) struct WorkList {
    pub(super) cursor: Cursor,
    /// Where each row is in the snapshot.
    pub(super) rows: Vec<usize>,
    /// Further rows, which are idle or off.
    pub(super) quiet: usize,
}

/// The transfers of nodes with sites: those that wait first.
#[derive(Default)]
pub(super) struct TransferList {
    pub(super) cursor: Cursor,
    /// Where each is in the snapshot: its node, and which of the node's links.
    pub(super) rows: Vec<(usize, usize)>,
    /// Transfers that wait for a limit.
    pub(super) waiting: u64,
}

/// The links between sites, each way by itself: slow ones first, then those that carry most.
#[derive(Default)]
pub(super) struct LinkList {
    pub(super) cursor: Cursor,
    /// Where each is in the snapshot.
    pub(super) rows: Vec<usize>,
}

/// One node over time.
pub(super) struct NodeDetail {
    /// Its name.
    pub(super) node: String,
    pub(super) cursor: Cursor,
    /// Where in [`SPANS`].
    pub(super) span: usize,
    /// How many lines there are, known when they are drawn.
    pub(super) lines: usize,
}

impl Top {
    /// A screen on which nothing is known yet.
    pub(super) fn new(pane: Pane, look: Look) -> Self {
        Self { pane, look, ..Self::default() }
    }

    /// Whether a person wanted to leave.
    pub(super) fn is_over(&self) -> bool {
        self.is_over
    }

    /// The node that must be asked for over time.
    pub(super) fn wanted_series(&self) -> Option<SeriesQuestion> {
        let detail = self.detail.as_ref()?;
        Some(SeriesQuestion { node: NodeId::new(&detail.node).ok()?, seconds: SPANS[detail.span].0 })
    }

    /// The rows that were drawn last, and how many there are.
    pub(super) fn shown_rows(&self) -> (Range<usize>, usize) {
        let (cursor, rows) = match (&self.detail, self.pane) {
            (Some(detail), _) => (&detail.cursor, detail.lines),
            (None, Pane::Nodes) => (&self.nodes.cursor, self.nodes.lines().len()),
            (None, Pane::Jobs) => (&self.jobs.cursor, self.jobs.rows().len()),
            (None, Pane::Work) => (&self.work.cursor, self.work.rows.len()),
            (None, Pane::Transfers) => (&self.transfers.cursor, self.transfers.rows.len()),
            (None, Pane::Links) => (&self.links.cursor, self.links.rows.len()),
        };
        (cursor.shown(rows), rows)
    }

    /// Takes in what a round of questions brought.
    pub(super) fn handle_answer(&mut self, answer: Answer) {
        let snapshot = match answer {
            Ok(snapshot) => snapshot,
            Err(why) => {
                self.failure = Some(why);
                return;
            }
        };
        self.failure = None;
        if let Some(last) = &self.last {
            self.jobs.keep_choice(last);
        }
        self.rates.note(snapshot.unix_millis, &snapshot.jobs);
        self.nodes.update(&snapshot);
        self.jobs.update(&snapshot, &self.rates);
        self.work.update(&snapshot);
        self.transfers.update(&snapshot);
        self.links.update(&snapshot);
        self.last = Some(snapshot);
    }

    /// Does what a person wants.
    pub(super) fn handle_input(&mut self, input: Input) {
        match input {
            Input::Leave => self.is_over = true,
            Input::Help => self.is_help = !self.is_help,
            Input::Redraw => {}
            // The page of keys has nothing to choose: any other key leads back.
            _ if self.is_help => self.is_help = false,
            Input::Show(pane) => self.show(pane),
            Input::Turn(by) => self.show(self.pane.turned(by)),
            Input::Step(by) => self.move_cursor(|cursor, rows| cursor.step(by, rows)),
            Input::Page(by) => self.move_cursor(|cursor, rows| cursor.turn(by, rows)),
            Input::First => self.move_cursor(|cursor, rows| cursor.choose(0, rows)),
            Input::Last => self.move_cursor(|cursor, rows| cursor.choose(usize::MAX, rows)),
            Input::Open => self.open(),
            Input::Back => self.detail = None,
            Input::Order(by) => self.turn_order(by),
            Input::Reverse => self.reverse(),
            Input::Span(by) => {
                if let Some(detail) = &mut self.detail {
                    detail.span = detail.span.saturating_add_signed(by).min(SPANS.len() - 1);
                }
            }
        }
    }

    fn show(&mut self, pane: Pane) {
        (self.pane, self.detail) = (pane, None);
    }

    fn move_cursor(&mut self, moved: impl FnOnce(&mut Cursor, usize)) {
        let (_, rows) = self.shown_rows();
        let cursor = match (&mut self.detail, self.pane) {
            (Some(detail), _) => &mut detail.cursor,
            (None, Pane::Nodes) => &mut self.nodes.cursor,
            (None, Pane::Jobs) => &mut self.jobs.cursor,
            (None, Pane::Work) => &mut self.work.cursor,
            (None, Pane::Transfers) => &mut self.transfers.cursor,
            (None, Pane::Links) => &mut self.links.cursor,
        };
        moved(cursor, rows);
    }

    fn open(&mut self) {
        let (Some(snapshot), Pane::Nodes, None) = (&self.last, self.pane, &self.detail) else { return };
        match self.nodes.lines().get(self.nodes.cursor.at()).cloned() {
            Some(NodeLine::Site(site)) => self.nodes.fold(&site.name, snapshot),
            Some(NodeLine::Node(_, node)) => {
                self.detail = Some(NodeDetail { node, cursor: Cursor::default(), span: SPAN_AT_FIRST, lines: 0 });
            }
            None => {}
        }
    }

    fn turn_order(&mut self, by: isize) {
        let (Some(snapshot), None) = (&self.last, &self.detail) else { return };
        match self.pane {
            Pane::Nodes => self.nodes.turn_order(by, snapshot),
            Pane::Jobs => {
                self.jobs.keep_choice(snapshot);
                self.jobs.turn_order(by);
                self.jobs.update(snapshot, &self.rates);
            }
            Pane::Work | Pane::Transfers | Pane::Links => {}
        }
    }

    fn reverse(&mut self) {
        let (Some(snapshot), None) = (&self.last, &self.detail) else { return };
        match self.pane {
            Pane::Nodes => self.nodes.reverse(snapshot),
            Pane::Jobs => {
                self.jobs.keep_choice(snapshot);
                self.jobs.reverse();
                self.jobs.update(snapshot, &self.rates);
            }
            Pane::Work | Pane::Transfers | Pane::Links => {}
        }
    }
}

impl Pane {
    /// In the order of their keys.
    pub(super) const ALL: [Self; 5] = [Self::Nodes, Self::Jobs, Self::Work, Self::Transfers, Self::Links];

    fn turned(self, by: isize) -> Self {
        let at = (self as isize + by).rem_euclid(Self::ALL.len().cast_signed());
        Self::ALL[at.cast_unsigned()]
    }
}

impl WorkList {
    fn update(&mut self, snapshot: &Snapshot) {
        let work = snapshot.work.as_deref().unwrap_or_default();
        let rank = |at: &usize| match work[*at].item.state {
            WorkState::Failing => 0,
            WorkState::Blocked => 1,
            WorkState::Running => 2,
            WorkState::Idle | WorkState::Off => QUIET,
        };
        self.rows = (0..work.len()).filter(|at| rank(at) < QUIET).collect();
        self.rows.sort_by_key(rank);
        self.quiet = work.len() - self.rows.len();
        self.cursor.choose(self.cursor.at(), self.rows.len());
    }
}

impl TransferList {
    fn update(&mut self, snapshot: &Snapshot) {
        let link = |(node, link): (usize, usize)| &snapshot.nodes[node].view.links[link];
        let all = (0..snapshot.nodes.len())
            .flat_map(|node| (0..snapshot.nodes[node].view.links.len()).map(move |link| (node, link)));
        self.rows = all.filter(|at| link(*at).transfers > 0).collect();
        self.rows.sort_by_key(|at| std::cmp::Reverse((link(*at).waiting, link(*at).transfers)));
        self.waiting = self.rows.iter().map(|at| u64::from(link(*at).waiting)).sum();
        self.cursor.choose(self.cursor.at(), self.rows.len());
    }
}

impl LinkList {
    fn update(&mut self, snapshot: &Snapshot) {
        let links = &snapshot.links;
        self.rows = (0..links.len()).filter(|at| links[*at].measured.from != links[*at].measured.to).collect();
        let carries = |at: &usize| links[*at].measured.rates.map_or(0, |rates| rates.sent_bytes_per_second);
        self.rows.sort_by_key(|at| std::cmp::Reverse((links[*at].slow.is_some(), carries(at))));
        self.cursor.choose(self.cursor.at(), self.rows.len());
    }
}

/// How far back one node is shown, in seconds, and how people say it.
pub(super) const SPANS: [(u32, &str); 4] = [(60, "minute"), (600, "10 minutes"), (3_600, "hour"), (86_400, "day")];
/// Ten minutes: long enough to see that something has changed.
const SPAN_AT_FIRST: usize = 1;
/// The rank of work that needs nobody's eyes.
const QUIET: u8 = 3;
