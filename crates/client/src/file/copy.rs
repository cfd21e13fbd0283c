//! A copy of a file within Sector, made by the nodes (path: `docs/paths/third-party-copy.md`). This client names source
//! and destination, gives its tickets to the node that makes the copy, and publishes it. A copy that breaks off is
//! tried again and continues where it stopped, even in another process. Within a cloud the bytes never pass through
//! this client.

use std::{
    sync::atomic::{AtomicBool, Ordering},
    time::Duration,
};

use net::{NetError, transfer::TransferStream};
use protocol::{
    Digest, Reason, ResumeKey, SectorPath,
    message::{
        client_master::{CreateRequest, Created, Entry, FileContent, Source},
        transfer::{PULL_SOURCES_MAX, Pull, PullUpdate, TransferReply, TransferRequest},
    },
    ticket::Delegate,
    topology,
};

use super::{
    TransferProgress,
    put::{PutOptions, RetryContext, create_request, resume_key_of},
    retry::{RetryState, ShownProgress},
    source_list::SourceList,
};
use crate::{Client, ClientError};

impl Client {
    /// Copies the file `from` to `to`, with its record format and its user metadata, from node to node. The number of
    /// copies follows the folder of `to`, unless `options` says otherwise.
    ///
    /// It tries again when a connection or a node fails. Each attempt continues after the bytes that arrived before, as
    /// long as their node keeps them (an hour). This includes attempts of a later call for the same content and path.
    ///
    /// # Errors
    /// As [`put`](Self::put). `NotFound` if `from` does not exist. `Unavailable` if no node can be read from, or
    /// written to. [`ClientError::Corrupt`] if the bytes that arrived are not those of `from`: nothing is published
    /// then.
    pub async fn copy(
        &self,
        from: &SectorPath,
        to: &SectorPath,
        options: &PutOptions,
        progress: TransferProgress<'_>,
    ) -> Result<Entry, ClientError> {
        self.copy_from(self, from, to, options, progress).await
    }

    /// [`copy`](Self::copy) of the file `from` in the cloud of another client to `to` in this one's. The bytes go from
    /// a node there to a node here, which has no identity there. It connects with a key of its own, and the other
    /// client delegates its tickets to that key. If the node may not or cannot connect there, the bytes pass through
    /// this client. A copy between two clouds keeps the date of the last change.
    ///
    /// # Errors
    /// As `copy`, with the cloud in which it happened.
    pub async fn copy_from(
        &self,
        there: &Self,
        from: &SectorPath,
        to: &SectorPath,
        options: &PutOptions,
        progress: TransferProgress<'_>,
    ) -> Result<Entry, ClientError> {
        let manner = CopyManner::new(!self.is_same_session(there));
        self.copy_in_manner(&manner, (there, from), to, options, progress).await
    }

    /// [`copy_from`](Self::copy_from) as one of several that share a manner.
    pub(crate) async fn copy_in_manner(
        &self,
        manner: &CopyManner,
        (there, from): (&Self, &SectorPath),
        to: &SectorPath,
        options: &PutOptions,
        progress: TransferProgress<'_>,
    ) -> Result<Entry, ClientError> {
        let shown = ShownProgress::default();
        if !manner.goes_through_client.load(Ordering::Relaxed)
            && let Some(entry) = self.copy_by_nodes(manner, (there, from), to, options, (&shown, progress)).await?
        {
            return Ok(entry);
        }
        Box::pin(self.relay(manner.keeps_dates, (there, from), to, options, (&shown, progress))).await
    }

