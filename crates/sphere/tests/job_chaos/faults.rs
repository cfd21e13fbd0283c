//! What goes wrong in the fake cloud: nodes die or come back empty, SPEs die or fall silent, inputs are away, drivers
//! are replaced.

use std::time::Duration;

use protocol::{NodeId, Reason, Refusal};
use sphere::{Assignment, Event, SegmentLocation, SpeId};

use super::{Cloud, Node, Work};

impl Cloud {
    pub(super) fn fault(&mut self) {
        let names: Vec<NodeId> = self.nodes.keys().cloned().collect();
        let name = names[self.rng.usize(0..names.len())].clone();
        let up = self.nodes.values().filter(|node| !node.is_down).count();
        let kind = match self.rng.u8(0..6) {
            // What is returned to a driver is gone with it.
            4 if !self.is_published => None,
            4 => self.replace_driver(),
            5 => self.lack_input(),
            0 => self.kill_spe(),
            1 => self.silence_spe(),
            // One node stays, so that the job can end well.
            2 if up > 1 && !self.nodes[&name].is_down => {
                *self.nodes.get_mut(&name).unwrap() = Node { is_down: true, ..Node::default() };
                // Either its conversations break, or the master misses it.
                if self.rng.bool() {
                    self.tell(Event::NodeLost(name))
                } else {
                    self.break_conversations(&name)
                }
                Some("node killed")
            }
            _ if !self.nodes[&name].is_down => {
                *self.nodes.get_mut(&name).unwrap() = Node::default();
                self.break_conversations(&name);
                Some("node emptied")
            }
            _ => None,
        };
        if let Some(kind) = kind {
            *self.fired.entry(kind).or_default() += 1;
        }
    }

    fn break_conversations(&mut self, node: &NodeId) {
        let broken: Vec<SpeId> = self.spes.iter().filter(|(_, at)| *at == node).map(|(spe, _)| *spe).collect();
        for spe in broken {
            self.tell(Event::SpeLost { spe, refusal: Refusal::new(Reason::Unavailable, "the connection broke") });
        }
    }

    /// An SPE dies in its work, some of its pieces already delivered.
    fn kill_spe(&mut self) -> Option<&'static str> {
        let run = self.take_run()?;
        let pieces = self.rng.usize(0..3);
        self.process(&run, pieces);
        let refusal = Refusal::new(Reason::Unavailable, "killed");
        let event = if self.rng.bool() {
            Event::TaskFailed { attempt: run.attempt, refusal }
        } else {
            Event::SpeLost { spe: run.spe, refusal }
        };
        self.tell(event);
        Some("SPE killed")
    }

    /// No copy of what an attempt is to read can be reached when it is its turn.
    fn lack_input(&mut self) -> Option<&'static str> {
        let is_file = |part: &SegmentLocation| !matches!(part, SegmentLocation::Bucket(_));
        let run = self.take_run()?;
        if !run.segments.iter().all(|segment| is_file(&segment.first.location)) {
            self.work.push(Work::Run(run));
            return None;
        }
        let refusal = Refusal::new(Reason::Unavailable, "no copy can be reached");
        self.tell(Event::InputUnavailable { attempt: run.attempt, refusal });
        Some("input away")
    }

    /// An SPE does its work and says so only after it was given up.
    fn silence_spe(&mut self) -> Option<&'static str> {
        let run = self.take_run()?;
        let event = self.process(&run, usize::MAX);
        if self.rng.bool() {
            self.now = self.now.after(Duration::from_secs(31));
            self.pass_time();
            self.tell(event);
        }
        Some("SPE silent")
    }

    fn take_run(&mut self) -> Option<Assignment> {
        let at = self.work.iter().position(|work| matches!(work, Work::Run(_)))?;
        if let Work::Run(run) = self.work.swap_remove(at) { Some(run) } else { None }
    }
}
