//! Requests to other storage elements. Each waits a bounded time, and each address is looked at again. A redirection keeps its
//! scheme, and a login goes to the host that it was given for. Names of headers are written as people write them, since some
//! storage elements know them no other way. It never follows more than a few redirections.

use std::{
    collections::HashMap,
    fmt::Display,
    path::Path,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use axum::body::{Body, HttpBody};
use bytes::Bytes;
use daemon::{PublicResolver, system_certificates};
use http::{HeaderMap, HeaderValue, Method, Request, Response, header};
use http_body_util::BodyExt;
use hyper::{body::Incoming, client::conn::http1};
use hyper_util::rt::TokioIo;
use rustls::{
    ClientConfig, RootCertStore,
    pki_types::{CertificateDer, ServerName, pem::PemObject},
};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::{TcpStream, lookup_host},
    sync::{OwnedSemaphorePermit, Semaphore},
    time::timeout,
};
use tokio_rustls::TlsConnector;
use url::Url;

/// The way to other storage elements. Clones share connections.
#[derive(Clone)]
pub(super) struct Elsewhere {
    hosts: PublicResolver,
    tls: TlsConnector,
    /// Parts in memory, of all copies together.
    parts: Arc<Semaphore>,
    idle: Arc<Mutex<Idle>>,
}

type Connection = http1::SendRequest<Body>;
/// Connections that wait for the next request, by scheme, host and port.
type Idle = HashMap<String, Vec<Connection>>;

/// An answer whose connection serves again once its body was read.
pub(super) struct Answer {
    pub(super) url: Url,
    pub(super) head: http::response::Parts,
    body: Incoming,
    way: (Elsewhere, Connection),
}

impl Elsewhere {
    /// To public hosts, and to these wherever they are. Certificates are checked against the authorities of the system and
    /// those of the file.
    pub(super) fn new(hosts: &[String], authority: Option<&Path>) -> Result<Self, String> {
        let mut trusted = RootCertStore::empty();
        trusted.add_parsable_certificates(system_certificates());
        if let Some(file) = authority {
            let wrong = |error: &dyn Display| format!("`{}`: {error}", file.display());
            for certificate in CertificateDer::pem_file_iter(file).map_err(|error| wrong(&error))? {
                let certificate = certificate.map_err(|error| wrong(&error))?;
                trusted.add(certificate).map_err(|error| wrong(&error))?;
            }
        }
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
        let config = config.map_err(|error| error.to_string())?.with_root_certificates(trusted).with_no_client_auth();
        Ok(Self {
            hosts: PublicResolver::new(hosts)?,
            tls: TlsConnector::from(Arc::new(config)),
            parts: Arc::new(Semaphore::new(PARTS_MAX)),
            idle: Arc::default(),
        })
    }

    /// A place in memory for a part.
    pub(super) async fn part(&self) -> Option<OwnedSemaphorePermit> {
        // The semaphore is never closed.
        Arc::clone(&self.parts).acquire_owned().await.ok()
    }

    /// The rule about hosts.
    pub(super) fn hosts(&self) -> &PublicResolver {
        &self.hosts
    }

    /// A request with a body, which is made anew where a redirection leads.
    pub(super) async fn ask(
        &self,
        method: &Method,
        url: &Url,
        headers: &HeaderMap,
        body: impl Fn() -> Body,
    ) -> Result<Answer, String> {
        let (mut url, mut headers) = (url.clone(), headers.clone());
        for _ in 0..=REDIRECTIONS_MAX {
            if url.scheme() == "http" && !self.hosts.names(url.host_str().unwrap_or_default()) {
                return Err(format!("`{url}` is readable on its way: use https, or have the operator allow the host"));
            }
            let answer = self.ask_once(method, &url, &headers, &body).await.map_err(|why| format!("`{url}`: {why}"))?;
            if !answer.head.status.is_redirection() {
                return Ok(answer);
            }
            let place = answer.header(header::LOCATION);
            let next = place.and_then(|place| url.join(place).ok());
            let next = next.ok_or_else(|| format!("`{url}` leads elsewhere and does not say where"))?;
            if next.scheme() != url.scheme() {
                return Err(format!("`{url}` leads to another scheme, `{}`", next.scheme()));
            }
            if next.origin() != url.origin() {
                // What was given for one host is for no other.
                headers = without_secrets(&headers);
            }
            url = next;
        }
        Err(format!("`{url}` leads elsewhere too often"))
    }

