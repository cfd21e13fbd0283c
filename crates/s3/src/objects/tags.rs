//! Tags of an object: a key of the file's user metadata, as headers have them. They never change its bytes or its date.

use std::collections::BTreeMap;

use client::Client;
use percent_encoding::{NON_ALPHANUMERIC, percent_decode_str, utf8_percent_encode};
use s3s::{
    S3Request, S3Response, S3Result,
    dto::{
        DeleteObjectTaggingInput, DeleteObjectTaggingOutput, GetObjectTaggingInput, GetObjectTaggingOutput,
        PutObjectTaggingInput, PutObjectTaggingOutput, Tag,
    },
    s3_error,
};

use super::{metadata::TAGS, reads::stat};
use crate::errors::of_client;

pub(crate) async fn get(
    client: Client,
    request: S3Request<GetObjectTaggingInput>,
) -> S3Result<S3Response<GetObjectTaggingOutput>> {
    let found = stat(&client, &request.input.bucket, &request.input.key).await?;
    let tags = found.content.user.get(TAGS).map(|tags| tags_of(tags)).unwrap_or_default();
    let tag_set = tags.into_iter().map(|(key, value)| Tag { key: Some(key), value: Some(value) }).collect();
    Ok(S3Response::new(GetObjectTaggingOutput { tag_set, version_id: None }))
}

pub(crate) async fn put(
    client: Client,
    request: S3Request<PutObjectTaggingInput>,
) -> S3Result<S3Response<PutObjectTaggingOutput>> {
    let input = request.input;
    let given = input.tagging.tag_set.into_iter();
    let tags = checked(given.map(|Tag { key, value }| (key.unwrap_or_default(), value.unwrap_or_default())))?;
    set(&client, &input.bucket, &input.key, text_of(&tags)).await?;
    Ok(S3Response::new(PutObjectTaggingOutput::default()))
}

pub(crate) async fn delete(
    client: Client,
    request: S3Request<DeleteObjectTaggingInput>,
) -> S3Result<S3Response<DeleteObjectTaggingOutput>> {
    set(&client, &request.input.bucket, &request.input.key, String::new()).await?;
    Ok(S3Response::new(DeleteObjectTaggingOutput::default()))
}

/// Tags of a header, as they are kept.
pub(crate) fn of_header(text: Option<String>) -> S3Result<Option<String>> {
    text.map(|text| Ok(text_of(&checked(tags_of(&text).into_iter())?))).transpose()
}

/// How many tags there are.
pub(crate) fn count(text: &str) -> usize {
    tags_of(text).len()
}

async fn set(client: &Client, bucket: &str, key: &str, tags: String) -> S3Result<()> {
    let found = stat(client, bucket, key).await?;
    let changes = [(TAGS.to_owned(), Some(tags).filter(|tags| !tags.is_empty()))].into();
    let changed = client.change_metadata(&found.path, found.content.slice, changes).await;
    changed.map(drop).map_err(|error| of_client(&error))
}

/// Refuses what no set of tags is.
fn checked(given: impl Iterator<Item = (String, String)>) -> S3Result<BTreeMap<String, String>> {
    let mut tags = BTreeMap::new();
    for (key, value) in given {
        if key.is_empty() || tags.insert(key, value).is_some() {
            return Err(s3_error!(InvalidTag, "each tag has a key, and no other has the same"));
        }
    }
    if tags.len() > TAGS_MAX {
        return Err(s3_error!(InvalidTag, "an object has at most {TAGS_MAX} tags"));
    }
    Ok(tags)
}

/// Tags as they are in headers: `key=value&…`, escaped as in an address.
fn tags_of(text: &str) -> Vec<(String, String)> {
    let plain = |text: &str| percent_decode_str(&text.replace('+', " ")).decode_utf8_lossy().into_owned();
    let pairs = text.split('&').filter(|pair| !pair.is_empty());
    pairs
        .map(|pair| pair.split_once('=').unwrap_or((pair, "")))
        .map(|(key, value)| (plain(key), plain(value)))
        .collect()
}

fn text_of(tags: &BTreeMap<String, String>) -> String {
    let escaped = |text: &str| utf8_percent_encode(text, NON_ALPHANUMERIC).to_string();
    let pairs: Vec<_> = tags.iter().map(|(key, value)| format!("{}={}", escaped(key), escaped(value))).collect();
    pairs.join("&")
}

const TAGS_MAX: usize = 10;

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn tags_lead_back_to_themselves() {
        let tags = BTreeMap::from([("a b".to_owned(), "x=&+ü".to_owned()), ("empty".to_owned(), String::new())]);
        assert_eq!(tags_of(&text_of(&tags)), tags.into_iter().collect::<Vec<_>>());
        assert_eq!(tags_of("a=1+2&b"), [("a".to_owned(), "1 2".to_owned()), ("b".to_owned(), String::new())]);
    }

    #[test]
    fn too_many_tags_and_the_same_twice_are_refused_wherever_they_come_from() {
        let header = |text: &str| of_header(Some(text.to_owned()));
        assert_eq!(header("b=2&a=1").unwrap().as_deref(), Some("a=1&b=2"));
        let many: Vec<_> = (0..=TAGS_MAX).map(|number| format!("k{number}=v")).collect();
        for text in ["a=1&a=2", "=1", &many.join("&")] {
            assert!(header(text).is_err(), "{text}");
        }
        assert!(header(&many[1..].join("&")).is_ok());
    }
}
