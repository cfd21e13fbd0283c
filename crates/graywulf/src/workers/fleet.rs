//! The workers of a query: those that were named, and which of them answer now, with the same version and for this user.
//! It never waits long for one that is gone, and for some time not again.

use std::{
    collections::{BTreeSet, HashMap},
    net::IpAddr,
    path::Path,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use axum::body::{Body, to_bytes};
use client::{Client, NodeStatus, Reason};
use data_encoding::{BASE64, HEXLOWER};
use futures_util::future::join_all;
use http::{HeaderMap, HeaderValue, Request, StatusCode, header};
use terminal::Failure;
use tokio::time::{Instant, timeout};
use tower_service::Service;

use super::{
    WorkerAddress,
    channels::{Channels, innermost},
    messages::{READS_PATH, VERSION_PATH, WorkerReads, version},
    placement::{Placement, ReadyWorker},
};

/// Workers that take parts of queries. Clones are the same.
#[derive(Clone, Debug)]
pub(crate) struct Workers {
    addresses: Vec<WorkerAddress>,
    channels: Channels,
    nodes: Arc<Mutex<Option<KnownNodes>>>,
    apart_bytes: u64,
    /// Those that did not answer lately.
    silent: Arc<Mutex<HashMap<WorkerAddress, (Instant, String)>>>,
}

/// The nodes, and when they were asked for.
type KnownNodes = (Instant, Arc<Vec<NodeStatus>>);

/// A worker that takes no part, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct MissingWorker {
    /// Its address, as people write it.
    pub(crate) address: String,
    pub(crate) why: String,
}

/// The workers of one query.
#[derive(Clone, Debug)]
pub(crate) struct Fleet {
    pub(super) placement: Arc<Placement>,
    pub(super) channels: Channels,
    pub(super) headers: HeaderMap,
    pub(super) apart_bytes: u64,
    missing: Vec<MissingWorker>,
}

impl Workers {
    /// Workers at these addresses, whose certificates a file or the system vouches for. A plan that reads fewer than
    /// `apart_bytes` stays in one piece, unless a worker is nearer to them.
    ///
    /// # Errors
    /// A file that holds no certificate, and an address to which a login would go as readable text.
    pub(crate) fn new(
        addresses: &[WorkerAddress],
        authority: Option<&Path>,
        insecure_http: bool,
        apart_bytes: u64,
    ) -> Result<Self, Failure> {
        let is_readable = |address: &&WorkerAddress| !address.is_tls() && !address.is_here();
        if let Some(address) = addresses.iter().find(is_readable).filter(|_| !insecure_http) {
            let message = format!(
                "{address}: your login would cross the network as readable text; give the worker a certificate, or add \
                 --insecure-workers"
            );
            return Err(Failure::usage(message));
        }
        // Workers reach each other by the same addresses.
        if addresses.iter().any(WorkerAddress::is_here) && !addresses.iter().all(WorkerAddress::is_here) {
            let message =
                "some workers are named by addresses of this machine alone: name all so that each reaches the others";
            return Err(Failure::usage(message));
        }
        let mut addresses = addresses.to_vec();
        addresses.sort();
        addresses.dedup();
        // They were just looked at.
        Ok(Self {
            addresses,
            channels: Channels::new(authority, Arc::new(|_| true))?,
            nodes: Arc::default(),
            apart_bytes,
            silent: Arc::default(),
        })
    }

    /// Those that answer now.
    ///
    /// # Errors
    /// A master that does not say where nodes are.
    pub(crate) async fn ready(&self, cloud: &Client) -> Result<Fleet, Failure> {
        let headers = headers(cloud);
        let (nodes, answers) = tokio::join!(
            self.nodes(cloud),
            join_all(self.addresses.iter().map(|address| self.greet_once(address, &headers)))
        );
        let nodes = nodes?;
        let (mut ready, mut missing) = (Vec::new(), Vec::new());
        for (address, answer) in self.addresses.iter().zip(answers) {
            match answer {
                Ok(at) => {
                    let here = nodes.iter().filter(|node| at.contains(&node.address.ip())).cloned().collect();
                    ready.push(ReadyWorker { address: address.clone(), nodes: here });
                }
                Err(failure) => {
                    missing.push(MissingWorker { address: address.to_string(), why: failure.message });
                }
            }
        }
        let placement = Arc::new(Placement::new(cloud.clone(), ready));
        Ok(Fleet { placement, channels: self.channels.clone(), headers, apart_bytes: self.apart_bytes, missing })
    }

    /// [`greet`](Self::greet), unless it did not answer a moment ago.
    async fn greet_once(&self, address: &WorkerAddress, headers: &HeaderMap) -> Result<BTreeSet<IpAddr>, Failure> {
        let silent = || self.silent.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((at, why)) = silent().get(address)
            && at.elapsed() < SILENCE_REMEMBERED
        {
            return Err(Failure::new(Reason::Unavailable, why.clone()));
        }
        let greeted = self.greet(address, headers).await;
        match &greeted {
            Err(failure) if failure.reason == Reason::Unavailable => {
                silent().insert(address.clone(), (Instant::now(), failure.message.clone()));
            }
            _ => drop(silent().remove(address)),
        }
        greeted
    }

