//! Carries out what the rules ask for. Whatever takes time runs in its own task and returns as an event, so the task
//! that owns the rules never waits here.

use std::{sync::Arc, time::Duration};

use net::messenger::Delivered;
use protocol::{
    Reason, Refusal, SessionId,
    gmp::Class,
    limits,
    message::{
        node_master::{Ack, INCOMING_WRITES_EVERY, Order, Report},
        rebuild::{MirrorKey, MirrorUpdate},
        work::{WORK_ITEMS_MAX, WORK_REPORT_SECONDS},
    },
    wire::codec,
};
use tracing::Instrument;

use super::{ServerLoop, metrics};
use crate::{
    blocking,
    node_context::{NodeContext, event::Event},
    rules::{CopyOrder, Move, MoveId, NodeAction, NodeCompletion, ReplyTo, ReportId},
    transfer::copy::{self, CopyFailed},
};

impl ServerLoop {
    /// A message that claims to be an order from the master.
    pub(super) fn deliver(&mut self, delivered: Delivered) {
        let Delivered { session, request, body } = delivered;
        // Orders are requests; a notice has no meaning here.
        let Some(request) = request else { return };
        match codec::decode::<Order>(&body) {
            Ok(order) => self.node.handle_message(self.clock.now(), ReplyTo { session, request }, order),
            Err(error) => {
                tracing::warn!(%session, %error, "the master sent something that is no order");
                let refusal = Refusal::new(Reason::Invalid, format!("this is no order: {error}"));
                self.messenger.reply(session, request, codec::encode(&Ack::Refused(refusal)));
            }
        }
    }

    /// Does everything that the rules ask for now.
    pub(super) fn perform(&mut self) {
        while let Some(action) = self.node.poll_action() {
            match action {
                NodeAction::Ack { to, ack } => {
                    self.messenger.reply_as(Class::Urgent, to.session, to.request, codec::encode(&ack))
                }
                NodeAction::Report { session, id, report } => self.report(session, id, report),
                NodeAction::ReportStatus { session } => self.report_status(session),
                NodeAction::ReportClock { session, unix_millis } => {
                    let told = codec::encode(&Report::Clock { unix_millis, machine: net::clock::boot_id() });
                    let messenger = self.messenger.clone();
                    // Lost with its session, which the status detects; sent again in a minute.
                    self.work.spawn(async move {
                        drop(messenger.request(session, told, STATUS_ANSWER_TIME_MAX).await);
                    });
                }
                NodeAction::TakeInventory => {
                    // A master that has just let us in tells it again.
                    self.context.storage.slices.set_slow(&[]);
                    for told in self.context.storage.mirror.join_completions(&self.context.storage.slices) {
                        self.node.handle_completion(self.clock.now(), told);
                    }
                    let partials = self.context.storage.slices.partials();
                    self.node.handle_completion(self.clock.now(), NodeCompletion::Partials(partials));
                }
                NodeAction::Rejoin { session } => {
                    self.messenger.remove_session(session);
                    self.start_joining();
                }
                NodeAction::StartCopy(order) => self.copy(order),
                NodeAction::Move { id, work } => self.move_slice(id, work),
                NodeAction::MirrorRows { to, keep } => self.mirror_rows(to, keep),
                NodeAction::Revoke(revocation) => {
                    tracing::info!(user = %revocation.user, "the tickets of a user were revoked");
                    self.context.tickets.revocations().revoke(self.clock.now(), revocation);
                }
                NodeAction::RevokeNodes(machines) => self.context.tickets.revocations().revoke_nodes(machines),
                NodeAction::ReadMirror { after } => self.read_mirror(after),
                NodeAction::SetLinkShares(shares) => self.context.peers.site_limiters.set_shares(&shares),
                NodeAction::SetSlowDisks(folders) => self.context.storage.slices.set_slow(&folders),
                NodeAction::SetTicketKeys(keys) => self.context.tickets.set_keys(keys),
                NodeAction::StartDriver(order) => {
                    let context = Arc::clone(&self.context);
                    self.work.spawn(async move { context.spes.drivers.run_driver(order).await });
                }
                NodeAction::ReadMetrics { to } => {
                    let messenger = self.messenger.clone();
                    self.read_metrics(move |text| {
                        let counted = codec::encode(&Ack::Metrics(text));
                        messenger.reply_as(Class::Ordinary, to.session, to.request, counted);
                    });
                }
                NodeAction::ForgetJob(job) => {
                    let buckets = Arc::clone(&self.context.storage.buckets);
                    self.work.spawn(async move {
                        // What cannot be removed now is removed at the next start.
                        if let Err(error) = blocking("forgetting a job", move || buckets.forget(job)).await {
                            tracing::warn!(%job, %error, "a job's files could not be removed");
                        }
                    });
                }
            }
        }
    }

