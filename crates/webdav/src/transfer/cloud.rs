//! Copies between two clouds of ours go from node to node, by our own transport, as those of the command line do. A gateway
//! says where its cloud's master is, and whose certificate to trust; the login is the one that was given for it. Where that
//! way is closed, the copy goes by HTTP. It never logs in with anything else.

use std::time::Duration;

use axum::body::Body;
use client::{CarrierChoice, Client, Cloud, CloudSettings, HostAddress, Profile, PutOptions, SectorPath, UserName};
use daemon::PublicResolver;
use gateway::GivenLogin;
use http::Method;
use serde::{Deserialize, Serialize};
use tokio::{net::lookup_host, time::timeout};
use url::Url;

use super::{agent::Elsewhere, order::Order, progress::Moved, pull::Source};

/// What a gateway says of its cloud.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct CloudNotice {
    /// The master's address.
    master: String,
    /// The certificate of the cloud's authority, PEM.
    authority: String,
    /// Below which path files are.
    prefix: String,
}

impl CloudNotice {
    /// Of a cloud whose files are below this path.
    pub(crate) fn of(cloud: &Cloud, prefix: &str) -> Self {
        let settings = cloud.settings();
        Self { master: settings.address.to_string(), authority: settings.authority.clone(), prefix: prefix.to_owned() }
    }
}

/// A file in another cloud of ours.
pub(super) struct FileThere {
    client: Client,
    path: SectorPath,
}

/// The file in a cloud of ours, if the source is one and lets the user in.
pub(super) async fn of(elsewhere: &Elsewhere, order: &Order, source: &Source) -> Option<FileThere> {
    let notice = source.notice.clone()?;
    if !is_trusted(elsewhere.hosts(), &order.url, &source.url) {
        return None;
    }
    let GivenLogin((user, token)) = GivenLogin::of(&order.headers)?;
    match timeout(REACH_MAX, reach(elsewhere, order, source, &notice, (user, token))).await {
        Ok(Ok(there)) => Some(there),
        Ok(Err(why)) => {
            tracing::info!(why, source = %source.url, "a copy from a cloud of ours goes by HTTP");
            None
        }
        Err(_) => {
            tracing::info!(source = %source.url, "a copy from a cloud of ours goes by HTTP: its master does not answer");
            None
        }
    }
}

/// Whether the cloud of a file that was found `at` an address is asked with the login for the one that was `named`. A login
/// is for the host that was named. The nodes of its cloud may be anywhere, so the operator must name it, too.
fn is_trusted(hosts: &PublicResolver, named: &Url, at: &Url) -> bool {
    hosts.names(named.host_str().unwrap_or_default()) && at.origin() == named.origin()
}

async fn reach(
    elsewhere: &Elsewhere,
    order: &Order,
    source: &Source,
    notice: &str,
    (user, token): (UserName, [u8; 32]),
) -> Result<FileThere, String> {
    let at = source.url.join(notice).map_err(|error| error.to_string())?;
    if at.origin() != source.url.origin() {
        return Err("another host tells of it".into());
    }
    let answer = elsewhere.ask(&Method::GET, &at, &order.headers, Body::empty).await?;
    let notice = answer.read(NOTICE_BYTES_MAX).await?;
    let notice: CloudNotice = serde_json::from_slice(&notice).map_err(|error| error.to_string())?;
    // The same rule as for its gateway.
    let host = notice.master.rsplit_once(':').map_or(&*notice.master, |(host, _)| host).trim_matches(['[', ']']);
    let found: Vec<_> = lookup_host(&notice.master).await.map_err(|error| error.to_string())?.collect();
    if found.is_empty() || !elsewhere.hosts().allows(host, &found) {
        return Err(format!("its master `{}` may not be reached", notice.master));
    }
    let path = source.url.path().strip_prefix(&notice.prefix).ok_or("it is no file of its cloud")?;
    let path = percent_encoding::percent_decode_str(path).decode_utf8().map_err(|error| error.to_string())?;
    let path = SectorPath::parse(&format!("/{}", path.trim_start_matches('/'))).map_err(|error| error.to_string())?;
    let address: HostAddress = notice.master.parse().map_err(|error| format!("{error}"))?;
    let profile = Profile::of(address.clone(), user, token, notice.authority.clone());
    let settings =
        CloudSettings { address, authority: notice.authority, carrier: CarrierChoice::Auto, controller: None };
    let cloud = Cloud::open(settings, Vec::new()).await.map_err(|error| error.to_string())?;
    let client = cloud.log_in(&profile).await.map_err(|error| error.to_string())?;
    client.stat(&path).await.map_err(|error| error.to_string())?;
    Ok(FileThere { client, path })
}

impl FileThere {
    /// Copies it, and ends the session there.
    pub(super) async fn copy_to(
        self,
        here: &Client,
        path: &SectorPath,
        options: &PutOptions,
        moved: &Moved,
    ) -> Result<(), String> {
        let copied = here.copy_from(&self.client, &self.path, path, options, &|bytes| moved.add(bytes)).await;
        self.client.logout().await;
        copied.map(drop).map_err(|error| error.to_string())
    }
}

/// In answers about a file: where its gateway tells of its cloud.
pub(crate) const NOTICE_HEADER: &str = "sector-cloud";
/// A certificate and two addresses, with room.
const NOTICE_BYTES_MAX: usize = 64 << 10;
/// For a login there.
const REACH_MAX: Duration = Duration::from_secs(10);

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn only_a_cloud_that_the_operator_names_is_asked_and_only_where_it_was_named() {
        let hosts = PublicResolver::new(&["here.org".to_owned()]).unwrap();
        let trusted = |named: &str, at: &str| is_trusted(&hosts, &named.parse().unwrap(), &at.parse().unwrap());
        assert!(trusted("https://here.org/dav/a", "https://HERE.org:443/dav/b"));
        for (named, at) in [
            ("https://there.org/a", "https://there.org/a"),
            ("https://here.org/a", "https://there.org/a"),
            ("https://there.org/a", "https://here.org/a"),
            ("https://here.org/a", "https://here.org:8443/a"),
            ("https://here.org/a", "http://here.org/a"),
        ] {
            assert!(!trusted(named, at), "{named} {at}");
        }
    }
}
