//! How many bytes of frames have passed, by carrier and direction. Streams of one owner share it. It never counts
//! messages, heads or checksums.

use std::sync::atomic::{AtomicU64, Ordering};

use super::channel::Channel;

/// Bytes of frames, sent and received, by carrier.
#[derive(Debug, Default)]
pub struct CarriedBytes {
    tcp: [AtomicU64; 2],
    quic: [AtomicU64; 2],
}

impl CarriedBytes {
    /// Each carrier with its bytes sent and received.
    pub fn by_carrier(&self) -> [(&'static str, u64, u64); 2] {
        let [tcp_sent, tcp_received] = self.tcp.each_ref().map(|count| count.load(Ordering::Relaxed));
        let [quic_sent, quic_received] = self.quic.each_ref().map(|count| count.load(Ordering::Relaxed));
        [("tcp", tcp_sent, tcp_received), ("quic", quic_sent, quic_received)]
    }

    pub(super) fn count_sent(&self, channel: &Channel, bytes: usize) {
        self.of(channel)[0].fetch_add(bytes as u64, Ordering::Relaxed);
    }

    pub(super) fn count_received(&self, channel: &Channel, bytes: usize) {
        self.of(channel)[1].fetch_add(bytes as u64, Ordering::Relaxed);
    }

    /// Memory stands for TCP in tests.
    fn of(&self, channel: &Channel) -> &[AtomicU64; 2] {
        match channel {
            Channel::Quic(_) => &self.quic,
            Channel::Tls(_) | Channel::Memory(_) => &self.tcp,
        }
    }
}
