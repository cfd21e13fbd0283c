//! Checks every copy of a file where it lies (path: `docs/paths/download.md`). Each node reads its whole copy from its
//! disk and compares it; no byte of the file crosses the network. A node quarantines a bad copy and reports it, and the
//! master replaces it. It never repairs anything itself.

use std::time::Duration;

use net::NetError;
use protocol::{
    Digest, NodeId, Reason, Refusal, SectorPath, SliceId, Status,
    message::{
        client_master::{Copies, CopyState, EntryKind, FileContent, FoundCopy, Source},
        request::CopiesRequest,
        transfer::{TransferReply, TransferRequest},
    },
};
use tokio::{task::JoinSet, time::timeout};

use super::TransferProgress;
use crate::{Client, ClientError};

/// One copy of a file, checked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CheckedCopy {
    /// Where it is; `None` if no copy of the file is known at all.
    pub node: Option<NodeId>,
    /// What was found.
    pub result: CheckResult,
    /// Why it is not good; empty if it is.
    pub why: String,
}

/// What a check found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CheckResult {
    /// Every byte is as it was written.
    Ok,
    /// Some are not; the copy is being replaced, if there is another.
    Corrupt,
    /// Its node does not have it.
    Missing,
    /// Its node did not answer, so nothing is known of it.
    Unreachable,
}

impl Client {
    /// Has every copy of a file read and compared with its digest, all at once. `progress` gets the number of bytes
    /// compared, of all copies together.
    ///
    /// # Errors
    /// When the master does not answer, there is no such file, or it is overwritten again and again meanwhile.
    pub async fn check(
        &self,
        path: &SectorPath,
        progress: TransferProgress<'_>,
    ) -> Result<Vec<CheckedCopy>, ClientError> {
        let mut found = self.copies(path).await?;
        for _ in 0..ROUNDS_MAX {
            let content = content_of(&found)?;
            let results = self.check_copies(&content, &found.copies, progress).await;
            if results.iter().all(|(_, outcome)| *outcome != Outcome::NotThere) {
                return Ok(checked(results));
            }
            // The copy is not where it was: the file was overwritten meanwhile, or the copy has been moved.
            found = self.copies(path).await?;
            if content_of(&found)?.slice == content.slice {
                let still = |node: &NodeId| found.copies.iter().any(|copy| copy.status.node == *node);
                let results =
                    results.into_iter().filter(|(node, outcome)| *outcome != Outcome::NotThere || still(node));
                return Ok(checked(results.collect()));
            }
        }
        let message = format!("`{path}` was overwritten again and again while it was checked; check it later");
        Err(Refusal::new(Reason::Busy, message).into())
    }

    async fn copies(&self, path: &SectorPath) -> Result<Copies, ClientError> {
        self.ask(CopiesRequest(path.clone())).await
    }

    async fn check_copies(
        &self,
        content: &FileContent,
        copies: &[FoundCopy],
        progress: TransferProgress<'_>,
    ) -> Vec<(NodeId, Outcome)> {
        let (told, mut ticks) = tokio::sync::mpsc::channel(PROGRESS_MAX);
        let mut running = JoinSet::new();
        let mut results = Vec::new();
        for copy in copies {
            let node = copy.status.node.clone();
            let Some(source) = copy.source.clone() else {
                results.push((node, known(copy.status.state)));
                continue;
            };
            let (client, told, slice, digest) = (self.clone(), told.clone(), content.slice, content.digest);
            running.spawn(async move {
                let outcome = client.verify(&source, slice, digest, &told).await;
                (source.node, outcome)
            });
        }
        drop(told);
        // Ends when every task has ended, since each holds a sender.
        while let Some(bytes) = ticks.recv().await {
            progress(bytes);
        }
        while let Some(ended) = running.join_next().await {
            // A task of ours that panicked has reported it; its copy counts as not checked.
            results.extend(ended.ok());
        }
        results.sort_by(|a, b| a.0.cmp(&b.0));
        results
    }

