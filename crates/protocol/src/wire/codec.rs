//! Messages as bytes: one version byte, then the message in postcard's documented encoding. The order of enum variants
//! and fields is the format. New variants go last, and an old one never changes without a new version.

use serde::{Serialize, de::DeserializeOwned};
use thiserror::Error;

/// The version that this build speaks.
pub const VERSION: u8 = 3;

/// Why bytes are not a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum CodecError {
    /// There were no bytes.
    #[error("the message is empty")]
    Empty,
    /// The sender speaks another version.
    #[error("the message has version {0}, this build speaks version {VERSION}")]
    Version(u8),
    /// The bytes do not parse.
    #[error("the message is malformed")]
    Malformed,
    /// The message parsed, and bytes were left over.
    #[error("the message has {0} bytes too many")]
    TrailingBytes(usize),
}

/// Encodes a message, version first.
///
/// # Panics
/// Never for the message types of this crate: they contain only what postcard can encode.
pub fn encode<T: Serialize>(message: &T) -> Vec<u8> {
    // The types of this crate hold no maps of unknown length and no untagged enums, so postcard cannot refuse them. A
    // `Vec` cannot be full.
    #[allow(clippy::expect_used)]
    postcard::to_extend(message, vec![VERSION]).expect("the types of this crate are encodable")
}

/// Decodes a whole message.
pub fn decode<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, CodecError> {
    let (&version, body) = bytes.split_first().ok_or(CodecError::Empty)?;
    if version != VERSION {
        return Err(CodecError::Version(version));
    }
    let (message, rest) = postcard::take_from_bytes(body).map_err(|_| CodecError::Malformed)?;
    if rest.is_empty() { Ok(message) } else { Err(CodecError::TrailingBytes(rest.len())) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn another_version_and_left_over_bytes_are_named() {
        let bytes = encode(&7u32);
        assert_eq!(bytes, [VERSION, 7]);
        assert_eq!(decode::<u32>(&bytes), Ok(7));
        assert_eq!(decode::<u32>(&[]), Err(CodecError::Empty));
        assert_eq!(decode::<u32>(&[9, 7]), Err(CodecError::Version(9)));
        assert_eq!(decode::<u32>(&[VERSION, 7, 0]), Err(CodecError::TrailingBytes(1)));
        assert_eq!(decode::<u32>(&[VERSION, 0xff]), Err(CodecError::Malformed));
    }
}
