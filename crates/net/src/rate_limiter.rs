//! Waiting for a rate limit. [`RateLimiter`] lets bytes pass by the rules of [`protocol::rate_limit::TokenBucket`]. A
//! [`LimiterChain`] has the limiters that the bytes of one conversation pass. It serves every path on which bytes of
//! files travel. It never holds bytes itself and never decides what to move: the caller sends, or reads on, when it is
//! let through.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use protocol::{
    limits::BLOCK_BYTES,
    rate_limit::{Priority, TokenBucket, WaiterId, piece_bytes},
};
use tokio::{
    sync::oneshot,
    time::{Instant, sleep, sleep_until},
};

use crate::{
    NetError,
    transfer::{StreamFrame, TransferStream},
};

/// A limit in bytes per second that several conversations may share, and that may be changed at any time.
#[derive(Debug)]
pub struct RateLimiter {
    begun: Instant,
    state: Mutex<LimiterState>,
    granted_bytes: AtomicU64,
}

#[derive(Debug)]
struct LimiterState {
    bucket: TokenBucket,
    /// The waiters that were granted and have not noticed yet. This set counts, not the notification: a notification
    /// may come before its waiter listens, or just when it has stopped.
    granted: BTreeSet<WaiterId>,
    /// The channels that notify waiters of something new.
    waiters: BTreeMap<WaiterId, oneshot::Sender<()>>,
}

impl RateLimiter {
    /// A limiter at which nobody waits; `None` lets everything pass.
    pub fn new(rate_bytes_per_second: Option<u64>) -> Self {
        let turnstile = TokenBucket::new(Duration::ZERO, rate_bytes_per_second);
        let state = Mutex::new(LimiterState { bucket: turnstile, granted: BTreeSet::new(), waiters: BTreeMap::new() });
        Self { begun: Instant::now(), state, granted_bytes: AtomicU64::new(0) }
    }

    /// Sets another limit, which also applies to current waiters.
    pub fn set_rate(&self, rate_bytes_per_second: Option<u64>) {
        let now = self.now();
        let mut state = self.lock();
        if state.bucket.rate_bytes_per_second() == rate_bytes_per_second {
            return;
        }
        state.bucket.set_rate(now, rate_bytes_per_second);
        state.grant_next(now);
        state.wake_all();
    }

    /// The limit.
    pub fn rate_bytes_per_second(&self) -> Option<u64> {
        self.lock().bucket.rate_bytes_per_second()
    }

    /// How many wait now.
    pub fn waiting(&self) -> usize {
        self.lock().bucket.waiting()
    }

    /// Bytes that passed since the limiter was made.
    pub fn granted_bytes(&self) -> u64 {
        self.granted_bytes.load(Ordering::Relaxed)
    }

    /// Waits until `bytes` may pass. More than one burst passes in several turns, so that nobody waits for all of them.
    pub async fn acquire(&self, priority: Priority, bytes: u64) {
        let mut left = bytes;
        while left > 0 {
            let turn = {
                let turnstile = &self.lock().bucket;
                turnstile.rate_bytes_per_second().map_or(left, |_| left.min(turnstile.burst_bytes()))
            };
            self.acquire_burst(priority, turn).await;
            left -= turn;
        }
        self.granted_bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    async fn acquire_burst(&self, priority: Priority, bytes: u64) {
        let mut waiting = {
            let mut state = self.lock();
            let id = state.bucket.enqueue(priority, bytes);
            Waiter { limiter: self, id, has_acquired: false }
        };
        loop {
            let (called, due) = {
                let (now, mut state) = (self.now(), self.lock());
                state.grant_next(now);
                if state.granted.remove(&waiting.id) {
                    waiting.has_acquired = true;
                    return;
                }
                let (caller, called) = oneshot::channel();
                state.waiters.insert(waiting.id, caller);
                (called, state.bucket.next_grant_at())
            };
            let due = async {
                match due {
                    Some(due) => sleep_until(self.begun + due).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                _ = called => {}
                () = due => {}
            }
        }
    }

    fn now(&self) -> Duration {
        self.begun.elapsed()
    }

    fn lock(&self) -> MutexGuard<'_, LimiterState> {
        // Each change under this lock is complete in itself.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl LimiterState {
    /// Lets every waiter pass whose turn it is.
    fn grant_next(&mut self, now: Duration) {
        while let Some(id) = self.bucket.try_grant(now) {
            self.granted.insert(id);
            if let Some(caller) = self.waiters.remove(&id) {
                let _ = caller.send(());
            }
        }
    }

    fn wake_all(&mut self) {
        for (_, caller) in std::mem::take(&mut self.waiters) {
            let _ = caller.send(());
        }
    }
}

/// A waiter; it leaves when it is dropped.
struct Waiter<'a> {
    limiter: &'a RateLimiter,
    id: WaiterId,
    has_acquired: bool,
}

impl Drop for Waiter<'_> {
    fn drop(&mut self) {
        if !self.has_acquired {
            let mut state = self.limiter.lock();
            state.bucket.cancel(self.id);
            state.granted.remove(&self.id);
            state.waiters.remove(&self.id);
            // Waiters behind this one may be due earlier now.
            state.wake_all();
        }
    }
}

