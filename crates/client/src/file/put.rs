//! Upload (path: `docs/paths/upload.md`): create, send, commit. The file is seen by others after the commit, whole, or
//! never.

use std::{collections::BTreeMap, fs::File, io::Read, path::Path, time::Duration};

use net::transfer::TransferStream;
use protocol::{
    Digest, LeaseId, RecordFormat, SectorPath,
    message::{
        client_master::{ClientReply, ClientRequest, Condition, CreateRequest, Created, Entry},
        transfer::{TransferReply, TransferRequest},
    },
    status::ErrorClass,
};

use super::{Progress, pump::ReadAhead};
use crate::{Client, ClientError};

/// How a file is written.
#[derive(Clone, Debug, Default)]
pub struct PutOptions {
    /// Copies wanted in the whole cloud; where `None`, as the file that is replaced, else its folders, else the cloud says.
    pub copies: Option<u8>,
    /// Copies synced to disk before [`put`](Client::put) returns; where `None`, as file, folders and cloud
    /// say.
    pub sync_copies: Option<u8>,
    /// How the bytes fall into records, for Sphere.
    pub records: RecordFormat,
    /// What must hold of the path for the write to be published.
    pub condition: Condition,
    /// Make missing parent folders.
    pub parents: bool,
    /// Length in bytes, where known: chooses a node with room.
    pub bytes_expected: Option<u64>,
    /// Keys and values to keep with the file.
    pub user: BTreeMap<String, String>,
    /// Write at this node instead of where the master thinks best.
    pub at: Option<protocol::NodeId>,
}

impl Client {
    /// Writes all that `from` gives to `path` and returns once enough copies are synced to disk and the name is
    /// durable. On any error nothing is visible at `path` that was not there before.
    ///
    /// # Errors
    /// `Exists` or `Refused` where the condition, a right or another writer is in the way, `Unavailable` where no node
    /// has room, and what `from` says.
    pub async fn put(
        &self,
        from: impl Read + Send + 'static,
        path: &SectorPath,
        options: &PutOptions,
        progress: Progress<'_>,
    ) -> Result<Entry, ClientError> {
        let created = self.create(path, options).await?;
        let lease = created.lease;
        match self.put_under_lease(from, path, created, progress).await {
            Ok(entry) => Ok(entry),
            Err(error) => {
                self.leases().remove(&lease);
                // Best effort, and not for long: the lease ends by itself too, and the master may be what is gone.
                let _ = tokio::time::timeout(LAST_WORD_DEADLINE, self.ask(ClientRequest::Abandon(lease))).await;
                Err(error)
            }
        }
    }

    /// [`put`](Self::put) of a local file; tries again, from the file's beginning, when a node fails.
    pub async fn put_file(
        &self,
        file: &Path,
        path: &SectorPath,
        options: &PutOptions,
        progress: Progress<'_>,
    ) -> Result<Entry, ClientError> {
        let mut attempt = 1;
        loop {
            let source = File::open(file).map_err(ClientError::file("open", file))?;
            let length = source.metadata().map_err(ClientError::file("open", file))?.len();
            let options = PutOptions { bytes_expected: Some(length), ..options.clone() };
            match self.put(source, path, &options, progress).await {
                Err(error) if error.class() == ErrorClass::RetryElsewhere && attempt < PUT_ATTEMPTS_MAX => {
                    tracing::info!(%path, %error, attempt, "put begins again");
                    attempt += 1;
                }
                result => return result,
            }
        }
    }

    pub(crate) async fn create(&self, path: &SectorPath, options: &PutOptions) -> Result<Created, ClientError> {
        let request = ClientRequest::Create(CreateRequest {
            path: path.clone(),
            bytes_expected: options.bytes_expected,
            copies: options.copies,
            sync_copies: options.sync_copies,
            records: options.records,
            user: options.user.clone(),
            condition: options.condition,
            parents: options.parents,
            at: options.at.clone(),
        });
        match self.ask(request).await? {
            ClientReply::Created(created) => {
                self.leases().insert(created.lease);
                Ok(created)
            }
            _ => Err(ClientError::Unexpected { who: "master", request: "create" }),
        }
    }

