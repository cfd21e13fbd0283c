//! What the master tells its clock guard: the machine, the nodes' clocks, an administrator's word. Serves removals by
//! time. It never judges a clock itself.

use std::time::Duration;

use protocol::{NodeId, Now, message::client_master::ClientReply};

use crate::{Master, actions::SessionCaller, log::journal_writes::Effect};

impl Master {
    /// Sets the machine on which the master runs.
    pub fn set_machine(&mut self, machine: Option<u128>) {
        self.catalog.clock_mut().set_machine(machine);
    }

    /// Sets how long the machine was suspended since the master was started. The monotonic clock does not count that
    /// time.
    pub fn note_suspended(&mut self, slept: Duration) {
        self.catalog.clock_mut().note_suspended(slept);
    }

    /// Takes a node's report of its clock.
    pub(crate) fn note_node_clock(&mut self, now: Now, node: NodeId, unix_millis: u64, machine: Option<u128>) {
        self.catalog.clock_mut().record_node_clock(now, node, unix_millis, machine);
        if self.catalog.clock().is_in_doubt() {
            // Anyone who checks a cloud right after its start then sees its full state.
            self.watch_clock(now);
        }
    }

    /// Checks the clock before anything is removed by it.
    pub(crate) fn watch_clock(&mut self, now: Now) {
        let nodes: Vec<_> = self.fleet.nodes.iter().map(|(_, node)| node.id.clone()).collect();
        let newest = self.catalog.names().last_version();
        let row = self.catalog.clock_mut().watch(now, &nodes, newest);
        self.save(now, row.into_iter().collect(), Vec::new());
    }

    /// An administrator says that the clock is right.
    pub(crate) fn confirm_clock(&mut self, now: Now, caller: SessionCaller) {
        let newest = self.catalog.names().last_version();
        let row = self.catalog.clock_mut().confirm(now, newest);
        self.save(now, vec![row], vec![Effect::Reply(caller, ClientReply::Done)]);
    }
}
