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
use dav_server::{DavHandler, DavMethod, DavMethodSet, davpath::DavPath};
use gateway::Door;
use http::{HeaderValue, Method, StatusCode, Uri, header};

use crate::{
    download::{SANDBOX, download},
    failure::DavFailure,
    files::CloudFiles,
    if_header, listing,
    locks::Locks,
    propfind,
    request::{DavRequest, Said, path_of},
    transfer::{CloudNotice, NOTICE_HEADER, Transfers},
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
        let notice = self.notice.clone();
        Router::new()
            .route(NOTICE_PATH, get(move || async move { axum::Json(notice) }))
            .route(PREFIX, any(answer))
            .route(&format!("{PREFIX}/"), any(answer))
            .route(&format!("{PREFIX}/{{*path}}"), any(answer))
            .with_state(self)
    }

    async fn answer(&self, mut request: Request) -> Result<Response, DavFailure> {
        let headers = request.headers_mut();
        headers.remove(header::COOKIE);
        // With it the protocol's crate would list whole trees.
        headers.remove("x-litmus");
        if_header::check(headers)?;
        let caller = self.door.caller(request.headers()).await?;
        let user = match &caller.user {
            Some(user) => user.to_string(),
            None if is_reading(request.method()) => String::new(),
            None => return Err(Refusal::new(Reason::NotAuthenticated, "log in with a name and a token").into()),
        };
        let (client, method) = (caller.client, request.method().clone());
        let path = path_in(request.uri())?;
        let about = self.transfers.answer(&client, &path, &method, request.headers()).await?;
        if let Some(answer) = about {
            return Ok(answer);
        }
        match method.as_str() {
            "GET" | "HEAD" => match download(&client, &path, &method, request.headers()).await {
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
            "LOCK" => may_write(&client, &path).await?,
            "PROPFIND" => {
                let about = DavRequest::new(client, Said::default());
                return propfind::answer(about, self.locks.clone(), PREFIX, path, request).await;
            }
            _ => {}
        }
        let destination = destination_in(&request);
        let said = Said::of(&method, request.headers(), &path, destination)?;
        Ok(self.by_the_standard(request, user, DavRequest::new(client, said)).await)
    }

    /// What the protocol's crate answers, with the cloud's own sentence where it failed.
    async fn by_the_standard(&self, request: Request, user: String, about: DavRequest) -> Response {
        let method = request.method().clone();
        let (head, body) = self.handler.handle_guarded(request, user, about.clone()).await.into_parts();
        if let Some(failure) =
            about.failure().filter(|_| head.status.is_client_error() || head.status.is_server_error())
        {
            // What the standard says of a status stays. Where the crate knows no better, the cloud does.
            let status = match head.status.as_u16() {
                403 | 500 | 502 | 507 => failure.status,
                // What is missing is the folder that is to hold it.
                404 if method == Method::PUT => StatusCode::CONFLICT,
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
fn path_in(uri: &Uri) -> Result<SectorPath, DavFailure> {
    let wrong = |error: &dyn std::fmt::Display| DavFailure::invalid(format!("`{uri}` is no path: {error}"));
    let mut path = DavPath::new(uri.path()).map_err(|error| wrong(&error))?;
    path.set_prefix(PREFIX).map_err(|error| wrong(&error))?;
    path_of(&path)
}

/// Where a copy or move within the cloud goes; the protocol's crate says what is wrong with it.
fn destination_in(request: &Request) -> Option<SectorPath> {
    let text = request.headers().get("destination")?.to_str().ok()?;
    path_in(&text.parse().ok()?).ok()
}

/// Refuses a lock to who may not write. Of what is not there, the folder counts.
async fn may_write(client: &Client, path: &SectorPath) -> Result<(), DavFailure> {
    let status = match (client.acl(path).await, path.parent()) {
        (Err(error), Some(folder)) if error.reason() == Reason::NotFound => client.acl(&folder).await?,
        (status, _) => status?,
    };
    if status.mine.has(Rights::WRITE) {
        return Ok(());
    }
    Err(Refusal::new(Reason::NoRight, format!("{} may not write `{path}`", client.user())).into())
}

/// Below it are the files.
const PREFIX: &str = "/dav";
/// Where other clouds learn how this one is reached.
const NOTICE_PATH: &str = "/.well-known/sector";
