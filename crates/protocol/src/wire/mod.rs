//! Bytes on the wire. [`codec`] turns messages into bytes and back, with their version; [`datagram`] is the head of
//! every GMP datagram; [`stream_frame`] is the head of every bulk-data frame; [`few`] bounds lists while they are
//! decoded.

pub mod codec;
pub mod datagram;
pub mod few;
pub mod stream_frame;
