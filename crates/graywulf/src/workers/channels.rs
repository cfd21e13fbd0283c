//! Connections to workers: one to each, over TLS beyond this machine, kept for all queries of a process. What breaks on
//! one is an error that names the worker. They never send a login to a worker whose certificate is not trusted.

use std::{
    collections::HashMap,
    error::Error,
    fmt, fs, io,
    path::Path,
    pin::Pin,
    sync::{Arc, Mutex, PoisonError},
    task::{Context, Poll},
    time::Duration,
};

use async_trait::async_trait;
use client::Reason;
use datafusion::{
    arrow::array::RecordBatch,
    error::{DataFusionError, Result},
    execution::TaskContext,
    physical_plan::metrics::ExecutionPlanMetricsSet,
};
use datafusion_distributed::{
    ChannelResolver, CoordinatorToWorkerMsg, ExecuteTaskRequest, GetWorkerInfoRequest, GetWorkerInfoResponse,
    SetPlanRequest, WorkerChannel, WorkerToCoordinatorMsg,
    grpc::{BoxCloneSyncChannel, create_worker_client},
};
use futures_util::{StreamExt, stream::BoxStream};
use http::{HeaderMap, Uri};
use hyper_util::rt::TokioIo;
use rustls::{
    ClientConfig, RootCertStore,
    pki_types::{CertificateDer, ServerName, pem::PemObject},
};
use terminal::Failure;
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::TcpStream,
    sync::OnceCell,
    time::timeout,
};
use tokio_rustls::TlsConnector;
use tonic::transport::{Channel, Endpoint};
use tower_service::Service;
use url::Url;

use super::WorkerAddress;
use crate::failure::{TableFailure, is_carried};

/// Connections to workers. Clones are the same.
#[derive(Clone)]
pub(super) struct Channels {
    tls: TlsConnector,
    /// Whether a login may be sent to an address.
    may_reach: MayReach,
    open: Arc<Mutex<HashMap<Url, Arc<OnceCell<Channel>>>>>,
}

/// Says of an address whether a login may be sent there.
pub(super) type MayReach = Arc<dyn Fn(&WorkerAddress) -> bool + Send + Sync>;

impl Channels {
    /// Trusts the certificates of this file, PEM, and those that the system trusts.
    ///
    /// # Errors
    /// A file that cannot be read, or has no certificate.
    pub(super) fn new(authority: Option<&Path>, may_reach: MayReach) -> Result<Self, Failure> {
        let mut roots = RootCertStore::empty();
        if let Some(file) = authority {
            let pem = fs::read(file).map_err(|error| Failure::local("read", file, &error))?;
            let wrong = |why: String| Failure::usage(format!("`{}` has no certificate: {why}", file.display()));
            for certificate in CertificateDer::pem_slice_iter(&pem) {
                let added = certificate.map_err(|error| wrong(error.to_string()))?;
                roots.add(added).map_err(|error| wrong(error.to_string()))?;
            }
            if roots.is_empty() {
                return Err(wrong("it holds no PEM section of that kind".into()));
            }
        }
        // A system without any is no failure: the given ones do.
        roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
        let config = ClientConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
            .with_safe_default_protocol_versions()
            .map_err(|error| Failure::failed(error.to_string()))?;
        let mut config = config.with_root_certificates(roots).with_no_client_auth();
        config.alpn_protocols = vec![b"h2".to_vec()];
        Ok(Self { tls: TlsConnector::from(Arc::new(config)), may_reach, open: Arc::default() })
    }

    /// The connection to a worker.
    ///
    /// # Errors
    /// `Unavailable` if it does not answer, or is not trusted.
    pub(super) async fn to(&self, url: &Url) -> Result<Channel, Failure> {
        if !(self.may_reach)(&WorkerAddress::from(url.clone())) {
            let message =
                "a login is not sent there: name workers by addresses with TLS, as all of them reach each other";
            return Err(Failure::new(Reason::Invalid, message));
        }
        let cell = {
            let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
            if open.len() >= CHANNELS_MAX {
                open.retain(|_, channel| channel.initialized());
            }
            if open.len() >= CHANNELS_MAX {
                open.clear();
            }
            Arc::clone(open.entry(url.clone()).or_default())
        };
        cell.get_or_try_init(|| self.connect(url)).await.cloned()
    }

