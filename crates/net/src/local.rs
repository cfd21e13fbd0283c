//! A node's local socket: messages and open files between processes of one machine (door 5, path *download*). It is a
//! Unix socket in Linux's abstract name space, so it leaves no file behind, and no other container sees it. Its name
//! holds the listener's user id, and the kernel reports the actual one. A client turns down a name that another user of
//! this machine has taken over, before it shows a ticket. It never interprets the messages, and never opens a file.

use std::{
    io::{self, IoSlice, IoSliceMut},
    mem::MaybeUninit,
    os::fd::{AsFd, BorrowedFd, OwnedFd},
};

use protocol::{message::local::LOCAL_MESSAGE_BYTES_MAX, wire::codec};
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage, SendFlags,
    recvmsg, sendmsg,
};
use serde::{Serialize, de::DeserializeOwned};
use tokio::{
    io::Interest,
    net::{UnixListener, UnixStream},
};

use crate::{NetError, identity::random};

/// A listening local socket.
pub struct LocalListener {
    socket: UnixListener,
    name: String,
}

/// One conversation over a local socket. When a call fails or is cancelled, the conversation can only be dropped.
pub struct LocalStream {
    socket: UnixStream,
}

impl LocalListener {
    /// Listens under a name that nobody can guess, new with every call.
    ///
    /// # Errors
    /// [`NetError::Socket`], also where the system has no such sockets; a node then works without one.
    pub fn bind() -> Result<Self, NetError> {
        let number = u128::from_be_bytes(random());
        let name = format!("{NAME_PREFIX}{}-{number:032x}", rustix::process::geteuid().as_raw());
        let socket = UnixListener::bind(abstract_path(&name))
            .map_err(|source| NetError::Socket { operation: "listen at a local socket", source })?;
        Ok(Self { socket, name })
    }

    /// The name to give to [`LocalStream::connect`].
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The next conversation. Can be cancelled without loss.
    ///
    /// # Errors
    /// [`NetError::Socket`] when the system has no room for another; the call may simply be repeated.
    pub async fn accept(&self) -> Result<LocalStream, NetError> {
        match self.socket.accept().await {
            Ok((socket, _)) => Ok(LocalStream { socket }),
            Err(source) => Err(NetError::Socket { operation: "accept at a local socket", source }),
        }
    }
}

impl LocalStream {
    /// Connects to the socket of this name, and makes sure that the user named in it still holds it.
    ///
    /// # Errors
    /// [`NetError::Local`] where nobody listens (it may be another machine's or container's name), or someone else.
    pub async fn connect(name: &str) -> Result<Self, NetError> {
        let failed = |source| NetError::Local { operation: "connecting", source };
        let owner = owner_of(name).ok_or_else(|| failed(io::ErrorKind::InvalidInput.into()))?;
        let socket = UnixStream::connect(abstract_path(name)).await.map_err(failed)?;
        if socket.peer_cred().map_err(failed)?.uid() != owner {
            return Err(failed(io::Error::new(io::ErrorKind::PermissionDenied, "another user listens there")));
        }
        Ok(Self { socket })
    }

    /// Sends a message.
    ///
    /// # Errors
    /// [`NetError::TooLong`] (nothing was sent), [`NetError::Local`].
    pub async fn send<T: Serialize + Sync>(&mut self, message: &T) -> Result<(), NetError> {
        self.send_all(&encode_message(message)?, None).await
    }

    /// Sends a message with an open file, which arrives as a descriptor of its own.
    ///
    /// # Errors
    /// As [`send`](Self::send).
    pub async fn send_with_file<T: Serialize + Sync>(
        &mut self,
        message: &T,
        file: BorrowedFd<'_>,
    ) -> Result<(), NetError> {
        self.send_all(&encode_message(message)?, Some(file)).await
    }

    /// The next message, with the open file that came with it. `None` when the other end closed between messages.
    ///
    /// # Errors
    /// [`NetError::TooLong`], [`NetError::Local`].
    pub async fn receive<T: DeserializeOwned>(&mut self) -> Result<Option<(T, Option<OwnedFd>)>, NetError> {
        let mut length = [0; 4];
        let mut file = None;
        if !self.fill(&mut length, &mut file).await? {
            return Ok(None);
        }
        let length = u32::from_be_bytes(length) as usize;
        if length > LOCAL_MESSAGE_BYTES_MAX {
            return Err(too_long(length));
        }
        let mut word = vec![0; length];
        if length > 0 && !self.fill(&mut word, &mut file).await? {
            return Err(broken(io::ErrorKind::UnexpectedEof.into()));
        }
        match codec::decode(&word) {
            Ok(message) => Ok(Some((message, file))),
            Err(error) => Err(broken(io::Error::new(io::ErrorKind::InvalidData, error.to_string()))),
        }
    }

    /// Fills `bytes`, keeping the first file that comes along. False where the other end closed before the first byte.
    async fn fill(&mut self, bytes: &mut [u8], file: &mut Option<OwnedFd>) -> Result<bool, NetError> {
        let mut filled = 0;
        while filled < bytes.len() {
            let rest = &mut bytes[filled..];
            let (received, came) =
                self.socket.async_io(Interest::READABLE, || receive_some(&self.socket, rest)).await.map_err(broken)?;
            // A second file, which none of our messages has, is closed here.
            *file = file.take().or(came);
            match received {
                0 if filled == 0 => return Ok(false),
                0 => return Err(broken(io::ErrorKind::UnexpectedEof.into())),
                _ => filled += received,
            }
        }
        Ok(true)
    }

