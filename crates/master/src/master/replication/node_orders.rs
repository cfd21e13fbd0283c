//! Turns queued work into orders to nodes, sends them, and takes the answers. What is due for a replica is
//! [decided](super::reconcile) only when its order is sent, so that no order is out of date. It never queues work of
//! its own, other than what failed.

use protocol::{
    Now, Priority, SliceId, Status, TransferQos,
    message::node_master::{Ack, Order},
};

use super::reconcile::Due;
use crate::{
    Master,
    access::tickets,
    actions::{MasterAction, OrderId, OrderOutcome},
    fleet::nodes::NodeKey,
    replicas::{
        orders::{ORDER_RETRY_AFTER, OrderKind, QueuedWork},
        replica_table::{HeaderFingerprint, PathFingerprint, Replica, ReplicaState},
    },
};

impl Master {
    /// Sends orders for which there is room.
    pub(crate) fn send_orders(&mut self, now: Now) {
        for key in self.replicas.orders.sendable() {
            let node = self.fleet.nodes.get(key);
            let (true, Some(session)) = (node.is_up(), node.session) else { continue };
            while let Some(work) = self.replicas.orders.pop(key) {
                let Some((ordered, body)) = self.order_for(now, key, work) else { continue };
                if self.replicas.orders.must_wait(key, ordered, work) {
                    continue;
                }
                let order = self.replicas.orders.send(key, ordered);
                self.actions.push_back(MasterAction::Order { session, order, body });
            }
        }
    }

    /// Takes the answer to an order.
    pub(crate) fn note_order_finished(&mut self, now: Now, order: OrderId, outcome: OrderOutcome) {
        let Some((node, ordered)) = self.replicas.orders.finish(order) else { return };
        let retry_at = now.monotonic + ORDER_RETRY_AFTER;
        if let OrderKind::ReadMetrics(to) = ordered {
            return self.note_node_metrics(to, outcome);
        }
        let status = match outcome {
            OrderOutcome::Answered(Ack::Done | Ack::Metrics(_)) => None,
            OrderOutcome::Answered(Ack::Refused(refusal)) => Some(refusal.status()),
            OrderOutcome::Unanswered => Some(Status::Unavailable),
        };
        match (ordered, status) {
            (OrderKind::Place { slice, mark, .. }, None) => self.note_placed(now, slice, node, mark),
            (OrderKind::Remove(slice), None | Some(Status::NotFound)) => self.note_removed(now, slice, node),
            (OrderKind::Place { slice, .. }, Some(Status::NotFound)) => {
                self.forget_replica(slice, node);
                self.reconcile_slice(now, slice);
            }
            (OrderKind::Place { slice, .. } | OrderKind::Remove(slice), Some(_)) => {
                self.replicas.orders.delay(retry_at, node, QueuedWork::Reconcile(slice));
            }
            // Success only means begun: the result is reported later.
            (OrderKind::Replicate(_), None) => {}
            (OrderKind::Replicate(slice), Some(_)) => {
                self.fail_copy(now, slice, node, 0, "the node did not take the order");
            }
            (OrderKind::Forget(job), Some(Status::Unavailable)) => {
                self.replicas.orders.delay(retry_at, node, QueuedWork::Forget(job));
            }
            (OrderKind::Forget(_), _) => {}
            // Whether the node drives the job shows in the driver's reports.
            (OrderKind::Drive(_), _) => {}
            (OrderKind::UpdateMirror, status) => self.note_mirror_ack(now, node, status.is_none()),
            (OrderKind::Revoke(number), Some(Status::Unavailable)) => {
                self.retry_revocation_later(retry_at, node, number)
            }
            (OrderKind::Revoke(_), _) => {}
            (OrderKind::TicketKeys, Some(Status::Unavailable | Status::Failed)) => {
                self.replicas.orders.delay(retry_at, node, QueuedWork::TicketKeys);
            }
            (OrderKind::TicketKeys, _) => {}
            (OrderKind::LinkShares, Some(Status::Unavailable | Status::Failed)) => {
                self.replicas.orders.delay(retry_at, node, QueuedWork::LinkShares);
            }
            (OrderKind::LinkShares, _) => {}
            (OrderKind::SlowDisks, Some(Status::Unavailable | Status::Failed)) => {
                self.replicas.orders.delay(retry_at, node, QueuedWork::SlowDisks);
            }
            (OrderKind::SlowDisks, _) => {}
            (OrderKind::StruckOff, Some(Status::Unavailable | Status::Failed)) => {
                self.replicas.orders.delay(retry_at, node, QueuedWork::StruckOff);
            }
            (OrderKind::StruckOff | OrderKind::ReadMetrics(_), _) => {}
            (OrderKind::ReadMirror, status) => self.note_mirror_read_ack(node, status.is_none()),
        }
    }

