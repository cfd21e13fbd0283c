//! Giving a file to a node of this machine as an open file (path: `docs/paths/upload.md`): the node reads it itself,
//! and no byte is copied from process to process. Where that cannot be, the file goes over the network.

use std::{fs::File, os::fd::AsFd, sync::atomic::Ordering, time::Duration};

use protocol::{
    Digest,
    message::{
        client_master::Created,
        local::{LocalReply, LocalRequest},
    },
};
use tokio::time::timeout;

use super::{TransferProgress, put::RetryContext};
use crate::{Client, ClientError};

/// What came of it.
pub(super) enum PassOutcome {
    /// The node has stored so many bytes with this digest.
    Stored(u64, Digest),
    /// There is no node of this machine, or the file is not worth it: nothing was asked.
    NotPassed(File),
}

/// Gives the file to the node that it is to go to, if that is on this machine.
pub(super) async fn pass_descriptor(
    client: &Client,
    created: &Created,
    file: File,
    what: &str,
    tries: &RetryContext,
    progress: TransferProgress<'_>,
) -> Result<PassOutcome, ClientError> {
    let Some((doors, name)) = client.local_sockets().zip(created.target.local.as_deref()) else {
        return Ok(PassOutcome::NotPassed(file));
    };
    if !doors.is_usable(name) {
        return Ok(PassOutcome::NotPassed(file));
    }
    let metadata =
        file.metadata().map_err(|source| ClientError::Stream { what: "look at what is to be written", source })?;
    if !metadata.is_file() || metadata.len() < PASSED_BYTES_MIN {
        return Ok(PassOutcome::NotPassed(file));
    }
    let ticket = created.target.ticket.clone();
    let request = LocalRequest::Store { ticket, chain: created.chain.clone(), bytes: metadata.len() };
    let asking = async {
        let mut stream = doors.connect(name).await?;
        stream.send_with_file(&request, file.as_fd()).await?;
        Ok::<_, net::NetError>(stream)
    };
    let mut stream = match timeout(ASK_WAIT_MAX, asking).await {
        Ok(Ok(stream)) => stream,
        Ok(Err(error)) => {
            tracing::debug!(node = %created.target.node, %error, "not passed on this machine");
            return Ok(PassOutcome::NotPassed(file));
        }
        Err(_) => {
            doors.mark_unresponsive(name);
            return Ok(PassOutcome::NotPassed(file));
        }
    };
    loop {
        match stream.receive::<LocalReply>().await.map_err(ClientError::net(what))? {
            Some((LocalReply::Progress { bytes }, _)) => progress(bytes),
            Some((LocalReply::Partial { bytes }, _)) => {
                tries.kept_bytes.store(bytes, Ordering::Relaxed);
                progress(bytes);
            }
            Some((LocalReply::Stored { bytes, digest }, _)) => return Ok(PassOutcome::Stored(bytes, digest)),
            Some((LocalReply::Refused(refusal), _)) => return Err(refusal.into()),
            Some(_) => return Err(ClientError::Unexpected { who: "node", request: "store" }),
            None => {
                let source = std::io::ErrorKind::UnexpectedEof.into();
                return Err(ClientError::net(what)(net::NetError::Local {
                    operation: "storing a passed file",
                    source,
                }));
            }
        }
    }
}

/// A smaller file is on its way over a kept connection before a local one is made.
const PASSED_BYTES_MIN: u64 = 256 * 1024;
/// How long a node of this machine may take to answer the knock.
const ASK_WAIT_MAX: Duration = Duration::from_secs(5);