    async fn connect(&self, url: &Url) -> Result<Channel, Failure> {
        let failed = |error: &dyn Error| Failure::new(Reason::Unavailable, innermost(error));
        let endpoint = Endpoint::from_shared(url.to_string())
            .map_err(|error| failed(&error))?
            .initial_stream_window_size(WINDOW_BYTES)
            .initial_connection_window_size(CONNECTION_WINDOW_BYTES)
            .http2_keep_alive_interval(KEEP_ALIVE)
            .keep_alive_timeout(KEEP_ALIVE)
            .keep_alive_while_idle(true);
        let connected = endpoint.connect_with_connector(Connector(self.tls.clone())).await;
        connected.map_err(|error| failed(&error))
    }
}

impl fmt::Debug for Channels {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Channels").finish_non_exhaustive()
    }
}

/// The words of the error beneath all others: those above say only that something failed.
pub(super) fn innermost(error: &dyn Error) -> String {
    let mut last = error;
    while let Some(source) = last.source() {
        last = source;
    }
    last.to_string()
}

#[async_trait]
impl ChannelResolver for Channels {
    async fn get_worker_client_for_url(&self, url: &Url) -> Result<Box<dyn WorkerChannel>> {
        let channel = self.to(url).await.map_err(|failure| lost(url, &failure.message))?;
        Ok(Box::new(NamedWorker { url: url.clone(), channel: create_worker_client(BoxCloneSyncChannel::new(channel)) }))
    }
}

/// A worker whose errors say which it is.
struct NamedWorker {
    url: Url,
    channel: Box<dyn WorkerChannel>,
}

#[async_trait]
impl WorkerChannel for NamedWorker {
    async fn coordinator_channel(
        &mut self,
        headers: HeaderMap,
        plan: SetPlanRequest,
        messages: BoxStream<'static, CoordinatorToWorkerMsg>,
        metrics: ExecutionPlanMetricsSet,
        context: &Arc<TaskContext>,
    ) -> Result<BoxStream<'static, Result<WorkerToCoordinatorMsg>>> {
        let answers = self.channel.coordinator_channel(headers, plan, messages, metrics, context).await;
        let url = self.url.clone();
        let answers = answers.map_err(|error| named(&self.url, error))?;
        Ok(answers.map(move |answer| answer.map_err(|error| named(&url, error))).boxed())
    }

    async fn execute_task(
        &mut self,
        headers: HeaderMap,
        request: ExecuteTaskRequest,
        metrics: ExecutionPlanMetricsSet,
        context: &Arc<TaskContext>,
    ) -> Result<Vec<BoxStream<'static, Result<RecordBatch>>>> {
        let streams = self.channel.execute_task(headers, request, metrics, context).await;
        let streams = streams.map_err(|error| named(&self.url, error))?;
        let of_worker = |rows: BoxStream<'static, Result<RecordBatch>>| {
            let url = self.url.clone();
            rows.map(move |rows| rows.map_err(|error| named(&url, error))).boxed()
        };
        Ok(streams.into_iter().map(of_worker).collect())
    }

    async fn get_worker_info(&mut self, request: GetWorkerInfoRequest) -> Result<GetWorkerInfoResponse> {
        self.channel.get_worker_info(request).await.map_err(|error| named(&self.url, error))
    }
}

/// An error of the connection itself, with the worker's name. What the worker says of the query stays as it is.
fn named(url: &Url, error: DataFusionError) -> DataFusionError {
    let DataFusionError::External(inner) = &error else { return error };
    if is_carried(&error) {
        return error;
    }
    match inner.downcast_ref::<tonic::Status>() {
        Some(status) if status.code() == tonic::Code::Unauthenticated => {
            TableFailure::from(Failure::new(Reason::NotAuthenticated, status.message())).into()
        }
        Some(status) => lost(url, &status_words(status)),
        // The engine wraps some, and keeps no type.
        None => lost(url, &innermost(&**inner)),
    }
}

