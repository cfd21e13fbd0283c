//! From a request to who asks, and what: its query, the form in its body, and its sender. It never knows a service.

use axum::extract::Request;
use gateway::DoorCaller;
use http::Method;
use vo::{DaliParameters, Fault};

use crate::{
    ServiceAddress, Upload,
    answers::of_refusal,
    form::{self, Form},
};

/// A request that was read.
pub struct DaliRequest {
    /// How it was sent.
    pub method: Method,
    /// What was asked for below the route: those of the query, then those of the body.
    pub parameters: DaliParameters,
    /// Files that came with it, in their order.
    pub uploads: Vec<Upload>,
    /// Who sends it.
    pub caller: DoorCaller,
    /// The service's URL as this client knows it.
    pub url: String,
}

impl DaliRequest {
    /// Reads a request to a service that takes no files.
    ///
    /// # Errors
    /// What the door refuses, and a body that is no form, or too large.
    pub async fn read(at: &ServiceAddress, request: Request) -> Result<Self, Fault> {
        Self::read_allowing(at, request, None).await
    }

    /// Reads a request that may bring files, by `multipart/form-data`. All of them have at most so many bytes, which
    /// lie in memory until the request is dropped.
    ///
    /// # Errors
    /// As [`read`](Self::read).
    pub async fn read_with_uploads(
        at: &ServiceAddress,
        request: Request,
        upload_bytes_max: usize,
    ) -> Result<Self, Fault> {
        Self::read_allowing(at, request, Some(upload_bytes_max)).await
    }

    async fn read_allowing(at: &ServiceAddress, request: Request, uploads: Option<usize>) -> Result<Self, Fault> {
        let (head, body) = request.into_parts();
        // First, so that nobody fills memory without a right to.
        let caller = at.door.caller(&head.headers).await.map_err(of_refusal)?;
        let mut parameters = DaliParameters::parse(head.uri.query().unwrap_or_default());
        let mut form = Form::default();
        if head.method == Method::POST {
            form = form::read(&head.headers, body, uploads).await?;
            parameters = parameters.and(form.parameters);
        }
        let url = at.url(&head.headers);
        Ok(Self { method: head.method, parameters, uploads: form.uploads, caller, url })
    }
}
