//! Buckets that are lost, and begin anew at another place: what they lack then, and how it comes.
//!
//! It never says where the pieces come from: that is the [stage](crate::job::stage)'s to find out.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use protocol::NodeId;

use super::{BucketState, Buckets, PieceSlot, PreviousPiece};
use crate::{
    bucket::bucket_placement,
    job::action::{BucketLocation, Placement},
};

impl Buckets {
    /// These buckets are gone: each begins anew, empty, on one of the nodes with these numbers of SPEs. Gives whose
    /// pieces it lacks.
    pub(crate) fn regenerate(&mut self, numbers: &[u32], weights: &BTreeMap<NodeId, u32>) -> Vec<(u32, PieceSlot)> {
        if let Placement::Buckets(homes) = &mut self.placement {
            let homes: &mut Vec<_> = Arc::make_mut(homes);
            bucket_placement::reassign(homes, numbers, weights);
        }
        let mut lacking = Vec::new();
        for number in numbers {
            let home = self.location(*number).cloned();
            let Some(bucket) = self.filled.get_mut(*number) else { continue };
            let (state, old) = (bucket.state, bucket.location.node.clone());
            bucket.state = BucketState::Filling;
            bucket.tries = 0;
            self.slices.remove(number);
            // One of a task's own results gets its place when the task has been done again.
            bucket.location = home.unwrap_or_else(|| bucket.location.clone());
            bucket.lacking = 0;
            for (at, piece) in bucket.pieces.iter_mut().enumerate().filter(|(_, piece)| piece.bytes > 0) {
                piece.is_there = false;
                bucket.lacking += 1;
                lacking.push((piece.task, PieceSlot { bucket: *number, at }));
            }
            match state {
                BucketState::Sealing | BucketState::Finishing(_) => self.queues.end(&old),
                BucketState::Finished(_) => self.unfinished += 1,
                BucketState::Filling | BucketState::Sealed(_) => {}
            }
            if let BucketState::Sealed(bytes) | BucketState::Finishing(bytes) | BucketState::Finished(bytes) = state {
                self.sealed_bytes -= bytes;
            }
            self.end_sealing(*number);
            self.queues.remove(&old, *number);
            self.pauses.retain(|(_, paused)| paused != number);
            // One that was to be empty needs nothing.
            self.make_ready(*number);
        }
        lacking
    }

    /// The buckets that hold nothing yet and were to be at `node` are to be elsewhere.
    pub(crate) fn relocate_empty(&mut self, node: &NodeId, weights: &BTreeMap<NodeId, u32>) {
        if let Placement::Buckets(homes) = &mut self.placement {
            let is_left = |(number, home): &(usize, &BucketLocation)| {
                home.node == *node && self.filled.get(*number as u32).is_none()
            };
            let left: Vec<u32> = homes.iter().enumerate().filter(is_left).map(|(number, _)| number as u32).collect();
            if !left.is_empty() {
                let homes: &mut Vec<_> = Arc::make_mut(homes);
                bucket_placement::reassign(homes, &left, weights);
            }
        }
    }

    /// How often a bucket has been lost while its node lived, this time included.
    pub(crate) fn count_loss(&mut self, number: u32) -> u32 {
        let Some(bucket) = self.filled.get_mut(number) else { return 0 };
        bucket.losses += 1;
        bucket.losses
    }

    /// What these tasks left, by task. To be asked before they are done again.
    pub(crate) fn pieces_by_task(&self, tasks: &BTreeSet<u32>) -> BTreeMap<u32, Vec<PreviousPiece>> {
        let mut account: BTreeMap<u32, Vec<PreviousPiece>> = tasks.iter().map(|task| (*task, Vec::new())).collect();
        for (number, bucket) in self.filled.iter() {
            for (at, piece) in bucket.pieces.iter().enumerate().filter(|(_, piece)| piece.bytes > 0) {
                if let Some(pieces) = account.get_mut(&piece.task) {
                    let spot = PieceSlot { bucket: number, at };
                    pieces.push(PreviousPiece { slot: spot, bytes: piece.bytes, checksum: piece.checksum });
                }
            }
        }
        account
    }

    /// The buckets that still lack what an earlier attempt left for them.
    pub(crate) fn wanted(&self, former: &[PreviousPiece]) -> BTreeSet<u32> {
        former.iter().filter(|piece| !self.is_there(piece.slot)).map(|piece| piece.slot.bucket).collect()
    }

    /// An attempt's piece came to this making of its bucket.
    pub(crate) fn note_arrived(&mut self, spot: PieceSlot, attempt: u32, making: u32) {
        let Some(bucket) = self.filled.get_mut(spot.bucket).filter(|bucket| bucket.location.generation == making)
        else {
            return;
        };
        if let Some(piece) = bucket.pieces.get_mut(spot.at).filter(|piece| !piece.is_there) {
            piece.is_there = true;
            piece.attempt = attempt;
            bucket.lacking -= 1;
            self.make_ready(spot.bucket);
        }
    }

    /// Nobody will say what came of the steps under way: they are ordered again, which a node may be.
    pub(crate) fn reissue(&mut self) {
        self.queues.end_all();
        self.sealing.clear();
        self.sealing_pieces = 0;
        for number in self.filled.numbers() {
            let Some(bucket) = self.filled.get_mut(number) else { continue };
            bucket.state = match bucket.state {
                BucketState::Sealing => BucketState::Filling,
                BucketState::Finishing(bytes) => BucketState::Sealed(bytes),
                _ => continue,
            };
            self.make_ready(number);
        }
    }
}
