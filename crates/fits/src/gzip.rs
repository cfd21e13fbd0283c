//! Images compressed as a whole (`.gz`). Such a stream has no sections: all of it is inflated, up to a limit (the
//! AstroPortal report, 3.1 and 5, advises against them). It never inflates more than the limit, whatever the stream says.

use std::io::Read;

use flate2::read::MultiGzDecoder;

use crate::{ByteSource, ImageError, byte_source::Window};

/// Whether a file that begins so is compressed by gzip.
pub fn is_gzip(beginning: &[u8]) -> bool {
    beginning.starts_with(&[0x1f, 0x8b])
}

/// The bytes of a compressed file.
pub(crate) fn inflate(source: Box<dyn ByteSource + '_>, limit_bytes: u64) -> Result<Vec<u8>, ImageError> {
    let mut content = Vec::new();
    let mut inflating = MultiGzDecoder::new(Window::new(source)).take(limit_bytes + 1);
    inflating.read_to_end(&mut content).map_err(|error| ImageError::damaged("the gzip stream", error))?;
    ImageError::check_bytes("the inflated file", content.len() as u64, limit_bytes)?;
    Ok(content)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::io::Write;

    use flate2::{Compression, write::GzEncoder};

    use super::*;

    fn deflated(bytes: &[u8]) -> Vec<u8> {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
        encoder.write_all(bytes).unwrap();
        encoder.finish().unwrap()
    }

    #[test]
    fn a_stream_is_inflated_up_to_the_limit_and_no_further() {
        let bomb = deflated(&vec![0; 10_000_000]);
        assert!(bomb.len() < 20_000 && is_gzip(&bomb));
        assert_eq!(inflate(Box::new(bomb.clone()), 10_000_000).unwrap().len(), 10_000_000);
        let refused = inflate(Box::new(bomb.clone()), 9_999_999).unwrap_err();
        assert_eq!(refused.class(), "too-large");
        assert_eq!(inflate(Box::new(bomb[..1_000].to_vec()), 10_000_000).unwrap_err().class(), "damaged");
    }
}
