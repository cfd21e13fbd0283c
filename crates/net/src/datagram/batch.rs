//! Linux's two calls that move many datagrams at once, `recvmmsg` and `sendmmsg`, and **rows**: datagrams of one length
//! to one address. The kernel cuts a row on sending (`UDP_SEGMENT`) and joins one on receiving (`UDP_GRO`). We call
//! them ourselves because rustix lacks both. quinn-udp sends to one address at a time, and forbids the system to
//! fragment (QUIC probes for the longest datagram; GMP does not). It never waits or decides, and no pointer ever
//! outlives its call.

#![allow(unsafe_code)]

use std::{
    array, io, mem,
    net::UdpSocket,
    os::fd::{AsRawFd, BorrowedFd},
    ptr,
};

use socket2::{SockAddr, SockAddrStorage};
use tokio::io::{Interest, unix::AsyncFd};

use super::{BATCH_BUFFERS, BUFFER_BYTES, OutgoingDatagram, ReceiveBatch};

/// Takes the datagrams that are there. Returns how many buffers they fill, at least one. Fewer than [`BATCH_BUFFERS`]:
/// nothing is left.
pub(super) fn receive(socket: BorrowedFd<'_>, arrivals: &mut ReceiveBatch) -> io::Result<usize> {
    arrivals.clear();
    let mut names: [_; BATCH_BUFFERS] = array::from_fn(|_| SockAddrStorage::zeroed());
    let mut controls = [Control::default(); BATCH_BUFFERS];
    let begin = arrivals.buffers.as_mut_ptr();
    let mut pieces: [_; BATCH_BUFFERS] = array::from_fn(|room| libc::iovec {
        // This stays within the buffers, which are BATCH_BUFFERS times BUFFER_BYTES long.
        iov_base: begin.wrapping_add(room * BUFFER_BYTES).cast(),
        iov_len: BUFFER_BYTES,
    });
    let mut headers: [_; BATCH_BUFFERS] = array::from_fn(|room| {
        let mut header = empty_header();
        header.msg_hdr.msg_name = (&raw mut names[room]).cast();
        header.msg_hdr.msg_namelen = names[room].size_of();
        header.msg_hdr.msg_iov = &raw mut pieces[room];
        header.msg_hdr.msg_iovlen = 1;
        header.msg_hdr.msg_control = (&raw mut controls[room]).cast();
        header.msg_hdr.msg_controllen = size_of::<Control>();
        header
    });
    // SAFETY: every pointer of the headers leads to an array above or into `arrivals`, with its true length. All of
    // them live until the call has returned, and nothing else touches them meanwhile.
    let came = unsafe {
        libc::recvmmsg(
            socket.as_raw_fd(),
            headers.as_mut_ptr(),
            BATCH_BUFFERS as u32,
            libc::MSG_DONTWAIT,
            ptr::null_mut(),
        )
    };
    let came = usize::try_from(came).map_err(|_| io::Error::last_os_error())?;
    for (room, (header, name)) in headers.iter().zip(names).enumerate().take(came) {
        // SAFETY: the kernel wrote an address of that length.
        let from = unsafe { SockAddr::new(name, header.msg_hdr.msg_namelen) }.as_socket();
        // SAFETY: the kernel wrote whole control messages of that length into `controls`, which is still alive.
        let each = unsafe { segment_bytes(&header.msg_hdr) };
        let bytes = header.msg_len as usize;
        if let Some(from) = from {
            arrivals.note_received(room, bytes, from, each.unwrap_or(bytes));
        }
    }
    Ok(came)
}

/// Sends as many datagrams as there is room for now, from the first on. Returns how many left, at least one. With
/// `in_rows`, datagrams to one address that make a row are sent as one.
pub(super) fn send(socket: BorrowedFd<'_>, departures: &[OutgoingDatagram], in_rows: bool) -> io::Result<usize> {
    let mut pieces = Vec::with_capacity(departures.len());
    let mut rows = Vec::with_capacity(departures.len());
    let mut rest = departures;
    while let [first, ..] = rest {
        let count = if in_rows { gso_segments(rest) } else { 1 };
        let (now, later) = rest.split_at(count);
        pieces.extend(now.iter().map(|departure| libc::iovec {
            // The kernel only reads it.
            iov_base: departure.datagram.as_ptr().cast_mut().cast(),
            iov_len: departure.datagram.len(),
        }));
        rows.push((SockAddr::from(first.to), count, Control::segments(first.datagram.len())));
        rest = later;
    }
    let mut headers = Vec::with_capacity(rows.len());
    let mut next_piece = pieces.as_mut_ptr();
    for (address, count, control) in &mut rows {
        let mut header = empty_header();
        header.msg_hdr.msg_name = address.as_ptr().cast_mut().cast();
        header.msg_hdr.msg_namelen = address.len();
        header.msg_hdr.msg_iov = next_piece;
        header.msg_hdr.msg_iovlen = *count;
        if *count > 1 {
            header.msg_hdr.msg_control = (&raw mut *control).cast();
            header.msg_hdr.msg_controllen = size_of::<Control>();
        }
        headers.push(header);
        next_piece = next_piece.wrapping_add(*count);
    }
    // SAFETY: every pointer of the headers leads into `pieces`, `rows` or `departures`, with its true length. The
    // counts of the rows add up to the pieces. All of them live until the call has returned.
    let left =
        unsafe { libc::sendmmsg(socket.as_raw_fd(), headers.as_mut_ptr(), headers.len() as u32, libc::MSG_DONTWAIT) };
    let left = usize::try_from(left).map_err(|_| io::Error::last_os_error())?;
    Ok(rows.iter().take(left).map(|(_, count, _)| count).sum())
}