    async fn send_all(&mut self, word: &[u8], mut file: Option<BorrowedFd<'_>>) -> Result<(), NetError> {
        let mut sent = 0;
        while sent < word.len() {
            sent += self
                .socket
                .async_io(Interest::WRITABLE, || send_some(&self.socket, &word[sent..], file))
                .await
                .map_err(broken)?;
            // The file went with the first byte.
            file = None;
        }
        Ok(())
    }
}

/// A message with its length.
fn encode_message<T: Serialize>(message: &T) -> Result<Vec<u8>, NetError> {
    let bytes = codec::encode(message);
    match u32::try_from(bytes.len()) {
        Ok(length) if bytes.len() <= LOCAL_MESSAGE_BYTES_MAX => Ok([&length.to_be_bytes()[..], &bytes].concat()),
        _ => Err(too_long(bytes.len())),
    }
}

/// Sends some of `bytes` without waiting, with a descriptor at the first of them.
fn send_some(socket: &UnixStream, bytes: &[u8], file: Option<BorrowedFd<'_>>) -> io::Result<usize> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    let files = file.map(|file| [file]);
    if let Some(files) = &files {
        // The buffer has space for one, so it fits.
        control.push(SendAncillaryMessage::ScmRights(files));
    }
    Ok(sendmsg(socket, &[IoSlice::new(bytes)], &mut control, SendFlags::NOSIGNAL)?)
}

/// Receives some bytes without waiting, and the descriptor that came with them; 0 bytes: the other end is closed.
fn receive_some(socket: impl AsFd, bytes: &mut [u8]) -> io::Result<(usize, Option<OwnedFd>)> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let received = recvmsg(socket, &mut [IoSliceMut::new(bytes)], &mut control, RecvFlags::CMSG_CLOEXEC)?;
    let mut file = None;
    for message in control.drain() {
        if let RecvAncillaryMessage::ScmRights(mut files) = message {
            file = file.or_else(|| files.next());
        }
    }
    Ok((received.bytes, file))
}

/// Tokio's notation for an abstract name: a leading zero byte, which no path has.
fn abstract_path(name: &str) -> String {
    format!("\0{name}")
}

/// The user id that a name holds.
fn owner_of(name: &str) -> Option<u32> {
    name.strip_prefix(NAME_PREFIX)?.split_once('-')?.0.parse().ok()
}

fn too_long(bytes: usize) -> NetError {
    NetError::TooLong { what: "a word at a local socket", bytes: bytes as u64, bytes_max: LOCAL_MESSAGE_BYTES_MAX }
}

fn broken(source: io::Error) -> NetError {
    NetError::Local { operation: "exchanging words", source }
}

/// Prefix of all names.
const NAME_PREFIX: &str = "sector-";

#[cfg(all(test, target_os = "linux"))]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::{
        fs::File,
        io::{Read, Write},
        os::fd::AsFd,
    };

    use super::*;

    #[tokio::test]
    async fn words_go_both_ways_and_a_file_comes_with_its_word() {
        let listener = LocalListener::bind().unwrap();
        let mut here = LocalStream::connect(listener.name()).await.unwrap();
        let mut there = listener.accept().await.unwrap();
        here.send(&"give me".to_owned()).await.unwrap();
        here.send(&"the file".to_owned()).await.unwrap();
        assert_eq!(there.receive::<String>().await.unwrap().unwrap().0, "give me");
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("slice");
        File::create(&path).unwrap().write_all(b"bytes").unwrap();
        let file = File::open(&path).unwrap();
        there.send(&1u32).await.unwrap();
        there.send_with_file(&2u32, file.as_fd()).await.unwrap();
        drop(file);
        let (word, none) = here.receive::<u32>().await.unwrap().unwrap();
        assert_eq!((word, none.is_none()), (1, true));
        let (word, some) = here.receive::<u32>().await.unwrap().unwrap();
        let (mut file, mut text) = (File::from(some.unwrap()), String::new());
        file.read_to_string(&mut text).unwrap();
        assert_eq!((word, text.as_str()), (2, "bytes"));
        assert!(file.write_all(b"x").is_err(), "it is open for reading only");
        drop(there);
        assert!(here.receive::<u32>().await.unwrap_or(None).is_none());
    }

    #[tokio::test]
    async fn a_long_word_arrives_whole_and_a_longer_one_is_not_sent() {
        let listener = LocalListener::bind().unwrap();
        let mut here = LocalStream::connect(listener.name()).await.unwrap();
        let mut there = listener.accept().await.unwrap();
        let checksums = vec![u32::MAX; protocol::message::local::CHECKSUMS_PER_MESSAGE_MAX];
        let (sent, received) = tokio::join!(here.send(&checksums), there.receive::<Vec<u32>>());
        sent.unwrap();
        assert_eq!(received.unwrap().unwrap().0, checksums);
        let error = here.send(&vec![0u8; LOCAL_MESSAGE_BYTES_MAX]).await.unwrap_err();
        assert!(matches!(error, NetError::TooLong { .. }), "{error}");
    }

    // Promise 25.
    #[tokio::test]
    async fn a_name_held_by_another_user_than_it_says_is_turned_down() {
        // Tests a user that takes over the name of a stopped node: here it is we who pose as another user.
        let other = rustix::process::geteuid().as_raw() + 1;
        let name = format!("{NAME_PREFIX}{other}-{:032x}", u128::from_be_bytes(random()));
        let _listener = UnixListener::bind(abstract_path(&name)).unwrap();
        let error = LocalStream::connect(&name).await.err().unwrap();
        assert!(error.to_string().contains("another user"), "{error}");
        assert!(LocalStream::connect("sector-1-none").await.is_err());
        assert!(LocalStream::connect("").await.is_err());
    }
}
