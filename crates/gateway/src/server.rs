//! The HTTP server: it accepts connections, with TLS where there is a certificate, and ends in order. Slow or silent
//! peers hold a connection for a bounded time. It never knows what a request means.

use std::{net::SocketAddr, sync::Arc, time::Duration};

use axum::{Router, extract::Request};
use client::{Cloud, CloudSettings, Profile};
use daemon::{
    metrics::{MetricsPort, MetricsQuestion},
    settings::{Checked, GatewaySettings},
    shutdown::ShutdownToken,
};
use hyper_util::{
    rt::{TokioExecutor, TokioIo, TokioTimer},
    server::conn::auto::Builder,
    service::TowerToHyperService,
};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::{TcpListener, TcpStream},
    sync::{Semaphore, mpsc},
    time::timeout,
};
use tokio_rustls::TlsAcceptor;
use tokio_util::task::TaskTracker;

use crate::{
    GatewayError,
    counts::{Counts, Lasting},
    dispatch::{self, SignedRoom},
    tls, unread_bodies,
    web::{self, Door},
    webhooks::{self, Webhook},
};

/// A gateway that is bound to its port.
pub struct GatewayServer {
    listener: TcpListener,
    address: SocketAddr,
    acceptor: Option<TlsAcceptor>,
    connections_max: usize,
    streams_max: u32,
    web: web::Web,
    cloud: Cloud,
    webhooks: Vec<Webhook>,
    counts: Counts,
    metrics: Option<MetricsPort>,
    signed: Option<SignedRoom>,
}

/// Makes links to the page that log someone in. Clones are the same.
#[derive(Clone)]
pub struct LoginLinks {
    url: String,
    web: web::Web,
}

impl LoginLinks {
    /// A link that logs the holder of a profile in, once, within a quarter of an hour.
    pub fn make(&self, profile: Profile) -> String {
        format!("{}/#/login/{}", self.url, self.web.make_link(profile))
    }
}

impl GatewayServer {
    /// Binds the port and opens the cloud. The master need not answer yet.
    ///
    /// # Errors
    /// If the port is taken, a file of the settings cannot be read, or the master's name is unknown.
    pub async fn bind(settings: &Checked<GatewaySettings>) -> Result<Self, GatewayError> {
        let file = &settings.authority;
        let authority = std::fs::read_to_string(file).map_err(|source| GatewayError::File {
            what: "authority's certificate",
            file: file.clone(),
            source,
        })?;
        let public = settings.public_profile.as_deref().map(Profile::load).transpose()?;
        Self::bind_as(settings, authority, public).await
    }