/// Registers a socket with the runtime, which then tells when it is ready.
pub(super) fn watch(socket: UdpSocket, interest: Interest) -> io::Result<AsyncFd<UdpSocket>> {
    // SAFETY: the watch owns the socket and gives it out by shared reference only, through which its descriptor can be
    // neither closed nor exchanged.
    Ok(unsafe { AsyncFd::register_with_interest(socket, interest) }?)
}

/// Turns a socket's option on; `false` where the system does not know it.
pub(super) fn turn_on(socket: BorrowedFd<'_>, level: libc::c_int, option: libc::c_int) -> bool {
    let on: libc::c_int = 1;
    let length = size_of_val(&on) as libc::socklen_t;
    // SAFETY: the kernel reads `length` bytes of `on`, whatever the option is.
    unsafe { libc::setsockopt(socket.as_raw_fd(), level, option, (&raw const on).cast(), length) == 0 }
}

/// How many datagrams from the first on make a row: one address, all as long as the first, only the last perhaps
/// shorter.
pub(super) fn gso_segments(departures: &[OutgoingDatagram]) -> usize {
    let Some(first) = departures.first() else { return 0 };
    let each_bytes = first.datagram.len();
    let (mut count, mut bytes) = (0, 0);
    for departure in departures.iter().take(GSO_SEGMENTS_MAX) {
        let length = departure.datagram.len();
        let fits = departure.to == first.to && length <= each_bytes && bytes + length <= GSO_BYTES_MAX;
        // An empty datagram would be invisible in a row.
        if count > 0 && (!fits || length == 0) {
            break;
        }
        count += 1;
        bytes += length;
        if length < each_bytes {
            break;
        }
    }
    count
}

fn empty_header() -> libc::mmsghdr {
    // SAFETY: all zeros is a header without name, pieces and control. The type has private padding on some systems, so
    // it cannot be written out field by field.
    unsafe { mem::zeroed() }
}

/// The length of each datagram of a row, if the kernel says that this is a row.
///
/// # Safety
/// The header's control must lead to whole control messages of the header's length.
unsafe fn segment_bytes(header: &libc::msghdr) -> Option<usize> {
    // SAFETY: by the function's own condition, each header found is whole and lies within the control.
    unsafe {
        let mut message = libc::CMSG_FIRSTHDR(header);
        while let Some(found) = message.as_ref() {
            if found.cmsg_level == libc::SOL_UDP && found.cmsg_type == libc::UDP_GRO {
                let bytes = ptr::read_unaligned(libc::CMSG_DATA(message).cast::<libc::c_int>());
                return usize::try_from(bytes).ok();
            }
            message = libc::CMSG_NXTHDR(header, message);
        }
    }
    None
}

/// Room for one control message: a header, and an `int` at most.
#[repr(C)]
#[derive(Clone, Copy)]
struct Control {
    head: libc::cmsghdr,
    value: [u8; 8],
}

impl Default for Control {
    fn default() -> Self {
        let head = libc::cmsghdr { cmsg_len: 0, cmsg_level: 0, cmsg_type: 0 };
        Self { head, value: [0; 8] }
    }
}

impl Control {
    /// Tells the kernel to cut a row every `bytes`.
    fn segments(bytes: usize) -> Self {
        let mut value = [0; 8];
        // No datagram is longer than that, and a row never has two that long.
        value[..2].copy_from_slice(&u16::try_from(bytes).unwrap_or(u16::MAX).to_ne_bytes());
        // SAFETY: the macro only computes.
        let cmsg_len = unsafe { libc::CMSG_LEN(size_of::<u16>() as u32) } as usize;
        let head = libc::cmsghdr { cmsg_len, cmsg_level: libc::SOL_UDP, cmsg_type: libc::UDP_SEGMENT };
        Self { head, value }
    }
}

/// Linux before 6.9 does not cut a row into more datagrams than this.
const GSO_SEGMENTS_MAX: usize = 64;
/// The longest datagram over IPv4; the kernel counts a row as one datagram.
const GSO_BYTES_MAX: usize = 65_507;

const _: () = assert!(mem::offset_of!(Control, value) == size_of::<libc::cmsghdr>(), "a value follows its head");

#[cfg(test)]
mod tests {
    use std::net::SocketAddr;

    use super::*;

    fn to(port: u16, lengths: &[usize]) -> Vec<OutgoingDatagram> {
        let to = SocketAddr::from(([127, 0, 0, 1], port));
        lengths.iter().map(|bytes| OutgoingDatagram { datagram: vec![7; *bytes], to }).collect()
    }

    #[test]
    fn a_row_ends_with_a_shorter_one_before_a_longer_one_and_at_another_address() {
        assert_eq!(gso_segments(&[]), 0);
        for (lengths, expected) in
            [(&[9][..], 1), (&[9, 9, 4, 9], 3), (&[4, 9], 1), (&[9, 9, 0], 2), (&[0, 0], 1), (&[40_000, 40_000], 1)]
        {
            assert_eq!(gso_segments(&to(1, lengths)), expected, "{lengths:?}");
        }
        let two_peers = [to(1, &[9, 9]), to(2, &[9])].concat();
        assert_eq!(gso_segments(&two_peers), 2);
        assert_eq!(gso_segments(&to(1, &[9; 100])), GSO_SEGMENTS_MAX);
    }
}
