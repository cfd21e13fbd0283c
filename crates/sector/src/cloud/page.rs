//! The web page of the cloud that `sector up` starts: a gateway in the same process. Whatever happens to it, the cloud
//! goes on. It never chooses a port that another program has.

use axum::Router;
use client::Profile;
use daemon::{settings::GatewaySettings, shutdown::TaskGroup};
use gateway::{GatewayServer, LoginLinks};
use terminal::failure::Failure;

use super::Layout;

/// A running gateway.
pub(crate) struct Page {
    url: String,
    links: LoginLinks,
    profile: Profile,
    tasks: TaskGroup,
}

impl Page {
    /// Starts it at the port of its settings, or at a free one where another program has that port.
    pub(crate) async fn start(
        layout: &Layout,
        profile: &Profile,
        asked_port: Option<u16>,
        is_free_port: bool,
    ) -> Result<Self, Failure> {
        let port = asked_port.or(is_free_port.then_some(0));
        let settings = layout.gateway(&profile.address, port, asked_port.is_some())?;
        let server = match GatewayServer::bind(&settings).await {
            Err(error) if asked_port.is_none() && error.is_port_taken() => {
                let free = layout.gateway_at_free_port(&settings)?;
                GatewayServer::bind(&free).await
            }
            bound => bound,
        };
        let server = with_s3(server.map_err(|error| error.refusal())?, profile.clone(), None)?;
        let rooms = dav_room(&server, &settings)?;
        let (url, links, tasks) = (server.url(), server.login_links(), TaskGroup::new());
        let stopping = tasks.token();
        tasks.spawn("web page", async move { server.run(rooms, stopping).await });
        Ok(Self { url, links, profile: profile.clone(), tasks })
    }

    /// Its address.
    pub(crate) fn url(&self) -> &str {
        &self.url
    }

    /// A link that logs the administrator in, once.
    pub(crate) fn login_link(&self) -> String {
        self.links.make(self.profile.clone())
    }

    pub(crate) async fn stop(self) {
        if let Err(error) = self.tasks.finish(STOP_PATIENCE).await {
            tracing::warn!(%error, "the web page did not stop in time");
        }
    }
}

/// Speaks S3 beside the page, as this profile learns whose access keys are.
pub(super) fn with_s3(server: GatewayServer, profile: Profile, domain: Option<&str>) -> Result<GatewayServer, Failure> {
    let room = s3::S3Room::new(server.cloud().clone(), profile, domain).map_err(Failure::usage)?;
    let taking = room.clone();
    Ok(server.with_signed_room(move |request| taking.takes(request), Router::new().fallback_service(room)))
}

/// What speaks WebDAV beside the page.
pub(super) fn dav_room(server: &GatewayServer, settings: &GatewaySettings) -> Result<Router, Failure> {
    let room = webdav::DavRoom::new(server.door(), server.cloud(), settings).map_err(Failure::usage)?;
    Ok(room.router())
}

/// How long it may take to stop.
const STOP_PATIENCE: std::time::Duration = std::time::Duration::from_secs(5);
