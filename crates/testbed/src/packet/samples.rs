//! Test samples: GSO packets as a kernel gives them to a device. A slow, simple function cuts one into the packets
//! that a sender without any offload would have sent. It follows the standards; it never uses the code that it
//! checks.

use super::virtio::VirtioHeader;

/// TCP with 12 bytes of options and every flag that matters, from 10.77.1.1 to 10.77.2.1.
pub(crate) fn tcp_row(payload_bytes: usize, segment_bytes: u16) -> Vec<u8> {
    let mut transport = vec![0x9c, 0x40, 0x14, 0x51]; // ports
    transport.extend([0xff, 0xff, 0xf0, 0x00, 0x00, 0x00, 0x00, 0x09]); // sequence, acknowledgement
    transport.extend([0x80, 0x80 | 0x10 | 0x08 | 0x01, 0x01, 0xf6, 0, 0, 0, 0]); // CWR, ACK, PSH, FIN
    transport.extend([1, 1, 8, 10, 1, 2, 3, 4, 5, 6, 7, 8]); // a time stamp
    row(6, VirtioHeader::GSO_TCPV4 | VirtioHeader::GSO_ECN, 16, transport, payload_bytes, segment_bytes)
}

/// UDP, from 10.77.1.1 to 10.77.2.1.
pub(crate) fn udp_row(payload_bytes: usize, segment_bytes: u16) -> Vec<u8> {
    let mut transport = vec![0x9c, 0x40, 0x14, 0x51];
    transport.extend(((payload_bytes + 8) as u16).to_be_bytes());
    transport.extend([0, 0]);
    row(17, VirtioHeader::GSO_UDP_L4, 6, transport, payload_bytes, segment_bytes)
}

fn row(
    protocol: u8,
    kind: u8,
    checksum_at: usize,
    mut transport: Vec<u8>,
    payload_bytes: usize,
    segment_bytes: u16,
) -> Vec<u8> {
    let headers_bytes = 20 + transport.len();
    let offload = VirtioHeader {
        flags: VirtioHeader::NEEDS_CHECKSUM,
        gso_type: kind,
        headers_bytes: headers_bytes as u16,
        segment_bytes,
        checksum_start: 20,
        checksum_offset: checksum_at as u16,
    };
    let mut packet = vec![0x45, 0, 0, 0, 0x12, 0x34, 0x40, 0, 64, protocol, 0, 0, 10, 77, 1, 1, 10, 77, 2, 1];
    packet[2..4].copy_from_slice(&((headers_bytes + payload_bytes) as u16).to_be_bytes());
    let sum = !ones_complement(&packet);
    packet[10..12].copy_from_slice(&sum.to_be_bytes());
    let pseudo = ones_complement(&pseudo_header(&packet, transport.len() + payload_bytes));
    transport[checksum_at..checksum_at + 2].copy_from_slice(&pseudo.to_be_bytes());
    let mut random = fastrand::Rng::with_seed(payload_bytes as u64);
    let payload = std::iter::repeat_with(|| random.u8(..)).take(payload_bytes);
    offload.to_bytes().into_iter().chain(packet).chain(transport).chain(payload).collect()
}

/// The packets of a frame, each a frame of its own.
pub(crate) fn cut(frame: &[u8]) -> Vec<Vec<u8>> {
    let header = VirtioHeader::read(frame).expect("a sample");
    let packet = &frame[VirtioHeader::BYTES..];
    if header.gso_type == VirtioHeader::GSO_NONE {
        return vec![frame.to_vec()];
    }
    let is_tcp = packet[9] == 6;
    let headers_bytes = if is_tcp { 20 + usize::from(packet[32] >> 4) * 4 } else { 28 };
    let (headers, payload) = packet.split_at(headers_bytes);
    let chunks: Vec<_> = payload.chunks(usize::from(header.segment_bytes)).collect();
    let mut sent = 0;
    let mut frames = Vec::new();
    for (number, chunk) in chunks.iter().enumerate() {
        let mut headers = headers.to_vec();
        headers[2..4].copy_from_slice(&((headers_bytes + chunk.len()) as u16).to_be_bytes());
        let identification = u16::from_be_bytes([packet[4], packet[5]]).wrapping_add(number as u16);
        headers[4..6].copy_from_slice(&identification.to_be_bytes());
        headers[10..12].copy_from_slice(&[0, 0]);
        let sum = !ones_complement(&headers[..20]);
        headers[10..12].copy_from_slice(&sum.to_be_bytes());
        if is_tcp {
            let sequence = u32::from_be_bytes([packet[24], packet[25], packet[26], packet[27]]).wrapping_add(sent);
            headers[24..28].copy_from_slice(&sequence.to_be_bytes());
            if number > 0 {
                headers[33] &= 0x7f;
            }
            if number + 1 < chunks.len() {
                headers[33] &= !0x09;
            }
        } else {
            headers[24..26].copy_from_slice(&((chunk.len() + 8) as u16).to_be_bytes());
        }
        let pseudo = ones_complement(&pseudo_header(&headers, headers_bytes - 20 + chunk.len()));
        let at = 20 + usize::from(header.checksum_offset);
        headers[at..at + 2].copy_from_slice(&pseudo.to_be_bytes());
        let single = VirtioHeader { gso_type: VirtioHeader::GSO_NONE, segment_bytes: 0, ..header };
        frames.push(single.to_bytes().into_iter().chain(headers).chain(chunk.iter().copied()).collect());
        sent += chunk.len() as u32;
    }
    frames
}

/// The packet of a frame with its checksum computed, as it would be on a wire.
pub(crate) fn complete(frame: &[u8]) -> Vec<u8> {
    let header = VirtioHeader::read(frame).expect("a sample");
    let mut packet = frame[VirtioHeader::BYTES..].to_vec();
    let start = usize::from(header.checksum_start);
    let at = start + usize::from(header.checksum_offset);
    let sum = !ones_complement(&packet[start..]);
    packet[at..at + 2].copy_from_slice(&sum.to_be_bytes());
    // A receiver sums everything, pseudo header and checksum included, and gets all ones.
    let mut received = pseudo_header(&packet, packet.len() - start);
    received.extend_from_slice(&packet[start..]);
    assert_eq!(ones_complement(&received), 0xffff, "a receiver refuses this packet");
    assert_eq!(ones_complement(&packet[..20]), 0xffff, "a router refuses this packet");
    packet
}

fn pseudo_header(packet: &[u8], transport_bytes: usize) -> Vec<u8> {
    let mut pseudo = packet[12..20].to_vec();
    pseudo.extend([0, packet[9]]);
    pseudo.extend((transport_bytes as u16).to_be_bytes());
    pseudo
}

/// Adds 16-bit words one by one, and each carry at once.
fn ones_complement(bytes: &[u8]) -> u16 {
    let mut sum = 0_u32;
    for pair in bytes.chunks(2) {
        sum += u32::from(pair[0]) * 256 + pair.get(1).copied().map_or(0, u32::from);
        if sum > 0xffff {
            sum -= 0xffff;
        }
    }
    sum as u16
}
