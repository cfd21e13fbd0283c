//! What a child process may say, for the fuzzer: a user's function can write to its process's socket what it likes.
//! Built with the feature `fuzzing` only; it starts no process and serves nobody.

use super::messages::{self, FromChild, LENGTH_BYTES};

/// Takes the bytes as what came from a child, one message behind the other, as the node's end of the socket does.
///
/// # Panics
/// When a message that was taken does not survive its own encoding.
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
