//! The room of WebDAV at a gateway: all below `/dav/`, and where other clouds learn how this one is reached. A login is a
//! user's name and a token. A cookie of the page counts for nothing here, since other sites' pages could use it. It never
//! lets a visitor of a public door change anything.

use axum::{
    Router,
    extract::{Request, State},
    response::{IntoResponse, Response},
    routing::{any, get},
};
use client::{Client, Cloud, Reason, Refusal, Rights, SectorPath};
use daemon::settings::GatewaySettings;
use dav_server::{DavHandler, DavMethod, DavMethodSet, davpath::DavPath, ls::DavLockSystem};
use gateway::Door;
use http::{HeaderMap, HeaderValue, Method, StatusCode, Uri, header};
use percent_encoding::utf8_percent_encode;

use crate::{
    download::{SANDBOX, download},
    failure::DavFailure,
    files::CloudFiles,
    listing,
    locks::Locks,
    propfind::{self, ESCAPED},
    request::{DavRequest, Said, path_of},
    strict_bodies, strict_headers,
    transfer::{CloudNotice, NOTICE_HEADER, Order, Transfers},
};

/// Answers requests of WebDAV. Clones are the same.
#[derive(Clone)]
pub struct DavRoom {
    door: Door,
    handler: DavHandler<DavRequest>,
    locks: Locks,
    transfers: Transfers,
    notice: CloudNotice,
}

impl DavRoom {
    /// Over the cloud of a gateway with these settings.
    ///
    /// # Errors
    /// If what the settings say of third-party copies cannot be.
    pub fn new(door: Door, cloud: &Cloud, settings: &GatewaySettings) -> Result<Self, String> {
        let mut methods = DavMethodSet::all();
        // Files are written whole.
        methods.remove(DavMethod::Patch);
        let locks = Locks::new(door.clone());
        let handler = DavHandler::builder()
            .strip_prefix(PREFIX)
            .filesystem(Box::new(CloudFiles))
            .locksystem(Box::new(locks.clone()))
            .methods(methods)
            .autoindex(true)
            .build_handler();
        let transfers = Transfers::new(settings)?;
        Ok(Self { door, handler, locks, transfers, notice: CloudNotice::of(cloud, PREFIX) })
    }

    /// Its addresses.
    pub fn router(self) -> Router {
        Router::new()
            .route(NOTICE_PATH, get(notice))
            .route(PREFIX, any(answer))
            .route(&format!("{PREFIX}/"), any(answer))
            .route(&format!("{PREFIX}/{{*path}}"), any(answer))
            .with_state(self)
    }

    async fn answer(&self, mut request: Request) -> Result<Response, DavFailure> {
        let headers = request.headers_mut();
        headers.remove(header::COOKIE);
        strict_headers::check(headers)?;
        let caller = self.door.caller(request.headers()).await?;
        let user = match &caller.user {
            Some(user) => user.to_string(),
            None if is_reading(request.method()) => String::new(),
            None => return Err(not_logged_in()),
        };
        let (client, method) = (caller.client, request.method().clone());
        let path = path_in(request.uri().path())?;
        if let Some(order) = Order::of(request.uri(), request.headers(), &method)? {
            self.check_locks(&user, &path, request.headers(), &order).await?;
            return self.transfers.answer(&client, &path, order).await;
        }
        let destination = destination_in(&method, &path, request.headers())?;
        match method.as_str() {
            "GET" | "HEAD" => match download(&client, caller.user.is_some(), &path, &method, request.headers()).await {
                // A folder: a page that lists it.
                Err(failure) if failure.status == StatusCode::METHOD_NOT_ALLOWED => {}
                answer => {
                    return answer.map(|mut answer| {
                        answer.headers_mut().insert(NOTICE_HEADER, HeaderValue::from_static(NOTICE_PATH));
                        answer
                    });
                }
            },
            "PUT" if request.headers().contains_key(header::CONTENT_RANGE) => {
                return Err(DavFailure::new(StatusCode::NOT_IMPLEMENTED, "a file is written whole: send all of it"));
            }
            "LOCK" => may_lock(&client, &path).await?,
            "UNLOCK" if !self.locks.are_of(&user, request.headers()) => {
                return Err(DavFailure::new(StatusCode::FORBIDDEN, "who has taken a lock gives it back"));
            }
            _ => {}
        }
        let (head, body) = request.into_parts();
        let request = Request::from_parts(head, strict_bodies::check(&method, body).await?);
        if method.as_str() == "PROPFIND" {
            let about = DavRequest::new(client, Said::default());
            return propfind::answer(about, (self.locks.clone(), user), PREFIX, path, request).await;
        }
        let said = Said::of(&method, request.headers(), &path, destination)?;
        Ok(self.by_the_standard(request, user, DavRequest::new(client, said)).await)
    }

    /// Refuses a copy from elsewhere to what somebody has locked, and conditions that nobody would look at.
    async fn check_locks(
        &self,
        user: &str,
        path: &SectorPath,
        headers: &HeaderMap,
        order: &Order,
    ) -> Result<(), DavFailure> {
        let tokens = strict_headers::lock_tokens(headers);
        let tokens = tokens
            .ok_or_else(|| DavFailure::invalid("a copy takes tokens of locks in `If`, and no other condition"))?;
        let lockable = DavPath::new(&utf8_percent_encode(path.as_str(), ESCAPED).to_string());
        let lockable = lockable.map_err(|error| DavFailure::invalid(error.to_string()))?;
        let locked = order.is_pull && self.locks.check(&lockable, Some(user), false, true, &tokens).await.is_err();
        if locked { Err(DavFailure::new(StatusCode::LOCKED, format!("`{path}` is locked"))) } else { Ok(()) }
    }

