//! Passes a file to a node on this machine as an open descriptor (path: `docs/paths/upload.md`). The node reads the
//! file itself. If that is impossible, the file goes over the network. Bytes are never copied from process to process
//! here.

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

/// The result.
pub(super) enum PassOutcome {
    /// The node has stored this many bytes with this digest.
    Stored(u64, Digest),
    /// There is no node on this machine, or the file is too small: nothing was asked.
    NotPassed(File),
}

/// Passes the file to the node that is to store it, if that node is on this machine.
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

/// A smaller file is sent over a kept connection before a local one could be made.
const PASSED_BYTES_MIN: u64 = 256 * 1024;
/// How long a node of this machine may take to answer the request.
const ASK_WAIT_MAX: Duration = Duration::from_secs(5);
