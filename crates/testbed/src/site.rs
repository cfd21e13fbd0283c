//! One site: a network namespace with a loopback and one TUN device. The namespace has no name. It exists while its
//! descriptors are open or a process is in it, so it never has to be cleaned up, however the testbed ends.

use std::{
    fs::{self, File},
    io,
    net::Ipv4Addr,
    os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd},
    thread,
};

use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

use crate::{
    error::TestbedError,
    plan::{node_address, site_address},
    system::{self, Offload},
};

/// See the module.
#[derive(Debug)]
pub(crate) struct Site {
    namespace: OwnedFd,
}

impl Site {
    /// Makes a site and the other end of its device.
    pub(crate) fn make(site: usize, nodes: u32, offload: Offload) -> Result<(Self, Device), TestbedError> {
        // On a thread of its own: namespaces are entered by threads, and end with their last descriptor.
        on_a_thread(move || {
            system::leave_network().map_err(|error| TestbedError::system("make a network namespace", error))?;
            let namespace = File::open("/proc/thread-self/ns/net")
                .map_err(|error| TestbedError::system("keep a network namespace", error))?;
            let (tun, offload) = system::make_tun(DEVICE, offload).map_err(|error| match error.kind() {
                io::ErrorKind::NotFound => TestbedError::NoTun(error),
                _ => TestbedError::system("make a TUN device", error),
            })?;
            configure(site, nodes).map_err(|error| TestbedError::system("set up a site's network", error))?;
            Ok((Self { namespace: namespace.into() }, Device { tun, offload }))
        })
    }

    /// The number under which this process has the namespace open.
    pub(crate) fn namespace_fd(&self) -> RawFd {
        self.namespace.as_raw_fd()
    }

    /// Runs a closure on a thread of its own that is at this site: sockets it makes are there.
    pub(crate) fn run<T: Send>(&self, what: impl FnOnce() -> T + Send) -> Result<T, TestbedError> {
        on_a_thread(|| {
            enter(self.namespace.as_fd())?;
            Ok(what())
        })
    }
}

/// A site's device, on the side where the site's packets come out and other sites' packets go in.
#[derive(Debug)]
pub(crate) struct Device {
    tun: OwnedFd,
    /// What the kernel granted.
    pub(crate) offload: Offload,
}

impl Device {
    /// Reads one frame into `room`, which is large enough for any; `None` if there is none now.
    pub(crate) fn read(&self, room: &mut [u8]) -> io::Result<Option<usize>> {
        match rustix::io::read(&self.tun, room) {
            Ok(bytes) => Ok(Some(bytes)),
            Err(rustix::io::Errno::AGAIN | rustix::io::Errno::INTR) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// Writes one frame to the site.
    pub(crate) fn write(&self, frame: &[u8]) -> io::Result<()> {
        rustix::io::write(&self.tun, frame)?;
        Ok(())
    }
}

impl AsFd for Device {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.tun.as_fd()
    }
}

/// Moves the calling thread to the site of a namespace.
pub fn enter(namespace: BorrowedFd<'_>) -> Result<(), TestbedError> {
    move_into_link_name_space(namespace, Some(LinkNameSpaceType::Network))
        .map_err(|error| TestbedError::system("enter a site", error))
}

/// Addresses, lengths and settings of the thread's new namespace.
fn configure(site: usize, nodes: u32) -> io::Result<()> {
    system::set_up("lo")?;
    // IPv6 would only look for routers that do not exist. A kernel without IPv6 has nothing to turn off.
    let _ = fs::write("/proc/sys/net/ipv6/conf/all/disable_ipv6", "1");
    system::set_lengths(DEVICE, MTU_BYTES, QUEUE_PACKETS)?;
    system::set_address(DEVICE, None, site_address(site), MASK)?;
    for node in 0..nodes {
        system::set_address(DEVICE, Some(node + 1), node_address(site, node), MASK)?;
    }
    system::set_up(DEVICE)?;
    for (setting, value) in SETTINGS {
        fs::write(format!("/proc/sys/net/ipv4/{setting}"), value)?;
    }
    Ok(())
}

fn on_a_thread<T: Send>(what: impl FnOnce() -> Result<T, TestbedError> + Send) -> Result<T, TestbedError> {
    thread::scope(|scope| {
        let thread = thread::Builder::new().name("site".into()).spawn_scoped(scope, what);
        let thread = thread.map_err(|error| TestbedError::system("start a thread", error))?;
        thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}

/// The device of every site.
const DEVICE: &str = "wan0";
const MASK: Ipv4Addr = Ipv4Addr::new(255, 255, 0, 0);
/// Ethernet's, as on most wide-area links.
const MTU_BYTES: u16 = 1500;
/// Frames that wait in the kernel for the testbed; more are dropped. The testbed usually reads again within a
/// millisecond, and a frame may be 64 KiB.
const QUEUE_PACKETS: u16 = 2_000;
/// TCP's settings: windows for 2 Gbit/s over 100 ms, and nothing remembered of earlier connections, so that
/// measurements can be repeated. Also, removing an address leaves the other addresses in place.
const SETTINGS: &[(&str, &str)] = &[
    ("tcp_rmem", "4096 131072 67108864"),
    ("tcp_wmem", "4096 131072 67108864"),
    ("tcp_no_metrics_save", "1"),
    ("conf/all/promote_secondaries", "1"),
];