    fn order_for(&mut self, now: Now, key: NodeKey, work: QueuedWork) -> Option<(OrderKind, Order)> {
        match work {
            QueuedWork::Forget(job) => Some((OrderKind::Forget(job), Order::ForgetJob(job))),
            QueuedWork::Drive(job) => {
                self.drive_order(key, job).map(|order| (OrderKind::Drive(job), Order::Drive(order)))
            }
            QueuedWork::TicketKeys => Some((OrderKind::TicketKeys, Order::TicketKeys(self.ticket_keys()))),
            QueuedWork::StruckOff => self.struck_off_order().map(|order| (OrderKind::StruckOff, order)),
            QueuedWork::LinkShares => {
                Some((OrderKind::LinkShares, Order::LinkShares(self.fleet.nodes.get(key).link_shares.clone())))
            }
            QueuedWork::SlowDisks => {
                Some((OrderKind::SlowDisks, Order::SlowDisks(self.fleet.nodes.get(key).slow_disks.clone())))
            }
            QueuedWork::Copy(slice) => {
                let order = self.replicate_order(now, key, slice);
                if order.is_none() {
                    self.end_copy(slice, key);
                    self.check_replication(now, slice);
                }
                order
            }
            QueuedWork::Reconcile(slice) => match self.due(slice, key)? {
                Due::Place(header) => {
                    let (mark, at) = (HeaderFingerprint::of(&header), PathFingerprint::of(&header.path));
                    Some((OrderKind::Place { slice, mark, at }, Order::Place { header }))
                }
                Due::Remove => Some((OrderKind::Remove(slice), Order::Remove(slice))),
            },
        }
    }

    fn replicate_order(&self, now: Now, target: NodeKey, slice: SliceId) -> Option<(OrderKind, Order)> {
        let copying = self.replicas.queue.copy(slice, target)?;
        let header = match self.writes.leases.of_slice(slice).and_then(|lease| self.writes.leases.get(lease)) {
            Some(lease) => lease.header.clone(),
            None => self.catalog.names().header_of_slice(slice, self.log.rebuild.id)?,
        };
        let source = self.fleet.nodes.get(copying.source);
        let of = self.node_bearer(&header.owner, self.fleet.nodes.get(target), source);
        let from = self.access.tickets.read(
            now,
            source,
            of,
            tickets::ticket_file(&header.path, header.version),
            slice,
            copying.bytes,
        );
        let pace = TransferQos {
            rate_bytes_per_second: copying.share.map(|share| share.rate_bytes_per_second),
            priority: self.priority_of_copy(slice),
        };
        let bytes = copying.bytes;
        Some((OrderKind::Replicate(slice), Order::Replicate { header, bytes, from, qos: pace }))
    }

    /// A copy that a client waits for, or that will be a file's second, has the priority of client work; others wait.
    fn priority_of_copy(&self, slice: SliceId) -> Priority {
        let good = self.replicas.table.of(slice).iter().filter(|replica| replica.is_good()).count();
        if good <= 1 || self.writes.leases.of_slice(slice).is_some() { Priority::Normal } else { Priority::Low }
    }

    fn note_placed(&mut self, now: Now, slice: SliceId, node: NodeKey, mark: HeaderFingerprint) {
        // If it was found bad or gone meanwhile, that counts.
        if let Some(replica) = self.replicas.table.at(slice, node)
            && !matches!(replica.state, ReplicaState::Corrupt { .. })
        {
            self.replicas.table.set(slice, Replica { state: ReplicaState::Placed(mark), ..replica });
        }
        let followed = self.clear_missed_change(slice, node);
        self.save(now, followed.into_iter().collect(), Vec::new());
        self.reconcile_slice(now, slice);
    }
}
