//! The contents of files. Each is random, made once, and recognised by its digest. So the reader of some bytes knows
//! which write they come from, or that they come from none. A content never changes.

use std::{collections::BTreeMap, rc::Rc};

use fastrand::Rng;
use protocol::Digest;
use store::SliceHasher;

/// A content's number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct ContentId(usize);

/// Some bytes and their digest.
#[derive(Clone, Debug)]
pub(crate) struct Content {
    pub(crate) bytes: Rc<Vec<u8>>,
    pub(crate) digest: Digest,
}

/// All contents ever written.
#[derive(Debug, Default)]
pub(crate) struct Contents {
    list: Vec<Content>,
    by_digest: BTreeMap<[u8; 32], ContentId>,
}

impl Contents {
    /// Adds bytes; the same bytes are the same content.
    pub(crate) fn add(&mut self, bytes: Vec<u8>) -> ContentId {
        let digest = digest_of(&bytes);
        let next = ContentId(self.list.len());
        let id = *self.by_digest.entry(digest.0).or_insert(next);
        if id == next {
            self.list.push(Content { bytes: Rc::new(bytes), digest });
        }
        id
    }

    /// Makes random bytes: mostly few, at times just around the length of a block, at times several blocks.
    pub(crate) fn draw(&mut self, rng: &mut Rng) -> ContentId {
        const BLOCK: usize = protocol::limits::BLOCK_BYTES as usize;
        let length = match rng.u8(..20) {
            0 => 0,
            1 => BLOCK,
            2 => BLOCK - 1,
            3 => BLOCK + 1,
            4 | 5 => rng.usize(BLOCK..3 * BLOCK),
            6..10 => rng.usize(1..12_000),
            _ => rng.usize(1..600),
        };
        let mut bytes = vec![0; length];
        rng.fill(&mut bytes);
        self.add(bytes)
    }

    /// Makes enough bytes that a node keeps the received part when their sender goes away.
    pub(crate) fn draw_large(&mut self, rng: &mut Rng) -> ContentId {
        // A broken upload is kept from 1 MiB on.
        let mut bytes = vec![0; (1 << 20) + rng.usize(1..400_000)];
        rng.fill(&mut bytes);
        self.add(bytes)
    }

    /// A content with bytes appended.
    pub(crate) fn extend(&mut self, id: ContentId, tail: &[u8]) -> ContentId {
        let bytes = [self.get(id).bytes.as_slice(), tail].concat();
        self.add(bytes)
    }

    pub(crate) fn get(&self, id: ContentId) -> &Content {
        &self.list[id.0]
    }

    /// Which content has this digest.
    pub(crate) fn find(&self, digest: Digest) -> Option<ContentId> {
        self.by_digest.get(&digest.0).copied()
    }
}

pub(crate) fn digest_of(bytes: &[u8]) -> Digest {
    let mut hasher = SliceHasher::new();
    hasher.update(bytes);
    hasher.finish().digest
}
