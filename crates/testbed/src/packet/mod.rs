//! Packets as a device gives and takes them, with segmentation offload: one header may stand for many segments, and
//! checksums may be left to whoever comes last. Here such a row of segments is read ([`GsoPacket`]) and what of it
//! survived a link is put together again ([`CoalescedFrame`]). Pure: bytes in, bytes out; never a device, a clock or a
//! decision of a link.

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

/// Longest frame of a device: the offload header, and a packet as long as IPv4 can say.
pub(crate) const FRAME_BYTES_MAX: usize = virtio::VirtioHeader::BYTES + u16::MAX as usize;
