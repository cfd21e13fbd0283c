//! Jobs over the web door: from a request to what the list of jobs says, and from that to an answer. It never decides
//! whose a job is.

use axum::{
    body::Body,
    response::{IntoResponse, Response},
};
use client::Client;
use http::{HeaderValue, StatusCode, header};
use vo::{
    Fault,
    uws::{Jobs, Reply, Service},
};

use crate::{DaliRequest, JobFolder, typed};

/// What the jobs at `base`, a path below the service's URL, say to a request for `path` below them. `id` is the name of
/// a job that it may make. Files that came with it are the service's to keep before.
///
/// # Errors
/// What is wrong with it.
pub async fn answer_jobs<S: Service<Caller = Client>>(
    jobs: &Jobs<S>,
    base: &str,
    path: &str,
    request: DaliRequest,
    id: String,
) -> Result<Reply, Fault> {
    let DaliRequest { method, parameters, caller, url, .. } = request;
    let owner = caller.user.as_ref().map(ToString::to_string);
    let caller = (owner.as_deref(), caller.client);
    jobs.answer((&method, path), &format!("{url}{base}"), parameters, caller, id).await
}

/// A reply as an answer. Results come from the folder of jobs, piece by piece.
///
/// # Errors
/// If a result cannot be opened.
pub async fn respond(reply: Reply, folder: &JobFolder) -> Result<Response, Fault> {
    Ok(match reply {
        Reply::See(url) => (StatusCode::SEE_OTHER, [(header::LOCATION, url)]).into_response(),
        Reply::Xml(document) => typed("text/xml", document),
        Reply::Text(line) => typed("text/plain; charset=utf-8", line.into_bytes()),
        Reply::Result { job, id, media_type } => {
            let (bytes, content) = folder.open_result(&job, &id).await?;
            let mut response = Body::from_stream(content).into_response();
            let headers = response.headers_mut();
            headers.insert(header::CONTENT_LENGTH, bytes.into());
            if let Ok(kind) = HeaderValue::from_str(&media_type) {
                headers.insert(header::CONTENT_TYPE, kind);
            }
            response
        }
    })
}
