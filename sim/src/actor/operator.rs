//! The operator of the machines (path: taking a node away). It drains nodes and cancels drains, and sometimes has an
//! empty node removed and lets it join again. After the faults all nodes are in use again, except perhaps one that must
//! become empty. It never handles more than one node at a time: the files have to go somewhere.

use std::{mem, time::Duration};

use protocol::{
    NodeId, Status,
    message::{
        client_master::{ClientReply, ClientRequest},
        cluster::{DrainRequest, RemoveNodeRequest},
    },
};

use super::asking::{PATIENCE, ask, later};
use crate::{
    environment::{Environment, NODES_MIN, network::DELAY_MAX},
    role::MasterLink,
};

/// See the module.
pub(crate) struct Operator {
    nodes: usize,
    step: Step,
    /// Identifies the present step: an answer to an earlier one is late.
    tag: u64,
    /// The node that may not be in use.
    node: Option<usize>,
    /// The node that was last taken into use again.
    last: Option<usize>,
    /// A node whose return into use may have been lost with a journal, while another is handled.
    unconfirmed: Option<usize>,
    /// The next request about it.
    next: Next,
    /// Whether the master has lost its journal since the present request. Then its answer is forgotten, whatever it
    /// was.
    is_forgotten: bool,
    /// Whether the last one stays out of use.
    leaves_one: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Next {
    Drain,
    Remove,
    /// It may join again, if it was removed.
    Admit,
    /// It is taken into use again.
    Use,
}

enum Step {
    Waiting,
    Asking,
    AtRest,
}

impl Operator {
    /// An operator for a cloud of this many nodes.
    pub(crate) fn new(nodes: usize, leaves_one: bool) -> Self {
        // With fewer nodes than requested copies, the cloud would never be well.
        let leaves_one = leaves_one && nodes > NODES_MIN;
        Self {
            nodes,
            step: Step::Waiting,
            tag: 0,
            node: None,
            last: None,
            unconfirmed: None,
            next: Next::Drain,
            is_forgotten: false,
            leaves_one,
        }
    }

    pub(crate) fn is_at_rest(&self) -> bool {
        matches!(self.step, Step::AtRest)
    }

    pub(crate) fn state(&self) -> String {
        format!("looks after node {:?}: {:?}", self.node, self.next)
    }

    /// The master lost its journal, and with it perhaps the last moment's small rows. The node's return into use may be
    /// among them, as an operator would see in `sector nodes`.
    pub(crate) fn journal_lost(&mut self, env: &mut Environment, master_link: &MasterLink) {
        self.is_forgotten = matches!(self.step, Step::Asking);
        if self.node.is_none() && self.last.is_some() {
            (self.node, self.next) = (self.last, Next::Admit);
            self.begin_round(env, master_link);
        } else if self.last != self.node {
            self.unconfirmed = self.last;
        }
    }

    /// Continues after a rest.
    pub(crate) fn begin_round(&mut self, env: &mut Environment, master_link: &MasterLink) {
        if self.is_at_rest() {
            env.model.people_at_work += 1;
            self.wait(env, master_link);
        }
    }

    pub(crate) fn logged_in(&mut self, env: &mut Environment, master_link: &mut MasterLink) {
        if self.tag == 0 {
            self.wait(env, master_link);
        }
    }

    pub(crate) fn timer(&mut self, env: &mut Environment, master_link: &mut MasterLink, tag: u64) {
        if tag != self.tag {
            return;
        }
        match self.step {
            Step::Waiting => self.go_on(env, master_link),
            Step::Asking => self.answered(env, master_link, tag, None),
            Step::AtRest => {}
        }
    }

