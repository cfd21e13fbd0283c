//! `sector tap`: tables of the cloud for the programs of astronomers, in ADQL over TAP 1.1 (GrayWulf, sections 3 and 6; path
//! *query*). It is the web door with further rooms. It never acts with other rights than those of who sends a request.

mod answering;
mod capabilities;
mod catalogue;
mod jobs;
mod limits;
mod query;
mod requests;
mod running;
mod schemas;
mod service;

use std::sync::Arc;

use axum::{
    Router,
    routing::{any, get},
};
use client::{Client, SectorPath};
use dali::{Fetcher, JobFolder, Listen, ServiceAddress, bind, serve, sweep};
use terminal::{Failure, Global};
use tokio::sync::Semaphore;
use vo::{Timestamp, uws::Jobs};

use self::{
    catalogue::Catalogues,
    jobs::Querying,
    limits::{BASE, LIMITS},
    running::Queries,
    service::TapService,
};
use crate::arguments::Tap as Arguments;

/// `sector tap`.
pub(crate) async fn run(cloud: &Client, arguments: &Arguments, global: &Global) -> Result<(), Failure> {
    let mut settings = arguments.room.settings(SectorPath::root())?;
    // Each query has its share, so that one cannot take what others need.
    settings.memory_bytes /= AT_ONCE + LIMITS.running;
    let listen = Listen { listen: arguments.listen, public: arguments.public, security: arguments.security.clone() };
    let server = bind(cloud, &listen).await?;
    let folder = JobFolder::open(cloud.clone(), SectorPath::parse(&arguments.folder)?).await?;
    let kept = folder.load().await?;
    let catalogues = Catalogues::new(SectorPath::parse(&arguments.tables)?);
    let (fetcher, workers) = (Fetcher::new(&arguments.upload_from)?, arguments.workers.workers()?);
    let queries = Arc::new(Queries { settings, catalogues, fetcher, workers });
    let jobs = Jobs::new(Querying { queries: Arc::clone(&queries), folder }, LIMITS, kept);
    let service = Arc::new(TapService {
        address: ServiceAddress::of(&server),
        started: Timestamp::now(),
        queries,
        jobs: jobs.clone(),
        turns: Arc::new(Semaphore::new(AT_ONCE)),
    });
    let url = server.url();
    if global.json {
        terminal::show::json(&serde_json::json!({ "url": format!("{url}{BASE}") }))?;
    } else {
        terminal::show::line(format!("tables for programs at {url}{BASE}"));
    }
    serve(server, rooms(service), |stopping| sweep(jobs, stopping), global).await
}

/// All that it answers.
fn rooms(service: Arc<TapService>) -> Router {
    Router::new()
        .route("/tap/sync", any(requests::sync))
        .route("/tap/async", any(requests::jobs))
        .route("/tap/async/{*path}", any(requests::jobs))
        .route("/tap/tables", get(requests::tables))
        .route("/tap/tables/{name}", get(requests::table))
        .route("/tap/capabilities", get(requests::capabilities))
        .route("/tap/availability", get(requests::availability))
        .route("/tap/examples", get(requests::examples))
        .with_state(service)
}

/// Queries at once that run together.
const AT_ONCE: usize = 4;