    async fn ask_once(
        &self,
        method: &Method,
        url: &Url,
        headers: &HeaderMap,
        body: impl Fn() -> Body,
    ) -> Result<Answer, String> {
        let request = |body| request(method, url, headers, body);
        // A connection that waited may have ended meanwhile: what has no body is asked again over a new one.
        if let Some(mut kept) = self.kept(url) {
            let asked = body();
            let may_ask_again = asked.is_end_stream();
            match answer(&mut kept, request(asked)?).await {
                Ok((head, body)) => return Ok(Answer { url: url.clone(), head, body, way: (self.clone(), kept) }),
                Err(why) if !may_ask_again => return Err(why),
                Err(_) => {}
            }
        }
        let mut connection = self.connect(url).await?;
        let (head, body) = answer(&mut connection, request(body())?).await?;
        Ok(Answer { url: url.clone(), head, body, way: (self.clone(), connection) })
    }

    fn idle(&self) -> MutexGuard<'_, Idle> {
        // Nothing panics while it holds them.
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A connection that serves again.
    fn kept(&self, url: &Url) -> Option<Connection> {
        let mut idle = self.idle();
        let kept = idle.get_mut(&url.origin().ascii_serialization())?;
        while let Some(connection) = kept.pop() {
            if connection.is_ready() {
                return Some(connection);
            }
        }
        None
    }

    fn keep(&self, url: &Url, connection: Connection) {
        let mut idle = self.idle();
        idle.retain(|_, kept| {
            kept.retain(|connection| !connection.is_closed());
            !kept.is_empty()
        });
        let kept = idle.entry(url.origin().ascii_serialization()).or_default();
        if kept.len() < CONNECTIONS_KEPT {
            kept.push(connection);
        }
    }

    async fn connect(&self, url: &Url) -> Result<Connection, String> {
        let host = url.host_str().ok_or("it has no host")?.trim_matches(['[', ']']);
        let port = url.port_or_known_default().ok_or("it has no port")?;
        let connecting = async {
            let found: Vec<_> = lookup_host((host, port)).await.map_err(|error| error.to_string())?.collect();
            if !self.hosts.allows(host, &found) {
                return Err(format!("`{host}` has no public address: the operator may allow it"));
            }
            let stream = TcpStream::connect(&found[..]).await.map_err(|error| error.to_string())?;
            // If that cannot be set, it is only slower.
            let _ = stream.set_nodelay(true);
            if url.scheme() == "http" {
                return handshake(stream).await;
            }
            let name = ServerName::try_from(host.to_owned()).map_err(|error| error.to_string())?;
            let stream = self.tls.connect(name, stream).await.map_err(|error| error.to_string())?;
            handshake(stream).await
        };
        timeout(CONNECT_MAX, connecting).await.map_err(|_| "it cannot be reached within 15 seconds".to_owned())?
    }
}

async fn handshake(stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static) -> Result<Connection, String> {
    let shaken = http1::Builder::new().title_case_headers(true).handshake(TokioIo::new(stream)).await;
    let (sender, connection) = shaken.map_err(|error| error.to_string())?;
    tokio::spawn(async move {
        if let Err(error) = connection.await {
            // Its request says so, too.
            tracing::debug!(%error, "a connection to elsewhere ended");
        }
    });
    Ok(sender)
}

