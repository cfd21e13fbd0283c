//! Bytes on the wire. [`codec`] turns messages into bytes and back, with their version. [`datagram`] is the head of
//! every GMP datagram, and [`stream_frame`] that of every bulk-data frame. [`few`] bounds lists while they are decoded.
//! Nothing here ever acts on a message, and it never opens a socket.

pub mod codec;
pub mod datagram;
pub mod few;
pub mod stream_frame;