    /// Asks a worker who it is, and gives the addresses of its machine.
    async fn greet(&self, address: &WorkerAddress, headers: &HeaderMap) -> Result<BTreeSet<IpAddr>, Failure> {
        let asked = timeout(GREETING_MAX, async {
            let looked_up = tokio::net::lookup_host((address.host(), address.port())).await;
            let at = looked_up.map_err(|error| Failure::new(Reason::Unavailable, error.to_string()))?;
            let said = get(&self.channels, address, VERSION_PATH, headers).await?;
            Ok::<_, Failure>((at.map(|at| at.ip().to_canonical()).collect::<BTreeSet<_>>(), said))
        });
        let Ok(answer) = asked.await else {
            let message = format!("it did not answer within {GREETING_MAX:?}");
            return Err(Failure::new(Reason::Unavailable, message));
        };
        let (at, said) = answer?;
        let said = String::from_utf8_lossy(&said);
        if said != version() {
            let message = format!("it has version {said}, and this is {}", version());
            return Err(Failure::new(Reason::Unavailable, message));
        }
        Ok(at)
    }

    /// The nodes, as they were within the last seconds.
    async fn nodes(&self, cloud: &Client) -> Result<Arc<Vec<NodeStatus>>, Failure> {
        if let Some((at, nodes)) = &*self.nodes.lock().unwrap_or_else(PoisonError::into_inner)
            && at.elapsed() < NODES_AGE_MAX
        {
            return Ok(Arc::clone(nodes));
        }
        let nodes = Arc::new(cloud.nodes().await?);
        let known = Some((Instant::now(), Arc::clone(&nodes)));
        *self.nodes.lock().unwrap_or_else(PoisonError::into_inner) = known;
        Ok(nodes)
    }
}

impl Fleet {
    /// Whether any worker answers.
    pub(super) fn is_empty(&self) -> bool {
        self.placement.workers().is_empty()
    }

    /// Those that were named, and take no part.
    pub(crate) fn missing(&self) -> &[MissingWorker] {
        &self.missing
    }

    /// What each worker has read for the query of this name; nothing of one that does not say so.
    pub(super) async fn reads(&self, query: &str) -> Vec<(String, Vec<WorkerReads>)> {
        let of_worker = |worker: &ReadyWorker| {
            let (address, path) = (worker.address.clone(), format!("{}/{query}", READS_PATH));
            async move {
                let said = get(&self.channels, &address, &path, &self.headers).await.ok()?;
                Some((address.to_string(), serde_json::from_slice(&said).ok()?))
            }
        };
        join_all(self.placement.workers().iter().map(of_worker)).await.into_iter().flatten().collect()
    }
}

/// The login of this session, as the web door takes it.
fn headers(cloud: &Client) -> HeaderMap {
    let profile = cloud.profile();
    let login = format!("{}:{}", profile.user, HEXLOWER.encode(&profile.token));
    // Base64 is always a header's value.
    let mut value = HeaderValue::try_from(format!("Basic {}", BASE64.encode(login.as_bytes()))).ok();
    if let Some(value) = &mut value {
        value.set_sensitive(true);
    }
    HeaderMap::from_iter(value.map(|value| (header::AUTHORIZATION, value)))
}

/// What a worker answers at a path.
async fn get(channels: &Channels, at: &WorkerAddress, path: &str, headers: &HeaderMap) -> Result<Vec<u8>, Failure> {
    let unavailable = |why: String| Failure::new(Reason::Unavailable, why);
    let mut channel = channels.to(at.url()).await?;
    let mut request = Request::new(tonic::body::Body::empty());
    *request.uri_mut() = path.parse().map_err(|error: http::uri::InvalidUri| unavailable(error.to_string()))?;
    *request.headers_mut() = headers.clone();
    let asked = async {
        std::future::poll_fn(|context| channel.poll_ready(context)).await?;
        channel.call(request).await
    };
    let answer = asked.await.map_err(|error: tonic::transport::Error| unavailable(innermost(&error)))?;
    let (head, body) = answer.into_parts();
    let body = to_bytes(Body::new(body), ANSWER_BYTES_MAX).await.map_err(|error| unavailable(error.to_string()))?;
    match head.status {
        StatusCode::OK => Ok(body.to_vec()),
        StatusCode::UNAUTHORIZED => Err(Failure::new(Reason::NotAuthenticated, "it does not take your login")),
        StatusCode::SERVICE_UNAVAILABLE => Err(unavailable(String::from_utf8_lossy(&body).into_owned())),
        other => Err(unavailable(format!("it answers {other}: is it a worker?"))),
    }
}

/// For the first words with a worker.
const GREETING_MAX: Duration = Duration::from_secs(6);
/// A worker that did not answer is not asked again for so long.
const SILENCE_REMEMBERED: Duration = Duration::from_secs(10);
/// Nodes rarely move.
const NODES_AGE_MAX: Duration = Duration::from_secs(10);
const ANSWER_BYTES_MAX: usize = 16 << 20;

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn a_login_is_not_sent_as_readable_text_unless_asked_for() {
        let at = |text: &str| Workers::new(&[text.parse().unwrap()], None, false, 0);
        assert!(at("http://node7:7083").unwrap_err().message.contains("readable text"));
        assert!(at("http://127.0.0.1:7083").is_ok() && at("node7:7083").is_ok());
        assert!(Workers::new(&["http://node7:7083".parse().unwrap()], None, true, 0).is_ok());
        let mixed = ["127.0.0.1:7083".parse().unwrap(), "node7:7083".parse().unwrap()];
        assert!(Workers::new(&mixed, None, true, 0).unwrap_err().message.contains("this machine alone"));
    }

    #[test]
    fn a_worker_that_is_named_twice_is_one() {
        let twice: Vec<WorkerAddress> =
            ["b:1", "a:1", "https://b:1/"].iter().map(|text| text.parse().unwrap()).collect();
        assert_eq!(Workers::new(&twice, None, false, 0).unwrap().addresses.len(), 2);
    }
}
