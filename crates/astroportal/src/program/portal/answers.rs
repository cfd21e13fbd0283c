//! From a request to who asks and what, and from what is made to an answer. It never knows a service.

use std::sync::Arc;

use axum::{
    body::{Body, to_bytes},
    extract::{Path, Request, State},
    response::{IntoResponse, Response},
};
use client::{ClientError, Reason, Refusal};
use fits::ImageError;
use gateway::DoorCaller;
use http::{HeaderMap, HeaderValue, Method, StatusCode, header};
use tokio::sync::{Semaphore, SemaphorePermit};
use vo::{
    DaliParameters, Fault,
    vosi::{self, Capability},
};

use super::Portal;

/// A request that was read.
pub(super) struct Asked {
    pub(super) method: Method,
    /// What was asked for below the route.
    pub(super) parameters: DaliParameters,
    pub(super) caller: DoorCaller,
    /// The portal's address as this client knows it.
    pub(super) url: String,
}

impl Asked {
    /// Reads a request: its query, a form in its body, and who sends it.
    pub(super) async fn read(portal: &Portal, request: Request) -> Result<Self, Fault> {
        let (head, body) = request.into_parts();
        let caller = portal.door.caller(&head.headers).await.map_err(of_refusal)?;
        let mut parameters = DaliParameters::parse(head.uri.query().unwrap_or_default());
        if head.method == Method::POST {
            let is_form = content_type(&head.headers).is_none_or(|kind| kind.starts_with(FORM));
            let _room = large_form(&head.headers)?;
            let bytes = to_bytes(body, FORM_BYTES_MAX).await;
            let bytes = bytes.map_err(|_| Fault::TooLarge(format!("a form has at most {FORM_BYTES_MAX} bytes")))?;
            if !is_form && !bytes.is_empty() {
                return Err(Fault::Usage(format!("parameters in a body are of type {FORM}")));
            }
            parameters = parameters.and(DaliParameters::parse(&String::from_utf8_lossy(&bytes)));
        }
        let url = url_of(portal, &head.headers);
        Ok(Self { method: head.method, parameters, caller, url })
    }
}

/// Room in memory for a form that is larger than usual, until it is read and dropped.
fn large_form(headers: &HeaderMap) -> Result<Option<SemaphorePermit<'static>>, Fault> {
    let length = headers.get(header::CONTENT_LENGTH).and_then(|length| length.to_str().ok()?.parse::<usize>().ok());
    if length.is_some_and(|length| length <= FORM_BYTES_USUAL) {
        return Ok(None);
    }
    let permit = LARGE_FORMS.try_acquire();
    permit.map(Some).map_err(|_| Fault::Unavailable("too many large lists come at once: send it again".into()))
}

fn content_type(headers: &HeaderMap) -> Option<&str> {
    headers.get(header::CONTENT_TYPE)?.to_str().ok()
}

/// The portal's address as the sender of a request knows it.
fn url_of(portal: &Portal, headers: &HeaderMap) -> String {
    let is_name = |text: &&str| text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b".-:[]".contains(&byte));
    let host = headers.get(header::HOST).and_then(|host| host.to_str().ok()).filter(is_name);
    let scheme = if portal.door.is_tls() { "https" } else { "http" };
    format!("{scheme}://{}", host.unwrap_or(&portal.address))
}

/// A fault as SODA answers it: text.
pub(super) fn fault(fault: &Fault) -> Response {
    let kind = (header::CONTENT_TYPE, "text/plain; charset=utf-8");
    let mut response = (fault.status(), [kind], fault.to_string()).into_response();
    if fault.status() == StatusCode::UNAUTHORIZED {
        let challenge = HeaderValue::from_static("Basic realm=\"sector\"");
        response.headers_mut().insert(header::WWW_AUTHENTICATE, challenge);
    }
    response
}

/// Bytes of a type.
pub(super) fn typed(media_type: &'static str, bytes: Vec<u8>) -> Response {
    ([(header::CONTENT_TYPE, media_type)], Body::from(bytes)).into_response()
}

