//! `sector portal`: cutouts for hundreds at once, over HTTP and in the words of the Virtual Observatory (AstroPortal report,
//! 4; path *portal*). It is the web door with further rooms: SODA for cutouts, SIA for discovery, DataLink between
//! them. People have a page and a short address. It never acts with other rights than those of who sends a request.

mod answers;
mod coverage;
mod cut_order;
mod cutter;
mod datalink;
mod discovery;
mod hot_images;
mod image_source;
mod index_cache;
mod list_preview;
mod obscore_table;
mod open_images;
mod page;
mod short_address;
mod soda;
mod status;
mod tuple_job;

use std::{sync::Arc, time::Duration};

use axum::{
    Router,
    routing::{any, get, post},
};
use client::{Client, SectorPath};
use dali::{JobFolder, Listen, ServiceAddress};
use terminal::{Failure, Global};
use vo::{
    Timestamp,
    uws::{Jobs, JobsLimits},
};

use self::{cutter::Cutter, hot_images::HotImages, index_cache::IndexCache, soda::Cutting};
use crate::arguments::Portal as Arguments;

/// What all requests share.
pub(crate) struct Portal {
    at: ServiceAddress,
    started: Timestamp,
    index: Option<Arc<IndexCache>>,
    coverage: coverage::Coverage,
    cutter: Arc<Cutter>,
    jobs: Jobs<Cutting>,
}

/// `sector portal`.
pub(crate) async fn run(cloud: &Client, arguments: &Arguments, global: &Global) -> Result<(), Failure> {
    let listen = Listen { listen: arguments.listen, public: arguments.public, security: arguments.security.clone() };
    let server = dali::bind(cloud, &listen).await?;
    let cutter = Arc::new(Cutter::new(hot_images(arguments)?));
    let folder = JobFolder::open(cloud.clone(), SectorPath::parse(&arguments.folder)?).await?;
    let kept = folder.load().await?;
    let index =
        arguments.index.as_deref().map(SectorPath::parse).transpose()?.map(|folder| Arc::new(IndexCache::new(folder)));
    let jobs = Jobs::new(Cutting::new(Arc::clone(&cutter), folder, index.clone()), LIMITS, kept);
    let portal = Arc::new(Portal {
        at: ServiceAddress::of(&server),
        started: Timestamp::now(),
        index,
        coverage: coverage::Coverage::default(),
        cutter,
        jobs: jobs.clone(),
    });
    announce(&server.url(), global)?;
    dali::serve(server, rooms(portal), |stopping| dali::sweep(jobs, stopping), global).await
}

/// Where images are kept that are asked for often, if anywhere.
fn hot_images(arguments: &Arguments) -> Result<Option<HotImages>, Failure> {
    let Some(folder) = &arguments.hot else { return Ok(None) };
    let opened = HotImages::open(folder, arguments.hot_room.as_u64());
    opened.map(Some).map_err(|error| Failure::local("keep images in", folder, &error))
}

/// Says where it is, to people and to programs that wait for it.
fn announce(url: &str, global: &Global) -> Result<(), Failure> {
    if global.json {
        return terminal::show::json(&serde_json::json!({ "url": url }));
    }
    terminal::show::line(format!("portal at {url}/portal/, for programs {url}/soda, /sia2, /datalink, /cutout"));
    Ok(())
}

/// All that it answers.
fn rooms(portal: Arc<Portal>) -> Router {
    Router::new()
        .route("/soda/sync", any(soda::sync))
        .route("/soda/async", any(soda::jobs))
        .route("/soda/async/{*path}", any(soda::jobs))
        .route("/sia2/query", any(discovery::query))
        .route("/datalink/links", any(datalink::links))
        .route("/cutout", any(short_address::cutout))
        .route("/portal", get(page::to_folder))
        .route("/portal/", get(page::index))
        .route("/portal/coverage", get(coverage::coverage))
        .route("/portal/list", post(list_preview::list))
        .route("/portal/part", get(list_preview::part))
        .route("/portal/status", get(status::status))
        .route("/portal/{file}", get(page::file))
        .route("/{service}/capabilities", any(answers::capabilities))
        .route("/{service}/availability", any(answers::availability))
        .with_state(portal)
}

const LIMITS: JobsLimits = JobsLimits {
    running: 4,
    kept: 100_000,
    parameter_bytes: 256 << 20,
    active_of_owner: 100,
    life: (Duration::from_secs(7 * 86_400), Duration::from_secs(30 * 86_400)),
    execution: (Duration::from_secs(3_600), Duration::from_secs(86_400)),
};
