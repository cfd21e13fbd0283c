//! A frame as a device gave it, understood: who to whom, how many segments, how long each is on a wire. Frames come
//! from this machine's own kernel, but programs make packets too: what makes no sense is `None`, never a panic.

use std::net::Ipv4Addr;

use super::virtio::VirtioHeader;

/// A packet, or a row of segments under one header.
#[derive(Clone, Copy, Debug)]
pub(crate) struct GsoPacket<'a> {
    pub(super) header: VirtioHeader,
    /// From the IPv4 header on.
    pub(super) packet: &'a [u8],
    pub(super) gso_kind: GsoKind,
    /// Length of the IPv4 header.
    pub(super) network_bytes: usize,
    /// All headers together: what each segment of a row begins with. The whole packet where it is no row.
    pub(super) headers_bytes: usize,
    /// Who sent it.
    pub(crate) source: Ipv4Addr,
    /// For whom it is.
    pub(crate) destination: Ipv4Addr,
    /// IPv4's number of what it carries.
    pub(crate) protocol: u8,
}

/// Whether a packet is a row, and of what.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum GsoKind {
    /// One segment, which passes byte for byte.
    None,
    Tcp,
    Udp,
}

impl<'a> GsoPacket<'a> {
    /// Reads a frame; `None` where it is not IPv4 or contradicts itself.
    pub(crate) fn read(frame: &'a [u8]) -> Option<Self> {
        let header = VirtioHeader::read(frame)?;
        let packet = &frame[VirtioHeader::BYTES..];
        let (fixed, _) = packet.split_first_chunk::<20>()?;
        let network_bytes = usize::from(fixed[0] & 0xf) * 4;
        let total_bytes = usize::from(u16::from_be_bytes([fixed[2], fixed[3]]));
        if fixed[0] >> 4 != 4 || network_bytes < 20 || network_bytes > packet.len() || total_bytes != packet.len() {
            return None;
        }
        let row = match header.gso_type & !VirtioHeader::GSO_ECN {
            VirtioHeader::GSO_NONE => GsoKind::None,
            VirtioHeader::GSO_TCPV4 if fixed[9] == TCP => GsoKind::Tcp,
            VirtioHeader::GSO_UDP_L4 if fixed[9] == UDP => GsoKind::Udp,
            _ => return None,
        };
        let headers_bytes = match row {
            GsoKind::None => packet.len(),
            GsoKind::Udp => network_bytes + UDP_HEADER_BYTES,
            GsoKind::Tcp => {
                let offset = packet.get(network_bytes + 12)? >> 4;
                if offset < 5 {
                    return None;
                }
                network_bytes + usize::from(offset) * 4
            }
        };
        let is_short = headers_bytes > packet.len() || (row != GsoKind::None && headers_bytes == packet.len());
        // A row without a length, or with its checksums made already: no kernel gives that to a device.
        let is_strange = row != GsoKind::None
            && (header.segment_bytes == 0
                || header.flags & VirtioHeader::NEEDS_CHECKSUM == 0
                || usize::from(header.checksum_start) != network_bytes);
        if is_short || is_strange {
            return None;
        }
        let [.., s0, s1, s2, s3, d0, d1, d2, d3] = *fixed;
        Some(Self {
            header,
            packet,
            gso_kind: row,
            network_bytes,
            headers_bytes,
            source: Ipv4Addr::new(s0, s1, s2, s3),
            destination: Ipv4Addr::new(d0, d1, d2, d3),
            protocol: fixed[9],
        })
    }

    /// How many packets it is on a wire.
    pub(crate) fn segments(&self) -> usize {
        match self.gso_kind {
            GsoKind::None => 1,
            GsoKind::Tcp | GsoKind::Udp => {
                (self.packet.len() - self.headers_bytes).div_ceil(usize::from(self.header.segment_bytes))
            }
        }
    }

    /// Length of one of them there, in bytes of IPv4; `index` below [`segments`](Self::segments).
    pub(crate) fn wire_bytes(&self, index: usize) -> usize {
        match self.gso_kind {
            GsoKind::None => self.packet.len(),
            GsoKind::Tcp | GsoKind::Udp => self.headers_bytes + self.payload(index).len(),
        }
    }

    /// Length of a frame with so many of its segments.
    pub(crate) fn frame_bytes(&self, segments: usize) -> usize {
        VirtioHeader::BYTES + self.headers_bytes + segments * usize::from(self.header.segment_bytes)
    }

    /// Whether segments that lie apart may travel under one header: datagrams may, a stream's bytes may not.
    pub(crate) fn joins_over_gaps(&self) -> bool {
        self.gso_kind == GsoKind::Udp
    }

    /// What a segment of a row carries.
    pub(super) fn payload(&self, index: usize) -> &'a [u8] {
        let (each, payload) = (usize::from(self.header.segment_bytes), &self.packet[self.headers_bytes..]);
        &payload[index * each..payload.len().min((index + 1) * each)]
    }
}

/// IPv4's number of TCP.
pub(crate) const TCP: u8 = 6;
/// IPv4's number of UDP.
pub(crate) const UDP: u8 = 17;
/// Length of UDP's header.
pub(super) const UDP_HEADER_BYTES: usize = 8;

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::{
        super::samples::{tcp_row, udp_row},
        *,
    };

    #[test]
    fn a_row_counts_as_its_segments_with_their_own_headers() {
        let frame = tcp_row(3 * 1448 + 100, 1448);
        let parcel = GsoPacket::read(&frame).unwrap();
        assert_eq!(parcel.segments(), 4);
        assert_eq!((parcel.wire_bytes(0), parcel.wire_bytes(3)), (20 + 32 + 1448, 20 + 32 + 100));
        assert!(!parcel.joins_over_gaps());
        let frame = udp_row(2400, 1200);
        let parcel = GsoPacket::read(&frame).unwrap();
        assert_eq!((parcel.segments(), parcel.wire_bytes(1)), (2, 1228));
        assert!(parcel.joins_over_gaps());
        assert_eq!(parcel.destination, Ipv4Addr::new(10, 77, 2, 1));
    }

    #[test]
    fn what_contradicts_itself_is_no_parcel() {
        let sound = tcp_row(3000, 1448);
        for length in 0..VirtioHeader::BYTES + 53 {
            assert!(GsoPacket::read(&sound[..length]).is_none(), "{length} bytes");
        }
        let broken = |at: usize, byte: u8| {
            let mut frame = sound.clone();
            frame[at] = byte;
            GsoPacket::read(&frame).is_none()
        };
        let packet = VirtioHeader::BYTES;
        assert!(broken(0, 0), "a row whose checksum is said to be there");
        assert!(broken(1, 4), "a kind of row that was not asked for");
        assert!(broken(packet, 0x65), "not IPv4");
        assert!(broken(packet, 0x4f), "a header longer than where the checksum begins");
        assert!(broken(packet + 2, 1), "another length than it has");
        assert!(broken(packet + 9, UDP), "TCP's row of another protocol");
        assert!(broken(packet + 32, 0x10), "a TCP header shorter than one can be");
        let mut without_length = sound.clone();
        without_length[4..6].fill(0);
        assert!(GsoPacket::read(&without_length).is_none());
    }
}
