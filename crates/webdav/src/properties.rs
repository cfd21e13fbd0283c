//! Properties that clients make up, which are kept for them (RFC 4918, 4). They lie in a file's user metadata, and so go
//! with it into copies and the trash. Folders have none. It never changes what others keep there.

use std::collections::BTreeMap;

use client::{ClientError, Entry, SectorPath};
use dav_server::fs::DavProp;
use http::StatusCode;
use percent_encoding::{NON_ALPHANUMERIC, percent_decode_str, utf8_percent_encode};
use xmltree::{Element, EmitterConfig};

use crate::{digests::content_of, request::DavRequest, strict_bodies};

/// A property's key. A namespace is written without blanks.
fn key_of(prop: &DavProp) -> String {
    let namespace = utf8_percent_encode(prop.namespace.as_deref().unwrap_or_default(), NON_ALPHANUMERIC);
    format!("{KEY_PREFIX}{namespace} {}", prop.name)
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

/// The properties of a file: namespace, name, and the whole as XML. What is none is left out: others may write there, too,
/// and it is to stand within an answer.
pub(crate) fn kept_of(entry: &Entry) -> impl Iterator<Item = (String, String, String)> {
    let kept = content_of(entry).into_iter().flat_map(|content| &content.user);
    kept.filter_map(|(key, xml)| {
        let (namespace, name) = key.strip_prefix(KEY_PREFIX)?.split_once(' ')?;
        let namespace = percent_decode_str(namespace).decode_utf8().ok()?.into_owned();
        let is_name = name.chars().all(|letter| letter.is_alphanumeric() || "-_.".contains(letter));
        Some((namespace, name.to_owned(), whole_element(xml, name).filter(|_| is_name)?))
    })
}

/// The element that a text begins with, if it has that name, written anew: so nothing else stands beside it.
fn whole_element(xml: &str, name: &str) -> Option<String> {
    let xml = Some(xml.as_bytes()).filter(|xml| strict_bodies::is_small(xml))?;
    let element = Element::parse(xml).ok()?;
    let mut written = Vec::new();
    let config = EmitterConfig::new().write_document_declaration(false);
    element.write_with_config(&mut written, config).ok()?;
    String::from_utf8(written).ok().filter(|_| element.name == name)
}

const KEY_PREFIX: &str = "dav.prop.";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_one_whole_element_stands_in_an_answer() {
        let written = |xml| whole_element(xml, "a");
        assert_eq!(written(r#"<a xmlns="urn:x y">b<c/></a>"#).as_deref(), Some(r#"<a xmlns="urn:x y">b<c /></a>"#));
        for beside in ["<a/><b/>", "<?xml version=\"1.0\"?><a/>"] {
            assert_eq!(written(beside).as_deref(), Some("<a />"), "{beside}");
        }
        for wrong in ["<b/>", "a", "</a>", "<a>", "<a/></D:prop><a>", "<a/><!--"] {
            assert_eq!(written(wrong), None, "{wrong}");
        }
    }
}
