//! Properties that clients make up, which are kept for them (RFC 4918, 4). They lie in a file's user metadata, and so go
//! with it into copies and the trash. Folders have none. It never changes what others keep there.

use std::collections::BTreeMap;

use client::{ClientError, Entry, SectorPath};
use dav_server::fs::DavProp;
use http::StatusCode;

use crate::{digests::content_of, request::DavRequest};

/// A property's key. A namespace has no blank in it.
fn key_of(prop: &DavProp) -> String {
    format!("{KEY_PREFIX}{} {}", prop.namespace.as_deref().unwrap_or_default(), prop.name)
}

/// Sets and removes properties, all or none.
pub(crate) async fn change(
    request: &DavRequest,
    path: &SectorPath,
    patch: Vec<(bool, DavProp)>,
) -> Result<Vec<(StatusCode, DavProp)>, ClientError> {
    let entry = request.client.stat(path).await?.entry;
    let Some(content) = content_of(&entry) else { return Err(ClientError::IsFolder { path: path.clone() }) };
    let changes: BTreeMap<_, _> = patch
        .iter()
        .map(|(is_set, prop)| {
            let value = is_set.then(|| element_in(prop.xml.as_deref().unwrap_or_default()));
            (key_of(prop), value)
        })
        .collect();
    request.client.change_metadata(path, content.slice, changes).await?;
    Ok(patch.into_iter().map(|(_, prop)| (StatusCode::OK, DavProp { xml: None, ..prop })).collect())
}

/// The element of a document, which is to stand within another one.
fn element_in(document: &[u8]) -> String {
    let text = String::from_utf8_lossy(document);
    match text.strip_prefix("<?xml").and_then(|rest| rest.split_once("?>")) {
        Some((_, element)) => element.trim_start().to_owned(),
        None => text.into_owned(),
    }
}

/// The properties of a file: namespace, name, and the whole as XML.
pub(crate) fn kept_of(entry: &Entry) -> impl Iterator<Item = (String, String, &str)> {
    let kept = content_of(entry).into_iter().flat_map(|content| &content.user);
    kept.filter_map(|(key, xml)| {
        let (namespace, name) = key.strip_prefix(KEY_PREFIX)?.split_once(' ')?;
        Some((namespace.to_owned(), name.to_owned(), &**xml))
    })
}

const KEY_PREFIX: &str = "dav.prop.";