    /// The same for a program that has the authority's certificate, and the profile of visitors, already.
    ///
    /// # Errors
    /// As [`bind`](Self::bind).
    pub async fn bind_as(
        settings: &Checked<GatewaySettings>,
        authority: String,
        public: Option<Profile>,
    ) -> Result<Self, GatewayError> {
        let acceptor = match (&settings.certificate, &settings.key) {
            (Some(certificate), Some(key)) => Some(tls::acceptor(certificate, key)?),
            _ => None,
        };
        let counts = Counts::default();
        let webhooks = webhooks::load(settings, &counts)?;
        let cloud = CloudSettings {
            address: settings.master.clone(),
            authority,
            carrier: client::CarrierChoice::Auto,
            controller: None,
        };
        let failed = |source| GatewayError::Listen { address: settings.listen, source };
        let listener = TcpListener::bind(settings.listen).await.map_err(failed)?;
        let address = listener.local_addr().map_err(failed)?;
        let metrics = MetricsPort::bind(settings.metrics_listen).await?;
        let cloud = Cloud::open(cloud, Vec::new()).await?;
        let about = web::WebSettings {
            public,
            port: address.port(),
            is_tls: acceptor.is_some(),
            sessions_max: settings.sessions_max as usize,
        };
        let web = web::Web::new(cloud.clone(), about, counts.clone());
        let connections_max = settings.connections_max as usize;
        let streams_max = STREAMS_MAX;
        let signed = None;
        Ok(Self {
            listener,
            address,
            acceptor,
            connections_max,
            streams_max,
            web,
            cloud,
            webhooks,
            counts,
            metrics,
            signed,
        })
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Its address for browsers, without a slash at the end.
    pub fn url(&self) -> String {
        format!("{}://{}", if self.acceptor.is_some() { "https" } else { "http" }, self.address)
    }

    /// What makes links, also while it serves.
    pub fn login_links(&self) -> LoginLinks {
        LoginLinks { url: self.url(), web: self.web.clone() }
    }

    /// Where further rooms learn who asks.
    pub fn door(&self) -> Door {
        Door::new(self.web.clone())
    }

    /// The cloud that it has open.
    pub fn cloud(&self) -> &Cloud {
        &self.cloud
    }

    /// Gives requests to a room that takes them by how they are signed.
    #[must_use]
    pub fn with_signed_room(self, takes: impl Fn(&Request) -> bool + Send + Sync + 'static, router: Router) -> Self {
        Self { signed: Some(SignedRoom::new(takes, router)), ..self }
    }

    /// Takes so many requests at once on one connection, where those of one client wait for each other.
    #[must_use]
    pub fn with_streams_max(self, streams_max: u32) -> Self {
        Self { streams_max, ..self }
    }

    /// Serves until asked to stop, and then ends what is under way within [`STOP_PATIENCE`]. `rooms` are what it answers
    /// beside the page.
    pub async fn run(self, rooms: Router, stopping: ShutdownToken) {
        let router = dispatch::before(web::router(self.web.clone(), rooms), self.signed);
        let router = router.layer(axum::middleware::from_fn(unread_bodies::drain));
        let sending = webhooks::spawn(self.webhooks, &self.cloud, &stopping);
        let scraping = self.metrics.map(|port| tokio::spawn(serve_metrics(port, self.web.clone())));
        let (places, tasks) = (Arc::new(Semaphore::new(self.connections_max)), TaskTracker::new());
        loop {
            let accepted = tokio::select! {
                () = stopping.cancelled() => break,
                accepted = accept(&self.listener, &places) => accepted,
            };
            let Some((stream, place)) = accepted else { continue };
            let (acceptor, router, stopping) = (self.acceptor.clone(), router.clone(), stopping.clone());
            let streams_max = self.streams_max;
            let held = self.counts.hold(Lasting::Connection);
            tasks.spawn(async move {
                serve(stream, acceptor, (router, streams_max), stopping).await;
                drop((place, held));
            });
        }
        drop(self.listener);
        tasks.close();
        if timeout(STOP_PATIENCE, tasks.wait()).await.is_err() {
            tracing::info!(left = tasks.len(), "connections that did not end in time are cut");
        }
        // A message that is under way when the gateway stops is sent again after the next start.
        let _ = timeout(STOP_PATIENCE, sending.wait()).await;
        if let Some(scraping) = scraping {
            scraping.abort();
        }
        self.web.close().await;
    }
}

/// Answers scrapers with what the gateway counts.
async fn serve_metrics(port: MetricsPort, web: web::Web) {
    let (sender, mut questions) = mpsc::channel::<MetricsQuestion>(1);
    let answering = async {
        while let Some(question) = questions.recv().await {
            // It may have hung up.
            let _ = question.send(web.metrics());
        }
    };
    tokio::join!(port.run(sender), answering);
}

/// The next connection, once there is a place for it.
async fn accept(
    listener: &TcpListener,
    places: &Arc<Semaphore>,
) -> Option<(TcpStream, tokio::sync::OwnedSemaphorePermit)> {
    // The semaphore is never closed.
    let place = Arc::clone(places).acquire_owned().await.ok()?;
    match listener.accept().await {
        Ok((stream, _)) => Some((stream, place)),
        Err(error) => {
            tracing::warn!(%error, "cannot accept a connection");
            // Out of descriptors, most likely: nothing gets better at once.
            tokio::time::sleep(ACCEPT_PAUSE).await;
            None
        }
    }
}

async fn serve(stream: TcpStream, acceptor: Option<TlsAcceptor>, router: (Router, u32), stopping: ShutdownToken) {
    // Small answers go out at once. If that cannot be set, they are only slower.
    let _ = stream.set_nodelay(true);
    match acceptor {
        None => serve_http(stream, router, stopping).await,
        Some(acceptor) => match timeout(HANDSHAKE_MAX, acceptor.accept(stream)).await {
            Ok(Ok(stream)) => serve_http(stream, router, stopping).await,
            Ok(Err(error)) => tracing::debug!(%error, "a TLS handshake failed"),
            Err(_) => tracing::debug!("a TLS handshake took too long"),
        },
    }
}

async fn serve_http<S>(stream: S, (router, streams_max): (Router, u32), stopping: ShutdownToken)
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let mut builder = Builder::new(TokioExecutor::new());
    builder.http1().timer(TokioTimer::new()).header_read_timeout(HEADER_MAX);
    builder
        .http2()
        .timer(TokioTimer::new())
        .max_concurrent_streams(streams_max)
        .keep_alive_interval(KEEP_ALIVE)
        .keep_alive_timeout(KEEP_ALIVE);
    let connection = builder.serve_connection(TokioIo::new(stream), TowerToHyperService::new(router));
    tokio::pin!(connection);
    let result = tokio::select! {
        result = &mut connection => result,
        () = stopping.cancelled() => {
            connection.as_mut().graceful_shutdown();
            connection.await
        }
    };
    if let Err(error) = result {
        // Peers go away all the time.
        tracing::debug!(%error, "a connection ended");
    }
}

/// For the TLS handshake.
const HANDSHAKE_MAX: Duration = Duration::from_secs(10);
/// For the head of a request; also how long an idle HTTP/1 connection is kept.
const HEADER_MAX: Duration = Duration::from_secs(60);
/// Requests at once on one HTTP/2 connection, where nothing else is said.
const STREAMS_MAX: u32 = 64;
/// A silent HTTP/2 peer is asked this often, and given up after as long.
const KEEP_ALIVE: Duration = Duration::from_secs(30);
/// How long requests may take to end when the gateway stops.
const STOP_PATIENCE: Duration = Duration::from_secs(3);
/// After a failure to accept.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);
