//! The page and its interface: `/` is the page, and below `/api/v1` is JSON, the same documents as those of `--json`.
//! [`routes`] lists every request once, for the router and for the description that programs read. It never asks the
//! cloud without a user.

mod answer;
mod ask;
mod caller;
mod cloud_requests;
mod compression;
mod content;
mod events;
mod file_requests;
mod headers;
mod job_requests;
mod job_start;
mod live;
mod login;
mod overviews;
mod page;
mod pending_logins;
mod people_changes;
mod people_requests;
mod rate;
mod rooms;
mod routes;
mod secret;
mod sessions;
mod shared;
mod unfinished_uploads;
mod uploads;

use axum::Router;

pub use caller::GivenLogin;
pub use page::PageFile;
pub use rooms::{Door, DoorCaller};
pub(crate) use shared::{Web, WebSettings};

/// Everything that the gateway answers, with further rooms beside the page.
pub(crate) fn router(web: Web, rooms: Router) -> Router {
    let api = routes::all().into_iter().fold(Router::new(), |router, route| router.route(&route.path(), route.handler));
    api.merge(rooms.with_state(()))
        .fallback(page::serve)
        .layer(axum::middleware::from_fn_with_state(web.clone(), headers::around))
        .layer(axum::middleware::from_fn(compression::mark))
        .layer(compression::layer())
        .layer(axum::extract::DefaultBodyLimit::disable())
        .with_state(web)
}
