//! Sends open files through a Unix socket (`SCM_RIGHTS`), which is how a slice reaches an SPE without a copy. Serves
//! the path *job*, door 7. It moves bytes with descriptors at their front, and never interprets a message.

use std::{
    io::{self, IoSlice, IoSliceMut},
    mem::MaybeUninit,
    os::fd::{AsFd, BorrowedFd, OwnedFd},
};

use protocol::limits;
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage, SendFlags,
    recvmsg, sendmsg,
};

/// Sends some of `bytes`, with these descriptors at the first of them. Returns how many bytes were sent.
///
/// # Errors
/// Those of the socket, and where there are more than [`DESCRIPTORS_MAX`].
pub(super) fn send(socket: impl AsFd, bytes: &[u8], descriptors: &[BorrowedFd<'_>]) -> io::Result<usize> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(DESCRIPTORS_MAX))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    // The buffer may have room for one more because of its alignment.
    if descriptors.len() > DESCRIPTORS_MAX {
        return Err(io::Error::other(format!("a message carries at most {DESCRIPTORS_MAX} descriptors")));
    }
    if !descriptors.is_empty() {
        control.push(SendAncillaryMessage::ScmRights(descriptors));
    }
    Ok(sendmsg(socket, &[IoSlice::new(bytes)], &mut control, SendFlags::NOSIGNAL)?)
}

/// Receives some bytes, and the descriptors that came with them. Zero bytes mean that the other end is closed.
pub(super) fn receive(socket: impl AsFd, bytes: &mut [u8]) -> io::Result<(usize, Vec<OwnedFd>)> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(DESCRIPTORS_MAX))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let received = recvmsg(socket, &mut [IoSliceMut::new(bytes)], &mut control, RecvFlags::CMSG_CLOEXEC)?;
    let mut came = Vec::new();
    for message in control.drain() {
        if let RecvAncillaryMessage::ScmRights(descriptors) = message {
            came.extend(descriptors);
        }
    }
    Ok((received.bytes, came))
}

/// Most descriptors of one message: a file and its index for each stream of a segment, or a function's code and side
/// files.
pub(super) const DESCRIPTORS_MAX: usize = if 2 * limits::STREAMS_MAX > 1 + limits::SIDE_FILES_MAX {
    2 * limits::STREAMS_MAX
} else {
    1 + limits::SIDE_FILES_MAX
};

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
    fn descriptors_arrive_in_their_order_and_too_many_are_not_sent() {
        let (a, b) = UnixStream::pair().unwrap();
        let files = (0..=DESCRIPTORS_MAX as u8).map(|number| {
            let mut file = tempfile::tempfile().unwrap();
            file.write_all(&[number]).unwrap();
            file
        });
        let files: Vec<File> = files.collect();
        let borrowed: Vec<_> = files.iter().map(AsFd::as_fd).collect();
        assert!(send(&a, b"x", &borrowed).is_err());
        assert_eq!(send(&a, b"x", &borrowed[..DESCRIPTORS_MAX]).unwrap(), 1);
        let (_, came) = receive(&b, &mut [0; 1]).unwrap();
        let numbers = came.into_iter().map(|descriptor| {
            let (mut file, mut byte) = (File::from(descriptor), [0]);
            file.rewind().unwrap();
            file.read_exact(&mut byte).unwrap();
            byte[0]
        });
        assert!(numbers.eq(0..DESCRIPTORS_MAX as u8));
    }

    #[test]
    fn a_descriptor_arrives_with_the_first_byte_of_its_message_and_not_again() {
        let (a, b) = UnixStream::pair().unwrap();
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(b"slice").unwrap();
        assert_eq!(send(&a, b"plain", &[]).unwrap(), 5);
        assert_eq!(send(&a, b"with file", &[file.as_fd()]).unwrap(), 9);
        let mut bytes = [0; 5];
        let (received, none) = receive(&b, &mut bytes).unwrap();
        assert_eq!((received, none.is_empty()), (5, true));
        let (received, some) = receive(&b, &mut bytes[..4]).unwrap();
        assert_eq!(received, 4);
        let mut same = File::from(some.into_iter().next().unwrap());
        let (received, none) = receive(&b, &mut bytes).unwrap();
        assert_eq!((received, none.is_empty()), (5, true));
        same.rewind().unwrap();
        let mut text = String::new();
        same.read_to_string(&mut text).unwrap();
        assert_eq!(text, "slice");
        drop(a);
        assert_eq!(receive(&b, &mut bytes).unwrap().0, 0);
    }
}
