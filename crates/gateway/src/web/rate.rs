//! A limit for the requests of one session, so that a loop in a script does not fill the master for all others. It
//! never counts bytes.

use std::{
    sync::{Mutex, PoisonError},
    time::Instant,
};

use client::{Reason, Refusal};

use super::answer::ApiError;

/// A bucket of [`BURST`] requests, filled with [`PER_SECOND`].
#[derive(Debug, Default)]
pub(crate) struct RequestRate {
    /// When the bucket is full again, if nothing is taken; `None` while it is full.
    full_at: Mutex<Option<Instant>>,
}

impl RequestRate {
    /// Takes one request at `now`.
    pub(crate) fn take(&self, now: Instant) -> Result<(), ApiError> {
        let mut full_at = self.full_at.lock().unwrap_or_else(PoisonError::into_inner);
        let one = std::time::Duration::from_secs(1) / PER_SECOND;
        let next = full_at.map_or(now, |at| at.max(now)) + one;
        if next.saturating_duration_since(now) > one * BURST {
            return Err(
                Refusal::new(Reason::TooManyRequests { seconds: 1 }, "too many requests; try again in 1 s").into()
            );
        }
        *full_at = Some(next);
        Ok(())
    }
}

/// Requests of one session in the long run.
const PER_SECOND: u32 = 100;
/// Requests at once after a pause.
const BURST: u32 = 400;

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_burst_is_taken_and_then_as_many_as_flow_in() {
        let (rate, start) = (RequestRate::default(), Instant::now());
        let taken = (0..1_000).filter(|_| rate.take(start).is_ok()).count();
        assert_eq!(taken, BURST as usize);
        let later = start + Duration::from_secs(1);
        assert_eq!((0..1_000).filter(|_| rate.take(later).is_ok()).count(), PER_SECOND as usize);
    }
}
