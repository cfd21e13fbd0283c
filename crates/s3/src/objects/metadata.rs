//! What S3 knows of an object beside its bytes, as keys of the file's user metadata. So it is in sidecars and copies, and
//! outlives the master's journal. A file that came in another way has none of it. It never changes keys of others.

use std::{
    collections::BTreeMap,
    time::{Duration, UNIX_EPOCH},
};

use client::{Entry, EntryKind, FileContent};
use s3s::dto::{ETag, ETagCondition, Metadata, Timestamp};

/// Keys of the user metadata.
pub(crate) const ETAG: &str = "s3.etag";
/// Of how many bytes the tag and the sums are. An append keeps the metadata of a file, and they are not of it any more.
pub(crate) const BYTES: &str = "s3.bytes";
pub(crate) const TAGS: &str = "s3.tags";
pub(crate) const CONTENT_TYPE: &str = "s3.content-type";
pub(crate) const CONTENT_ENCODING: &str = "s3.content-encoding";
pub(crate) const CONTENT_LANGUAGE: &str = "s3.content-language";
pub(crate) const CONTENT_DISPOSITION: &str = "s3.content-disposition";
pub(crate) const CACHE_CONTROL: &str = "s3.cache-control";
pub(crate) const CHECKSUM_PREFIX: &str = "s3.checksum.";
const META_PREFIX: &str = "s3.meta.";
/// What all of these begin with.
const PREFIX: &str = "s3.";

/// What a request says of an object beside its bytes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Described {
    pub(crate) content_type: Option<String>,
    pub(crate) content_encoding: Option<String>,
    pub(crate) content_language: Option<String>,
    pub(crate) content_disposition: Option<String>,
    pub(crate) cache_control: Option<String>,
    pub(crate) metadata: Option<Metadata>,
    pub(crate) tags: Option<String>,
}

/// What a request says of an object, whichever it is, with tags that were checked.
macro_rules! described {
    ($input:expr, $tags:expr) => {
        Described {
            content_type: $input.content_type.clone(),
            content_encoding: $input.content_encoding.as_deref().and_then(without_chunking),
            content_language: $input.content_language.clone(),
            content_disposition: $input.content_disposition.clone(),
            cache_control: $input.cache_control.clone(),
            metadata: $input.metadata.clone(),
            tags: $tags,
        }
    };
}
pub(crate) use described;

/// The encoding of the bytes that are kept: how they came in pieces is none of it.
pub(crate) fn without_chunking(encoding: &str) -> Option<String> {
    let kept: Vec<_> = encoding.split(',').map(str::trim).filter(|word| *word != "aws-chunked").collect();
    (!kept.is_empty()).then(|| kept.join(", "))
}

impl Described {
    /// As keys and values of a file.
    pub(crate) fn into_user(self) -> BTreeMap<String, String> {
        let named = [
            (CONTENT_TYPE, self.content_type),
            (CONTENT_ENCODING, self.content_encoding),
            (CONTENT_LANGUAGE, self.content_language),
            (CONTENT_DISPOSITION, self.content_disposition),
            (CACHE_CONTROL, self.cache_control),
            (TAGS, self.tags),
        ];
        let named = named.into_iter().filter_map(|(key, value)| Some((key.to_owned(), value?)));
        let own = self.metadata.into_iter().flatten().map(|(name, value)| (format!("{META_PREFIX}{name}"), value));
        named.chain(own).collect()
    }

    /// What a file says of itself.
    pub(crate) fn of(content: &FileContent) -> Self {
        let get = |key: &str| content.user.get(key).cloned();
        let own = content
            .user
            .iter()
            .filter_map(|(key, value)| Some((key.strip_prefix(META_PREFIX)?.to_owned(), value.clone())));
        Self {
            content_type: get(CONTENT_TYPE),
            content_encoding: get(CONTENT_ENCODING),
            content_language: get(CONTENT_LANGUAGE),
            content_disposition: get(CONTENT_DISPOSITION),
            cache_control: get(CACHE_CONTROL),
            metadata: Some(own.collect()),
            tags: get(TAGS),
        }
    }
}

/// The changes that make `now` of what a file says of itself. What is not of S3 stays, and so does what is said of its bytes.
pub(crate) fn replacing(content: &FileContent, now: BTreeMap<String, String>) -> BTreeMap<String, Option<String>> {
    let says_bytes = |key: &str| key == ETAG || key == BYTES || key.starts_with(CHECKSUM_PREFIX);
    let old = content.user.keys().filter(|key| key.starts_with(PREFIX) && !says_bytes(key));
    let mut changes: BTreeMap<_, _> = old.map(|key| (key.clone(), None)).collect();
    changes.extend(now.into_iter().map(|(key, value)| (key, Some(value))));
    changes
}

/// The entity tag. Of a file that came in another way it is made of the digest. It has a `-`, so no client takes it for an
/// MD5.
pub(crate) fn etag_of(content: &FileContent) -> ETag {
    let own = content.user.get(ETAG).filter(|_| is_of_bytes(content)).cloned();
    ETag::Strong(own.unwrap_or_else(|| format!("{}-0", &content.digest.to_string()[..32])))
}

/// The entity tag of a folder that is shown as an object: that of no bytes.
pub(crate) fn folder_etag() -> ETag {
    ETag::Strong("d41d8cd98f00b204e9800998ecf8427e".into())
}

/// Whether what is said of the bytes is of those that are there.
pub(crate) fn is_of_bytes(content: &FileContent) -> bool {
    content.user.get(BYTES).is_some_and(|bytes| *bytes == content.bytes.to_string())
}

/// The content of an entry that is a file.
pub(crate) fn content_of(entry: &Entry) -> Option<&FileContent> {
    match &entry.kind {
        EntryKind::File(content) => Some(content),
        EntryKind::Folder => None,
    }
}

/// When it was changed last. In whole seconds, as headers have it: what a list says is what a condition compares.
pub(crate) fn modified(entry: &Entry) -> Timestamp {
    (UNIX_EPOCH + Duration::from_secs(entry.modified_unix_millis / 1_000)).into()
}

/// Whether a condition names this tag.
pub(crate) fn matches(condition: &ETagCondition, etag: &ETag) -> bool {
    match condition {
        ETagCondition::Any => true,
        ETagCondition::ETag(asked) => asked.value() == etag.value(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn how_bytes_came_is_no_encoding_of_the_object() {
        assert_eq!(without_chunking("aws-chunked"), None);
        assert_eq!(without_chunking("aws-chunked, gzip").as_deref(), Some("gzip"));
    }
}
