//! Names agree with the slow and obvious model. Every change is answered as the model answers it. The master's answers
//! about a region agree with one of its possible trees. (`docs/semantics.md`: names and listings.) A check never
//! changes anything in the cloud.

use std::collections::BTreeMap;

use protocol::{
    SectorPath, Status,
    message::{
        client_master::{ClientReply, ClientRequest, Entry, EntryKind},
        request::{ListRequest, StatRequest, UsageRequest},
    },
};

use super::recovery;
use crate::{
    ViolationKind,
    environment::Environment,
    model::{Change, Contents, Item, Outcome, Tree},
};

/// A question about a region's names.
#[derive(Clone, Debug)]
pub(crate) enum NameQuery {
    Stat(SectorPath),
    List(SectorPath),
    Usage(SectorPath),
}

impl NameQuery {
    /// A random question about a region.
    pub(crate) fn draw(env: &mut Environment, region: usize) -> Self {
        let root = env.model.regions[region].root.clone();
        let tree = env.model.regions[region].possible()[0].clone();
        let known: Vec<_> = tree.0.keys().collect();
        let at = if known.is_empty() { root.clone() } else { known[env.rng.usize(..known.len())].clone() };
        match env.rng.u8(..4) {
            0 => Self::Stat(at),
            1 => Self::Usage(at),
            _ => Self::List(root),
        }
    }

    /// The question in the words of the client.
    pub(crate) fn request(&self) -> ClientRequest {
        match self {
            Self::Stat(path) => ClientRequest::Stat(StatRequest(path.clone())),
            Self::Usage(path) => ClientRequest::Usage(UsageRequest(path.clone())),
            Self::List(folder) => ClientRequest::List(ListRequest {
                folder: folder.clone(),
                recursive: true,
                after: None,
                with_nodes: false,
            }),
        }
    }
}

/// A change of a region is about to be asked for.
pub(crate) fn begin(env: &mut Environment, region: usize, change: &Change) {
    let now = env.now.monotonic;
    match &mut env.model.recovered {
        Some(recovered) => recovered.begin(change),
        None => env.model.regions[region].begin(now, change),
    }
}

/// A change of a region has ended.
pub(crate) fn end(env: &mut Environment, region: usize, change: &Change, outcome: Outcome) {
    let now = env.now.monotonic;
    if let (Change::Put { path, content, .. }, Outcome::Done) = (change, outcome) {
        env.model.acknowledge(now, path, *content);
    }
    if let Some(recovered) = &mut env.model.recovered {
        return recovered.end(change, outcome);
    }
    if let Err(message) = env.model.regions[region].end(now, change, outcome) {
        env.violate(ViolationKind::Safety, message);
    }
}

/// The master answered a question about a region.
pub(crate) fn check_query(env: &mut Environment, region: usize, look: &NameQuery, reply: &ClientReply) {
    if env.model.recovered.is_some() {
        return recovery::check_reply(env, reply);
    }
    let (now, contents) = (env.now.monotonic, &env.model.contents);
    let agrees = |tree: &Tree| match (look, reply) {
        (NameQuery::Stat(path), ClientReply::Status(status)) => {
            status.entry.path == *path && tree.0.get(path) == item_of(contents, &status.entry).as_ref()
        }
        (NameQuery::Usage(path), ClientReply::Usage(usage)) => {
            let bytes_of = |content| contents.get(content).bytes.len() as u64;
            tree.0.contains_key(path) && tree.usage(path, bytes_of) == *usage
        }
        (NameQuery::List(folder), ClientReply::Page(page)) => {
            let listed: BTreeMap<_, _> =
                page.entries.iter().map(|entry| (entry.path.clone(), item_of(contents, entry))).collect();
            let known = tree.below(folder).into_iter().map(|path| (path.clone(), tree.0.get(&path).copied()));
            tree.0.contains_key(folder) && listed == known.collect()
        }
        (NameQuery::Stat(path) | NameQuery::Usage(path) | NameQuery::List(path), ClientReply::Refused(refusal)) => {
            refusal.status() == Status::NotFound && !tree.0.contains_key(path)
        }
        _ => false,
    };
    if let Err(message) = env.model.regions[region].observe(now, agrees) {
        env.violate(ViolationKind::Safety, format!("{look:?} was answered with {reply:?}, but {message}"));
    }
}

/// An entry in the terms of the model; `None` for a content that nobody wrote.
pub(crate) fn item_of(contents: &Contents, entry: &Entry) -> Option<Item> {
    match &entry.kind {
        EntryKind::Folder => Some(Item::Folder),
        EntryKind::File(file) => contents.find(file.digest).map(Item::File),
    }
}
