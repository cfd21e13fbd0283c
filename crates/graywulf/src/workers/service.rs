//! `sector worker`: runs parts of queries beside a node. It is the web door with a room for the engine's own messages. Each
//! part reads with the rights of who asked the query. It never plans, and never keeps a row when its query has ended.

use std::{
    collections::VecDeque,
    sync::{Arc, Mutex, PoisonError, Weak},
};

use async_trait::async_trait;
use axum::{
    Json, Router,
    extract::{Path, Request, State},
    middleware::Next,
    response::{IntoResponse, Response},
    routing::get,
};
use client::{Client, Reason, SectorPath, UserName};
use dali::{Listen, bind, serve};
use datafusion::{
    error::Result,
    execution::{FunctionRegistry, SessionState, memory_pool::MemoryPool},
};
use datafusion_distributed::{DistributedExt, Worker, WorkerQueryContext, WorkerSessionBuilder};
use gateway::{Door, DoorCaller};
use http::{HeaderMap, StatusCode, header};
use terminal::{Failure, Global, show};

use super::{
    WorkerAddress,
    channels::Channels,
    messages::{QUERY_HEADER, READS_PATH, VERSION_PATH, WorkerReads, version},
};
use crate::{
    arguments::Worker as Arguments,
    crossmatch::MatchCodec,
    engine::{EngineSettings, memory_pool, runtime, sort_reserve_bytes},
    failure::TableFailure,
    sky,
    storage::{CloudStore, ReadCounts},
};

/// `sector worker`.
pub(crate) async fn run(cloud: &Client, arguments: &Arguments, global: &Global) -> Result<(), Failure> {
    let settings = arguments.room.settings(SectorPath::root())?;
    let listen = Listen { listen: arguments.listen, public: false, security: arguments.security.clone() };
    let server = bind(cloud, &listen).await?.with_streams_max(STREAMS_MAX);
    let (is_here, is_plain) = (arguments.listen.ip().is_loopback(), arguments.security.insecure_http);
    // An address comes with a part of a plan: what it is a login of must not go anywhere else than to workers.
    let may_reach = move |address: &WorkerAddress| match address.is_here() {
        true => is_here,
        false => address.is_tls() || is_plain,
    };
    let room = Arc::new(WorkerRoom {
        door: server.door(),
        memory: memory_pool(settings.memory_bytes),
        channels: Channels::new(arguments.workers_authority.as_deref(), Arc::new(may_reach))?,
        settings,
        queries: Mutex::default(),
    });
    let parts = Worker::from_session_builder(Sessions(Arc::clone(&room))).with_version(version());
    let layer = axum::middleware::from_fn_with_state(Arc::clone(&room), check_login);
    let parts = parts.into_worker_server().max_decoding_message_size(MESSAGE_BYTES_MAX);
    let parts = Router::new().route_service("/worker.WorkerService/{method}", parts).layer(layer);
    let server = server.with_signed_room(is_of_engine, parts);
    let url = server.url();
    if global.json {
        show::json(&serde_json::json!({ "url": url }))?;
    } else {
        show::line(format!("parts of queries at {url}"));
    }
    let others = Router::new()
        .route(VERSION_PATH, get(say_version))
        .route(&format!("{READS_PATH}/{{query}}"), get(say_reads))
        .with_state(room);
    serve(server, others, |_| std::future::ready(()), global).await
}

/// What all requests share.
struct WorkerRoom {
    door: Door,
    settings: EngineSettings,
    /// All parts together take this.
    memory: Arc<dyn MemoryPool>,
    /// To other workers, whose rows a part waits for.
    channels: Channels,
    queries: Mutex<VecDeque<KnownQuery>>,
}

/// A query of which parts run here, or did.
struct KnownQuery {
    user: UserName,
    name: String,
    store: Weak<CloudStore>,
    counts: Arc<ReadCounts>,
}

impl WorkerRoom {
    /// The user of a request. Nobody else gets any answer.
    async fn user(&self, headers: &HeaderMap) -> Result<(Client, UserName), Failure> {
        match self.door.caller(headers).await {
            Ok(DoorCaller { client, user: Some(user) }) => Ok((client, user)),
            Ok(DoorCaller { user: None, .. }) => Err(Failure::new(Reason::NotAuthenticated, "log in first")),
            Err(refusal) => Err(Failure::new(refusal.reason, refusal.message)),
        }
    }

