//! Faults between processes: links and whole sites that are cut, both ways or one way, and clocks that jump. It never
//! damages stored data.

use std::collections::BTreeSet;

use crate::{
    cloud::Cloud,
    environment::{
        network::{Blocks, Cut},
        queue::{Event, Participant},
    },
    role::site_of,
};

impl Cloud {
    /// Cuts one process off.
    pub(super) fn cut_one(&mut self, node: usize) {
        let who = match self.env.rng.u8(..4) {
            0 => Participant::Master,
            1 => Participant::Client(self.env.rng.usize(..self.actors.len())),
            _ => Participant::Node(node),
        };
        self.cut([who].into());
    }

    /// Cuts all nodes of a site off, and perhaps other participants there.
    pub(super) fn cut_site(&mut self) {
        let site = self.env.rng.usize(..2);
        let mut inside: BTreeSet<_> =
            (0..self.nodes.len()).filter(|node| site_of(*node) == site).map(Participant::Node).collect();
        if self.env.rng.bool() {
            inside.insert(Participant::Master);
        }
        for client in 0..self.actors.len() {
            if self.env.rng.bool() {
                inside.insert(Participant::Client(client));
            }
        }
        self.faults.fired.site_cuts += 1;
        self.cut(inside);
    }

    fn cut(&mut self, inside: BTreeSet<Participant>) {
        let blocks = match self.env.rng.u8(..5) {
            0 => Blocks::Outward,
            1 => Blocks::Inward,
            _ => Blocks::Both,
        };
        self.faults.fired.cuts += 1;
        self.faults.fired.one_way_cuts += u64::from(blocks != Blocks::Both);
        self.env.note(format_args!("{inside:?} are cut off: {blocks:?}"));
        let cut = self.env.network.cut(Cut { inside, blocks });
        let span = self.env.span(500, 14_000);
        self.env.after(span, Event::Mended(cut));
    }

    /// Lets a wall clock jump, forwards or backwards, by seconds or by days. It may stay so for the rest of the run,
    /// over restarts too. Sometimes all clocks jump together, like those of machines on one host.
    pub(super) fn jump_clock(&mut self, node: usize) {
        let span = match self.env.rng.u8(..3) {
            0 => self.env.span(500, 30_000),
            1 => self.env.span(30_000, 600_000),
            _ => self.env.span(600_000, 72 * 3_600_000),
        };
        let millis = i64::try_from(span.as_millis()).unwrap_or(i64::MAX) * if self.env.rng.bool() { 1 } else { -1 };
        let nodes = (0..self.nodes.len()).map(Participant::Node);
        let who: Vec<_> = match self.env.rng.u8(..3) {
            0 => vec![Participant::Node(node)],
            1 => vec![Participant::Master],
            _ => nodes.chain([Participant::Master]).collect(),
        };
        self.faults.fired.clock_jumps += 1;
        self.env.note(format_args!("the clocks of {who:?} jump by {millis} ms"));
        for who in who {
            let ahead_millis = self.env.clock_ahead(who).saturating_add(millis);
            self.env.set_clock(who, ahead_millis);
            if who == Participant::Master {
                self.env.model.note_clock(ahead_millis);
                self.faults.clock_ahead_max_millis = self.faults.clock_ahead_max_millis.max(ahead_millis);
            }
        }
        // If they stayed apart for ever, nothing would work any more: no ticket would be good.
        for node in (0..self.nodes.len()).map(Participant::Node) {
            let span = self.env.span(1_000, 20_000);
            self.env.after(span, Event::ClockSet(node));
        }
    }

    /// Sets a node's clock to the master's, to within a second.
    pub(crate) fn set_clock_right(&mut self, who: Participant) {
        let ahead_millis = self.env.clock_ahead(Participant::Master) + self.env.rng.i64(-1_000..=1_000);
        self.env.set_clock(who, ahead_millis);
    }
}
