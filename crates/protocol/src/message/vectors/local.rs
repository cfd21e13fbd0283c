//! Test vectors of a local socket's messages. A vector never changes without a new codec version.

use super::{Vectors, digest, refusal, signed, slice, source};
use crate::{
    Reason,
    message::local::{LocalReply, LocalRequest},
    ticket::HolderKey,
};

#[test]
fn the_words_of_a_local_socket_have_their_bytes() {
    let mut vectors = Vectors::of("local", include_str!("../../../tests/vectors/local.txt"));
    compare!(vectors, LocalRequest {
        "open": LocalRequest::Open { .. } => LocalRequest::Open { ticket: signed(), slice: slice() },
        "suspect": LocalRequest::Suspect { .. } => LocalRequest::Suspect {
            ticket: signed(), slice: slice(), from: 65_536, until: 131_072,
        },
        "store": LocalRequest::Store { .. } =>
            LocalRequest::Store { ticket: signed(), chain: vec![source()], bytes: 1 << 30 },
        "hold": LocalRequest::ProveKey { .. } =>
            LocalRequest::ProveKey { key: HolderKey([5; 32]), unix_millis: 1_700_000_000_000, proof: vec![0xcc; 64] },
    });
    compare!(vectors, LocalReply {
        "opened": LocalReply::Opened { .. } => LocalReply::Opened { bytes: 300, digest: digest() },
        "checksums": LocalReply::Checksums(_) => LocalReply::Checksums(vec![0, 0xDEAD_BEEF]),
        "done": LocalReply::Done => LocalReply::Done,
        "refused": LocalReply::Refused(_) => LocalReply::Refused(refusal(Reason::Corrupt)),
        "taken": LocalReply::Progress { .. } => LocalReply::Progress { bytes: 1 << 24 },
        "kept": LocalReply::Partial { .. } => LocalReply::Partial { bytes: 1 << 26 },
        "stored": LocalReply::Stored { .. } => LocalReply::Stored { bytes: 1 << 30, digest: digest() },
    });
    vectors.finish();
}
