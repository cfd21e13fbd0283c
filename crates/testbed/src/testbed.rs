//! A running testbed: sites, their devices, and the thread between them. It ends when it is dropped. If its process
//! is killed, the kernel removes all of it, so it never needs cleaning up.

use std::{os::fd::RawFd, sync::Arc, thread};

use crate::{
    emulator::{Emulator, EmulatorState},
    error::TestbedError,
    network::{Network, NetworkStatus},
    plan::{Scope, TestbedPlan},
    rules::PathChange,
    site::{Device, Site},
    system::Offload,
};

/// See the module.
#[derive(Debug)]
pub struct Testbed {
    controls: Controls,
    sites: Vec<Site>,
    offload: Offload,
    emulator: Option<thread::JoinHandle<Result<(), TestbedError>>>,
}

/// The operations on a running testbed, from any thread.
#[derive(Clone, Debug)]
pub struct Controls {
    shared: Arc<EmulatorState>,
}

impl Testbed {
    /// Makes the sites of a plan and connects them. With `is_whole`, programs hand over many segments at once, as
    /// they would to a real network card. Without it, each packet passes by itself, which costs this machine about
    /// ten times as much.
    ///
    /// Fails with [`TestbedError::NotPermitted`] if this process does not run as root, and with
    /// [`TestbedError::NoTun`] if the kernel has no TUN devices.
    pub fn start(plan: TestbedPlan, is_whole: bool) -> Result<Self, TestbedError> {
        let wanted = if is_whole { Offload::TcpAndUdp } else { Offload::None };
        let made: Result<Vec<(Site, Device)>, _> =
            (0..plan.sites().len()).map(|site| Site::make(site, plan.nodes_per_site(), wanted)).collect();
        let (sites, devices): (Vec<_>, Vec<_>) = made?.into_iter().unzip();
        let offload = devices.first().map_or(Offload::None, |device| device.offload);
        let shared = Arc::new(EmulatorState::new(Network::new(plan))?);
        let emulator = Emulator::new(devices, Arc::clone(&shared));
        let thread = thread::Builder::new().name("testbed".into()).spawn(|| emulator.run());
        let emulator = Some(thread.map_err(|error| TestbedError::system("start a thread", error))?);
        Ok(Self { controls: Controls { shared }, sites, offload, emulator })
    }

    /// The operations that are available while it runs.
    pub fn controls(&self) -> &Controls {
        &self.controls
    }

    /// Whether programs hand over datagrams one by one even when they have many. Either the kernel is older than
    /// Linux 6.2, or this was requested.
    pub fn is_slow_with_datagrams(&self) -> bool {
        self.offload != Offload::TcpAndUdp
    }

    /// The descriptor numbers under which this process has the sites' namespaces open, in their order. Others enter
    /// them through `/proc/PID/fd/N`.
    pub fn namespace_fds(&self) -> Vec<RawFd> {
        self.sites.iter().map(Site::namespace_fd).collect()
    }

    /// Runs a closure at a site (counted from 0), on a thread of its own, and waits for it.
    pub fn run<T: Send>(&self, site: usize, what: impl FnOnce() -> T + Send) -> Result<T, TestbedError> {
        self.sites[site].run(what)
    }
}

impl Drop for Testbed {
    fn drop(&mut self) {
        self.controls.shared.stop();
        if let Some(Ok(Err(error))) = self.emulator.take().map(thread::JoinHandle::join) {
            eprintln!("the testbed's links had ended before: {error}");
        }
    }
}

impl Controls {
    /// Controls of a network that no packet enters.
    #[cfg(test)]
    pub(crate) fn without_devices(plan: TestbedPlan) -> Self {
        #[allow(clippy::unwrap_used)]
        Self { shared: Arc::new(EmulatorState::new(Network::new(plan)).unwrap()) }
    }

    /// Changes how paths behave from now on; returns the number of paths changed.
    pub fn change(&self, scope: &Scope, change: &PathChange) -> Result<usize, TestbedError> {
        self.shared.network().change(scope, change)
    }

    /// The current state.
    pub fn status(&self) -> NetworkStatus {
        NetworkStatus { refused: self.shared.refused(), ..self.shared.network().status() }
    }
}
