//! Open files through a Unix socket (`SCM_RIGHTS`): this is how a slice reaches an SPE without a copy. Serves the path
//! *job*, door 7. It knows no messages: bytes with at most one descriptor at their front.

use std::{
    io::{self, IoSlice, IoSliceMut},
    mem::MaybeUninit,
    os::fd::{AsFd, BorrowedFd, OwnedFd},
};

use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage, SendFlags,
    recvmsg, sendmsg,
};

/// Sends some of `bytes`, with a descriptor at the first of them. Returns how many were sent.
pub(super) fn send(socket: impl AsFd, bytes: &[u8], descriptor: Option<BorrowedFd<'_>>) -> io::Result<usize> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    let descriptors: &[BorrowedFd<'_>] = &descriptor.map_or(vec![], |descriptor| vec![descriptor]);
    if !descriptors.is_empty() {
        // The space is for one: it fits.
        control.push(SendAncillaryMessage::ScmRights(descriptors));
    }
    Ok(sendmsg(socket, &[IoSlice::new(bytes)], &mut control, SendFlags::NOSIGNAL)?)
}

/// Receives some bytes, and the descriptor that came with them. Zero bytes: the other end is closed.
pub(super) fn receive(socket: impl AsFd, bytes: &mut [u8]) -> io::Result<(usize, Option<OwnedFd>)> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let received = recvmsg(socket, &mut [IoSliceMut::new(bytes)], &mut control, RecvFlags::CMSG_CLOEXEC)?;
    let mut descriptor = None;
    for message in control.drain() {
        if let RecvAncillaryMessage::ScmRights(mut descriptors) = message {
            descriptor = descriptors.next();
        }
    }
    Ok((received.bytes, descriptor))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::{
        fs::File,
        io::{Read, Seek, Write},
        os::unix::net::UnixStream,
    };

    use super::*;

    #[test]
    fn a_descriptor_arrives_with_the_first_byte_of_its_message_and_not_again() {
        let (a, b) = UnixStream::pair().unwrap();
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(b"slice").unwrap();
        assert_eq!(send(&a, b"plain", None).unwrap(), 5);
        assert_eq!(send(&a, b"with file", Some(file.as_fd())).unwrap(), 9);
        let mut bytes = [0; 5];
        let (received, none) = receive(&b, &mut bytes).unwrap();
        assert_eq!((received, none.is_none()), (5, true));
        let (received, some) = receive(&b, &mut bytes[..4]).unwrap();
        assert_eq!(received, 4);
        let mut same = File::from(some.unwrap());
        let (received, none) = receive(&b, &mut bytes).unwrap();
        assert_eq!((received, none.is_none()), (5, true));
        same.rewind().unwrap();
        let mut text = String::new();
        same.read_to_string(&mut text).unwrap();
        assert_eq!(text, "slice");
        drop(a);
        assert_eq!(receive(&b, &mut bytes).unwrap().0, 0);
    }
}