fn status_words(status: &tonic::Status) -> String {
    match status.source() {
        Some(source) => innermost(source),
        None => status.message().to_owned(),
    }
}

/// What is said of a worker that went away.
fn lost(url: &Url, why: &str) -> DataFusionError {
    let message = format!("the worker {} does not go on: {why}", url.as_str().trim_end_matches('/'));
    TableFailure::from(Failure::new(Reason::Unavailable, message)).into()
}

/// Connects to a worker.
struct Connector(TlsConnector);

/// What bytes go through.
trait Socket: AsyncRead + AsyncWrite + Unpin + Send {}

impl<T: AsyncRead + AsyncWrite + Unpin + Send> Socket for T {}

impl Service<Uri> for Connector {
    type Response = TokioIo<Box<dyn Socket>>;
    type Error = io::Error;
    type Future = Pin<Box<dyn Future<Output = io::Result<Self::Response>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, uri: Uri) -> Self::Future {
        let tls = (uri.scheme_str() == Some("https")).then(|| self.0.clone());
        Box::pin(async move {
            let host = uri.host().unwrap_or_default().trim_matches(['[', ']']).to_owned();
            let port = uri.port_u16().unwrap_or(if tls.is_some() { 443 } else { 80 });
            let connecting = async {
                let stream = TcpStream::connect((host.as_str(), port)).await?;
                stream.set_nodelay(true)?;
                let Some(tls) = tls else { return Ok(TokioIo::new(Box::new(stream) as Box<dyn Socket>)) };
                let name = ServerName::try_from(host.clone()).map_err(io::Error::other)?;
                Ok(TokioIo::new(Box::new(tls.connect(name, stream).await?) as Box<dyn Socket>))
            };
            // A broken connection is made anew by itself: that must end, too.
            match timeout(CONNECT_MAX, connecting).await {
                Ok(connected) => connected,
                Err(_) => Err(io::Error::new(io::ErrorKind::TimedOut, format!("no answer within {CONNECT_MAX:?}"))),
            }
        })
    }
}

/// For the connection with its handshake.
const CONNECT_MAX: Duration = Duration::from_secs(5);
/// A silent worker is asked this often, and given up after as long.
const KEEP_ALIVE: Duration = Duration::from_secs(10);
/// Rows of one part that may be under way: enough for 200 Mbit/s at 160 ms.
const WINDOW_BYTES: u32 = 4 << 20;
/// Rows of all parts together: no part that nobody takes up shall hold up others, so each is bounded by itself alone.
const CONNECTION_WINDOW_BYTES: u32 = i32::MAX as u32;
/// More connections than any list of workers has.
const CHANNELS_MAX: usize = 1024;

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;
    use crate::failure::failure_of;

    #[test]
    fn a_broken_connection_is_said_with_its_worker() {
        let url = Url::parse("https://node7:7083").unwrap();
        let broken = DataFusionError::External(Box::new(tonic::Status::unavailable("connection refused")));
        let failure = failure_of(&named(&url, broken));
        assert_eq!(failure.reason, Reason::Unavailable);
        assert_eq!(failure.message, "the worker https://node7:7083 does not go on: connection refused");
        let of_another = TableFailure::from(Failure::new(Reason::NoCopy, "no copy of `/x`"));
        let as_text = DataFusionError::External(of_another.to_string().into());
        let found = failure_of(&named(&url, as_text));
        assert_eq!((found.reason, found.message.as_str()), (Reason::NoCopy, "no copy of `/x`"));
        let own = failure_of(&named(&url, DataFusionError::Plan("no such column".into())));
        assert_eq!((own.reason, own.message.as_str()), (Reason::Invalid, "no such column"));
    }
}
