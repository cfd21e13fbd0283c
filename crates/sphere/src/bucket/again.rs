//! Buckets that are lost, and begin anew at another place: what they lack then, and how it comes.
//!
//! It never says where the pieces come from: that is the [stage](crate::stage)'s to find out.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use protocol::NodeId;

use super::{Buckets, FormerPiece, PieceSpot, State};
use crate::{
    action::{BucketHome, Placement},
    places,
};

impl Buckets {
    /// These buckets are gone: each begins anew, empty, on one of the nodes with these numbers of SPEs. Gives whose pieces
    /// it lacks.
    pub(crate) fn lose(&mut self, numbers: &[u32], weights: &BTreeMap<NodeId, u32>) -> Vec<(u32, PieceSpot)> {
        if let Placement::Buckets(homes) = &mut self.placement {
            let homes: &mut Vec<_> = Arc::make_mut(homes);
            places::place_anew(homes, numbers, weights);
        }
        let mut lacking = Vec::new();
        for number in numbers {
            let home = self.home(*number).cloned();
            let Some(bucket) = self.filled.get_mut(*number) else { continue };
            let (state, old) = (bucket.state, bucket.home.node.clone());
            bucket.state = State::Filling;
            bucket.tries = 0;
            self.slices.remove(number);
            // One of a task's own results gets its place when the task has been done again.
            bucket.home = home.unwrap_or_else(|| bucket.home.clone());
            bucket.lacking = 0;
            for (at, piece) in bucket.pieces.iter_mut().enumerate().filter(|(_, piece)| piece.bytes > 0) {
                piece.is_there = false;
                bucket.lacking += 1;
                lacking.push((piece.task, PieceSpot { bucket: *number, at }));
            }
            match state {
                State::Sealing | State::Finishing(_) => self.turns.end(&old),
                State::Finished(_) => self.unfinished += 1,
                State::Filling | State::Sealed(_) => {}
            }
            if let State::Sealed(bytes) | State::Finishing(bytes) | State::Finished(bytes) = state {
                self.sealed_bytes -= bytes;
            }
            self.end_sealing(*number);
            self.turns.remove(&old, *number);
            self.pauses.retain(|(_, paused)| paused != number);
            // One that was to be empty needs nothing.
            self.make_ready(*number);
        }
        lacking
    }

    /// The buckets that hold nothing yet and were to be at `node` are to be elsewhere.
    pub(crate) fn leave(&mut self, node: &NodeId, weights: &BTreeMap<NodeId, u32>) {
        if let Placement::Buckets(homes) = &mut self.placement {
            let is_left =
                |(number, home): &(usize, &BucketHome)| home.node == *node && self.filled.get(*number as u32).is_none();
            let left: Vec<u32> = homes.iter().enumerate().filter(is_left).map(|(number, _)| number as u32).collect();
            if !left.is_empty() {
                let homes: &mut Vec<_> = Arc::make_mut(homes);
                places::place_anew(homes, &left, weights);
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
    pub(crate) fn account_of(&self, tasks: &BTreeSet<u32>) -> BTreeMap<u32, Vec<FormerPiece>> {
        let mut account: BTreeMap<u32, Vec<FormerPiece>> = tasks.iter().map(|task| (*task, Vec::new())).collect();
        for (number, bucket) in self.filled.iter() {
            for (at, piece) in bucket.pieces.iter().enumerate().filter(|(_, piece)| piece.bytes > 0) {
                if let Some(pieces) = account.get_mut(&piece.task) {
                    let spot = PieceSpot { bucket: number, at };
                    pieces.push(FormerPiece { spot, bytes: piece.bytes, checksum: piece.checksum });
                }
            }
        }
        account
    }

    /// The buckets that still lack what an earlier attempt left for them.
    pub(crate) fn wanted(&self, former: &[FormerPiece]) -> BTreeSet<u32> {
        former.iter().filter(|piece| !self.is_there(piece.spot)).map(|piece| piece.spot.bucket).collect()
    }

    /// An attempt's piece came to this making of its bucket.
    pub(crate) fn arrived(&mut self, spot: PieceSpot, attempt: u32, making: u32) {
        let Some(bucket) = self.filled.get_mut(spot.bucket).filter(|bucket| bucket.home.making == making) else {
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
    pub(crate) fn begin_again(&mut self) {
        self.turns.end_all();
        self.sealing.clear();
        self.sealing_pieces = 0;
        for number in self.filled.numbers() {
            let Some(bucket) = self.filled.get_mut(number) else { continue };
            bucket.state = match bucket.state {
                State::Sealing => State::Filling,
                State::Finishing(bytes) => State::Sealed(bytes),
                _ => continue,
            };
            self.make_ready(number);
        }
    }
}