async fn answer(
    connection: &mut Connection,
    request: Request<Body>,
) -> Result<(http::response::Parts, Incoming), String> {
    // A body takes as long as it takes: who sends it watches it.
    let is_bounded = request.body().is_end_stream();
    let answering = connection.send_request(request);
    let answered = if is_bounded {
        timeout(ANSWER_MAX, answering).await.map_err(|_| "no answer within two minutes".to_owned())?
    } else {
        answering.await
    };
    answered.map(Response::into_parts).map_err(|error| told(&error))
}

fn request(method: &Method, url: &Url, headers: &HeaderMap, body: Body) -> Result<Request<Body>, String> {
    let mut request = Request::builder().method(method).uri(&url[url::Position::BeforePath..url::Position::AfterQuery]);
    if let Some(all) = request.headers_mut() {
        let host = &url[url::Position::BeforeHost..url::Position::AfterPort];
        all.insert(header::HOST, HeaderValue::from_str(host).map_err(|error| error.to_string())?);
        all.insert(header::USER_AGENT, HeaderValue::from_static("sector"));
        // Bytes are copied as they are.
        all.insert(header::ACCEPT_ENCODING, HeaderValue::from_static("identity"));
        all.extend(headers.clone());
    }
    request.body(body).map_err(|error| error.to_string())
}

/// The headers that are our own: those that were given for one host are marked as sensitive.
fn without_secrets(headers: &HeaderMap) -> HeaderMap {
    let ours = headers.iter().filter(|(_, value)| !value.is_sensitive());
    ours.map(|(name, value)| (name.clone(), value.clone())).collect()
}

/// What went wrong, with its cause.
fn told(error: &dyn std::error::Error) -> String {
    match error.source() {
        Some(cause) => format!("{error}: {cause}"),
        None => error.to_string(),
    }
}

impl Answer {
    /// A header as text.
    pub(super) fn header(&self, name: impl header::AsHeaderName) -> Option<&str> {
        self.head.headers.get(name).and_then(|value| value.to_str().ok())
    }

    /// The next bytes of the body; `None` at its end.
    pub(super) async fn next(&mut self) -> Option<Result<Bytes, String>> {
        loop {
            let frame = match timeout(STALL_MAX, self.body.frame()).await {
                Ok(frame) => frame?,
                Err(_) => return Some(Err("nothing came for a minute".into())),
            };
            match frame.map(http_body::Frame::into_data) {
                Ok(Ok(bytes)) => return Some(Ok(bytes)),
                // Trailers.
                Ok(Err(_)) => {}
                Err(error) => return Some(Err(told(&error))),
            }
        }
    }

    /// The whole body, of so many bytes at most.
    pub(super) async fn read(mut self, bytes_max: usize) -> Result<Bytes, String> {
        let mut bytes = Vec::new();
        while let Some(piece) = self.next().await {
            bytes.extend_from_slice(&piece?);
            if bytes.len() > bytes_max {
                return Err(format!("`{}` gives more than {bytes_max} bytes", self.url));
            }
        }
        self.done().await;
        Ok(bytes.into())
    }

    /// Its body was read: its connection serves again.
    pub(super) async fn done(self) {
        let (elsewhere, mut connection) = self.way;
        drop(self.body);
        if timeout(READY_MAX, connection.ready()).await.is_ok_and(|ready| ready.is_ok()) {
            elsewhere.keep(&self.url, connection);
        }
    }
}

/// For a connection.
const CONNECT_MAX: Duration = Duration::from_secs(15);
/// For an answer to begin: a storage element may have to fetch a file, or to sum it up.
pub(super) const ANSWER_MAX: Duration = Duration::from_secs(120);
/// For the next bytes.
const STALL_MAX: Duration = Duration::from_secs(60);
/// For a connection whose answer was read to be ready again.
const READY_MAX: Duration = Duration::from_millis(100);
/// As many as a copy may have at once.
const CONNECTIONS_KEPT: usize = 32;
/// Of 4 MiB each: 256 MiB.
const PARTS_MAX: usize = 64;
const REDIRECTIONS_MAX: usize = 5;
