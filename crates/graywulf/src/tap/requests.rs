//! What a TAP service answers over HTTP (TAP 1.1, 2): queries at once and as jobs, its tables, what it can do. It never
//! answers with text where the standard wants a VOTable.

use std::{collections::HashMap, sync::Arc, time::Duration};

use axum::{
    extract::{Path, Request, State},
    response::{IntoResponse, Response},
};
use dali::{DaliRequest, answer_jobs, fault as text_fault, respond, typed};
use http::{Method, StatusCode, header};
use tokio::time::{Instant, timeout, timeout_at};
use vo::{
    Fault,
    uws::{Phase, Reply},
    vosi::{self, table_document, tableset},
    votable::Table,
};

use super::{
    answering::{Question, answer, too_long},
    capabilities::{self, EXAMPLES_TYPE},
    limits::{BASE, SYNC_LIMIT, UPLOAD_BYTES_MAX},
    query::{TapQuery, UploadedFrom, UploadedTable, uploads},
    running::Uploads,
    schemas::schemas,
    service::TapService,
};

/// `/tap/sync`.
pub(super) async fn sync(State(service): State<Arc<TapService>>, request: Request) -> Response {
    let ends = Instant::now() + SYNC_LIMIT;
    let started = async {
        let asked = DaliRequest::read_with_uploads(&service.address, request, UPLOAD_BYTES_MAX).await?;
        let query = TapQuery::read(&asked.parameters)?;
        let turn = timeout(TURN_PATIENCE, Arc::clone(&service.turns).acquire_owned()).await;
        let busy = || Fault::Unavailable("too many queries run: try later, or as a job".into());
        let turn = turn.map_err(|_| busy())?.map_err(|_| busy())?;
        let mut uploads: Uploads = HashMap::new();
        let mut room = UPLOAD_BYTES_MAX;
        for UploadedTable { table, from } in &query.uploads {
            let document = match from {
                UploadedFrom::Part(part) => {
                    let sent = asked.uploads.iter().find(|sent| sent.name == *part);
                    sent.ok_or_else(|| missing_part(part))?.bytes.clone()
                }
                UploadedFrom::Url(url) => {
                    // The turn is held meanwhile.
                    let fetching = service.queries.fetcher.fetch(url, room);
                    timeout_at(ends, fetching).await.map_err(|_| too_long())??.into()
                }
            };
            room = room.saturating_sub(document.len());
            uploads.insert(table.clone(), document);
        }
        let user = asked.caller.user.as_ref().map(ToString::to_string);
        let media_type = query.format.media_type;
        let question = Question { client: asked.caller.client, user, query, uploads, ends, turn };
        Ok((media_type, answer(Arc::clone(&service.queries), question).await?))
    };
    match started.await {
        Ok((media_type, body)) => ([(header::CONTENT_TYPE, media_type)], body).into_response(),
        Err(fault) => document_fault(&fault),
    }
}

fn missing_part(part: &str) -> Fault {
    Fault::Usage(format!("UPLOAD: the form has no file `{part}`"))
}

