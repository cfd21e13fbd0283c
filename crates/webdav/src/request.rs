//! One request: who sends it, what it says of entity tags, and what has gone wrong so far. The protocol's crate knows errors
//! of a few kinds alone, so the cloud's own sentence waits here for the answer. It never outlives its request.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use client::{Client, ClientError, SectorPath};
use dav_server::{
    davpath::DavPath,
    fs::{FsError, FsResult},
};
use http::{HeaderMap, Method, StatusCode, header};

use crate::{
    digests::Announced,
    failure::{DavFailure, flow},
};

/// A request as the file system sees it.
#[derive(Clone)]
pub(crate) struct DavRequest {
    pub(crate) client: Client,
    pub(crate) said: Arc<Said>,
    notes: Arc<Mutex<Notes>>,
}

/// What a request says.
#[derive(Default)]
pub(crate) struct Said {
    /// Tags of which the file must have one, if there are any.
    pub(crate) if_match: Vec<String>,
    /// What goes as a whole, with all that is below it: what is deleted, or what a copy takes the place of.
    pub(crate) removed: Option<SectorPath>,
    /// Whether something takes the place of `removed` at once.
    pub(crate) is_replaced: bool,
    /// Whether a file that is there may be replaced.
    pub(crate) may_replace: bool,
    /// Sums that the bytes must have.
    pub(crate) announced: Announced,
}

#[derive(Default)]
struct Notes {
    failure: Option<DavFailure>,
    /// Why a list of entries is not whole.
    cut: Option<String>,
    /// A file that stays until what replaces it takes its place.
    waiting_removal: Option<SectorPath>,
}

impl Said {
    /// What the headers of a request to a path say.
    pub(crate) fn of(
        method: &Method,
        headers: &HeaderMap,
        path: &SectorPath,
        destination: Option<SectorPath>,
    ) -> Result<Self, DavFailure> {
        let text = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
        let removed = match method.as_str() {
            // By itself alone.
            "DELETE" if text("depth") == Some("0") => None,
            "DELETE" => Some(path.clone()),
            "COPY" | "MOVE" => destination,
            _ => None,
        };
        Ok(Self {
            if_match: tags_in(headers),
            removed,
            is_replaced: method != Method::DELETE,
            may_replace: text("overwrite") != Some("F"),
            announced: Announced::of(headers).map_err(DavFailure::invalid)?,
        })
    }
}

/// The tags that `If-Match` names. With `*` any would do. A weak one never matches.
pub(crate) fn tags_in(headers: &HeaderMap) -> Vec<String> {
    let list = headers.get(header::IF_MATCH).and_then(|list| list.to_str().ok()).filter(|list| list.trim() != "*");
    let tags = list.into_iter().flat_map(|list| list.split(','));
    tags.map(|tag| tag.trim().trim_matches('"').to_owned()).collect()
}

impl DavRequest {
    pub(crate) fn new(client: Client, said: Said) -> Self {
        Self { client, said: Arc::new(said), notes: Arc::default() }
    }

    fn notes(&self) -> MutexGuard<'_, Notes> {
        // Nothing panics while it holds them.
        self.notes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Keeps the cloud's sentence for the answer, and gives what the protocol's crate must know.
    pub(crate) fn failed(&self, error: &ClientError) -> FsError {
        self.refuse(error.into());
        flow(error.reason())
    }

    /// Keeps what the answer is to say.
    pub(crate) fn refuse(&self, failure: DavFailure) {
        self.notes().failure = Some(failure);
    }

    /// What a failed answer says.
    pub(crate) fn failure(&self) -> Option<DavFailure> {
        self.notes().failure.clone()
    }

    /// A list ends too early.
    pub(crate) fn cut(&self, error: &ClientError) {
        self.notes().cut = Some(error.to_string());
    }

    /// Why a list that was sent is not whole.
    pub(crate) fn why_cut(&self) -> Option<String> {
        self.notes().cut.clone()
    }

    /// Lets a file stay until what replaces it takes its place.
    pub(crate) fn postpone_removal(&self, path: &SectorPath) {
        self.notes().waiting_removal = Some(path.clone());
    }

    /// Whether a file is to be replaced by what comes now.
    pub(crate) fn take_removal(&self, path: &SectorPath) -> bool {
        let mut notes = self.notes();
        let is_waiting = notes.waiting_removal.as_ref() == Some(path);
        if is_waiting {
            notes.waiting_removal = None;
        }
        is_waiting
    }

    /// The path of a resource.
    pub(crate) fn path(&self, path: &DavPath) -> FsResult<SectorPath> {
        path_of(path).map_err(|failure| {
            self.refuse(failure);
            FsError::GeneralFailure
        })
    }
}

/// The path of a resource, if it may be one.
pub(crate) fn path_of(path: &DavPath) -> Result<SectorPath, DavFailure> {
    let text = std::str::from_utf8(path.as_bytes()).map_err(|_| DavFailure::invalid("a name is not UTF-8"))?;
    SectorPath::parse(text).map_err(|error| DavFailure::new(StatusCode::BAD_REQUEST, error.to_string()))
}
