//! What was measured second by second and the master does not have yet. It is bounded: the oldest is lost where no
//! master takes it. It never knows what it keeps.

use std::collections::VecDeque;

use protocol::message::load::SAMPLES_MAX;

/// Samples in the order in which they were taken.
#[derive(Debug)]
pub(super) struct UntoldQueue<T> {
    untold: VecDeque<T>,
    /// How many were ever taken off the front.
    taken: u64,
}

impl<T> Default for UntoldQueue<T> {
    fn default() -> Self {
        Self { untold: VecDeque::new(), taken: 0 }
    }
}

impl<T: Clone> UntoldQueue<T> {
    pub(super) fn push(&mut self, sample: T) {
        self.untold.push_back(sample);
        if self.untold.len() > SAMPLES_MAX {
            self.untold.pop_front();
            self.taken += 1;
        }
    }

    /// All of them, and the number to give to [`note_told`](Self::note_told) once the master has them.
    pub(super) fn all(&self) -> (Vec<T>, u64) {
        (self.untold.iter().cloned().collect(), self.taken + self.untold.len() as u64)
    }

    /// The master has all up to this number.
    pub(super) fn note_told(&mut self, end: u64) {
        while self.taken < end && self.untold.pop_front().is_some() {
            self.taken += 1;
        }
    }
}
