//! What the rules of the security server ask for, and what they are told when it is done. The comments at the actions
//! say what must be saved before which answer may be sent. This file never decides.

use net::identity::ProvedKey;
use protocol::{
    MachineKind, NodeId,
    message::{
        audit::{AuditBatch, AuditEvent, AuditHead, AuditRequest},
        master_security::SecurityReply,
    },
};
use store::RowChange;

use crate::{
    SecurityError,
    accounts::password_hash::{PasswordHash, PasswordHashing, SecretMatch, Verification},
    provider::{ProviderAnswer, ProviderQuestion},
};

/// The caller of a question; each question has its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct SecurityCaller(pub u64);

/// Identifies work under way, of a processor or of a provider.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct CheckId(pub(super) u64);

/// What is to be done, in this order. However, a [`Save`](Self::Save) may be on its way to the disk while later actions
/// are done. That is safe, because an answer that depends on a batch is given out only after
/// [`SecurityCompletion::Saved`] for it.
#[derive(Debug)]
pub enum SecurityAction {
    /// Send this reply to the caller.
    Answer {
        /// The caller.
        caller: SecurityCaller,
        /// The reply.
        reply: SecurityReply,
    },
    /// Make this comparison off the hot path, then complete with [`SecurityCompletion::Verified`].
    Verify {
        /// Names the comparison.
        check: CheckId,
        /// The comparison.
        verification: Verification,
    },
    /// Ask this provider, then complete with [`SecurityCompletion::Asked`], in bounded time.
    AskProvider {
        /// Names the question.
        check: CheckId,
        /// Which provider.
        provider: String,
        /// The question.
        question: ProviderQuestion,
    },
    /// Hash this password off the hot path, then complete with [`SecurityCompletion::Hashed`].
    Hash {
        /// Names the work.
        check: CheckId,
        /// The password.
        hashing: PasswordHashing,
    },
    /// Have the authority sign a certificate for this key, then complete with [`SecurityCompletion::Issued`].
    Issue {
        /// Names the work.
        check: CheckId,
        /// The machine's name.
        name: NodeId,
        /// The machine's kind.
        kind: MachineKind,
        /// Its key.
        key: ProvedKey,
    },
    /// Send no reply and end the connection: the other end may not ask this.
    HangUp {
        /// The caller.
        caller: SecurityCaller,
    },
    /// Make these rows durable, in order with other batches (several may share one transaction), then complete with
    /// [`SecurityCompletion::Saved`]. Where the disk is full, they are tried again and again, with
    /// [`SecurityCompletion::Unsaved`] each time. If it fails otherwise, the server must stop: its memory is ahead of its
    /// disk.
    Save {
        /// Which batch; counts up.
        batch: SecurityBatchId,
        /// The rows.
        changes: Vec<RowChange>,
    },
    /// Append these to the audit record and sync it, then complete with [`SecurityCompletion::Recorded`]. One at a
    /// time. Where the disk is full, complete with [`SecurityCompletion::Unrecorded`] and leave the record as it was. If
    /// it fails otherwise, the server must stop: it would act without a record.
    Record {
        /// Names it in the completion.
        record: AuditWriteId,
        /// The writes, in this order.
        records: Vec<AuditWrite>,
    },
    /// Say what the security server counts; then complete with [`SecurityCompletion::Inspected`].
    ReadMetrics {
        /// The caller.
        caller: SecurityCaller,
    },
    /// Answer this question from the files of the audit record, off the hot path; then complete with
    /// [`SecurityCompletion::Inspected`].
    Inspect {
        /// The caller.
        caller: SecurityCaller,
        /// The request: to show, or to verify.
        request: AuditRequest,
    },
}

/// What the server has finished for the rules.
#[derive(Debug)]
pub enum SecurityCompletion {
    /// A comparison is made.
    Verified {
        /// Which one.
        check: CheckId,
        /// What the secret matched, if anything.
        found: Option<SecretMatch>,
    },
    /// A provider answered, or did not.
    Asked {
        /// Which question.
        check: CheckId,
        /// Its answer.
        answer: ProviderAnswer,
    },
    /// A password is hashed.
    Hashed {
        /// Which one.
        check: CheckId,
        /// Its hash, or why there is none.
        hash: Result<PasswordHash, SecurityError>,
    },
    /// The authority signed a certificate, or could not.
    Issued {
        /// Which one.
        check: CheckId,
        /// The certificate.
        issued: Result<IssuedCertificate, SecurityError>,
    },
    /// This batch and every earlier one are durable.
    Saved {
        /// The newest durable batch.
        batch: SecurityBatchId,
    },
    /// The disk of the accounts has no room for the oldest batch, which will be tried again.
    Unsaved,
    /// The disk of the record has no room for these events, and none of them is there.
    Unrecorded {
        /// Which ones.
        record: AuditWriteId,
    },
    /// These events are on the disk.
    Recorded {
        /// Which one.
        record: AuditWriteId,
        /// How the record ends now.
        head: AuditHead,
    },
    /// The audit record was inspected.
    Inspected {
        /// The caller.
        caller: SecurityCaller,
        /// What was found, or a refusal.
        reply: SecurityReply,
    },
}

/// Counts batches of the record.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct AuditWriteId(pub u64);

/// What is to be recorded, in order.
#[derive(Clone, Debug)]
pub enum AuditWrite {
    /// The security server's own events.
    Own(Vec<AuditEvent>),
    /// Events that a master brought.
    Batch(AuditBatch),
}

/// Counts batches of rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct SecurityBatchId(pub u64);

/// A certificate that the authority has signed.
#[derive(Clone, Debug)]
pub struct IssuedCertificate {
    /// The certificate, PEM.
    pub certificate_pem: String,
    /// The authority's own, PEM.
    pub authority_pem: String,
    /// SHA-256 of the certificate.
    pub fingerprint: [u8; 32],
    /// When it ends, in milliseconds since 1970.
    pub until_unix_millis: u64,
}
