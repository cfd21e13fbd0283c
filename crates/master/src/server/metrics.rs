//! What the master counts: the state of the rules at the moment of the question, and the requests that passed the
//! driver. Serves `sector metrics`. It never changes anything, and the rules know nothing of it.

use std::collections::BTreeMap;

use daemon::metrics::{LabelCounts, Readings, definitions as metric};
use net::messenger::Messenger;
use protocol::{SessionId, message::client_master::ClientReply};

use crate::{Master, MasterFigures, actions::SessionCaller};

/// Requests of clients, from their arrival to their answer.
#[derive(Debug, Default)]
pub(super) struct RequestCounts {
    /// Bounded by what the open sessions have asked and wait for.
    open: BTreeMap<SessionCaller, &'static str>,
    answered: LabelCounts,
}

impl RequestCounts {
    /// A request goes to the rules.
    pub(super) fn begin(&mut self, from: SessionCaller, name: &'static str) {
        if from.request.is_some() {
            self.open.insert(from, name);
        }
    }

    /// It is answered.
    pub(super) fn finish(&mut self, to: SessionCaller, reply: &ClientReply) {
        let Some(name) = self.open.remove(&to) else { return };
        let outcome = match reply {
            ClientReply::Refused(refusal) => refusal.status().as_str(),
            _ => "done",
        };
        self.answered.count(name, outcome);
    }

    /// Nobody will be answered in this session any more.
    pub(super) fn forget(&mut self, session: SessionId) {
        self.open.retain(|caller, _| caller.session != session);
    }

    pub(super) fn read(&self, readings: &mut Readings) {
        self.answered.read(&metric::MASTER_REQUESTS, readings);
    }
}

/// What the rules know of themselves.
pub(super) fn read_master(master: &Master, readings: &mut Readings) {
    let MasterFigures {
        sessions,
        leases,
        usage,
        unhealthy,
        corrupt_copies,
        copies,
        orders,
        nodes,
        jobs,
        trash_entries,
        audit_waiting,
        marks,
        events,
        event_followers,
        event_gaps,
        rebuild_running,
        rebuild_nodes_missing,
    } = master.figures();
    readings.set(&metric::MASTER_SESSIONS, sessions);
    readings.set(&metric::MASTER_LEASES, leases);
    readings.set_of(&metric::MASTER_NAMES, &["file"], usage.files);
    readings.set_of(&metric::MASTER_NAMES, &["folder"], usage.folders);
    readings.set(&metric::MASTER_FILES, usage.bytes);
    for (problem, files) in unhealthy {
        readings.set_of(&metric::MASTER_FILES_UNHEALTHY, &[problem], files);
    }
    readings.set(&metric::MASTER_CORRUPT_COPIES, corrupt_copies);
    readings.set(&metric::MASTER_COPIES_MADE, copies.0);
    readings.set(&metric::MASTER_COPIES_RUNNING, copies.1);
    readings.set_of(&metric::MASTER_ORDERS, &["under-way"], orders.0);
    readings.set_of(&metric::MASTER_ORDERS, &["waiting"], orders.1);
    for (state, count) in nodes {
        readings.set_of(&metric::MASTER_NODES, &[state], count);
    }
    readings.set(&metric::MASTER_JOBS_RUNNING, jobs);
    readings.set(&metric::MASTER_TRASH_ENTRIES, trash_entries);
    readings.set(&metric::MASTER_AUDIT_WAITING, audit_waiting);
    for (kind, count) in marks {
        readings.set_of(&metric::MASTER_MARKS, &[kind], count);
    }
    readings.declare(&metric::MASTER_EVENTS);
    for (kind, count) in events {
        readings.set_of(&metric::MASTER_EVENTS, &[kind], count);
    }
    readings.set(&metric::MASTER_EVENT_FOLLOWERS, event_followers);
    readings.set(&metric::MASTER_EVENT_GAPS, event_gaps);
    readings.set(&metric::MASTER_REBUILD_RUNNING, u64::from(rebuild_running));
    readings.set(&metric::MASTER_REBUILD_NODES_MISSING, rebuild_nodes_missing);
}

/// What the messenger counts.
pub(super) fn read_messenger(messenger: &Messenger, readings: &mut Readings) {
    let counters = messenger.counts();
    readings.set_of(&metric::GMP_MESSAGES, &["sent"], counters.messages_sent);
    readings.set_of(&metric::GMP_MESSAGES, &["received"], counters.messages_received);
    readings.set(&metric::GMP_DATAGRAMS_DROPPED, counters.datagrams_dropped);
    readings.set(&metric::GMP_DATAGRAMS_RETRANSMITTED, counters.datagrams_retransmitted);
}
