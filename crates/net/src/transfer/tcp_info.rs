//! What the system knows of a TCP connection (`TCP_INFO`), for the [meter of a link](super::link_meter). It never reads
//! or writes the connection's bytes.

use std::os::fd::RawFd;
#[cfg(target_os = "linux")]
use std::{mem, time::Duration};

use super::link_meter::{ConnectionTotals, HeldUp};

/// The totals of the socket `descriptor`, which is open; `None` where the system does not tell.
#[cfg(target_os = "linux")]
#[allow(unsafe_code)]
pub(super) fn read(descriptor: RawFd) -> Option<ConnectionTotals> {
    // SAFETY: only whole numbers, for which zero is a value.
    let mut info: libc::tcp_info = unsafe { mem::zeroed() };
    let mut length = size_of::<libc::tcp_info>() as libc::socklen_t;
    // SAFETY: `info` has `length` bytes. An older kernel fills fewer, and the others stay zero.
    let outcome = unsafe {
        libc::getsockopt(descriptor, libc::IPPROTO_TCP, libc::TCP_INFO, (&raw mut info).cast(), &raw mut length)
    };
    // Not while the receiver or our own buffer was the limit.
    let own_micros = info.tcpi_rwnd_limited.saturating_add(info.tcpi_sndbuf_limited);
    (outcome == 0).then(|| ConnectionTotals {
        sent_packets: info.tcpi_data_segs_out.into(),
        lost_packets: info.tcpi_total_retrans.into(),
        retransmitted_bytes: info.tcpi_bytes_retrans,
        round_trip: Duration::from_micros(info.tcpi_rtt.into()),
        held_up: HeldUp::InAll(Duration::from_micros(info.tcpi_busy_time.saturating_sub(own_micros))),
    })
}

/// Other systems tell it in other ways.
#[cfg(not(target_os = "linux"))]
pub(super) fn read(_descriptor: RawFd) -> Option<ConnectionTotals> {
    None
}
