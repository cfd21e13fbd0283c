//! The format between the two stages of the inverted index: a block holds the distinct words of one file that belong
//! to one bucket. Serves `words` and `index`. Reading a malformed block never panics.

/// A block as it lies in a bucket. Blocks follow each other without anything between them.
///
/// A block is the length of the path (4 bytes, little-endian), the length of the words (8 bytes), the path, and the
/// words. Each word is its length (1 byte, 1 to 64) and its bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Block<'a> {
    /// The path of the file.
    pub(crate) path: &'a str,
    words: &'a [u8],
}

/// A block that is being written.
pub(crate) struct BlockWriter {
    bytes: Vec<u8>,
    path_bytes: usize,
    words: u64,
}

impl BlockWriter {
    /// A block without words.
    pub(crate) fn new(path: &str) -> Self {
        let mut bytes = Vec::new();
        bytes.extend((path.len() as u32).to_le_bytes());
        bytes.extend([0; 8]);
        bytes.extend(path.bytes());
        Self { bytes, path_bytes: path.len(), words: 0 }
    }

    /// Adds a word of 1 to 64 bytes.
    pub(crate) fn push(&mut self, word: &[u8]) {
        debug_assert!((1..=WORD_BYTES_MAX).contains(&word.len()), "words are cut by their reader");
        self.bytes.push(word.len() as u8);
        self.bytes.extend_from_slice(word);
        self.words += 1;
    }

    /// The block, and how many words it holds; `None` when it holds none.
    pub(crate) fn finish(mut self) -> Option<(Vec<u8>, u64)> {
        let words_bytes = (self.bytes.len() - HEAD_BYTES - self.path_bytes) as u64;
        self.bytes[4..HEAD_BYTES].copy_from_slice(&words_bytes.to_le_bytes());
        (self.words > 0).then_some((self.bytes, self.words))
    }
}

impl<'a> Block<'a> {
    /// Takes the first block from `bytes`. The error says what is wrong with them.
    pub(crate) fn take(bytes: &mut &'a [u8]) -> Result<Option<Self>, &'static str> {
        if bytes.is_empty() {
            return Ok(None);
        }
        let error = "the input does not consist of blocks that `words` wrote";
        let (path_bytes, rest) = bytes.split_first_chunk::<4>().ok_or(error)?;
        let (words_bytes, rest) = rest.split_first_chunk::<8>().ok_or(error)?;
        let words_bytes = usize::try_from(u64::from_le_bytes(*words_bytes)).map_err(|_| error)?;
        let (path, rest) = rest.split_at_checked(u32::from_le_bytes(*path_bytes) as usize).ok_or(error)?;
        let (words, rest) = rest.split_at_checked(words_bytes).ok_or(error)?;
        *bytes = rest;
        Ok(Some(Self { path: std::str::from_utf8(path).map_err(|_| error)?, words }))
    }

    /// The words of the block.
    pub(crate) fn words(&self) -> impl Iterator<Item = Result<&'a [u8], &'static str>> + use<'a> {
        let mut rest = self.words;
        std::iter::from_fn(move || {
            let (length, tail) = rest.split_first()?;
            let Some((word, tail)) = tail.split_at_checked(usize::from(*length)) else {
                rest = &[];
                return Some(Err("a block of words ends in the middle of one"));
            };
            rest = tail;
            Some(Ok(word))
        })
    }
}

/// Longest word in bytes; a longer run of letters is data, not a word.
pub(crate) const WORD_BYTES_MAX: usize = 64;
/// Bytes of a block before its path.
const HEAD_BYTES: usize = 12;

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn blocks_are_read_as_they_were_written() {
        let mut bytes = Vec::new();
        for (path, words) in [("/a", &[&b"bee"[..], b"cow"][..]), ("/ü b", &[&[0xff; 64][..]])] {
            let mut block = BlockWriter::new(path);
            words.iter().for_each(|word| block.push(word));
            bytes.extend(block.finish().unwrap().0);
        }
        assert!(BlockWriter::new("/none").finish().is_none());
        let mut rest = &bytes[..];
        let mut read = Vec::new();
        while let Some(block) = Block::take(&mut rest).unwrap() {
            read.push((block.path, block.words().collect::<Result<Vec<_>, _>>().unwrap()));
        }
        assert_eq!(read, [("/a", vec![&b"bee"[..], b"cow"]), ("/ü b", vec![&[0xff; 64][..]])]);
    }

    #[test]
    fn nonsense_is_refused_without_a_panic() {
        let mut random = fastrand::Rng::with_seed(4);
        for _ in 0..5_000 {
            let bytes: Vec<u8> = (0..random.usize(..40)).map(|_| random.u8(..4)).collect();
            let mut rest = &bytes[..];
            while let Ok(Some(block)) = Block::take(&mut rest) {
                let _ = block.words().count();
            }
        }
        assert!(Block::take(&mut &b"short"[..]).is_err());
        let cut = Block { path: "/", words: &[5, b'a'] };
        assert!(cut.words().next().unwrap().is_err());
    }
}
