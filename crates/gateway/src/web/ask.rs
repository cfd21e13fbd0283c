//! What requests bring: the query of an address, and a JSON document as the body. What does not fit is an error of the
//! interface, like all others. It never takes an unknown field.

use axum::{
    body::to_bytes,
    extract::{FromRequest, FromRequestParts, Query, Request},
};
use client::{ClientError, SectorPath};
use http::request::Parts;
use serde::de::DeserializeOwned;

use super::answer::ApiError;

/// The query of the address.
pub(crate) struct Asked<T>(pub(crate) T);

impl<T: DeserializeOwned, S: Sync> FromRequestParts<S> for Asked<T> {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, ApiError> {
        let query = Query::<T>::try_from_uri(&parts.uri);
        query.map(|query| Self(query.0)).map_err(|error| ApiError::invalid(error.body_text()))
    }
}

/// A JSON document.
pub(crate) struct Document<T>(pub(crate) T);

impl<T: DeserializeOwned, S: Sync> FromRequest<S> for Document<T> {
    type Rejection = ApiError;

    async fn from_request(request: Request, _: &S) -> Result<Self, ApiError> {
        let too_large = |_| ApiError::invalid(format!("the body cannot be read, or has more than {BODY_MAX} bytes"));
        let bytes = to_bytes(request.into_body(), BODY_MAX).await.map_err(too_large)?;
        let wrong = |error: serde_json::Error| ApiError::invalid(format!("the body does not fit: {error}"));
        serde_json::from_slice(&bytes).map(Self).map_err(wrong)
    }
}

/// A path in the cloud.
pub(crate) fn cloud_path(text: &str) -> Result<SectorPath, ApiError> {
    Ok(SectorPath::parse(text).map_err(ClientError::from)?)
}

/// The largest JSON document that a request brings, in bytes.
const BODY_MAX: usize = 1 << 20;