    /// `None` if a node was kept from fetching.
    async fn copy_by_nodes(
        &self,
        manner: &CopyManner,
        (there, from): (&Self, &SectorPath),
        to: &SectorPath,
        options: &PutOptions,
        (shown, progress): (&ShownProgress, TransferProgress<'_>),
    ) -> Result<Option<Entry>, ClientError> {
        let (content, located) = there.locate(from).await.map_err(there.in_cloud(self))?;
        let modified = manner.keeps_dates.then_some(located.entry.modified_unix_millis);
        let sources = SourceList::new(from.clone(), content.slice, located.sources);
        let options = PutOptions {
            copies: options.copies,
            records: content.records,
            user: content.user.clone(),
            bytes_expected: Some(content.bytes),
            ..options.clone()
        };
        let (tries, mut attempts) = (RetryContext::default(), RetryState::default());
        let is_cut_off = AtomicBool::new(false);
        loop {
            // Bytes kept from an attempt that brought wrong ones are not used again.
            let is_trusted = !tries.is_kept_untrusted.load(Ordering::Relaxed);
            let resume = is_trusted.then(|| resume_key(&content, to));
            let request = CreateRequest { resume, ..create_request(to, &options) };
            let progress = shown.next_attempt(progress);
            let copy = |created| {
                let copy = CopyAttempt {
                    client: self,
                    source_client: there,
                    from,
                    content: &content,
                    sources: &sources,
                    retry: &tries,
                    manner,
                    is_cut_off: &is_cut_off,
                };
                copy.make(created, &progress)
            };
            let error = match self.under_lease(request.clone(), modified, &tries, copy).await {
                Ok(entry) => return Ok(Some(entry)),
                Err(error) if is_cut_off.load(Ordering::Relaxed) => {
                    tracing::info!(%from, %to, %error, "a copy goes through this client");
                    return Ok(None);
                }
                Err(error) => error,
            };
            let kept = tries.kept_bytes.swap(0, Ordering::Relaxed);
            let may_repeat = || tries.may_repeat(&error, &request);
            let Some(pause) = attempts.pause_after(&error, kept, may_repeat) else {
                return Err(self.in_cloud(there)(error));
            };
            tracing::info!(%from, %to, %error, "a copy is tried again");
            self.tell_retry(to, &error, &attempts, pause);
            tokio::time::sleep(pause).await;
        }
    }
}

/// How several files are copied, and what the first of them showed.
#[derive(Debug)]
pub(crate) struct CopyManner {
    /// Copies have the date of the last change of what they are copies of.
    keeps_dates: bool,
    /// Between these two clouds, nodes may not or cannot fetch.
    goes_through_client: AtomicBool,
}

impl CopyManner {
    pub(crate) fn new(keeps_dates: bool) -> Self {
        Self { keeps_dates, goes_through_client: AtomicBool::new(false) }
    }
}

/// One attempt at a copy.
struct CopyAttempt<'a> {
    client: &'a Client,
    /// The client of the source file; the same client within one cloud.
    source_client: &'a Client,
    from: &'a SectorPath,
    content: &'a FileContent,
    sources: &'a SourceList,
    retry: &'a RetryContext,
    manner: &'a CopyManner,
    /// The node was kept from fetching by its operator, or by the network between the clouds.
    is_cut_off: &'a AtomicBool,
}