/// `/tap/async` and all below it.
pub(super) async fn jobs(State(service): State<Arc<TapService>>, request: Request) -> Response {
    let path = request.uri().path().trim_start_matches(JOBS).to_owned();
    let answered = async {
        let asked = DaliRequest::read_with_uploads(&service.address, request, UPLOAD_BYTES_MAX).await?;
        let new_job = service.address.door.new_name();
        let is_post = asked.method == Method::POST;
        let folder = &service.jobs.service().folder;
        let mut words = path.split('/').filter(|word| !word.is_empty());
        let named = words.next().map(str::to_owned);
        if is_post {
            let owner = asked.caller.user.as_ref().map(ToString::to_string);
            if let Some(job) = &named {
                let phase = service.jobs.get(job, owner.as_deref())?.phase;
                if !asked.uploads.is_empty() && phase != Phase::Pending {
                    return Err(Fault::NotAuthorized(format!("the job is {phase}, and is not changed any more")));
                }
            }
            let job = named.as_deref().unwrap_or(&new_job);
            for upload in uploads(&asked.parameters)? {
                // A link is followed when the job runs.
                let UploadedFrom::Part(part) = upload.from else { continue };
                if let Some(sent) = asked.uploads.iter().find(|sent| sent.name == part) {
                    folder.put_upload(job, &part, sent.bytes.clone()).await?;
                } else if named.is_none() {
                    return Err(missing_part(&part));
                }
            }
        }
        let is_error = words.next() == Some("error");
        let has_uploads = !asked.uploads.is_empty();
        let reply = answer_jobs(&service.jobs, JOBS, &path, asked, new_job.clone()).await;
        if reply.is_err() && named.is_none() && has_uploads {
            // Nobody will ask for what a job that was refused has brought.
            let _ = folder.remove(&new_job).await;
        }
        match reply? {
            // What went wrong is a VOTable, too (TAP 1.1, 3.3).
            Reply::Text(why) if is_error && !why.is_empty() => Ok(typed(VOTABLE, Table::error_document(&why))),
            reply => respond(reply, folder).await,
        }
    };
    answered.await.unwrap_or_else(|fault: Fault| text_fault(&fault))
}

/// `/tap/tables`.
pub(super) async fn tables(State(service): State<Arc<TapService>>, request: Request) -> Response {
    match all_schemas(&service, request).await {
        Ok(schemas) => typed("text/xml", tableset(&schemas)),
        Err(fault) => text_fault(&fault),
    }
}

/// `/tap/tables/NAME`.
pub(super) async fn table(
    State(service): State<Arc<TapService>>,
    Path(name): Path<String>,
    request: Request,
) -> Response {
    let found = async {
        let schemas = all_schemas(&service, request).await?;
        let mut tables = schemas.into_iter().flat_map(|schema| schema.tables);
        let table = tables.find(|table| table.name == name);
        table.ok_or_else(|| Fault::NotFound(format!("there is no table `{name}`")))
    };
    match found.await {
        Ok(table) => typed("text/xml", table_document(&table)),
        Err(fault) => text_fault(&fault),
    }
}

async fn all_schemas(service: &TapService, request: Request) -> Result<Vec<vosi::SchemaDescription>, Fault> {
    let asked = DaliRequest::read(&service.address, request).await?;
    let user = asked.caller.user.as_ref().map(ToString::to_string);
    let catalogue = service.queries.catalogues.of(&asked.caller.client, user.as_deref()).await?;
    Ok(schemas(&catalogue))
}

/// `/tap/capabilities`.
pub(super) async fn capabilities(State(service): State<Arc<TapService>>, request: Request) -> Response {
    let url = format!("{}{BASE}", service.address.url(request.headers()));
    typed("text/xml", capabilities::document(&url))
}

/// `/tap/availability`. Whether the cloud answers is not asked: its master may take its time.
pub(super) async fn availability(State(service): State<Arc<TapService>>) -> Response {
    typed("text/xml", vosi::availability(service.started, None))
}

/// `/tap/examples`.
pub(super) async fn examples() -> Response {
    typed(EXAMPLES_TYPE, capabilities::examples())
}

/// A fault as a service of tables says it (DALI 1.1, 4.4).
fn document_fault(fault: &Fault) -> Response {
    if fault.status() == StatusCode::UNAUTHORIZED {
        return text_fault(fault);
    }
    let document = Table::error_document(&fault.to_string());
    (fault.status(), [(header::CONTENT_TYPE, VOTABLE)], document).into_response()
}

const JOBS: &str = "/tap/async";
const VOTABLE: &str = "application/x-votable+xml";
/// How long it waits for its turn.
const TURN_PATIENCE: Duration = Duration::from_secs(10);
