//! Packets as a device exchanges them, with segmentation offload: one header may stand for many segments, and
//! checksums may be left to the last device. [`GsoPacket`] reads such a packet; [`CoalescedFrame`] rebuilds what
//! survived a link. Pure code: bytes in, bytes out. It never touches a device or a clock, and never decides what a
//! link does.

mod checksum;
mod coalesced_frame;
mod gso_packet;
mod too_large;
mod virtio;

#[cfg(test)]
pub(crate) mod samples;

pub(crate) use self::{
    coalesced_frame::CoalescedFrame,
    gso_packet::{GsoPacket, TCP, UDP},
    too_large::too_large_answer,
};

/// Longest frame of a device: the offload header, and the longest packet that IPv4 can express.
pub(crate) const FRAME_BYTES_MAX: usize = virtio::VirtioHeader::BYTES + u16::MAX as usize;