/// The limiters that the bytes of one conversation pass, one after the other.
#[derive(Clone, Debug, Default)]
pub struct LimiterChain {
    limiters: Vec<Arc<RateLimiter>>,
    priority: Priority,
    passed: Option<Arc<AtomicU64>>,
}

impl LimiterChain {
    /// No limit.
    pub fn unlimited() -> Self {
        Self::default()
    }

    /// These limiters. Those that are shared by more conversations come last, so that nothing of theirs is held while
    /// another is waited for.
    pub fn new(gates: Vec<Arc<RateLimiter>>, priority: Priority) -> Self {
        Self { limiters: gates, priority, passed: None }
    }

    /// Also adds all bytes that pass to this count.
    #[must_use]
    pub fn counted_in(self, passed: Arc<AtomicU64>) -> Self {
        Self { passed: Some(passed), ..self }
    }

    /// Waits until `bytes` may go.
    pub async fn acquire(&self, bytes: u64) {
        for gate in &self.limiters {
            gate.acquire(self.priority, bytes).await;
        }
        if let Some(passed) = &self.passed {
            passed.fetch_add(bytes, Ordering::Relaxed);
        }
    }

    /// How many bytes are to be sent at once, so that they flow evenly.
    pub fn piece_bytes(&self) -> usize {
        piece_bytes(self.limiters.iter().filter_map(|gate| gate.rate_bytes_per_second()).min())
    }

    /// Waits as [`acquire`](Self::acquire), and signals the other end where it takes long.
    async fn acquire_or_signal(&self, stream: &mut TransferStream, bytes: u64) -> Result<(), NetError> {
        let mut paid = std::pin::pin!(self.acquire(bytes));
        loop {
            tokio::select! {
                biased;
                () = &mut paid => return Ok(()),
                () = sleep(SIGNAL_PERIOD) => stream.send_waiting().await?,
            }
        }
    }

    /// Sends a frame, cut where its bytes must go slowly. `deadline` is for each piece alone: waiting for the limit is
    /// no stall. The checksums, where the frame has any, are those of its blocks.
    ///
    /// # Errors
    /// As [`TransferStream::send_checked_frame`], and [`NetError::Deadline`].
    pub async fn send(
        &self,
        stream: &mut TransferStream,
        frame: &StreamFrame,
        deadline: Duration,
    ) -> Result<(), NetError> {
        self.send_parts(stream, &frame.payload, &frame.checksums, deadline).await
    }

    /// The same for the parts of a frame that someone else holds.
    ///
    /// # Errors
    /// As [`send`](Self::send).
    pub async fn send_parts(
        &self,
        stream: &mut TransferStream,
        mut payload: &[u8],
        mut checksums: &[u32],
        deadline: Duration,
    ) -> Result<(), NetError> {
        while !payload.is_empty() {
            let (piece, rest) = payload.split_at(self.piece_bytes().min(payload.len()));
            let blocks = piece.len().div_ceil(BLOCK_BYTES as usize).min(checksums.len());
            let (of_piece, of_rest) = checksums.split_at(blocks);
            self.acquire_or_signal(stream, piece.len() as u64).await?;
            let sending = async {
                match of_piece {
                    [] => stream.send_frame(piece).await,
                    checksums => stream.send_checked_frame(piece, checksums).await,
                }
            };
            match tokio::time::timeout(deadline, sending).await {
                Ok(sent) => sent?,
                Err(_) => return Err(NetError::Deadline { operation: "sending bytes".into(), after: deadline }),
            }
            (payload, checksums) = (rest, of_rest);
        }
        Ok(())
    }
}

