//! `/portal/status`: what the portal has served from which storage level, what it keeps, and how busy it is. It never says
//! who has asked, or for what.

use std::sync::Arc;

use axum::{
    extract::{Request, State},
    response::Response,
};
use dali::{DaliRequest, typed};

use super::Portal;

/// `/portal/status`.
pub(super) async fn status(State(portal): State<Arc<Portal>>, request: Request) -> Response {
    match DaliRequest::read(&portal.at, request).await {
        Ok(_) => typed("application/json", serde_json::to_vec(&portal.cutter.status()).unwrap_or_default()),
        Err(fault) => dali::fault(&fault),
    }
}