    /// Answers with what the node counts, once its disks have said how they are.
    pub(super) fn read_metrics(&mut self, answer: impl FnOnce(String) + Send + 'static) {
        let (context, messenger) = (Arc::clone(&self.context), self.messenger.clone());
        let work = self.workers.rows(self.clock.now().unix_millis);
        self.work.spawn(async move {
            let store = Arc::clone(&context.storage.slices);
            let measured = blocking("measuring the disks", move || Ok((store.held().len() as u64, store.statuses())));
            let (slices, mut disks) = measured.await.unwrap_or_default();
            context.storage.scrub_statuses.fill(&mut disks);
            answer(metrics::text(&context, &messenger, &work, slices, &disks));
        });
    }

    fn mirror_rows(&mut self, to: ReplyTo, keep: MirrorUpdate) {
        let context = Arc::clone(&self.context);
        self.work.spawn(async move {
            let (kept, store) = (Arc::clone(&context.storage.mirror), Arc::clone(&context.storage.slices));
            let result = blocking("keeping rows", move || kept.apply_and_mark(&keep, &store)).await;
            context
                .send_completion(NodeCompletion::RowsMirrored { to, result: result.map_err(|error| error.refusal()) })
                .await;
        });
    }

    fn read_mirror(&mut self, after: Option<MirrorKey>) {
        let context = Arc::clone(&self.context);
        self.work.spawn(async move {
            let kept = Arc::clone(&context.storage.mirror);
            match blocking("reading kept rows", move || kept.page(after)).await {
                Ok(Some(page)) => context.send_completion(NodeCompletion::MirrorPage(page)).await,
                Ok(None) => tracing::warn!("the master asked for rows, and none are kept"),
                Err(error) => tracing::error!(%error, "kept rows cannot be read"),
            }
        });
    }

    fn report(&mut self, session: SessionId, id: ReportId, report: Report) {
        let (messenger, context) = (self.messenger.clone(), Arc::clone(&self.context));
        self.work.spawn(async move {
            let event =
                match messenger.request_as(class_of(&report), session, codec::encode(&report), ANSWER_TIME_MAX).await {
                    Ok(reply) => {
                        // A refusal is an answer too: the master has received the report and will answer no other way.
                        if let Ok(Ack::Refused(refusal)) = codec::decode(&reply) {
                            tracing::warn!(%refusal, ?report, "the master refused a report");
                        }
                        Event::Completion(NodeCompletion::Acknowledged(id))
                    }
                    Err(error) => {
                        tracing::debug!(%session, %error, "a report was not answered");
                        Event::SessionFailed(session)
                    }
                };
            context.events.send(event).await;
        });
    }

