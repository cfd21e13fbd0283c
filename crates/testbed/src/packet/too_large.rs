//! A router's answer to a packet that is too large for the next link and must not be fragmented. It is ICMP
//! "fragmentation needed" (RFC 792, RFC 1191), from which senders learn the path's MTU. This file never decides
//! whether to answer.

use std::net::Ipv4Addr;

use super::{checksum::checksum, gso_packet::GsoPacket, virtio::VirtioHeader};

/// Writes the answer's frame into `frame`, a buffer whose content is discarded.
pub(crate) fn too_large_answer(frame: &mut Vec<u8>, parcel: &GsoPacket<'_>, mtu_bytes: u16) {
    // The beginning of the packet: its IPv4 header and the ports behind it, by which the sender recognises it.
    let quoted = &parcel.packet[..parcel.packet.len().min(parcel.network_bytes + 8)];
    frame.clear();
    frame.extend_from_slice(&VirtioHeader::default().to_bytes());
    let total_bytes = (28 + quoted.len()) as u16;
    let [length_high, length_low] = total_bytes.to_be_bytes();
    frame.extend_from_slice(&[0x45, 0, length_high, length_low, 0, 0, 0, 0, HOPS, ICMP, 0, 0]);
    frame.extend_from_slice(&ROUTER.octets());
    frame.extend_from_slice(&parcel.source.octets());
    let [mtu_high, mtu_low] = mtu_bytes.to_be_bytes();
    frame.extend_from_slice(&[UNREACHABLE, FRAGMENTATION_NEEDED, 0, 0, 0, 0, mtu_high, mtu_low]);
    frame.extend_from_slice(quoted);
    let (network, icmp) = frame[VirtioHeader::BYTES..].split_at_mut(20);
    let (network_sum, icmp_sum) = (checksum(network), checksum(icmp));
    network[10..12].copy_from_slice(&network_sum.to_be_bytes());
    icmp[2..4].copy_from_slice(&icmp_sum.to_be_bytes());
}

/// The sender of the answer: a router that belongs to no site.
const ROUTER: Ipv4Addr = Ipv4Addr::new(10, 77, 255, 254);
const HOPS: u8 = 64;
const ICMP: u8 = 1;
const UNREACHABLE: u8 = 3;
const FRAGMENTATION_NEEDED: u8 = 4;

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::{super::samples::udp_row, *};

    #[test]
    fn an_answer_quotes_what_was_sent_and_says_the_mtu() {
        let sent = udp_row(2400, 1200);
        let mut answer = vec![1, 2, 3];
        too_large_answer(&mut answer, &GsoPacket::read(&sent).unwrap(), 1000);
        let parcel = GsoPacket::read(&answer).unwrap();
        assert_eq!((parcel.source, parcel.destination, parcel.protocol), (ROUTER, [10, 77, 1, 1].into(), ICMP));
        let packet = &answer[VirtioHeader::BYTES..];
        assert_eq!(packet[20..22], [UNREACHABLE, FRAGMENTATION_NEEDED]);
        assert_eq!(packet[26..28], 1000_u16.to_be_bytes());
        assert_eq!(packet[28..], sent[VirtioHeader::BYTES..][..28]);
        // Summed together with its checksum, a valid header gives zero.
        assert_eq!((checksum(&packet[..20]), checksum(&packet[20..])), (0, 0));
    }
}
