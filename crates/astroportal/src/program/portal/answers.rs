//! What the portal's services say of themselves (VOSI 1.1), and what is wrong with an image, as a fault. It never says
//! whether the cloud answers.

use std::sync::Arc;

use axum::{
    extract::{Path, Request, State},
    response::Response,
};
use dali::{fault, typed};
use fits::ImageError;
use vo::{
    Fault,
    vosi::{self, Capability},
};

use super::Portal;

/// `capabilities` of a service.
pub(super) async fn capabilities(
    State(portal): State<Arc<Portal>>,
    Path(service): Path<String>,
    request: Request,
) -> Response {
    let url = portal.at.url(request.headers());
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
