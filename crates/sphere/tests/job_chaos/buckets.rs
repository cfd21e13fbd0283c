//! What the fake nodes do with buckets: pieces come, are cut to the winners, become files or are returned.

use protocol::{
    NodeId, Reason, Refusal, SliceId,
    message::spe::{AttemptId, BucketId, PieceId, SealOrder},
};
use sphere::{BucketLocation, Delivery, Event};

use super::{Cloud, Content, File, RECORD_BYTES};

impl Cloud {
    /// Gives a piece to its bucket; false when the bucket's node is down.
    pub(super) fn give(&mut self, attempt: AttemptId, number: u32, home: &BucketLocation, content: &Content) -> bool {
        let AttemptId { job, stage, epoch: run, task, attempt } = attempt;
        let bucket = BucketId { job, stage, epoch: run, bucket: number, generation: home.generation };
        let node = self.nodes.get_mut(&home.node).unwrap();
        if !node.is_down {
            if run < node.run {
                return false;
            }
            node.run = run;
            // The first of two equal ones stays.
            node.pieces.entry(PieceId { bucket, task, attempt }).or_insert_with(|| content.clone());
        }
        !node.is_down
    }

    pub(super) fn deliver_again(&mut self, delivery: &Delivery) -> Result<(), Refusal> {
        let Delivery { node, attempt, locations: homes } = delivery;
        let unreachable = || Refusal::new(Reason::Unavailable, "cannot be reached");
        if self.nodes[node].is_down {
            return Err(unreachable());
        }
        let kept = self.nodes[node].kept.get(attempt).cloned();
        let kept = kept.ok_or_else(|| Refusal::new(Reason::NotFound, "not kept"))?;
        *self.fired.entry("delivered again").or_default() += 1;
        for (number, home) in homes {
            if !self.give(*attempt, *number, home, &kept[number]) {
                return Err(unreachable());
            }
        }
        Ok(())
    }

    pub(super) fn seal(&mut self, node: &NodeId, order: &SealOrder) -> Result<(u64, Vec<u32>), Refusal> {
        let node = self.nodes.get_mut(node).unwrap();
        if node.is_down {
            return Err(Refusal::new(Reason::Unavailable, "the node is down"));
        }
        if order.bucket.epoch < node.run {
            return Err(Refusal::new(Reason::NotFound, "of an older run"));
        }
        node.run = order.bucket.epoch;
        let mut content = Content::new();
        let mut winners = order.winners.clone();
        if let Some((sealed, content)) = node.sealed.get(&order.bucket) {
            let is_same = winners.len() == sealed.len() && winners.iter().all(|winner| sealed.contains(winner));
            if !is_same {
                return Err(Refusal::new(Reason::NotFound, "sealed with other winners"));
            }
            let order = sealed.iter().map(|winner| winner.task).collect();
            return Ok((content.len() as u64 * RECORD_BYTES, order));
        }
        if !order.in_order {
            // In the order in which they came.
            self.rng.shuffle(&mut winners);
        }
        for winner in &winners {
            let piece = PieceId { bucket: order.bucket, task: winner.task, attempt: winner.attempt };
            let Some(found) = node.pieces.get(&piece) else {
                return Err(Refusal::new(Reason::NotFound, "a piece is missing"));
            };
            content.extend(found.iter().cloned());
        }
        let bytes = content.len() as u64 * RECORD_BYTES;
        node.sealed.insert(order.bucket, (winners.clone(), content));
        Ok((bytes, winners.iter().map(|winner| winner.task).collect()))
    }

    /// Makes a bucket a file; what is in its place gives way. A bucket that was made one before is gone.
    pub(super) fn publish(&mut self, node: &NodeId, bucket: BucketId) {
        let at = self.nodes.get_mut(node).unwrap();
        if !at.is_down && at.became_files.contains(&bucket) {
            let refusal = Refusal::new(Reason::Exists, "it became a file");
            return self.tell(Event::BucketRefused { bucket, refusal });
        }
        self.slices += 1;
        let slice = SliceId(self.slices);
        let told = self.work.len();
        self.deliver(node, bucket, Event::PublishedAs { bucket, slice });
        if self.answers_to_lose > 0 && self.rng.u8(0..6) == 0 {
            // Whatever was done, nobody hears of it.
            self.answers_to_lose -= 1;
            self.work.truncate(told);
            *self.fired.entry("answer lost").or_default() += 1;
            self.tell(Event::BucketRefused { bucket, refusal: Refusal::new(Reason::Unavailable, "no answer") });
        }
        let at = self.nodes.get_mut(node).unwrap();
        if !at.is_down && at.sealed.contains_key(&bucket) {
            at.became_files.insert(bucket);
        }
    }

    pub(super) fn deliver(&mut self, node: &NodeId, bucket: BucketId, event: Event) {
        let is_down = self.nodes[node].is_down;
        let reason = if is_down { Reason::Unavailable } else { Reason::NotFound };
        let Some((_, content)) = self.nodes[node].sealed.get(&bucket).filter(|_| !is_down).cloned() else {
            let refusal = Refusal::new(reason, "no such bucket");
            return self.tell(Event::BucketRefused { bucket, refusal });
        };
        // The driver keeps nothing of an older run.
        if bucket.epoch == self.output_run {
            self.output.insert(bucket.bucket, File { slice: SliceId(self.slices), content });
        }
        self.tell(event);
    }
}
