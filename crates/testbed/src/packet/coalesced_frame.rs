//! Puts segments under one header again that survived a link and arrive within a moment of each other. A real
//! receiving network card would hand them to its kernel in the same way. Each header is made to describe what now
//! follows it. User bytes are copied and never looked at.

use super::{
    checksum::{checksum, pseudo_header_sum},
    gso_packet::{GsoKind, GsoPacket, TCP, UDP},
    virtio::VirtioHeader,
};

/// A frame that is being built from segments of one GSO packet, in their order.
#[derive(Debug)]
pub(crate) struct CoalescedFrame {
    frame: Vec<u8>,
    first: usize,
    last: usize,
    segments: usize,
}

impl CoalescedFrame {
    /// Begins with segment `index` in `frame`, a buffer whose content is discarded.
    pub(crate) fn begin(mut frame: Vec<u8>, parcel: &GsoPacket<'_>, index: usize) -> Self {
        frame.clear();
        frame.extend_from_slice(&parcel.header.to_bytes());
        frame.extend_from_slice(&parcel.packet[..parcel.headers_bytes]);
        if parcel.gso_kind != GsoKind::None {
            frame.extend_from_slice(parcel.payload(index));
        }
        Self { frame, first: index, last: index, segments: 1 }
    }

    /// Appends segment `index` behind the last one; only for a packet with several segments.
    pub(crate) fn append(&mut self, parcel: &GsoPacket<'_>, index: usize) {
        self.frame.extend_from_slice(parcel.payload(index));
        self.last = index;
        self.segments += 1;
    }

    /// The number of its segments.
    pub(crate) fn segments(&self) -> usize {
        self.segments
    }

    /// The number of its last segment.
    pub(crate) fn last(&self) -> usize {
        self.last
    }

    /// The frame, with headers that describe its content.
    pub(crate) fn finish(mut self, parcel: &GsoPacket<'_>) -> Vec<u8> {
        if parcel.gso_kind != GsoKind::None {
            self.set_offload(parcel);
            self.set_network(parcel);
            match parcel.gso_kind {
                GsoKind::Tcp => self.set_tcp(parcel),
                GsoKind::Udp | GsoKind::None => self.set_udp(parcel),
            }
        }
        self.frame
    }

    fn set_offload(&mut self, parcel: &GsoPacket<'_>) {
        let mut header = parcel.header;
        if self.segments == 1 {
            header.gso_type = VirtioHeader::GSO_NONE;
            header.segment_bytes = 0;
        } else if self.first > 0 {
            header.gso_type &= !VirtioHeader::GSO_ECN;
        }
        self.frame[..VirtioHeader::BYTES].copy_from_slice(&header.to_bytes());
    }

    /// Length, identification and checksum of IPv4. A kernel that segments a packet increments the identification by
    /// one per segment.
    fn set_network(&mut self, parcel: &GsoPacket<'_>) {
        let bytes = self.packet_bytes();
        let network = &mut self.frame[VirtioHeader::BYTES..][..parcel.network_bytes];
        network[2..4].copy_from_slice(&bytes.to_be_bytes());
        let identification = u16::from_be_bytes([network[4], network[5]]).wrapping_add(self.first as u16);
        network[4..6].copy_from_slice(&identification.to_be_bytes());
        network[10..12].fill(0);
        let sum = checksum(network);
        network[10..12].copy_from_slice(&sum.to_be_bytes());
    }

    /// Sequence number and flags. Flags that end a packet are on its last segment only, and those that begin one on
    /// its first.
    fn set_tcp(&mut self, parcel: &GsoPacket<'_>) {
        let sum = self.pseudo_header_sum(parcel, TCP);
        let (first, is_end) = (self.first, self.last + 1 == parcel.segments());
        let transport = self.transport(parcel);
        let advance = (first * usize::from(parcel.header.segment_bytes)) as u32;
        let sequence = u32::from_be_bytes([transport[4], transport[5], transport[6], transport[7]]);
        transport[4..8].copy_from_slice(&sequence.wrapping_add(advance).to_be_bytes());
        if !is_end {
            transport[13] &= !(TCP_FIN | TCP_PSH);
        }
        if first > 0 {
            transport[13] &= !TCP_CWR;
        }
        transport[16..18].copy_from_slice(&sum.to_be_bytes());
    }

    fn set_udp(&mut self, parcel: &GsoPacket<'_>) {
        let sum = self.pseudo_header_sum(parcel, UDP);
        let bytes = self.packet_bytes() - parcel.network_bytes as u16;
        let transport = self.transport(parcel);
        transport[4..6].copy_from_slice(&bytes.to_be_bytes());
        transport[6..8].copy_from_slice(&sum.to_be_bytes());
    }

    fn transport(&mut self, parcel: &GsoPacket<'_>) -> &mut [u8] {
        &mut self.frame[VirtioHeader::BYTES + parcel.network_bytes..]
    }