    /// What the protocol's crate answers, with the cloud's own sentence where it failed.
    async fn by_the_standard(&self, request: Request, user: String, about: DavRequest) -> Response {
        let method = request.method().clone();
        let (head, body) = self.handler.handle_guarded(request, user, about.clone()).await.into_parts();
        if let Some(failure) =
            about.failure().filter(|_| head.status.is_client_error() || head.status.is_server_error())
        {
            // What the standard says of a status stays. Where the crate knows no better, the cloud does.
            let status = match (method.as_str(), head.status.as_u16()) {
                // What is missing is the folder that is to hold it.
                ("PUT", _) if failure.status == StatusCode::NOT_FOUND => StatusCode::CONFLICT,
                ("PUT", _) | (_, 403 | 500 | 502 | 507) => failure.status,
                // That something exists is a condition of a write, but for a new folder.
                (method, 405) if method != "MKCOL" => failure.status,
                _ => head.status,
            };
            return DavFailure { status, ..failure }.into_response();
        }
        if let Some(message) = refusal_of(head.status) {
            return DavFailure::new(head.status, message).into_response();
        }
        let mut answer = Response::from_parts(head, listing::unless_cut(body, about));
        match method.as_str() {
            "OPTIONS" => {
                answer.headers_mut().insert("dav", HeaderValue::from_static("1,2"));
            }
            "GET" => {
                answer.headers_mut().insert(header::CONTENT_SECURITY_POLICY, HeaderValue::from_static(SANDBOX));
            }
            _ => {}
        }
        answer
    }
}

async fn answer(State(room): State<DavRoom>, request: Request) -> Response {
    room.answer(request).await.unwrap_or_else(IntoResponse::into_response)
}

/// What the protocol's crate refuses by a status alone.
fn refusal_of(status: StatusCode) -> Option<&'static str> {
    match status.as_u16() {
        400 => Some("the request makes no sense"),
        404 => Some("there is nothing"),
        405 => Some("that cannot be done with what is there"),
        409 => Some("the folder that is to hold it is missing"),
        412 => Some("a condition of the request does not hold"),
        415 => Some("the request has a body that nobody asked for"),
        423 => Some("it is locked"),
        _ => None,
    }
}

fn is_reading(method: &Method) -> bool {
    matches!(method.as_str(), "GET" | "HEAD" | "OPTIONS" | "PROPFIND")
}

/// The path that an address names.
fn path_in(address: &str) -> Result<SectorPath, DavFailure> {
    let wrong = |error: &dyn std::fmt::Display| DavFailure::invalid(format!("`{address}` is no path: {error}"));
    let mut path = DavPath::new(address).map_err(|error| wrong(&error))?;
    path.set_prefix(PREFIX).map_err(|error| wrong(&error))?;
    path_of(&path)
}

/// Where a copy or move within the cloud goes. What would take the place of itself, or of what holds it, is refused.
fn destination_in(method: &Method, path: &SectorPath, headers: &HeaderMap) -> Result<Option<SectorPath>, DavFailure> {
    if !matches!(method.as_str(), "COPY" | "MOVE") {
        return Ok(None);
    }
    let text = headers.get("destination").and_then(|text| text.to_str().ok());
    let text = text.ok_or_else(|| DavFailure::invalid("say where it goes by `Destination`"))?;
    // The protocol's crate reads it once more, in its own way: it must be an address to both.
    let uri: Uri = text.parse().map_err(|error| DavFailure::invalid(format!("`{text}` is no address: {error}")))?;
    let destination = path_in(uri.path()).map_err(|_| {
        DavFailure::new(StatusCode::BAD_GATEWAY, format!("`{text}` is not below `{PREFIX}` of this server"))
    })?;
    if path.is_within(&destination) {
        let message = format!("`{path}` would take the place of what holds it");
        return Err(DavFailure::new(StatusCode::FORBIDDEN, message));
    }
    Ok(Some(destination))
}

/// Refuses a lock to who may not write. Of what is not there, the folder counts. A folder is locked with what others have
/// in it, so by those alone who may say what others do there.
async fn may_lock(client: &Client, path: &SectorPath) -> Result<(), DavFailure> {
    let (entry, status) = match (client.find(path).await?, path.parent()) {
        (None, Some(folder)) => (None, client.acl(&folder).await?),
        (entry, _) => (entry, client.acl(path).await?),
    };
    let is_folder = entry.as_ref().is_some_and(client::namespace::is_folder);
    let needed = if is_folder { Rights::WRITE.and(Rights::ADMINISTER) } else { Rights::WRITE };
    if status.mine.has(needed) {
        return Ok(());
    }
    Err(Refusal::new(Reason::NoRight, format!("{} may not lock `{path}`", client.user())).into())
}

fn not_logged_in() -> DavFailure {
    Refusal::new(Reason::NotAuthenticated, "log in with a name and a token").into()
}

/// Tells a logged-in user, or another cloud with a user's login, how the cloud is reached.
async fn notice(State(room): State<DavRoom>, headers: HeaderMap) -> Response {
    match room.door.caller(&headers).await {
        Ok(caller) if caller.user.is_some() => axum::Json(room.notice).into_response(),
        Ok(_) => not_logged_in().into_response(),
        Err(refusal) => DavFailure::from(refusal).into_response(),
    }
}

/// Below it are the files.
const PREFIX: &str = "/dav";
/// Where other clouds learn how this one is reached.
const NOTICE_PATH: &str = "/.well-known/sector";
