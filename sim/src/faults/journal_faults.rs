//! The worst faults of the master: it starts with an empty journal, or with an older one. The slices on the disks at
//! that moment decide what may be found again. A journal is never replaced under a running master.

use std::time::Duration;

use protocol::message::node_master::HeldSlice;

use crate::{
    cloud::Cloud,
    environment::queue::{Event, Participant},
    faults::JournalCopy,
    model::{Backup, Held, Recovered},
    role::PLENTY_BYTES,
};

impl Cloud {
    /// One change of the journal's disk will fail; the master dies of it, and is started again.
    pub(super) fn fail_journal(&mut self) {
        let changes = self.env.rng.u64(..40);
        self.master.disk().fail_one_after(changes);
        self.env.note(format_args!("the journal's disk will fail once"));
        self.faults.fired.journal_failures += 1;
    }

    /// Leaves the journal's disk no room, for a while.
    pub(super) fn fill_journal(&mut self) {
        let bytes = if self.env.rng.bool() { 0 } else { self.env.rng.u64(..100_000) };
        self.master.disk().set_free_bytes(bytes);
        self.env.note(format_args!("the journal's disk has room for {bytes} bytes more"));
        self.faults.fired.full_journals += 1;
        let span = self.env.span(1_000, 15_000);
        self.env.after(span, Event::JournalHasRoom);
    }

    /// The master dies and its journal is gone; some nodes die with it.
    pub(crate) fn lose_journal(&mut self) {
        self.crash_some();
        self.env.note(format_args!("the master's journal is lost"));
        self.faults.fired.lost_journals += 1;
        self.master.lose_journal(&mut self.env);
        self.go_on_without(None);
    }

    /// The master dies and an older journal takes the place of its own; some nodes die with it.
    pub(crate) fn roll_back(&mut self, (taken, names, copy): &JournalCopy) {
        self.crash_some();
        self.env.note(format_args!("the master's journal is one of {:.3} s", taken.as_secs_f64()));
        self.faults.fired.rolled_back_journals += 1;
        self.master.disk().set_free_bytes(PLENTY_BYTES);
        self.master.put_journal_back(copy);
        self.go_on_without(Some(names));
    }

    /// Takes a copy of the journal, if that may be needed; and again after a while.
    pub(crate) fn keep_copy_of_journal(&mut self) {
        let span = self.env.span(1_000, 25_000);
        self.env.after(span, Event::JournalCopied);
        let Some(copy) = self.copy_of_journal().filter(|_| self.faults.wants_copies()) else { return };
        let copies = &mut self.faults.copies;
        if copies.len() >= COPIES_MAX {
            copies.swap_remove(self.env.rng.usize(..COPIES_MAX));
        }
        copies.push(copy);
    }

    pub(crate) fn copy_of_journal(&self) -> Option<JournalCopy> {
        let now = self.env.now.monotonic;
        self.master.copy_journal().map(|copy| (now, Backup::take(&self.env.model, now), copy))
    }

    /// The master dies, and perhaps nodes; broken disks are repaired.
    fn crash_some(&mut self) {
        self.crash_master();
        for node in 0..self.nodes.len() {
            // Slices on a broken disk come back with it.
            self.repair_disks(node);
            if self.nodes[node].is_failing() || self.env.chance(40) {
                self.crash_node(node);
            }
        }
    }

    /// The master will start with a journal that is empty, or that has the names of a copy.
    fn go_on_without(&mut self, backup: Option<&Backup>) {
        // As documented: the new master's clock must not be behind the lost one's.
        let ahead_millis = self.faults.clock_ahead_max_millis.max(self.env.clock_ahead(Participant::Master));
        self.env.set_clock(Participant::Master, ahead_millis);
        self.env.use_clock_of(Participant::Master);
        let (held, kept_until) = (self.all_held(), self.kept_until());
        let now = self.env.now.monotonic;
        // With an older journal it takes writes before it has heard of later ones. Without one, the newest file may
        // have been removed for good.
        let known = match backup {
            Some(backup) => self.env.model.versions.largest_before(backup.taken),
            None => held.iter().map(|held| held.version).max(),
        };
        self.env.model.versions.lose(now, known);
        let was_put_back = self.env.model.attributes.is_put_back();
        self.env.model.lose_attributes(now, kept_until, backup.map(|backup| backup.taken));
        self.env.model.had_old_journal |= backup.is_some();
        let recovered = match self.env.model.recovered.take() {
            Some(recovered) if was_put_back => recovered.lose_again(&held).confused(&self.env.model, &held),
            Some(recovered) => recovered.lose_again(&held),
            None => Recovered::new(&self.env.model, now, kept_until, &held),
        };
        self.env.model.recovered = Some(match backup {
            Some(backup) => recovered.rolled_back(&self.env.model, kept_until, &held, backup),
            None => recovered,
        });
        self.env.model.release_restored(kept_until);
        self.env.model.has_old_journal = backup.is_some();
        self.env.model.losses += 1;
        self.env.is_quiet = true;
        for actor in &mut self.actors {
            actor.journal_lost(&mut self.env);
        }
    }

    /// Small rows acknowledged before this moment are kept by some node.
    fn kept_until(&self) -> Duration {
        let nodes = self.nodes.iter().enumerate();
        let in_use = nodes.filter(|(number, _)| self.env.model.operated_node != Some(*number));
        in_use.map(|(_, node)| node.kept_until()).max().unwrap_or_default()
    }

    /// All slices on all disks, including those of dead nodes.
    fn all_held(&mut self) -> Vec<Held> {
        if let Some(node) = self.env.model.operated_node {
            self.nodes[node].may_bring_back();
        }
        let mut found = Vec::new();
        for node in &mut self.nodes {
            let slices = match &node.process {
                Some(process) => process.store.held(),
                // As the node will when it starts; a disk that cannot be opened now holds nothing certain.
                None => node.disks.open().map(|(store, _)| store.held()).unwrap_or_default(),
            };
            let is_dead = !node.is_up();
            let away_since = |slice: &HeldSlice| node.dead_since(slice.metadata.header.slice);
            found.extend(slices.into_iter().map(|slice| (away_since(&slice), slice, is_dead)));
        }
        found
            .into_iter()
            .filter_map(|(away_since, slice, is_dead)| {
                Some(Held { dead_since: away_since, ..self.held(slice, is_dead)? })
            })
            .collect()
    }

    fn held(&self, HeldSlice { metadata, state }: HeldSlice, is_dead: bool) -> Option<Held> {
        let header = metadata.header;
        Some(Held {
            slice: header.slice,
            content: self.env.model.contents.find(metadata.digest)?,
            state,
            version: header.version,
            // An order of the old master may still reach a living process.
            is_certain: is_dead && !self.faults.flipped.contains(&header.slice),
            path: header.path,
            dead_since: None,
            journal: header.journal,
        })
    }
}

/// Copies that are kept at a time.
const COPIES_MAX: usize = 3;