    fn pseudo_header_sum(&self, parcel: &GsoPacket<'_>, protocol: u8) -> u16 {
        let bytes = self.packet_bytes() - parcel.network_bytes as u16;
        pseudo_header_sum(parcel.source, parcel.destination, protocol, bytes)
    }

    /// Never longer than the original packet, whose length fits into IPv4's field.
    fn packet_bytes(&self) -> u16 {
        (self.frame.len() - VirtioHeader::BYTES) as u16
    }
}

const TCP_FIN: u8 = 0x01;
const TCP_PSH: u8 = 0x08;
const TCP_CWR: u8 = 0x80;

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::{
        super::samples::{complete, cut, tcp_row, udp_row},
        *,
    };

    fn piece(parcel: &GsoPacket<'_>, indexes: &[usize]) -> Vec<u8> {
        let mut piece = CoalescedFrame::begin(vec![7; 3], parcel, indexes[0]);
        for index in &indexes[1..] {
            piece.append(parcel, *index);
        }
        piece.finish(parcel)
    }

    #[test]
    fn a_whole_row_passes_unchanged() {
        for frame in [tcp_row(10 * 1448 + 5, 1448), udp_row(1200 * 7, 1200), tcp_row(1, 1448)] {
            let parcel = GsoPacket::read(&frame).unwrap();
            let whole: Vec<usize> = (0..parcel.segments()).collect();
            let passed = piece(&parcel, &whole);
            if parcel.segments() > 1 {
                assert_eq!(passed, frame);
            }
        }
    }

    #[test]
    fn a_packet_that_is_no_row_passes_byte_for_byte() {
        let mut frame = cut(&udp_row(2400, 1200)).remove(0);
        // Even a wrong checksum passes: the receiver must detect it.
        frame[VirtioHeader::BYTES + 26] ^= 0x55;
        let parcel = GsoPacket::read(&frame).unwrap();
        assert_eq!(piece(&parcel, &[0]), frame);
    }

    #[test]
    fn every_stretch_of_a_row_carries_the_segments_that_a_plain_sender_would_have_sent() {
        for frame in [tcp_row(5 * 1000 + 13, 1000), udp_row(5 * 1000 + 13, 1000)] {
            let parcel = GsoPacket::read(&frame).unwrap();
            let plain = cut(&frame);
            assert_eq!(parcel.segments(), plain.len());
            for first in 0..plain.len() {
                for end in first + 1..=plain.len() {
                    let indexes: Vec<usize> = (first..end).collect();
                    let found = cut(&piece(&parcel, &indexes));
                    assert_eq!(found, plain[first..end], "segments {first} to {end}");
                }
            }
        }
    }

    #[test]
    fn datagrams_that_were_lost_are_missing_from_the_row_and_nothing_else_is() {
        let frame = udp_row(6 * 1000 + 13, 1000);
        let parcel = GsoPacket::read(&frame).unwrap();
        let plain = cut(&frame);
        let kept = [0, 2, 3, 6];
        let found = cut(&piece(&parcel, &kept));
        // IPv4's identification counts on from the first segment, as the receiving kernel would count. Datagrams that
        // must not be fragmented have no use for it.
        let without = |frame: &Vec<u8>| {
            let mut frame = frame.clone();
            frame[VirtioHeader::BYTES + 4..][..2].fill(0);
            frame[VirtioHeader::BYTES + 10..][..2].fill(0);
            frame
        };
        let expected: Vec<_> = kept.iter().map(|index| without(&plain[*index])).collect();
        assert_eq!(found.iter().map(without).collect::<Vec<_>>(), expected);
    }

    #[test]
    fn checksums_that_were_left_to_the_device_come_out_right() {
        for frame in [tcp_row(4 * 1448 + 7, 1448), udp_row(4 * 1200 + 7, 1200)] {
            let parcel = GsoPacket::read(&frame).unwrap();
            let plain: Vec<_> = cut(&frame).iter().map(|frame| complete(frame)).collect();
            let single: Vec<_> = (0..5).map(|index| complete(&piece(&parcel, &[index]))).collect();
            assert_eq!(single, plain);
        }
    }

    #[test]
    fn sequence_numbers_and_identifications_wrap() {
        let mut frame = tcp_row(3 * 1000, 1000);
        let packet = VirtioHeader::BYTES;
        frame[packet + 4..packet + 6].fill(0xff);
        frame[packet + 24..packet + 28].fill(0xff);
        let parcel = GsoPacket::read(&frame).unwrap();
        let last = piece(&parcel, &[2]);
        assert_eq!(last[packet + 4..packet + 6], [0, 1]);
        assert_eq!(last[packet + 24..packet + 28], 1999_u32.to_be_bytes());
    }
}
