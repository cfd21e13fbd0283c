//! Tells a person what a call waits for when it takes long: the master's answer, or the next attempt at a file. It never
//! changes how long anything waits.

use std::{sync::Arc, time::Duration};

use crate::Client;

/// What a call waits for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Delay {
    /// A sentence, without an end: who does not answer, or what broke off.
    pub what: String,
    /// It gives up after so long, as far as that is known by now.
    pub at_most: Duration,
}

/// Is told of delays, by whatever task waits. Of many files at once, each tells of its own.
pub type DelayTold = Arc<dyn Fn(&Delay) + Send + Sync>;

impl Client {
    /// The same client, in the same session, which tells what it waits for.
    pub fn telling(&self, told: DelayTold) -> Self {
        Self { delay_told: Some(told), ..self.clone() }
    }

    /// Tells of a delay, where somebody wants to know.
    pub(crate) fn tell(&self, delay: impl FnOnce() -> Delay) {
        if let Some(told) = &self.delay_told {
            told(&delay());
        }
    }

    /// Does `work`, which gives up after `deadline`, and tells that it waits for `whom` where it takes long.
    pub(super) fn tell_if_slow<T>(
        &self,
        whom: impl FnOnce() -> String,
        deadline: Duration,
        work: impl Future<Output = T>,
    ) -> impl Future<Output = T> {
        // In a box: every request passes here, and its frame would lie on the stack of all that it is a part of.
        let mut work = Box::pin(work);
        async move {
            if self.delay_told.is_none() {
                return work.await;
            }
            match tokio::time::timeout(TOLD_AFTER, &mut work).await {
                Ok(done) => done,
                Err(_) => {
                    self.tell(|| Delay { what: whom(), at_most: deadline.saturating_sub(TOLD_AFTER) });
                    work.await
                }
            }
        }
    }
}

/// A person wonders after so long.
pub const TOLD_AFTER: Duration = Duration::from_secs(3);
