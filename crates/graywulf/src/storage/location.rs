//! Paths of the cloud as the engine writes them. The engine keeps some characters for itself, so each name is
//! percent-encoded there, and decoded here. It never asks whether a path exists.

use client::SectorPath;
use datafusion::object_store::{ObjectMeta, path::Path};
use percent_encoding::percent_decode_str;

/// A path as the engine writes it.
pub(crate) fn location_of(path: &SectorPath) -> Path {
    Path::from_iter(path.components())
}

/// A file as the engine wants it described.
pub(crate) fn file_at(location: Path, bytes: u64) -> ObjectMeta {
    ObjectMeta { location, last_modified: Default::default(), size: bytes, e_tag: None, version: None }
}

/// The path that the engine means. `None` for one that no file of a cloud can have.
pub(crate) fn path_of(location: &Path) -> Option<SectorPath> {
    let mut text = String::new();
    for part in location.parts() {
        text.push('/');
        text.push_str(&percent_decode_str(part.as_ref()).decode_utf8().ok()?);
    }
    SectorPath::parse(if text.is_empty() { "/" } else { &text }).ok()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn every_name_comes_back_as_it_went() {
        for text in ["/", "/a/b", "/a b/c%20d", "/100%/x#y?z", "/ä/日本/~*[x]", "/a\\b/{c}|d^e", "/..a/...", "/%2F/%41"]
        {
            let path = SectorPath::parse(text).unwrap();
            assert_eq!(path_of(&location_of(&path)).unwrap(), path, "{text}");
        }
    }
}
