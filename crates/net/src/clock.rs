//! The process's two clocks in the form that the rules want: an argument of every call, read in one place. The
//! monotonic clock is the runtime's, so a test that stops the runtime's time stops the rules' time with it. A clock
//! never waits and never decides what a time means.

use std::{
    sync::OnceLock,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use protocol::Now;
use rustix::time::{ClockId, clock_gettime};
use tokio::time::Instant;

/// Both clocks. Its copies agree with each other.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    start: Instant,
}

impl Clock {
    /// A clock whose monotonic time starts now.
    pub fn start() -> Self {
        Self { start: Instant::now() }
    }

    /// One reading of both clocks.
    pub fn now(&self) -> Now {
        // A clock before 1970 was never set: tickets and dates are wrong then, but nothing breaks.
        let unix = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Now { monotonic: self.start.elapsed(), unix_millis: u64::try_from(unix.as_millis()).unwrap_or(u64::MAX) }
    }

    /// How long this machine has been suspended since it was started. The monotonic clock does not count that time.
    pub fn suspended() -> Duration {
        let span = |clock| {
            let time = clock_gettime(clock);
            Duration::new(u64::try_from(time.tv_sec).unwrap_or(0), u32::try_from(time.tv_nsec).unwrap_or(0))
        };
        // The clocks are read in this order so that the difference comes out too small rather than too large, and never
        // negative.
        let awake = span(ClockId::Monotonic);
        span(ClockId::Boottime).saturating_sub(awake)
    }

    /// The runtime's instant of a monotonic time, for waiting until then.
    pub fn instant(&self, monotonic: Duration) -> Instant {
        self.start + monotonic
    }
}

/// Names the running system whose clocks these are. All processes of a machine share it, also those in containers.
/// `None` where the operating system does not say.
pub fn boot_id() -> Option<u128> {
    static MACHINE: OnceLock<Option<u128>> = OnceLock::new();
    *MACHINE.get_or_init(|| {
        let text = std::fs::read_to_string(BOOT_ID).ok()?;
        u128::from_str_radix(&text.trim().replace('-', ""), 16).ok()
    })
}

/// The kernel draws it when it boots.
const BOOT_ID: &str = "/proc/sys/kernel/random/boot_id";

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn monotonic_time_goes_with_the_runtime_and_copies_agree() {
        let clock = Clock::start();
        let copy = clock;
        tokio::time::advance(Duration::from_secs(3)).await;
        assert_eq!(clock.now().monotonic, Duration::from_secs(3));
        assert_eq!(copy.instant(Duration::from_secs(3)), Instant::now());
        assert!(clock.now().unix_millis > 1_600_000_000_000);
    }
}
