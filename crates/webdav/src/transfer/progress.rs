//! The answer to a third-party copy, which grows while the copy goes on. A marker comes every few seconds, and a last line
//! says how it ended. A client that hangs up ends the copy. It never says more of a failure than its sentence.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use axum::{body::Body, response::Response};
use futures_util::stream;
use http::{HeaderValue, StatusCode, header};
use tokio::{
    task::JoinHandle,
    time::{Instant, Interval, MissedTickBehavior, interval_at},
};

/// Counts the bytes that have moved. Clones are the same.
#[derive(Clone, Debug, Default)]
pub(super) struct Moved(Arc<AtomicU64>);

impl Moved {
    pub(super) fn add(&self, bytes: u64) {
        self.0.fetch_add(bytes, Ordering::Relaxed);
    }

    /// What has moved so far moves once more.
    pub(super) fn begin_anew(&self) {
        self.0.store(0, Ordering::Relaxed);
    }

    pub(super) fn bytes(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// Runs a copy and tells of it. It ends when nobody listens any more.
pub(super) fn answer<F>(copy: impl FnOnce(Moved) -> F) -> Response
where
    F: Future<Output = Result<(), String>> + Send + 'static,
{
    let moved = Moved::default();
    let task = tokio::spawn(copy(moved.clone()));
    let mut markers = interval_at(Instant::now() + MARKER_EVERY, MARKER_EVERY);
    markers.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let telling = Telling { task, markers, moved, is_over: false };
    let lines = stream::unfold(telling, |mut telling| async move {
        let text = telling.next().await?;
        Some((Ok::<_, std::io::Error>(text), telling))
    });
    let mut answer = Response::new(Body::from_stream(lines));
    *answer.status_mut() = StatusCode::ACCEPTED;
    answer.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("text/plain"));
    answer
}

struct Telling {
    task: JoinHandle<Result<(), String>>,
    markers: Interval,
    moved: Moved,
    is_over: bool,
}

impl Telling {
    async fn next(&mut self) -> Option<String> {
        if self.is_over {
            return None;
        }
        tokio::select! {
            ended = &mut self.task => {
                self.is_over = true;
                let ended = ended.unwrap_or_else(|error| Err(error.to_string()));
                Some(match ended {
                    Ok(()) => "success: Created\n".to_owned(),
                    Err(why) => format!("failure: {}\n", why.replace(['\r', '\n'], " ")),
                })
            }
            _ = self.markers.tick() => Some(marker(self.moved.bytes())),
        }
    }
}

impl Drop for Telling {
    fn drop(&mut self) {
        self.task.abort();
    }
}

fn marker(bytes: u64) -> String {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |now| now.as_secs());
    format!(
        "Perf Marker\n    Timestamp: {now}\n    Stripe Index: 0\n    Stripe Bytes Transferred: {bytes}\n    \
         Total Stripe Count: 1\nEnd\n"
    )
}

const MARKER_EVERY: Duration = Duration::from_secs(5);

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use tokio::sync::oneshot;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_copy_is_told_of_until_it_ends() {
        let (sender, receiver) = oneshot::channel::<()>();
        let answer = answer(|moved| async move {
            moved.add(7);
            let _ = receiver.await;
            Err("no\nroom".to_owned())
        });
        assert_eq!(answer.status(), StatusCode::ACCEPTED);
        let body = tokio::spawn(axum::body::to_bytes(answer.into_body(), 10_000));
        tokio::time::sleep(MARKER_EVERY * 2 + Duration::from_secs(1)).await;
        sender.send(()).unwrap();
        let text = String::from_utf8(body.await.unwrap().unwrap().to_vec()).unwrap();
        assert_eq!(text.matches("Stripe Bytes Transferred: 7\n").count(), 2, "{text}");
        assert!(text.ends_with("End\nfailure: no room\n"), "{text}");
    }

    #[tokio::test]
    async fn a_client_that_hangs_up_ends_the_copy() {
        let (sender, receiver) = oneshot::channel::<()>();
        let answer = answer(|_| async move {
            let _held = sender;
            futures_util::future::pending::<Result<(), String>>().await
        });
        drop(answer);
        assert!(receiver.await.is_err(), "the copy has ended, and what it held is gone");
    }
}
