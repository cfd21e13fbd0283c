//! The head of a bulk-data frame on a transfer connection, in network byte order. First comes the payload's length in
//! bytes (4 bytes; 0 ends the data). Then comes the CRC32C of each [block](crate::limits::BLOCK_BYTES) of the payload
//! (4 bytes each, the last block may be short). A receiver that stores the payload keeps these checksums, so a slice's
//! blocks are never unprotected between the writer's memory and the reader's.

use crate::limits;

/// Longest head in bytes.
pub const HEAD_BYTES_MAX: usize = 4 + 4 * (limits::FRAME_BYTES_MAX / limits::BLOCK_BYTES as usize);

/// Sent instead of a frame's length: the next frame waits for a limit. Nothing of a frame follows.
pub const WAITING: [u8; 4] = [0xff; 4];

/// The number of checksums of a payload of `payload_bytes` bytes.
pub fn checksum_count(payload_bytes: usize) -> usize {
    payload_bytes.div_ceil(limits::BLOCK_BYTES as usize)
}

/// The checksums of a payload, block by block.
pub fn checksums(payload: &[u8]) -> impl Iterator<Item = u32> {
    payload.chunks(limits::BLOCK_BYTES as usize).map(crc32c::crc32c)
}

/// Appends the head for `payload` to `out`.
pub fn write_head(payload: &[u8], out: &mut Vec<u8>) {
    debug_assert!(payload.len() <= limits::FRAME_BYTES_MAX, "a frame is cut by its sender");
    out.extend(u32::try_from(payload.len()).unwrap_or(u32::MAX).to_be_bytes());
    for checksum in checksums(payload) {
        out.extend(checksum.to_be_bytes());
    }
}

/// The payload length that the first four bytes of a frame announce; `None` when it is more than a frame may hold.
pub fn payload_bytes(first: [u8; 4]) -> Option<usize> {
    let bytes = u32::from_be_bytes(first) as usize;
    (bytes <= limits::FRAME_BYTES_MAX).then_some(bytes)
}

/// The first block of `payload` whose checksum is not the one in `expected` (big-endian, 4 bytes each).
pub fn first_bad_block(payload: &[u8], expected: &[u8]) -> Option<usize> {
    if expected.len() != 4 * checksum_count(payload.len()) {
        return Some(0);
    }
    checksums(payload).zip(expected.chunks_exact(4)).position(|(found, wanted)| found.to_be_bytes() != wanted)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flipped_bit_is_found_in_its_block() {
        let mut payload = vec![7u8; 3 * limits::BLOCK_BYTES as usize + 5];
        let mut head = Vec::new();
        write_head(&payload, &mut head);
        assert_eq!(head.len(), 4 + 4 * 4);
        assert_eq!(payload_bytes([head[0], head[1], head[2], head[3]]), Some(payload.len()));
        assert_eq!(first_bad_block(&payload, &head[4..]), None);
        payload[2 * limits::BLOCK_BYTES as usize] ^= 1;
        assert_eq!(first_bad_block(&payload, &head[4..]), Some(2));
        assert_eq!(first_bad_block(&payload, &head[8..]), Some(0));
    }

    #[test]
    fn a_frame_longer_than_the_limit_is_refused() {
        assert_eq!(payload_bytes((limits::FRAME_BYTES_MAX as u32).to_be_bytes()), Some(limits::FRAME_BYTES_MAX));
        assert_eq!(payload_bytes((limits::FRAME_BYTES_MAX as u32 + 1).to_be_bytes()), None);
    }
}
