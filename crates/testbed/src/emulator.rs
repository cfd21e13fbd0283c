//! The loop that moves frames from devices into the network, and out of it when they are due. It is one thread. The
//! model takes some hundred nanoseconds a segment, so most of the work is the kernel's own. The loop never decides
//! what happens to a packet.

use std::{
    os::fd::{AsFd, OwnedFd},
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};

use crate::{error::TestbedError, network::Network, packet::FRAME_BYTES_MAX, site::Device, system};

/// The loop's state.
#[derive(Debug)]
pub(crate) struct Emulator {
    devices: Vec<Device>,
    shared: Arc<EmulatorState>,
    begun: Instant,
}

/// What other threads may read and change while the loop runs.
#[derive(Debug)]
pub(crate) struct EmulatorState {
    network: Mutex<Network>,
    /// Readable once the loop must end.
    stop: OwnedFd,
    /// Frames that a device did not accept.
    refused: AtomicU64,
}

impl EmulatorState {
    /// The state of a loop around a network.
    pub(crate) fn new(network: Network) -> Result<Self, TestbedError> {
        let stop = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)
            .map_err(|error| TestbedError::system("make an event", error))?;
        Ok(Self { network: Mutex::new(network), stop, refused: AtomicU64::new(0) })
    }

    /// The network; the loop stands still while it is locked.
    pub(crate) fn network(&self) -> MutexGuard<'_, Network> {
        self.network.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Frames that a device did not accept, such as those for a site that is gone.
    pub(crate) fn refused(&self) -> u64 {
        self.refused.load(Ordering::Relaxed)
    }

    /// Asks the loop to end.
    pub(crate) fn stop(&self) {
        // The write fails only on a full counter, which is readable anyway.
        let _ = rustix::io::write(&self.stop, &1_u64.to_ne_bytes());
    }
}

impl Emulator {
    /// A loop over these devices, one per site, in the order of the sites.
    pub(crate) fn new(devices: Vec<Device>, shared: Arc<EmulatorState>) -> Self {
        Self { devices, shared, begun: Instant::now() }
    }

    /// Runs until it is asked to stop.
    pub(crate) fn run(self) -> Result<(), TestbedError> {
        // Without this priority the loop is only less exact.
        let _ = system::prefer_this_thread();
        let _ = rustix::thread::set_current_timer_slack(std::num::NonZeroU64::new(TIMER_SLACK_NANOS));
        let mut room = vec![0; FRAME_BYTES_MAX];
        let files = self.devices.iter().map(AsFd::as_fd).chain([self.shared.stop.as_fd()]);
        let mut waits: Vec<_> = files.map(|file| PollFd::from_borrowed_fd(file, PollFlags::IN)).collect();
        loop {
            let wait = self.deliver();
            match poll(&mut waits, wait.as_ref()) {
                Ok(_) | Err(rustix::io::Errno::INTR) => {}
                Err(error) => return Err(TestbedError::system("wait for packets", error)),
            }
            let (stop, devices) = match waits.split_last() {
                Some((stop, devices)) => (stop.revents(), devices),
                None => return Ok(()),
            };
            if stop.contains(PollFlags::IN) {
                return Ok(());
            }
            for (site, wait) in devices.iter().enumerate() {
                if !wait.revents().is_empty() {
                    self.take(site, &mut room)?;
                }
            }
        }
    }

    /// Delivers all frames that are due; returns the time until the next.
    fn deliver(&self) -> Option<Timespec> {
        let mut network = self.shared.network();
        // Read once for all frames: a loop that read the clock for each could keep delivering and never read.
        let now = self.begun.elapsed();
        while let Some((site, frame)) = network.next_due(now) {
            if self.devices[site].write(&frame).is_err() {
                self.shared.refused.fetch_add(1, Ordering::Relaxed);
            }
            network.done(frame);
        }
        let wait = network.next_time()?.saturating_sub(self.begun.elapsed());
        Some(timespec(wait))
    }

    /// Takes what a site sends, up to a bound, so that no site keeps the others waiting.
    fn take(&self, site: usize, room: &mut [u8]) -> Result<(), TestbedError> {
        let mut network = self.shared.network();
        for _ in 0..FRAMES_AT_ONCE {
            let read = self.devices[site].read(room);
            let Some(bytes) = read.map_err(|error| TestbedError::system("read from a site's device", error))? else {
                break;
            };
            network.enter(self.begun.elapsed(), site, &room[..bytes]);
        }
        Ok(())
    }
}

fn timespec(time: Duration) -> Timespec {
    // A plan's round trips are at most a minute, so both numbers fit.
    Timespec { tv_sec: time.as_secs() as i64, tv_nsec: time.subsec_nanos().into() }
}

/// Frames taken from one site before other sites and due frames have their turn: 1 MiB, about a third of a
/// millisecond.
const FRAMES_AT_ONCE: usize = 16;
/// How late the kernel may wake the loop on purpose: not at all.
const TIMER_SLACK_NANOS: u64 = 1;
