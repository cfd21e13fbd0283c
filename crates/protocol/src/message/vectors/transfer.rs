//! Vectors of transfers: what is asked for at a node's door, and what it answers. They never leave out a field.

use super::{Vectors, bucket, digest, node, refusal, signed, slice, source};
use crate::{
    Priority, Reason, TransferQos,
    message::{
        byte_runs::ByteRuns,
        spe::PieceId,
        transfer::{NativeFile, Pull, PullUpdate, ResumeFrom, TransferReply, TransferRequest},
    },
    ticket::{Delegate, HolderKey},
};

#[test]
fn the_words_of_a_transfer_have_their_bytes() {
    let mut vectors = Vectors::of("transfer", include_str!("../../../tests/vectors/transfer.txt"));
    let piece = PieceId { bucket: bucket(), task: 12, attempt: 1 };
    compare!(vectors, TransferRequest {
        "read": TransferRequest::Read { .. } =>
            TransferRequest::Read { ticket: signed(), slice: slice(), from: 65_536, until: 1 << 33 },
        "read-runs": TransferRequest::ReadRuns { .. } => TransferRequest::ReadRuns {
            ticket: signed(),
            slice: slice(),
            runs: ByteRuns { from: 65_536, run_bytes: 200, stride_bytes: 4_096, runs: 100 },
        },
        "write": TransferRequest::Write { .. } =>
            TransferRequest::Write { ticket: signed(), chain: vec![source()] },
        "piece": TransferRequest::Piece { .. } => TransferRequest::Piece { ticket: signed(), piece, bytes: 77 },
        "spe": TransferRequest::Spe { .. } => TransferRequest::Spe { ticket: signed() },
        "verify": TransferRequest::Verify { .. } => TransferRequest::Verify { ticket: signed(), slice: slice() },
        "list-files": TransferRequest::ListFiles { .. } =>
            TransferRequest::ListFiles { ticket: signed(), folder: "/srv".into(), after: Some("a/b".into()) },
        "import-file": TransferRequest::ImportFile { .. } => TransferRequest::ImportFile {
            ticket: signed(),
            write: signed(),
            folder: "/srv".into(),
            file: "a/b".into(),
            keep: true,
        },
        "leave-file": TransferRequest::UnlinkFile { .. } => TransferRequest::UnlinkFile {
            ticket: signed(),
            folder: "/srv".into(),
            file: "a/b".into(),
            slice: slice(),
        },
        "pace": TransferRequest::Qos(_) =>
            TransferRequest::Qos(TransferQos { rate_bytes_per_second: Some(1 << 20), priority: Priority::High }),
        "hold": TransferRequest::ProveKey { .. } =>
            TransferRequest::ProveKey { key: HolderKey([5; 32]), proof: vec![0xcc; 64] },
        "plain": TransferRequest::Plain { .. } => TransferRequest::Plain { ticket: signed() },
        "pull": TransferRequest::Pull(_) => TransferRequest::Pull(Pull {
            write: signed(),
            chain: vec![source()],
            slice: slice(),
            bytes: 1 << 33,
            sources: vec![source()],
            authority: Some("PEM".into()),
        }),
    });
    compare!(vectors, TransferReply {
        "reading": TransferReply::Reading { .. } => TransferReply::Reading { bytes: 300 },
        "ready": TransferReply::Ready => TransferReply::Ready,
        "stored": TransferReply::Stored { .. } => TransferReply::Stored { bytes: 300, digest: digest() },
        "taken": TransferReply::Taken => TransferReply::Taken,
        "refused": TransferReply::Refused(_) => TransferReply::Refused(refusal(Reason::Corrupt)),
        "verifying": TransferReply::Verifying { .. } => TransferReply::Verifying { bytes: 1 << 26 },
        "verified": TransferReply::Verified { .. } => TransferReply::Verified { digest: digest() },
        "partial": TransferReply::Partial { .. } => TransferReply::Partial { bytes: 1 << 26, digest: digest() },
        "files": TransferReply::Files { .. } =>
            TransferReply::Files { files: vec![NativeFile { path: "a/b".into(), bytes: 300 }], more: true },
        "imported": TransferReply::Imported { .. } => TransferReply::Imported { bytes: 300 },
        "pulling": TransferReply::Pulling { .. } =>
            TransferReply::Pulling { bytes: 1 << 26, wants: Some(Delegate::Node(node())) },
    });
    vectors.compare("ResumeFrom", &ResumeFrom(1 << 26));
    let abroad = TransferReply::Pulling { bytes: 0, wants: Some(Delegate::Key(HolderKey([5; 32]))) };
    vectors.compare("TransferReply.pulling-abroad", &abroad);
    vectors.compare("PullWord", &PullUpdate { qos: TransferQos::default(), sources: vec![source()] });
    vectors.finish();
}