    /// The files of a query: one view for all its parts here, so that no two of them read different versions.
    fn store(&self, client: Client, user: &UserName, query: &str) -> Arc<CloudStore> {
        let mut queries = self.queries.lock().unwrap_or_else(PoisonError::into_inner);
        let known = queries.iter().find(|known| known.user == *user && known.name == query);
        if let Some(store) = known.and_then(|known| known.store.upgrade()) {
            return store;
        }
        let store = Arc::new(CloudStore::new(client));
        if queries.len() >= QUERIES_MAX {
            // One of which no part runs any more, if there is any.
            let ended = queries.iter().position(|known| known.store.strong_count() == 0).unwrap_or_default();
            queries.remove(ended);
        }
        let (store_of, counts) = (Arc::downgrade(&store), Arc::clone(store.counts()));
        queries.push_back(KnownQuery { user: user.clone(), name: query.to_owned(), store: store_of, counts });
        store
    }

    fn reads(&self, user: &UserName, query: &str) -> Vec<WorkerReads> {
        let queries = self.queries.lock().unwrap_or_else(PoisonError::into_inner);
        let of_query = queries.iter().filter(|known| known.user == *user && known.name == query);
        of_query.flat_map(|known| known.counts.files()).map(WorkerReads::from).collect()
    }
}

/// Makes the engine of a part.
struct Sessions(Arc<WorkerRoom>);

#[async_trait]
impl WorkerSessionBuilder for Sessions {
    async fn build_session_state(&self, part: WorkerQueryContext) -> Result<SessionState> {
        let WorkerQueryContext { builder, headers } = part;
        let room = &self.0;
        let (client, user) = room.user(&headers).await.map_err(TableFailure::from)?;
        let query = headers.get(QUERY_HEADER).and_then(|name| name.to_str().ok()).unwrap_or_default();
        let store = room.store(client, &user, query);
        let runtime = runtime(&room.settings, Arc::clone(&room.memory), store)?;
        // Parts of other workers are asked for as the same user.
        let passed = [header::AUTHORIZATION, QUERY_HEADER];
        let passed = passed.into_iter().filter_map(|name| Some((name.clone(), headers.get(&name)?.clone())));
        let mut builder = builder
            .with_runtime_env(runtime)
            .with_distributed_channel_resolver(room.channels.clone())
            .with_distributed_user_codec(MatchCodec::default())
            .with_distributed_passthrough_headers(passed.collect())?;
        let config = builder.config().get_or_insert_default();
        config.options_mut().execution.sort_spill_reservation_bytes = sort_reserve_bytes(&room.settings);
        let mut state = builder.build();
        for function in sky::functions() {
            state.register_udf(Arc::new(function))?;
        }
        Ok(state)
    }
}

/// Whether a request is of the engine: its messages are of one kind, which the page never sends.
fn is_of_engine(request: &Request) -> bool {
    let kind = request.headers().get(header::CONTENT_TYPE).map(|kind| kind.as_bytes());
    kind.is_some_and(|kind| kind.starts_with(b"application/grpc"))
}

/// Lets only users in.
async fn check_login(State(room): State<Arc<WorkerRoom>>, request: Request, next: Next) -> Response {
    match room.user(request.headers()).await {
        Ok(_) => next.run(request).await,
        Err(failure) if failure.reason == Reason::NotAuthenticated => {
            tonic::Status::unauthenticated(failure.message).into_http::<axum::body::Body>()
        }
        Err(failure) => tonic::Status::unavailable(failure.message).into_http::<axum::body::Body>(),
    }
}

/// Why there is no answer to a request without a good login.
fn refused(failure: Failure) -> Response {
    let status = match failure.reason {
        Reason::NotAuthenticated => StatusCode::UNAUTHORIZED,
        _ => StatusCode::SERVICE_UNAVAILABLE,
    };
    (status, failure.message).into_response()
}

async fn say_version(State(room): State<Arc<WorkerRoom>>, headers: HeaderMap) -> Response {
    match room.user(&headers).await {
        Ok(_) => version().into_response(),
        Err(failure) => refused(failure),
    }
}

async fn say_reads(State(room): State<Arc<WorkerRoom>>, Path(query): Path<String>, headers: HeaderMap) -> Response {
    match room.user(&headers).await {
        Ok((_, user)) => Json(room.reads(&user, &query)).into_response(),
        Err(failure) => refused(failure),
    }
}

/// Requests at once on one connection: a query keeps one for each part, and one for each part's rows.
const STREAMS_MAX: u32 = 4096;
/// A plan with all its parts of a match. Rows of uploaded tables come with it.
const MESSAGE_BYTES_MAX: usize = 512 << 20;
/// Queries whose reads are remembered.
const QUERIES_MAX: usize = 256;
