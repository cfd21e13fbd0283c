//! The nodes that one slice can be read from, with tickets that are still good (path *download*).
//!
//! It never gives the sources of another slice: where the path has got another content, those that were known remain.

use std::{
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use protocol::{SectorPath, SliceId, limits, message::client_master::Source};
use tokio::time::Instant;

use crate::{Client, ClientError};

/// The sources of one slice.
pub(crate) struct SourceList {
    path: SectorPath,
    slice: SliceId,
    known: Mutex<Known>,
    /// One at a time asks the master; the others go on with what they have.
    refresh_lock: tokio::sync::Mutex<()>,
}

#[derive(Clone)]
struct Known {
    list: Arc<[Source]>,
    asked: Instant,
}

impl SourceList {
    /// As the master has just named them.
    pub(crate) fn new(path: SectorPath, slice: SliceId, list: Vec<Source>) -> Self {
        let known = Known { list: list.into(), asked: Instant::now() };
        Self { path, slice, known: Mutex::new(known), refresh_lock: tokio::sync::Mutex::new(()) }
    }

    /// The sources; asked for again before their tickets end. Where that brings nothing, the old ones are given: a node
    /// goes on reading over a connection on which it began.
    pub(crate) async fn current(&self, client: &Client) -> Arc<[Source]> {
        let known = self.lock().clone();
        if known.asked.elapsed() < RENEW_AFTER {
            return known.list;
        }
        let Ok(_asking) = self.refresh_lock.try_lock() else { return known.list };
        let renewed = self.ask(client).await;
        match renewed {
            Ok(Some(list)) => list,
            Ok(None) | Err(_) => {
                // Not again with the next read.
                self.lock().asked = Instant::now();
                known.list
            }
        }
    }

    /// The sources as the master names them now; where that brings nothing, as they were.
    pub(crate) async fn refreshed(&self, client: &Client) -> Arc<[Source]> {
        match self.ask(client).await {
            Ok(Some(list)) => list,
            Ok(None) | Err(_) => self.known(),
        }
    }

    /// Asks the master again; `None` where the path has another content now.
    pub(crate) async fn ask(&self, client: &Client) -> Result<Option<Arc<[Source]>>, ClientError> {
        let (content, located) = client.locate(&self.path).await?;
        if content.slice != self.slice {
            return Ok(None);
        }
        let list: Arc<[Source]> = located.sources.into();
        *self.lock() = Known { list: Arc::clone(&list), asked: Instant::now() };
        Ok(Some(list))
    }

    /// The master has named them anew, of the same slice.
    pub(crate) fn replace(&self, list: Vec<Source>) {
        *self.lock() = Known { list: list.into(), asked: Instant::now() };
    }

    /// The sources as they were named last.
    pub(crate) fn known(&self) -> Arc<[Source]> {
        Arc::clone(&self.lock().list)
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Tickets are renewed at two thirds of their life: the rest is for clocks that disagree and for the way.
const RENEW_AFTER: Duration = Duration::from_secs(limits::TICKET_LIFE.as_secs() * 2 / 3);
