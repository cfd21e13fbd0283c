//! Reuses buffers for frames, since millions of packets pass and have only a few lengths. It never keeps another
//! buffer once [`FREE_BYTES_MAX`] are unused.

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct Buffers {
    /// By [`CLASS_BYTES`].
    free: [Vec<Vec<u8>>; CLASS_BYTES.len()],
    free_bytes: usize,
}

impl Buffers {
    /// An empty buffer with room for `bytes`.
    pub(crate) fn take(&mut self, bytes: usize) -> Vec<u8> {
        let Some(class) = CLASS_BYTES.iter().position(|room| *room >= bytes) else { return Vec::with_capacity(bytes) };
        match self.free[class].pop() {
            Some(buffer) => {
                self.free_bytes -= CLASS_BYTES[class];
                buffer
            }
            None => Vec::with_capacity(CLASS_BYTES[class]),
        }
    }

    /// Takes a buffer back.
    pub(crate) fn give(&mut self, mut buffer: Vec<u8>) {
        // The class whose capacity it surely has. A buffer of any other capacity, such as one that grew, is dropped.
        let Some(class) = CLASS_BYTES.iter().position(|room| *room == buffer.capacity()) else { return };
        if self.free_bytes < FREE_BYTES_MAX {
            buffer.clear();
            self.free_bytes += CLASS_BYTES[class];
            self.free[class].push(buffer);
        }
    }
}

/// Buffer lengths: an acknowledgement, a packet, segments coalesced on a fast link, the longest frame.
const CLASS_BYTES: [usize; 4] = [256, 2 << 10, 26 << 10, 66 << 10];
/// Bytes of unused buffers that are kept: what is in transit on one fast long link.
const FREE_BYTES_MAX: usize = 64 << 20;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_buffer_that_was_given_back_is_used_again_for_its_own_lengths() {
        let mut buffers = Buffers::default();
        let mut packet = buffers.take(1500);
        packet.push(1);
        let address = packet.as_ptr();
        buffers.give(packet);
        let short = buffers.take(100);
        assert_ne!(short.as_ptr(), address);
        let again = buffers.take(2048);
        assert_eq!((again.as_ptr(), again.len()), (address, 0));
        assert_eq!(buffers.free_bytes, 0);
    }

    #[test]
    fn no_more_is_kept_than_allowed() {
        let mut buffers = Buffers::default();
        let many: Vec<_> = (0..FREE_BYTES_MAX / CLASS_BYTES[3] + 10).map(|_| buffers.take(60_000)).collect();
        many.into_iter().for_each(|buffer| buffers.give(buffer));
        assert!(buffers.free_bytes < FREE_BYTES_MAX + CLASS_BYTES[3]);
        buffers.give(vec![0; 12_345]);
        assert!(buffers.free[3].len() <= FREE_BYTES_MAX / CLASS_BYTES[3] + 1);
    }
}
