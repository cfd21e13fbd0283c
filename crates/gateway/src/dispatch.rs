//! Requests that are signed for another interface go to its own room, whatever their address is. All others are the page's
//! and those of the rooms beside it. It never reads a request's body.

use std::sync::Arc;

use axum::{Router, extract::Request, middleware::Next};
use tower_service::Service;

/// A room that takes requests by how they are signed, not by their address.
#[derive(Clone)]
pub(crate) struct SignedRoom {
    takes: Arc<dyn Fn(&Request) -> bool + Send + Sync>,
    router: Router,
}

impl SignedRoom {
    pub(crate) fn new(takes: impl Fn(&Request) -> bool + Send + Sync + 'static, router: Router) -> Self {
        Self { takes: Arc::new(takes), router }
    }
}

/// A router before which the room takes what is for it.
pub(crate) fn before(router: Router, room: Option<SignedRoom>) -> Router {
    let Some(room) = room else { return router };
    router.layer(axum::middleware::from_fn(move |request: Request, next: Next| {
        let mut room = room.clone();
        async move {
            if !(room.takes)(&request) {
                return next.run(request).await;
            }
            // A router is always ready.
            match room.router.call(request).await {
                Ok(answer) => answer,
                Err(never) => match never {},
            }
        }
    }))
}