impl CopyAttempt<'_> {
    /// Has the bytes fetched and publishes them. The lease is kept alive meanwhile.
    async fn make(self, created: Created, progress: TransferProgress<'_>) -> Result<Entry, ClientError> {
        let (client, lease) = (self.client, created.lease);
        tokio::select! {
            entry = self.pull_and_commit(created, progress) => entry,
            error = client.keep_lease_alive(lease) => Err(error),
        }
    }

    async fn pull_and_commit(self, created: Created, progress: TransferProgress<'_>) -> Result<Entry, ClientError> {
        let Self { client, source_client: there, from, content, sources, retry: tries, .. } = self;
        let target = &created.target;
        let what = format!("cannot copy `{from}` to node {}", target.node);
        let abroad = !client.is_same_session(there);
        let named = match abroad {
            true => Vec::new(),
            false => {
                self.delegated_sources(&sources.current(there).await, target, &Delegate::Node(target.node.clone()))
            }
        };
        let request = TransferRequest::Pull(Pull {
            write: target.ticket.clone(),
            chain: created.chain,
            slice: content.slice,
            bytes: content.bytes,
            sources: named,
            authority: abroad.then(|| there.authority().to_owned()),
        });
        let share = client.throttle().begin_copy();
        let opened = client.connections().open_reusing(None, target, share.qos(), &request).await;
        let (mut stream, mut reply) = opened.map_err(ClientError::net(what.clone()))?;
        let mut told = 0;
        let stored = loop {
            match reply {
                TransferReply::Pulling { bytes, wants } => {
                    progress(bytes.saturating_sub(told));
                    told = bytes.max(told);
                    tries.kept_bytes.store(told, Ordering::Relaxed);
                    let sources = match wants {
                        Some(to) => self.delegated_sources(&sources.refreshed(there).await, target, &to),
                        None => Vec::new(),
                    };
                    let word = PullUpdate { qos: share.qos(), sources };
                    reply = exchange(&mut stream, &word).await.map_err(ClientError::net(what.clone()))?;
                }
                TransferReply::Stored { bytes, digest } => break (bytes, digest),
                TransferReply::Refused(refusal) => {
                    if abroad && matches!(refusal.reason, Reason::NotPermitted | Reason::Unavailable) {
                        self.is_cut_off.store(true, Ordering::Relaxed);
                        // If some bytes came, it is the matter of this file alone.
                        self.manner.goes_through_client.fetch_or(told == 0, Ordering::Relaxed);
                    }
                    client.connections().release(&target.node, stream);
                    return Err(refusal.into());
                }
                _ => return Err(ClientError::Unexpected { who: "node", request: "copy" }),
            }
        };
        self.check(stored)?;
        progress(content.bytes.saturating_sub(told));
        tries.is_commit_sent.store(true, Ordering::Relaxed);
        let entry = client.commit(created.lease, content.bytes, content.digest, tries.is_published_once()).await?;
        client.connections().release(&target.node, stream);
        Ok(entry)
    }

    /// Only here is it known what should have come.
    fn check(&self, stored: (u64, Digest)) -> Result<(), ClientError> {
        if stored == (self.content.bytes, self.content.digest) {
            return Ok(());
        }
        Err(ClientError::Corrupt { path: self.from.clone() })
    }

    /// The sources for the node `target` to read from, the nearest to it first. Each has a ticket delegated to `to`,
    /// except the target's own copy, which is read with the ticket that this client holds. The distances of nodes of
    /// another cloud are unknown.
    fn delegated_sources(&self, sources: &[Source], target: &Source, to: &Delegate) -> Vec<Source> {
        let abroad = !self.client.is_same_session(self.source_client);
        let is_meant = match to {
            // Within a cloud a certificate proves more than a key. In another cloud, a node from here can prove no
            // name.
            Delegate::Node(node) => !abroad && *node == target.node,
            Delegate::Key(_) => abroad,
        };
        if !is_meant {
            return Vec::new();
        }
        let handed = sources.iter().map(|source| {
            let distance = topology::distance((&target.node, &target.place), (&source.node, &source.place));
            let ticket = match !abroad && source.node == target.node {
                true => source.ticket.clone(),
                false => self.source_client.holder().delegate_to(&source.ticket, to.clone()),
            };
            Source { ticket, distance: (!abroad).then_some(distance), local: None, ..source.clone() }
        });
        let mut handed: Vec<_> = handed.collect();
        handed.sort_by_key(|source| source.distance);
        handed.truncate(PULL_SOURCES_MAX);
        handed
    }
}

/// Answers the node and waits for its next message. It sends one every moment: if it does not, it is gone.
async fn exchange(stream: &mut TransferStream, word: &PullUpdate) -> Result<TransferReply, NetError> {
    let peer = stream.peer();
    let exchange = async {
        stream.send(word).await?;
        stream.receive().await
    };
    let silent = |_| NetError::Deadline { operation: format!("waiting for a word from {peer}"), after: SILENCE_MAX };
    tokio::time::timeout(SILENCE_MAX, exchange).await.map_err(silent)?
}

/// The key of one copy, the same in every process: it identifies the bytes and the destination.
pub(super) fn resume_key(content: &FileContent, to: &SectorPath) -> ResumeKey {
    resume_key_of(&[b"sector copy\0", &content.digest.0, &content.bytes.to_be_bytes(), to.as_str().as_bytes()])
}

/// How long the node that makes a copy may be silent: it reports several times a second.
const SILENCE_MAX: Duration = Duration::from_secs(60);
