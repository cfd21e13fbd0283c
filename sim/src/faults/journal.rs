//! The worst that can happen to the master: it starts with an empty journal. What may be found again follows from what
//! lies on the disks at that moment.

use std::{path::Path, sync::Arc};

use protocol::message::node_master::HeldSlice;
use store::SliceStore;

use crate::{
    cloud::Cloud,
    model::{Held, Recovered},
    queue::Who,
    role::DATA_FOLDER,
};

impl Cloud {
    /// The master dies and its journal is gone; some nodes die with it.
    pub(crate) fn lose_journal(&mut self) {
        self.crash_master();
        for node in 0..self.nodes.len() {
            if self.nodes[node].is_failing() || self.env.chance(40) {
                self.crash_node(node);
            }
        }
        self.env.note(format_args!("the master's journal is lost"));
        self.faults.fired.lost_journals += 1;
        self.master.lose_journal();
        // As documented: the new master's clock must not be behind the lost one's.
        let ahead_millis = self.faults.clock_ahead_max_millis.max(self.env.clock_ahead(Who::Master));
        self.env.set_clock(Who::Master, ahead_millis);
        self.env.look_at_clock_of(Who::Master);
        let held = self.all_held();
        self.env.book.recovered = Some(Recovered::new(&self.env.book, self.env.now.monotonic, &held));
        for actor in &mut self.actors {
            actor.journal_lost(&self.env);
        }
    }

    /// All slices on all disks, those of dead nodes too.
    fn all_held(&self) -> Vec<Held> {
        let mut all = Vec::new();
        for node in &self.nodes {
            let slices = match &node.process {
                Some(process) => process.store.held(),
                // As the node will when it starts; a disk that cannot be opened now holds nothing certain.
                None => SliceStore::open(Arc::new(node.disk.clone()), Path::new(DATA_FOLDER))
                    .map(|(store, _)| store.held())
                    .unwrap_or_default(),
            };
            let is_dead = !node.is_up();
            all.extend(slices.into_iter().filter_map(|slice| self.held(slice, is_dead)));
        }
        all
    }

    fn held(&self, HeldSlice { metadata, state }: HeldSlice, is_dead: bool) -> Option<Held> {
        let header = metadata.header;
        Some(Held {
            slice: header.slice,
            content: self.env.book.contents.find(metadata.digest)?,
            state,
            version: header.version,
            // An order of the old master may still reach a process that lives.
            is_certain: is_dead && !self.faults.flipped.contains(&header.slice),
            path: header.path,
        })
    }
}
