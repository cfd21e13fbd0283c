//! Waiting for another's write (path: `docs/paths/upload.md`): a request that is refused because somebody writes the
//! file is asked again until that write has ended. It never waits for anything else, and never ends a write.

use std::{fmt, sync::Arc, time::Duration};

use protocol::{Reason, Refusal};
use tokio::time::{Instant, sleep};

use crate::ClientError;

/// How a [client](crate::Client::waiting) waits where somebody else writes a file.
#[derive(Clone)]
pub struct LeaseWait {
    /// At most so long for a file; `None`: as long as it takes.
    pub longest: Option<Duration>,
    /// Is told once for each wait, as it begins, what it waits for: the sentence names the file and its writer.
    pub told: Arc<dyn Fn(&Refusal) + Send + Sync>,
}

impl LeaseWait {
    /// Asks until nobody else writes the file, or the time is over.
    pub(crate) async fn until_free<T, F: Future<Output = Result<T, ClientError>>>(
        &self,
        mut ask: impl FnMut() -> F,
    ) -> Result<T, ClientError> {
        let mut begun = None;
        let mut pause = PAUSE_MIN;
        loop {
            let refusal = match ask().await {
                Err(ClientError::Refused(refusal)) if matches!(refusal.reason, Reason::LeaseHeld { .. }) => refusal,
                answer => return answer,
            };
            let begun: &Instant = begun.get_or_insert_with(|| {
                (self.told)(&refusal);
                Instant::now()
            });
            let left = self.longest.map_or(pause, |longest| longest.saturating_sub(begun.elapsed()));
            if left.is_zero() {
                return Err(refusal.into());
            }
            sleep(pause.min(left)).await;
            pause = (pause * 2).min(PAUSE_MAX);
        }
    }
}

impl fmt::Debug for LeaseWait {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "LeaseWait({:?})", self.longest)
    }
}

/// The first pause: most writes are short ...
const PAUSE_MIN: Duration = Duration::from_millis(100);
/// ... and the longest: so soon a file that has become free is noticed, at a request in five seconds for who waits.
const PAUSE_MAX: Duration = Duration::from_secs(5);

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    fn held() -> ClientError {
        Refusal::new(Reason::LeaseHeld { seconds: 60 }, "`/x` is being written by ann").into()
    }

    /// Waits at most `longest` for a file that is free at the question after `busy` others. Gives the answer, how often
    /// it asked, how often it told, and how long all took.
    async fn waited(
        longest: Option<Duration>,
        busy: usize,
        then: Result<(), ClientError>,
    ) -> (Result<(), ClientError>, usize, usize, Duration) {
        let (told, mut asked, mut then) = (Arc::new(AtomicUsize::new(0)), 0, Some(then));
        let count = Arc::clone(&told);
        let wait = LeaseWait {
            longest,
            told: Arc::new(move |_| {
                count.fetch_add(1, Ordering::Relaxed);
            }),
        };
        let begun = Instant::now();
        let answer = wait
            .until_free(|| {
                asked += 1;
                let answer = if asked > busy { then.take().unwrap_or(Ok(())) } else { Err(held()) };
                async move { answer }
            })
            .await;
        (answer, asked, told.load(Ordering::Relaxed), begun.elapsed())
    }

    #[tokio::test(start_paused = true)]
    async fn a_file_that_another_writes_is_asked_for_until_it_is_free_and_that_is_told_once() {
        let (answer, asked, told, took) = waited(None, 9, Ok(())).await;
        assert!(answer.is_ok());
        assert_eq!((asked, told), (10, 1));
        // 0.1 + 0.2 + 0.4 + 0.8 + 1.6 + 3.2 + 5 + 5 + 5 seconds, of a clock that stands still otherwise.
        assert_eq!(took.as_millis(), 21_300);
        let (answer, asked, told, _) = waited(None, 0, Ok(())).await;
        assert!(answer.is_ok() && (asked, told) == (1, 0), "nobody waits for what is free");
    }

    #[tokio::test(start_paused = true)]
    async fn a_wait_that_is_over_ends_with_the_sentence_about_the_writer() {
        let (answer, _, told, took) = waited(Some(Duration::from_secs(1)), usize::MAX, Ok(())).await;
        let refused = answer.err().map(|error| (error.reason(), error.to_string()));
        assert_eq!(refused, Some((Reason::LeaseHeld { seconds: 60 }, "`/x` is being written by ann".into())));
        assert_eq!((told, took), (1, Duration::from_secs(1)));
        let (answer, asked, ..) = waited(Some(Duration::ZERO), usize::MAX, Ok(())).await;
        assert!(answer.is_err() && asked == 1, "no time is no wait");
    }

    #[tokio::test(start_paused = true)]
    async fn nothing_but_another_write_is_waited_for() {
        for reason in [Reason::Exists, Reason::Busy, Reason::LeaseEnded, Reason::NoRight] {
            let refused = Err(Refusal::new(reason, "no").into());
            let (answer, asked, told, _) = waited(None, 0, refused).await;
            assert_eq!((answer.err().map(|error| error.reason()), asked, told), (Some(reason), 1, 0));
        }
    }
}