    /// Publishes what a node has stored under a lease.
    pub(crate) async fn commit(&self, lease: LeaseId, bytes: u64, digest: Digest) -> Result<Entry, ClientError> {
        match self.ask(ClientRequest::Commit { lease, bytes, digest }).await? {
            ClientReply::Entry(entry) => {
                self.leases().remove(&lease);
                Ok(entry)
            }
            _ => Err(ClientError::Unexpected { who: "master", request: "commit" }),
        }
    }

    async fn put_under_lease(
        &self,
        from: impl Read + Send + 'static,
        path: &SectorPath,
        created: Created,
        progress: Progress<'_>,
    ) -> Result<Entry, ClientError> {
        let what = format!("cannot write `{path}` to node {}", created.target.node);
        let request = TransferRequest::Write { ticket: created.target.ticket.clone() };
        let (mut stream, reply) =
            self.connections().open(&created.target, &request).await.map_err(ClientError::net(what.clone()))?;
        if let TransferReply::Refused(refusal) = reply {
            self.connections().keep(&created.target.node, stream);
            return Err(refusal.into());
        }
        // Until the commit is answered: it waits for copies to be synced on other nodes, which may take longer than a
        // lease lives.
        let writing = async {
            let (bytes, digest) = send(&mut stream, from, &what, progress).await?;
            self.commit(created.lease, bytes, digest).await
        };
        let entry = tokio::select! {
            entry = writing => entry?,
            error = self.renew_for_ever(created.lease) => return Err(error),
        };
        self.connections().keep(&created.target.node, stream);
        Ok(entry)
    }

    /// Keeps a lease alive; ends only when the master refuses.
    pub(crate) async fn renew_for_ever(&self, lease: LeaseId) -> ClientError {
        loop {
            tokio::time::sleep(RENEWAL_PERIOD).await;
            // Other errors pass: the master may be away for a moment, and the lease outlives that.
            if let Err(error @ ClientError::Refused(_)) = self.ask(ClientRequest::Renew(lease)).await {
                return error;
            }
        }
    }
}

/// Sends all of `from` and gives what the node stored.
async fn send(
    stream: &mut TransferStream,
    from: impl Read + Send + 'static,
    what: &str,
    progress: Progress<'_>,
) -> Result<(u64, Digest), ClientError> {
    let mut source = ReadAhead::start(from);
    let mut sent: u64 = 0;
    while let Some(frame) = source.next().await {
        let frame = frame.map_err(|source| ClientError::Stream { what: "read what is to be written", source })?;
        if let Err(error) = stream.send_frame(&frame).await {
            return Err(reason_of_refusal(stream, what, error).await);
        }
        sent += frame.len() as u64;
        progress(frame.len() as u64);
        source.recycle(frame);
    }
    if let Err(error) = stream.end_frames().await {
        return Err(reason_of_refusal(stream, what, error).await);
    }
    match stream.receive().await.map_err(ClientError::net(what))? {
        TransferReply::Stored { bytes, digest } if bytes == sent => Ok((bytes, digest)),
        TransferReply::Refused(refusal) => Err(refusal.into()),
        _ => Err(ClientError::Unexpected { who: "node", request: "write" }),
    }
}

/// A node that cannot go on (its disk is full) says so and closes; the sender sees the broken connection first.
async fn reason_of_refusal(stream: &mut TransferStream, what: &str, error: net::NetError) -> ClientError {
    match tokio::time::timeout(LAST_WORD_DEADLINE, stream.receive()).await {
        Ok(Ok(TransferReply::Refused(refusal))) => refusal.into(),
        _ => ClientError::net(what)(error),
    }
}

/// How often a file is sent again when a node fails.
const PUT_ATTEMPTS_MAX: u32 = 3;
/// A third of a lease's life, so that two renewals may be lost.
const RENEWAL_PERIOD: Duration = Duration::from_secs(protocol::limits::LEASE_LIFE.as_secs() / 3);
/// How long the last word is waited for, from a node or the master, after something broke.
const LAST_WORD_DEADLINE: Duration = Duration::from_secs(2);
