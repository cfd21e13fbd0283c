//! Feeds the fuzzer with what a child process may send: a user's function can write anything to its process's socket.
//! Built with the feature `fuzzing` only. It never starts a process and never serves anybody.

use super::messages::{self, FromChild, LENGTH_BYTES};

/// Treats the bytes as received from a child, one message after the other, as the node's end of the socket does.
///
/// # Panics
/// When an accepted message does not survive its own encoding.
pub fn child_words(mut bytes: &[u8]) {
    while let Some((first, rest)) = bytes.split_first_chunk::<LENGTH_BYTES>() {
        let Some(body) = messages::body_bytes(*first).and_then(|length| rest.get(..length)) else { return };
        let Ok(message) = messages::decode::<FromChild>(body) else { return };
        let again = messages::encode(&message);
        let read = messages::decode::<FromChild>(&again[LENGTH_BYTES..]).map(|message| messages::encode(&message));
        assert_eq!(read.as_ref(), Ok(&again), "{message:?}");
        bytes = &rest[body.len()..];
    }
}
