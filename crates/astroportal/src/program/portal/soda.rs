//! SODA (1.0): one cutout at once, or many by a job. What lies outside of an image is answered with nothing (204). It
//! never holds a request of one user up for another's job.

use std::sync::Arc;

use axum::{
    extract::{Request, State},
    response::{IntoResponse, Response},
};
use client::Client;
use dali::{DaliRequest, JobFolder, typed};
use http::{HeaderName, HeaderValue, StatusCode, header};
use vo::{
    DaliParameters, Fault,
    uws::{JobResult, ResultSink, Service, UwsJob},
};

use super::{
    Portal,
    cut_order::CutOrder,
    cutter::{Cut, Cutter},
    index_cache::{self, IndexCache},
    tuple_job,
};

/// `/soda/sync`.
pub(super) async fn sync(State(portal): State<Arc<Portal>>, request: Request) -> Response {
    let cut = async {
        let asked = DaliRequest::read(&portal.at, request).await?;
        let order = CutOrder::one(&asked.parameters)?;
        let format = order.format;
        Ok((format, portal.cutter.cut(&asked.caller.client, order).await?))
    };
    match cut.await {
        Ok((format, Some(cut))) => file(format.media_type(), cut),
        Ok((_, None)) => StatusCode::NO_CONTENT.into_response(),
        Err(fault) => dali::fault(&fault),
    }
}

/// A cutout as something to save.
pub(super) fn file(media_type: &'static str, Cut { bytes, name, level }: Cut) -> Response {
    let mut response = typed(media_type, bytes);
    response.headers_mut().insert(LEVEL, u16::from(level.number()).into());
    if let Ok(name) = HeaderValue::from_str(&format!("inline; filename=\"{name}\"")) {
        response.headers_mut().insert(header::CONTENT_DISPOSITION, name);
    }
    response
}

/// `/soda/async` and all below it.
pub(super) async fn jobs(State(portal): State<Arc<Portal>>, request: Request) -> Response {
    let path = request.uri().path().trim_start_matches(JOBS).to_owned();
    let answered = async {
        let asked = DaliRequest::read(&portal.at, request).await?;
        let id = portal.at.door.new_name();
        let reply = dali::answer_jobs(&portal.jobs, JOBS, &path, asked, id).await?;
        dali::respond(reply, &portal.jobs.service().folder).await
    };
    answered.await.unwrap_or_else(|fault| dali::fault(&fault))
}

/// Does jobs of cutouts.
pub(super) struct Cutting {
    pub(super) cutter: Arc<Cutter>,
    pub(super) folder: JobFolder,
    index: Option<Arc<IndexCache>>,
}

impl Cutting {
    pub(super) fn new(cutter: Arc<Cutter>, folder: JobFolder, index: Option<Arc<IndexCache>>) -> Self {
        Self { cutter, folder, index }
    }

    /// The index.
    ///
    /// # Errors
    /// Where the portal has none.
    pub(super) fn index(&self) -> Result<&IndexCache, Fault> {
        index_cache::required(self.index.as_deref())
    }
}

impl Service for Cutting {
    type Caller = Client;

    fn check(&self, parameters: &DaliParameters) -> Result<(), Fault> {
        if let Some(table) = parameters.one(TUPLES)? {
            let table = tuple_job::read(table)?;
            return if table.placed.is_empty() { Ok(()) } else { self.index().map(drop) };
        }
        // A job may get its parameters later, one by one.
        match parameters.all("ID").next() {
            Some(_) => CutOrder::all(parameters).map(drop),
            None => Ok(()),
        }
    }

    async fn run(&self, caller: Client, job: UwsJob, results: ResultSink<Self>) -> Result<(), Fault> {
        let done = job.results.len();
        let parameters: DaliParameters = job.parameters.into_iter().collect();
        if let Some(table) = parameters.one(TUPLES)? {
            return tuple_job::run(self, &caller, (&job.id, done), tuple_job::read(table)?, &results).await;
        }
        let orders = CutOrder::all(&parameters)?;
        for (number, order) in orders.into_iter().enumerate().skip(done) {
            let (format, said) = (order.format, format!("{} {}", order.path, order.selection));
            let (media_type, bytes) = match self.cutter.cut(&caller, order).await {
                Ok(Some(cut)) => (format.media_type(), cut.bytes),
                Ok(None) => (TEXT, format!("no overlap: {said}").into_bytes()),
                // Nobody can cut with this login any more.
                Err(fault @ Fault::NotAuthenticated(_)) => return Err(fault),
                Err(fault) => (TEXT, fault.to_string().into_bytes()),
            };
            let ending = if media_type == TEXT { "txt" } else { format.ending() };
            let id = format!("cutout-{:05}.{ending}", number + 1);
            let length = bytes.len() as u64;
            self.folder.put_result(&job.id, &id, bytes).await?;
            results.add(JobResult { id, media_type: media_type.into(), bytes: length }).await?;
        }
        Ok(())
    }

    async fn save(&self, job: &UwsJob) -> Result<(), Fault> {
        self.folder.save(job).await
    }

    async fn remove(&self, id: &str) -> Result<(), Fault> {
        self.folder.remove(id).await
    }
}

/// The header with the level that a cutout was read from.
const LEVEL: HeaderName = HeaderName::from_static("x-sector-storage-level");
const JOBS: &str = "/soda/async";
/// The parameter with a table of tuples, as `sector images cutouts` takes it.
pub(super) const TUPLES: &str = "TUPLES";
const TEXT: &str = "text/plain";
