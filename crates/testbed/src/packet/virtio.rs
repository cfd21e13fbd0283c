//! The header before every packet of a device with segmentation offload: `struct virtio_net_hdr`, in the machine's
//! byte order. It says whether the packet holds several segments, of what length, and where a checksum is still
//! missing. This file never looks at the packet itself.

/// See the module.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct VirtioHeader {
    /// [`NEEDS_CHECKSUM`](Self::NEEDS_CHECKSUM), and bits that only the kernel sets.
    pub(crate) flags: u8,
    /// Kind of segmentation: [`GSO_NONE`](Self::GSO_NONE) and the like, perhaps with [`GSO_ECN`](Self::GSO_ECN).
    pub(crate) gso_type: u8,
    /// Bytes of all headers together; only a hint.
    pub(crate) headers_bytes: u16,
    /// Payload of each segment but the last.
    pub(crate) segment_bytes: u16,
    /// Where the missing checksum's range begins.
    pub(crate) checksum_start: u16,
    /// Where the checksum belongs, relative to that.
    pub(crate) checksum_offset: u16,
}

impl VirtioHeader {
    /// Its length.
    pub(crate) const BYTES: usize = 10;
    /// Flag: the checksum's field holds only the sum of the pseudo header.
    pub(crate) const NEEDS_CHECKSUM: u8 = 1;
    /// One segment.
    pub(crate) const GSO_NONE: u8 = 0;
    /// Segments of TCP over IPv4.
    pub(crate) const GSO_TCPV4: u8 = 1;
    /// Datagrams of UDP.
    pub(crate) const GSO_UDP_L4: u8 = 5;
    /// With [`GSO_TCPV4`](Self::GSO_TCPV4): the first segment says that the congestion window was reduced.
    pub(crate) const GSO_ECN: u8 = 0x80;

    /// Reads it from the beginning of a frame.
    pub(crate) fn read(frame: &[u8]) -> Option<Self> {
        let (bytes, _) = frame.split_first_chunk::<{ Self::BYTES }>()?;
        let [flags, row, h0, h1, s0, s1, c0, c1, o0, o1] = *bytes;
        Some(Self {
            flags,
            gso_type: row,
            headers_bytes: u16::from_ne_bytes([h0, h1]),
            segment_bytes: u16::from_ne_bytes([s0, s1]),
            checksum_start: u16::from_ne_bytes([c0, c1]),
            checksum_offset: u16::from_ne_bytes([o0, o1]),
        })
    }

    /// Its bytes.
    pub(crate) fn to_bytes(self) -> [u8; Self::BYTES] {
        let [h0, h1] = self.headers_bytes.to_ne_bytes();
        let [s0, s1] = self.segment_bytes.to_ne_bytes();
        let [c0, c1] = self.checksum_start.to_ne_bytes();
        let [o0, o1] = self.checksum_offset.to_ne_bytes();
        [self.flags, self.gso_type, h0, h1, s0, s1, c0, c1, o0, o1]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_header_is_read_as_it_was_written_and_not_from_too_few_bytes() {
        let header = VirtioHeader {
            flags: 1,
            gso_type: VirtioHeader::GSO_TCPV4 | VirtioHeader::GSO_ECN,
            headers_bytes: 52,
            segment_bytes: 1448,
            checksum_start: 20,
            checksum_offset: 16,
        };
        assert_eq!(VirtioHeader::read(&header.to_bytes()), Some(header));
        assert_eq!(VirtioHeader::read(&header.to_bytes()[..9]), None);
    }
}
