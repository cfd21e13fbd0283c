//! The orders for tasks: where their segments are, and where their results go. It mirrors `client::job::task_orders`,
//! and never chooses which task runs.

use std::collections::BTreeMap;

use protocol::{
    NodeId, Refusal, SliceId,
    message::{
        client_master::{ClientReply, ClientRequest, Source},
        request::{LocateRequest, StatRequest},
        spe::{
            AttemptId, BucketTarget, LoadOrder, OutputPlacement, PartOrder, SegmentOrder, SegmentSource, SpeRequest,
            TaskOrder,
        },
    },
};
use sphere::{Assignment, BucketLocation, Event, OrderRefusal, Placement, SegmentLocation, input};

use super::running::{Locating, PendingCall, PendingRequest, Running, refusal_of, unavailable};
use crate::{
    environment::{Environment, queue::Participant},
    role::{MasterLink, delegate},
};

impl Running {
    /// Locates a task's segments, one slice after the other, then gives the task to its SPE.
    pub(super) fn prepare(
        &mut self,
        env: &mut Environment,
        master_link: &mut MasterLink,
        tag: &mut u64,
        locating: Box<Locating>,
    ) {
        match locating.missing() {
            Some((_, path)) => self.ask(
                env,
                master_link,
                tag,
                &ClientRequest::Locate(LocateRequest(path)),
                PendingRequest::Locate(locating),
            ),
            None => self.give(env, master_link, *locating),
        }
    }

    pub(super) fn located(
        &mut self,
        env: &mut Environment,
        master_link: &mut MasterLink,
        tag: &mut u64,
        mut locating: Box<Locating>,
        reply: Option<ClientReply>,
    ) {
        let Some((slice, path)) = locating.missing() else { return };
        let refused = match reply {
            Some(ClientReply::Located(located)) => match input::sources_of(slice, located) {
                Ok(sources) => {
                    locating.found.extend(sources.into_iter().next().map(|source| (slice, source)));
                    return self.prepare(env, master_link, tag, locating);
                }
                Err(OrderRefusal::InputUnavailable(refusal)) => {
                    let asked = PendingRequest::Copies(locating.task.attempt, refusal);
                    return self.ask(env, master_link, tag, &ClientRequest::Stat(StatRequest(path)), asked);
                }
                Err(refused) => refused,
            },
            reply => OrderRefusal::from_master(refusal_of(reply)),
        };
        self.core.handle_event(env.now, refused.event(locating.task.attempt));
    }

    /// The master named the copies of an unreadable input, or did not.
    pub(super) fn copies_told(
        &mut self,
        env: &mut Environment,
        attempt: AttemptId,
        refusal: Refusal,
        reply: Option<ClientReply>,
    ) {
        let refused = match reply {
            Some(ClientReply::Status(found)) => OrderRefusal::from_copies(refusal, &found.copies),
            _ => OrderRefusal::Retryable(refusal),
        };
        self.core.handle_event(env.now, refused.event(attempt));
    }

    fn give(&mut self, env: &mut Environment, master_link: &MasterLink, locating: Locating) {
        let Locating { task, found } = locating;
        let Some(spe) = self.spes.get(&task.spe) else { return };
        let Some(order) = self.order(master_link.who, &task, &found) else {
            let refusal = unavailable("the master gave no ticket");
            return self.core.handle_event(env.now, Event::TaskFailed { attempt: task.attempt, refusal });
        };
        let order = Box::new(order);
        if spe.loaded == Some(task.attempt.stage) {
            self.send_message(
                env,
                master_link,
                task.spe,
                SpeRequest::Run((*order).clone()),
                PendingCall::RunningTask(task.spe, order),
            );
        } else {
            let load = SpeRequest::Load(LoadOrder::plain(self.planned.function(task.attempt.stage)));
            self.send_message(env, master_link, task.spe, load, PendingCall::Loading(task.spe, order));
        }
    }

    fn order(&self, by: Participant, task: &Assignment, found: &BTreeMap<SliceId, Source>) -> Option<TaskOrder> {
        // The tickets are the driver's; the node that runs the task uses them.
        let node = &self.spes.get(&task.spe)?.node;
        let output = match &task.output {
            Placement::Local => OutputPlacement::Local,
            Placement::Buckets(homes) => {
                let is_wanted = |number: u32| task.wanted.as_ref().is_none_or(|wanted| wanted.contains(&number));
                let place = |(number, home)| self.place((by, node), home, is_wanted(number));
                OutputPlacement::Buckets((0..).zip(homes.iter()).map(place).collect::<Option<_>>()?)
            }
        };
        let mut segments = Vec::new();
        for segment in &task.segments {
            let first = &segment.first;
            let source = match &first.location {
                SegmentLocation::Local(slice) => SegmentSource::Local(*slice),
                SegmentLocation::Bucket(bucket) => SegmentSource::Bucket(*bucket),
                SegmentLocation::Remote { slice, .. } => {
                    let source = found.get(slice)?;
                    let from = Source { ticket: delegate(by, &source.ticket, node), ..source.clone() };
                    SegmentSource::Remote { slice: *slice, from: Box::new(from) }
                }
            };
            let first = PartOrder::plain(source, first.path.clone(), first.from, first.until, first.records);
            segments.push(SegmentOrder::single(segment.segment, first));
        }
        // The simulated SPE follows the rules of jobs, without the node's ticket checks.
        Some(TaskOrder { attempt: task.attempt, segments, output, inputs: None })
    }

    /// Where a bucket is, for `sender`, to which the driver `by` delegates its ticket.
    pub(super) fn place(
        &self,
        (by, sender): (Participant, &NodeId),
        home: &BucketLocation,
        is_wanted: bool,
    ) -> Option<BucketTarget> {
        let source = self.sources.get(&home.node)?;
        let (address, ticket, site) = (source.address, delegate(by, &source.ticket, sender), source.place.site.clone());
        let (node, making) = (home.node.clone(), home.generation);
        Some(BucketTarget { node, address, distance: None, ticket, site, generation: making, is_wanted })
    }
}