    /// An answer came (or will not).
    pub(crate) fn answered(
        &mut self,
        env: &mut Environment,
        master_link: &mut MasterLink,
        tag: u64,
        reply: Option<ClientReply>,
    ) {
        if tag != self.tag || !matches!(mem::replace(&mut self.step, Step::Waiting), Step::Asking) {
            return;
        }
        env.note(format_args!("{:?} is told {reply:?} of {:?} {:?}", master_link.who, self.next, self.node));
        let is_heard = reply.is_some();
        let is_forgotten = mem::take(&mut self.is_forgotten);
        match (self.next, reply) {
            (Next::Use, Some(ClientReply::Plan(_))) if is_forgotten => self.next = Next::Admit,
            // The result is unknown, or the request is impossible; the other steps recover from any state.
            (Next::Drain, Some(ClientReply::Plan(_))) if env.chance(REMOVED_SHARE) => self.next = Next::Remove,
            (Next::Drain, Some(ClientReply::Plan(_))) if self.is_last(env) => {
                env.model.leaving = self.node;
                return self.come_to_rest(env);
            }
            (Next::Drain, _) => self.next = Next::Admit,
            // It is tried until the node is empty, or for as long as there are faults.
            (Next::Remove, Some(ClientReply::Refused(_))) if !env.is_healing && env.chance(85) => {}
            (Next::Remove, _) => self.next = Next::Admit,
            (Next::Admit, Some(ClientReply::Removal(_))) => self.next = Next::Use,
            (Next::Admit, Some(ClientReply::Refused(refusal))) if refusal.status() == Status::NotFound => {
                self.next = Next::Use;
            }
            (Next::Use, Some(ClientReply::Plan(_))) => {
                (self.last, self.node) = (self.node, self.unconfirmed.take());
                self.next = if self.node.is_some() { Next::Admit } else { Next::Drain };
            }
            // A master that lost its journal has learned only now that the node was barred.
            (Next::Use, Some(ClientReply::Refused(refusal))) if refusal.status() == Status::NotFound => {
                self.next = Next::Admit;
            }
            (Next::Admit | Next::Use, _) => {}
        }
        if is_heard {
            return self.wait(env, master_link);
        }
        // Until no effect of it can come any more.
        self.tag += 1;
        later(env, master_link, DELAY_MAX + Duration::from_millis(500), self.tag);
    }

    fn wait(&mut self, env: &mut Environment, master_link: &MasterLink) {
        self.tag += 1;
        self.step = Step::Waiting;
        let longest_ms = if env.is_healing { 1_000 } else { 12_000 };
        let span = env.span(200, longest_ms);
        later(env, master_link, span, self.tag);
    }

    fn go_on(&mut self, env: &mut Environment, master_link: &mut MasterLink) {
        if env.is_healing && self.next == Next::Remove {
            self.next = Next::Admit;
        }
        if self.node.is_none() && env.is_healing && !self.is_last(env) {
            return self.come_to_rest(env);
        }
        let node = *self.node.get_or_insert_with(|| env.rng.usize(..self.nodes));
        env.model.operated_node = Some(node);
        let Ok(node) = NodeId::new(format!("n{node}")) else { return };
        let is_drain = self.next == Next::Drain;
        let request = match self.next {
            Next::Drain | Next::Use => {
                let dry_run = is_drain && !env.is_healing && env.chance(10);
                ClientRequest::Drain(DrainRequest { node, dry_run, undo: !is_drain })
            }
            Next::Remove | Next::Admit => {
                let undo = self.next == Next::Admit;
                ClientRequest::RemoveNode(RemoveNodeRequest { node, force: false, dry_run: false, undo })
            }
        };
        env.note(format_args!("{:?} asks {request:?}", master_link.who));
        self.tag += 1;
        self.step = Step::Asking;
        ask(env, master_link, &request, self.tag, PATIENCE);
    }

    /// Whether the next drained node stays drained.
    fn is_last(&self, env: &Environment) -> bool {
        env.is_healing && env.is_last && self.leaves_one && !env.model.has_lost_journal()
    }

    fn come_to_rest(&mut self, env: &mut Environment) {
        self.step = Step::AtRest;
        env.model.people_at_work -= 1;
    }
}

/// How many of 100 drained nodes are removed afterwards.
const REMOVED_SHARE: u32 = 40;
