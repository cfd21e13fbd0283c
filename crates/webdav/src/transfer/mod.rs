//! Third-party copies (HDFS over the wide area, section 2). Whoever asks names another storage element. The bytes go from
//! there to here or from here to there, past who asked. A request says with which rights it acts there. It never
//! sends a login of ours, and reaches public hosts and those that the operator allows.

mod agent;
mod cloud;
mod order;
mod progress;
mod pull;
mod push;

use std::sync::Arc;

use axum::response::Response;
use client::{Client, SectorPath};
use daemon::settings::GatewaySettings;
use tokio::sync::Semaphore;

use self::agent::Elsewhere;
pub(crate) use self::cloud::{CloudNotice, NOTICE_HEADER};
pub(crate) use self::order::Order;
use crate::failure::DavFailure;

/// Makes third-party copies. Clones are the same.
#[derive(Clone)]
pub(crate) struct Transfers {
    elsewhere: Elsewhere,
    places: Arc<Semaphore>,
}

impl Transfers {
    /// As the settings of a gateway say.
    ///
    /// # Errors
    /// A host that is none, or certificates that cannot be read.
    pub(crate) fn new(settings: &GatewaySettings) -> Result<Self, String> {
        let hosts = settings.transfer_hosts.as_deref().unwrap_or_default();
        let elsewhere = Elsewhere::new(hosts, settings.transfer_authority.as_deref())?;
        Ok(Self { elsewhere, places: Arc::new(Semaphore::new(settings.transfers_max as usize)) })
    }

    /// Answers a copy from or to elsewhere.
    pub(crate) async fn answer(
        &self,
        client: &Client,
        path: &SectorPath,
        order: Order,
    ) -> Result<Response, DavFailure> {
        let place = Arc::clone(&self.places).try_acquire_owned();
        let place = place.map_err(|_| DavFailure::busy("as many copies are under way as may be: try again"))?;
        order.check_here(client, path).await?;
        let (elsewhere, client, path) = (self.elsewhere.clone(), client.clone(), path.clone());
        Ok(progress::answer(move |moved| async move {
            let _place = place;
            if order.is_pull {
                pull::pull(elsewhere, order, client, path, moved).await
            } else {
                push::push(elsewhere, order, client, path, moved).await
            }
        }))
    }
}
