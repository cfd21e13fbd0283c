//! The internet checksum (RFC 1071), and the pseudo header with which it starts in TCP and UDP over IPv4. It never
//! writes into a packet.

use std::net::Ipv4Addr;

/// The checksum of a header in which the checksum's own field is zero.
pub(super) fn checksum(bytes: &[u8]) -> u16 {
    !fold(sum(bytes))
}

/// The initial sum of a TCP or UDP checksum: addresses, protocol and length of the packet above IPv4. Senders that
/// leave the checksum to their device put exactly this, folded and not inverted, into the checksum field.
pub(super) fn pseudo_header_sum(source: Ipv4Addr, destination: Ipv4Addr, protocol: u8, bytes: u16) -> u16 {
    fold(sum(&source.octets()) + sum(&destination.octets()) + u32::from(protocol) + u32::from(bytes))
}

/// Sum of 16-bit words; an odd byte at the end counts as the upper half of a word. The input is at most 64 KiB, so
/// the sum cannot overflow.
fn sum(bytes: &[u8]) -> u32 {
    let (words, rest) = bytes.as_chunks::<2>();
    let whole: u32 = words.iter().map(|word| u32::from(u16::from_be_bytes(*word))).sum();
    whole + rest.first().map_or(0, |byte| u32::from(*byte) << 8)
}

fn fold(sum: u32) -> u16 {
    let once = (sum & 0xffff) + (sum >> 16);
    // The second fold cannot carry again.
    ((once & 0xffff) + (once >> 16)) as u16
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_example_of_a_header_has_its_known_checksum() {
        // A header whose checksum is printed in many text books: 0xb861.
        let header = [
            0x45, 0x00, 0x00, 0x73, 0x00, 0x00, 0x40, 0x00, 0x40, 0x11, 0x00, 0x00, 0xc0, 0xa8, 0x00, 0x01, 0xc0, 0xa8,
            0x00, 0xc7,
        ];
        assert_eq!(checksum(&header), 0xb861);
    }

    #[test]
    fn an_odd_byte_counts_as_the_upper_half_of_a_word() {
        assert_eq!(checksum(&[0x12, 0x34, 0x56]), !(0x1234 + 0x5600));
    }

    #[test]
    fn a_sum_that_carries_twice_is_folded_twice() {
        assert_eq!(fold(0x1_ffff), 1);
        assert_eq!(pseudo_header_sum([255; 4].into(), [255; 4].into(), 6, 0xffff), 6);
    }
}