    fn report_status(&mut self, session: SessionId) {
        if self.status_out.value() > 0 {
            return;
        }
        let counted = self.status_out.count();
        let (messenger, context) = (self.messenger.clone(), Arc::clone(&self.context));
        let now = self.clock.now().monotonic;
        let tells_arriving = now >= self.arriving_due;
        if tells_arriving {
            self.arriving_due = now + INCOMING_WRITES_EVERY;
        }
        let told_work = (now >= self.work_due).then(|| self.workers.rows(self.clock.now().unix_millis));
        if told_work.is_some() {
            self.work_due = now + Duration::from_secs(WORK_REPORT_SECONDS);
        }
        self.work.spawn(async move {
            let status = codec::encode(&status(&context).await);
            let asked = messenger.request_as(Class::Urgent, session, status, STATUS_ANSWER_TIME_MAX);
            let mut is_answered = asked.await.is_ok();
            // Sent with each answered status and one at a time: a peer that presents bad tickets by the thousand cannot
            // fill the audit record.
            if is_answered && let Some(untold) = context.tickets.take_unreported() {
                let told = messenger.request(session, codec::encode(&untold), STATUS_ANSWER_TIME_MAX).await;
                is_answered = told.is_ok();
                if !is_answered {
                    context.tickets.restore_unreported(&untold);
                }
            }
            if tells_arriving {
                for page in context.tickets.active_writes().reports() {
                    let told = || messenger.request(session, codec::encode(&page), STATUS_ANSWER_TIME_MAX);
                    is_answered = is_answered && told().await.is_ok();
                }
            }
            if let Some(untold) = context.load.untold().filter(|_| is_answered) {
                let told = codec::encode(&Report::Load(untold.report.clone()));
                is_answered = messenger.request(session, told, STATUS_ANSWER_TIME_MAX).await.is_ok();
                if is_answered {
                    context.load.note_told(&untold);
                }
            }
            if let Some(untold) = context.links.untold().filter(|_| is_answered) {
                let told = codec::encode(&Report::Links(untold.report.clone()));
                is_answered = messenger.request(session, told, STATUS_ANSWER_TIME_MAX).await.is_ok();
                if is_answered {
                    context.links.note_told(&untold);
                }
            }
            if let Some(report) = context.evidence.untold(context.links.full()).filter(|_| is_answered) {
                let told = codec::encode(&Report::Evidence(report.clone()));
                is_answered = messenger.request(session, told, STATUS_ANSWER_TIME_MAX).await.is_ok();
                if is_answered {
                    context.evidence.note_told(&report);
                }
            }
            if let Some(mut rows) = told_work.filter(|_| is_answered) {
                rows.truncate(WORK_ITEMS_MAX);
                let told = messenger.request(session, codec::encode(&Report::Work(rows)), STATUS_ANSWER_TIME_MAX);
                is_answered = told.await.is_ok();
            }
            if !is_answered {
                context.events.send(Event::SessionFailed(session)).await;
            }
            drop(counted);
        });
    }

    fn copy(&mut self, order: CopyOrder) {
        let context = Arc::clone(&self.context);
        self.work.spawn(async move {
            let slice = order.header.slice;
            let span = tracing::info_span!("copy", %slice);
            let copied = async {
                tracing::debug!(from = %order.from.node, "a copy begins");
                copy::copy(&context, order).await
            };
            let completion = match Box::pin(copied).instrument(span).await {
                Ok(metadata) => NodeCompletion::Copied { slice, result: Ok(metadata), kept_bytes: 0 },
                Err(CopyFailed { error, kept_bytes }) => {
                    tracing::warn!(%slice, %error, kept_bytes, "a copy could not be made");
                    NodeCompletion::Copied { slice, result: Err(error.refusal()), kept_bytes }
                }
            };
            context.send_completion(completion).await;
        });
    }