    /// Has one copy verified at its node.
    async fn verify(
        &self,
        source: &Source,
        slice: SliceId,
        digest: Digest,
        told: &tokio::sync::mpsc::Sender<u64>,
    ) -> Outcome {
        let request = TransferRequest::Verify { ticket: source.ticket.clone(), slice };
        let unreachable = |error: NetError| Outcome::Unreachable(error.to_string());
        let stalled = || Outcome::Unreachable(format!("it said nothing for {} s", STALL_MAX.as_secs()));
        let (mut stream, mut reply) = match timeout(STALL_MAX, self.connections().open(source, &request)).await {
            Ok(Ok(opened)) => opened,
            Ok(Err(error)) => return unreachable(error),
            Err(_) => return stalled(),
        };
        let mut bytes_told = 0;
        loop {
            let outcome = match reply {
                TransferReply::Verifying { bytes } => {
                    let _ = told.send(bytes.saturating_sub(bytes_told)).await;
                    bytes_told = bytes;
                    reply = match timeout(STALL_MAX, stream.receive()).await {
                        Ok(Ok(reply)) => reply,
                        Ok(Err(error)) => return unreachable(error),
                        Err(_) => return stalled(),
                    };
                    continue;
                }
                TransferReply::Verified { digest: found } if found == digest => Outcome::Good,
                TransferReply::Verified { digest: found } => {
                    Outcome::Bad(format!("its digest is {found} and should be {digest}"))
                }
                TransferReply::Refused(refusal) => match refusal.status() {
                    Status::Corrupt => Outcome::Bad(refusal.message),
                    Status::NotFound => Outcome::NotThere,
                    _ => Outcome::Unreachable(refusal.message),
                },
                _ => return Outcome::Unreachable("it gave an answer that makes no sense".into()),
            };
            self.connections().release(&source.node, stream);
            return outcome;
        }
    }
}

/// How the check of a copy ended.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Outcome {
    Good,
    Bad(String),
    NotThere,
    Unreachable(String),
}

/// What is known of a copy whose node cannot be asked.
fn known(state: CopyState) -> Outcome {
    match state {
        CopyState::Corrupt => Outcome::Bad("it was found damaged before and is being replaced".into()),
        CopyState::Ok | CopyState::Writing | CopyState::Stale => Outcome::Unreachable("its node is lost".into()),
    }
}

fn content_of(copies: &Copies) -> Result<FileContent, ClientError> {
    match &copies.entry.kind {
        EntryKind::File(content) => Ok(content.clone()),
        EntryKind::Folder => Err(ClientError::Unexpected { who: "master", request: "copies" }),
    }
}

fn checked(results: Vec<(NodeId, Outcome)>) -> Vec<CheckedCopy> {
    if results.is_empty() {
        let why = "no copy of it is known; start the nodes that hold it".into();
        return vec![CheckedCopy { node: None, result: CheckResult::Missing, why }];
    }
    let copy = |(node, outcome)| {
        let (result, why) = match outcome {
            Outcome::Good => (CheckResult::Ok, String::new()),
            Outcome::Bad(why) => (CheckResult::Corrupt, why),
            Outcome::NotThere => (CheckResult::Missing, "its node does not have it".into()),
            Outcome::Unreachable(why) => (CheckResult::Unreachable, why),
        };
        CheckedCopy { node: Some(node), result, why }
    };
    results.into_iter().map(copy).collect()
}

/// How often the copies are located again if a file is overwritten during the check.
const ROUNDS_MAX: usize = 5;
/// How long a node may be silent: it reports every few megabytes, and may have to wait for its turn.
const STALL_MAX: Duration = Duration::from_secs(60);
/// Progress reports that wait to be taken; senders wait beyond this, so a few are enough.
const PROGRESS_MAX: usize = 64;

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn every_outcome_has_its_result_and_a_file_without_copies_is_missing() {
        let node = || NodeId::new("n1").unwrap();
        let result = |outcome| checked(vec![(node(), outcome)]).remove(0).result;
        assert_eq!(result(Outcome::Good), CheckResult::Ok);
        assert_eq!(result(Outcome::Bad("block 3".into())), CheckResult::Corrupt);
        assert_eq!(result(Outcome::NotThere), CheckResult::Missing);
        assert_eq!(result(known(CopyState::Stale)), CheckResult::Unreachable);
        assert_eq!(result(known(CopyState::Corrupt)), CheckResult::Corrupt);
        let none = checked(Vec::new());
        assert_eq!((none.len(), none[0].node.as_ref(), none[0].result), (1, None, CheckResult::Missing));
    }
}
