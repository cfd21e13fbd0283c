//! The Linux calls for which there is no safe form: entering a new network namespace, making a TUN device in it, and
//! setting up interfaces. Each function is one step and decides nothing. A pointer never outlives its call.

#![allow(unsafe_code)]

use std::{
    ffi::{c_int, c_ulong},
    io, mem,
    net::Ipv4Addr,
    os::fd::{AsFd, AsRawFd, OwnedFd},
};

use rustix::{
    fs::{Mode, OFlags},
    net::{AddressFamily, SocketType},
    thread::{UnshareFlags, unshare_unsafe},
};

/// What a device accepts besides single packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Offload {
    /// GSO packets of TCP segments and of UDP datagrams.
    TcpAndUdp,
    /// GSO packets of TCP segments.
    Tcp,
    /// Nothing.
    None,
}

/// Moves the calling thread, and no other, into a new network namespace.
pub(crate) fn leave_network() -> io::Result<()> {
    // SAFETY: of everything that threads share, only the network namespace is no longer shared; memory and
    // descriptors still are.
    unsafe { unshare_unsafe(UnshareFlags::NEWNET) }?;
    Ok(())
}

/// Makes a TUN device in the thread's namespace, with as much of `wanted` as the kernel supports. It exists as long
/// as the returned descriptor is open, in this process alone.
pub(crate) fn make_tun(name: &str, wanted: Offload) -> io::Result<(OwnedFd, Offload)> {
    let flags = OFlags::RDWR | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let tun = rustix::fs::open("/dev/net/tun", flags, Mode::empty())?;
    let mut request = request(name);
    request.ifr_ifru.ifru_flags = (libc::IFF_TUN | libc::IFF_NO_PI | libc::IFF_VNET_HDR) as i16;
    ask(&tun, libc::TUNSETIFF, &mut request)?;
    for offload in [Offload::TcpAndUdp, Offload::Tcp] {
        let is_wanted = wanted == offload || wanted == Offload::TcpAndUdp;
        if is_wanted && set_offload(&tun, offload.flags()).is_ok() {
            return Ok((tun, offload));
        }
    }
    // The kernel then computes checksums too: every packet is as it would be on a wire.
    set_offload(&tun, 0)?;
    Ok((tun, Offload::None))
}

/// Gives an interface of the thread's namespace an address. `alias` tells several of one interface apart; the first
/// has none.
pub(crate) fn set_address(name: &str, alias: Option<u32>, address: Ipv4Addr, mask: Ipv4Addr) -> io::Result<()> {
    let socket = socket()?;
    let name = alias.map_or_else(|| name.to_owned(), |alias| format!("{name}:{alias}"));
    let mut request = request(&name);
    request.ifr_ifru.ifru_addr = socket_address(address);
    ask(&socket, libc::SIOCSIFADDR, &mut request)?;
    request.ifr_ifru.ifru_netmask = socket_address(mask);
    ask(&socket, libc::SIOCSIFNETMASK, &mut request)
}

/// Sets the MTU of an interface and the number of packets that may wait in it.
pub(crate) fn set_lengths(name: &str, mtu_bytes: u16, queue_packets: u16) -> io::Result<()> {
    let socket = socket()?;
    let mut request = request(name);
    request.ifr_ifru.ifru_mtu = c_int::from(mtu_bytes);
    ask(&socket, libc::SIOCSIFMTU, &mut request)?;
    request.ifr_ifru.ifru_mtu = c_int::from(queue_packets);
    ask(&socket, libc::SIOCSIFTXQLEN, &mut request)
}

/// Brings up an interface of the thread's namespace.
pub(crate) fn set_up(name: &str) -> io::Result<()> {
    let mut request = request(name);
    request.ifr_ifru.ifru_flags = (libc::IFF_UP | libc::IFF_RUNNING) as i16;
    ask(&socket()?, libc::SIOCSIFFLAGS, &mut request)
}

/// Raises the priority of the calling thread for when processors are scarce: any delay of it delays all packets.
pub(crate) fn prefer_this_thread() -> io::Result<()> {
    // SAFETY: numbers only; 0 is the calling thread.
    let failed = unsafe { libc::setpriority(libc::PRIO_PROCESS, 0, PREFERRED_NICENESS) } != 0;
    if failed { Err(io::Error::last_os_error()) } else { Ok(()) }
}

impl Offload {
    fn flags(self) -> c_ulong {
        let tcp = libc::TUN_F_CSUM | libc::TUN_F_TSO4 | libc::TUN_F_TSO6 | libc::TUN_F_TSO_ECN;
        match self {
            // The kernel accepts GSO packets of datagrams only for both versions of IP together.
            Self::TcpAndUdp => (tcp | libc::TUN_F_USO4 | libc::TUN_F_USO6).into(),
            Self::Tcp => tcp.into(),
            Self::None => 0,
        }
    }
}

fn set_offload(tun: &OwnedFd, flags: c_ulong) -> io::Result<()> {
    // SAFETY: this request takes a number and no pointer.
    let failed = unsafe { libc::ioctl(tun.as_raw_fd(), libc::TUNSETOFFLOAD, flags) } < 0;
    if failed { Err(io::Error::last_os_error()) } else { Ok(()) }
}

fn ask(file: &impl AsFd, what: libc::Ioctl, request: &mut libc::ifreq) -> io::Result<()> {
    // SAFETY: all requests of this file take an `ifreq`, which lives until the call has returned.
    let failed = unsafe { libc::ioctl(file.as_fd().as_raw_fd(), what, &raw mut *request) } < 0;
    if failed { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// A request about an interface. A name that is too long is truncated, so that it ends with a zero.
fn request(name: &str) -> libc::ifreq {
    // SAFETY: it holds only numbers, for which zero is valid.
    let mut request: libc::ifreq = unsafe { mem::zeroed() };
    for (to, from) in request.ifr_name[..libc::IFNAMSIZ - 1].iter_mut().zip(name.bytes()) {
        *to = from as libc::c_char;
    }
    request
}

fn socket_address(address: Ipv4Addr) -> libc::sockaddr {
    let internet = libc::sockaddr_in {
        sin_family: libc::AF_INET as libc::sa_family_t,
        sin_port: 0,
        sin_addr: libc::in_addr { s_addr: u32::from_ne_bytes(address.octets()) },
        sin_zero: [0; 8],
    };
    // SAFETY: both are 16 bytes of numbers; `sockaddr` is the generic form of `sockaddr_in`.
    unsafe { mem::transmute::<libc::sockaddr_in, libc::sockaddr>(internet) }
}

/// Any socket: requests about interfaces go through one.
fn socket() -> io::Result<OwnedFd> {
    Ok(rustix::net::socket(AddressFamily::INET, SocketType::DGRAM, None)?)
}

const PREFERRED_NICENESS: c_int = -15;