/// `capabilities` of a service.
pub(super) async fn capabilities(
    State(portal): State<Arc<Portal>>,
    Path(service): Path<String>,
    request: Request,
) -> Response {
    let url = url_of(&portal, request.headers());
    let own: &[(&str, &str)] = match service.as_str() {
        "soda" => &[("ivo://ivoa.net/std/SODA#sync-1.0", "sync"), ("ivo://ivoa.net/std/SODA#async-1.0", "async")],
        "sia2" => &[("ivo://ivoa.net/std/SIA#query-2.0", "query")],
        "datalink" => &[("ivo://ivoa.net/std/DataLink#links-1.1", "links")],
        _ => return fault(&Fault::NotFound(format!("there is no service `{service}`"))),
    };
    let vosi = [(vosi::CAPABILITIES_ID, "capabilities"), (vosi::AVAILABILITY_ID, "availability")];
    let at = |(standard_id, at): (&'static str, &str)| Capability {
        standard_id,
        access_url: format!("{url}/{service}/{at}"),
    };
    let all: Vec<_> = own.iter().copied().chain(vosi).map(at).collect();
    typed("text/xml", vosi::capabilities(&all))
}

/// `availability` of a service. Whether the cloud answers is not asked: its master may take its time.
pub(super) async fn availability(State(portal): State<Arc<Portal>>, Path(service): Path<String>) -> Response {
    if !SERVICES.contains(&service.as_str()) {
        return fault(&Fault::NotFound(format!("there is no service `{service}`")));
    }
    typed("text/xml", vosi::availability(portal.started, None))
}

/// What the cloud refused.
pub(super) fn of_refusal(Refusal { reason, message }: Refusal) -> Fault {
    of_reason(reason, message)
}

/// What went wrong in the cloud.
pub(super) fn of_client(error: &ClientError) -> Fault {
    of_reason(error.reason(), error.to_string())
}

fn of_reason(reason: Reason, message: String) -> Fault {
    match reason {
        Reason::NotAuthenticated => Fault::NotAuthenticated(message),
        Reason::NoRight | Reason::NotPermitted => Fault::NotAuthorized(message),
        Reason::NotFound => Fault::NotFound(message),
        Reason::Invalid | Reason::IsFolder | Reason::NotFolder => Fault::Usage(message),
        Reason::Unavailable
        | Reason::Rebuilding
        | Reason::NoCopy
        | Reason::Busy
        | Reason::LimitReached
        | Reason::TooManyRequests { .. }
        | Reason::LockedOut { .. } => Fault::Unavailable(message),
        Reason::Failed
        | Reason::Corrupt
        | Reason::Exists
        | Reason::NotEmpty
        | Reason::LeaseHeld { .. }
        | Reason::LeaseEnded
        | Reason::InUse
        | Reason::JobEnded
        | Reason::VersionChanged { .. }
        | Reason::QuotaExceeded
        | Reason::NoSpace => Fault::Failed(message),
    }
}

/// What is wrong with an image, or with what is asked of it.
pub(super) fn of_image(path: &str, error: &ImageError) -> Fault {
    let message = format!("`{path}`: {error}");
    match error {
        ImageError::Usage(_) | ImageError::NoSky(_) | ImageError::NoOverlap(_) => Fault::Usage(message),
        ImageError::NoImage(_) => Fault::NotFound(message),
        ImageError::TooLarge { .. } => Fault::TooLarge(message),
        ImageError::Damaged { .. } => Fault::Failed(message),
        ImageError::Read(_) => Fault::Unavailable(message),
    }
}

const SERVICES: [&str; 3] = ["soda", "sia2", "datalink"];
const FORM: &str = "application/x-www-form-urlencoded";
/// A list of some 300,000 rows.
const FORM_BYTES_MAX: usize = 32 << 20;
/// A thousand circles have some tens of kilobytes.
const FORM_BYTES_USUAL: usize = 256 << 10;
/// Larger forms that are read at once.
static LARGE_FORMS: Semaphore = Semaphore::const_new(8);