    fn move_slice(&mut self, id: MoveId, work: Move) {
        let context = Arc::clone(&self.context);
        self.work.spawn(async move {
            let (store, buckets) = (Arc::clone(&context.storage.slices), Arc::clone(&context.storage.buckets));
            let slice = match &work {
                Move::Place { header } => header.slice,
                Move::Remove(slice) => *slice,
            };
            let moved = blocking("moving a slice", move || match work {
                Move::Place { header } => {
                    store.place(&header)?;
                    buckets.note_placed(header.slice);
                    Ok(())
                }
                Move::Remove(slice) => Ok(store.remove(slice)?),
            });
            let result = match moved.await {
                Ok(()) => Ok(()),
                Err(error) => {
                    tracing::warn!(%error, "an order could not be carried out");
                    // An unreadable sidecar is first noticed here, when the slice is to get another header.
                    Err(context.storage.quarantine_if_corrupt(slice, error).await.refusal())
                }
            };
            context.send_completion(NodeCompletion::Moved { id, result }).await;
        });
    }
}

/// The priority of a report among others: what the master waits for never queues behind what is merely long.
fn class_of(report: &Report) -> Class {
    match report {
        Report::Inventory { .. } | Report::DisksSeen(_) | Report::Partials(_) | Report::MirrorPage { .. } => {
            Class::Bulk
        }
        _ => Class::Urgent,
    }
}

async fn status(context: &NodeContext) -> Report {
    let store = Arc::clone(&context.storage.slices);
    // Measured away from the network's threads: a failing disk may be slow to answer even this.
    let measured = blocking("measuring the disks", move || {
        let room_bytes = store.available_bytes();
        // An upload that nobody resumes goes after a while, or at once if its space is needed.
        let life = if room_bytes < PARTIALS_FREE_BYTES_MIN { Duration::ZERO } else { limits::PARTIAL_LIFE };
        store.drop_idle_partials(life);
        Ok((store.used_bytes(), room_bytes, store.memory_available_bytes(), store.statuses()))
    });
    // Disks that do not answer have no room for new slices.
    let (used_bytes, free_bytes, memory_free_bytes, mut disks) = warn_when_slow(measured).await.unwrap_or_default();
    context.storage.scrub_statuses.fill(&mut disks);
    Report::Status {
        used_bytes,
        free_bytes,
        transfers: context.limits.transfers_running.value(),
        spes: context.spes.running.value(),
        disks,
        sandbox_missing: context.spes.sandbox.missing().map(<[_]>::to_vec),
        refused_tickets: context.tickets.refused(),
        links: context.peers.site_limiters.uses(),
        memory_free_bytes,
    }
}

/// Waits for a measurement, and logs one that takes long. The master hears nothing of this node meanwhile and counts it
/// as lost: without a line nobody would know why.
async fn warn_when_slow<T>(measured: impl Future<Output = T>) -> T {
    let mut measured = std::pin::pin!(measured);
    if let Ok(result) = tokio::time::timeout(MEASURE_TIME_MAX, &mut measured).await {
        return result;
    }
    let seconds = MEASURE_TIME_MAX.as_secs();
    tracing::warn!(seconds, "measuring the disks takes long; the master hears nothing of this node until it ends");
    measured.await
}

/// How long the disks may take to be measured before the log says so. A master counts a silent node as lost after as
/// long, by default.
const MEASURE_TIME_MAX: Duration = Duration::from_secs(10);
/// How long the master may take to answer; after this the session is given up. The master answers from memory, so a
/// longer wait means that it, or the path to it, is gone.
const ANSWER_TIME_MAX: Duration = Duration::from_secs(20);
/// The same for a status, which a master answers at once. A restarted master says that it no longer knows the session.
/// This limit is for a master that is away, or has another key.
const STATUS_ANSWER_TIME_MAX: Duration = Duration::from_secs(8);
/// While the disk has less free than this, no broken uploads are kept. It is twice what a master leaves free at a node
/// by default.
const PARTIALS_FREE_BYTES_MIN: u64 = 512 << 20;

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_slow_measurement_is_waited_for_all_the_same() {
        let measured = async {
            tokio::time::sleep(MEASURE_TIME_MAX * 6).await;
            7
        };
        assert_eq!(warn_when_slow(measured).await, 7);
    }
}