/// How long a sender waits before it signals so: well below the patience of the receiver that waits for its bytes.
const SIGNAL_PERIOD: Duration = Duration::from_secs(3);

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use protocol::limits::FRAME_BYTES_MAX;

    use super::*;

    const FRAME: u64 = FRAME_BYTES_MAX as u64;

    fn pair() -> (TransferStream, TransferStream) {
        let (a, b) = tokio::io::duplex(64 * 1024);
        let address = ([127, 0, 0, 1], 9).into();
        let end = |stream| TransferStream::in_memory(Box::new(stream), address, None, [1; 32]);
        (end(a), end(b))
    }

    /// The time and length of each frame on arrival, of `frames` full ones that were sent through `limiters`.
    async fn arrivals(gates: Vec<Arc<RateLimiter>>, frames: usize) -> Vec<(Duration, usize)> {
        let (mut here, mut there) = pair();
        let passed = Arc::new(AtomicU64::new(0));
        let toll = LimiterChain::new(gates, Priority::Normal).counted_in(Arc::clone(&passed));
        let begun = Instant::now();
        let sending = async {
            let payload = vec![7; FRAME_BYTES_MAX];
            let checksums: Vec<_> = payload.chunks(BLOCK_BYTES as usize).map(crc32c::crc32c).collect();
            for _ in 0..frames {
                toll.send_parts(&mut here, &payload, &checksums, Duration::from_secs(5)).await.unwrap();
            }
            here.end_frames().await.unwrap();
        };
        let receiving = async {
            let (mut frame, mut arrivals) = (StreamFrame::default(), Vec::new());
            while there.receive_frame(&mut frame).await.unwrap() {
                arrivals.push((begun.elapsed(), frame.payload.len()));
            }
            arrivals
        };
        let arrivals = tokio::join!(sending, receiving).1;
        assert_eq!(passed.load(Ordering::Relaxed), frames as u64 * FRAME, "each byte counts once, limit or not");
        arrivals
    }

    // Promise 46.
    #[tokio::test(start_paused = true)]
    async fn bytes_take_as_long_as_the_lowest_limit_says_and_come_evenly() {
        let slow = Arc::new(RateLimiter::new(Some(FRAME / 8)));
        let came = arrivals(vec![Arc::new(RateLimiter::new(Some(FRAME))), Arc::clone(&slow)], 4).await;
        let last = came.last().unwrap().0;
        assert!((Duration::from_secs(31)..Duration::from_secs(33)).contains(&last), "{last:?}");
        assert_eq!(came.iter().map(|(_, bytes)| *bytes as u64).sum::<u64>(), 4 * FRAME);
        assert!(came.iter().all(|(_, bytes)| *bytes == BLOCK_BYTES as usize), "small pieces");
        let longest = came.windows(2).map(|pair| pair[1].0 - pair[0].0).max().unwrap();
        assert!(longest < Duration::from_millis(600), "{longest:?}");
        assert_eq!(slow.granted_bytes(), 4 * FRAME);
        let free = arrivals(Vec::new(), 4).await;
        assert_eq!(free.len(), 4, "whole frames where there is no limit");
    }

    // Promise 47.
    #[tokio::test(start_paused = true)]
    async fn a_limit_that_is_changed_holds_for_those_who_wait() {
        let gate = Arc::new(RateLimiter::new(Some(1024)));
        let begun = Instant::now();
        let sending = tokio::spawn({
            let gate = Arc::clone(&gate);
            async move { gate.acquire(Priority::Normal, 8 * FRAME).await }
        });
        sleep(Duration::from_secs(10)).await;
        assert!(!sending.is_finished() && gate.waiting() == 1);
        gate.set_rate(Some(FRAME));
        sending.await.unwrap();
        let took = begun.elapsed() - Duration::from_secs(10);
        assert!((Duration::from_secs(7)..Duration::from_secs(9)).contains(&took), "{took:?}");
        let endless = tokio::spawn({
            let gate = Arc::clone(&gate);
            async move { gate.acquire(Priority::Normal, 1 << 50).await }
        });
        sleep(Duration::from_secs(10)).await;
        gate.set_rate(None);
        tokio::time::timeout(Duration::from_secs(1), endless).await.unwrap().unwrap();
    }

    #[tokio::test(start_paused = true)]
    async fn many_who_share_a_gate_get_its_rate_together_and_by_priority() {
        let gate = Arc::new(RateLimiter::new(Some(10 * FRAME)));
        let begun = Instant::now();
        let mut tasks = tokio::task::JoinSet::new();
        for priority in [Priority::High, Priority::Normal, Priority::Low] {
            for _ in 0..3 {
                let gate = Arc::clone(&gate);
                tasks.spawn(async move {
                    for _ in 0..100 {
                        gate.acquire(priority, FRAME / 4).await;
                    }
                    (priority, begun.elapsed())
                });
            }
        }
        let ends = tasks.join_all().await;
        let last = |wanted| ends.iter().filter(|(priority, _)| *priority == wanted).map(|(_, end)| *end).max().unwrap();
        assert!(last(Priority::High) < last(Priority::Normal) && last(Priority::Normal) < last(Priority::Low));
        // 225 frames in all, at 10 a second.
        let all = last(Priority::Low);
        assert!((Duration::from_millis(22_000)..Duration::from_millis(22_700)).contains(&all), "{all:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn one_that_gives_up_leaves_the_gate_to_the_others() {
        let gate = Arc::new(RateLimiter::new(Some(FRAME)));
        gate.acquire(Priority::Normal, FRAME).await;
        let given_up = tokio::time::timeout(Duration::from_millis(1), gate.acquire(Priority::High, FRAME));
        assert!(given_up.await.is_err());
        assert_eq!(gate.waiting(), 0);
        let begun = Instant::now();
        gate.acquire(Priority::Low, FRAME / 16).await;
        assert!(begun.elapsed() < Duration::from_millis(100), "{:?}", begun.elapsed());
    }

    // Promise 49.
    #[tokio::test(start_paused = true)]
    async fn a_sender_that_waits_for_a_limit_says_so_and_its_receiver_knows_it_from_a_stall() {
        let (mut here, mut there) = pair();
        let toll = LimiterChain::new(vec![Arc::new(RateLimiter::new(Some(1024)))], Priority::Normal);
        let sending = async {
            toll.send_parts(&mut here, &vec![7; 2 * BLOCK_BYTES as usize], &[], Duration::from_secs(5)).await.unwrap();
            here.end_frames().await.unwrap();
        };
        let receiving = async {
            let (mut frame, mut signs, mut bytes) = (StreamFrame::default(), 0, 0);
            while tokio::time::timeout(Duration::from_secs(5), there.receive_frame(&mut frame)).await.unwrap().unwrap()
            {
                signs += u32::from(frame.payload.is_empty());
                bytes += frame.payload.len() as u64;
            }
            (signs, bytes)
        };
        let ((), (signs, bytes)) = tokio::join!(sending, receiving);
        assert_eq!(bytes, 2 * BLOCK_BYTES);
        assert!((20..23).contains(&signs), "a minute's: {signs}");
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 4)]
    async fn nobody_is_forgotten_where_many_pass_at_once() {
        for rate in [None, Some(1_000_000_000)] {
            let gate = Arc::new(RateLimiter::new(rate));
            let mut passing = tokio::task::JoinSet::new();
            for _ in 0..64 {
                let gate = Arc::clone(&gate);
                passing.spawn(async move {
                    for _ in 0..2_000 {
                        gate.acquire(Priority::default(), 100).await;
                    }
                });
            }
            // The bound is only there so that a forgotten waiter is a failure and not a test that never ends.
            let all = tokio::time::timeout(Duration::from_secs(120), passing.join_all());
            assert!(all.await.is_ok(), "someone still waits at {rate:?}");
            assert_eq!((gate.waiting(), gate.granted_bytes()), (0, 64 * 2_000 * 100));
        }
    }
}
