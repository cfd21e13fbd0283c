//! Lists of objects, in both versions of the request. A page is at most a thousand keys; the next one begins after its last.
//! It never counts what it does not show.

use client::Client;
use data_encoding::BASE64URL_NOPAD;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use s3s::{
    S3Request, S3Response, S3Result,
    dto::{
        CommonPrefix, EncodingType, ListObjectsInput, ListObjectsOutput, ListObjectsV2Input, ListObjectsV2Output,
        Object, ObjectStorageClass, Owner,
    },
    s3_error,
};

use super::key_walk::{KeyWalk, Listed, Wanted};
use crate::{
    buckets::check_exists,
    errors::of_bucket,
    objects::{
        metadata::{content_of, etag_of, folder_etag, modified},
        path::bucket_path,
    },
};

/// A page of a bucket.
struct Page {
    objects: Vec<Object>,
    prefixes: Vec<CommonPrefix>,
    /// The last key or prefix, if more follow.
    last: Option<String>,
}

pub(crate) async fn list_v2(
    client: Client,
    request: S3Request<ListObjectsV2Input>,
) -> S3Result<S3Response<ListObjectsV2Output>> {
    let input = request.input;
    let begins = match (&input.continuation_token, &input.start_after) {
        (Some(token), _) => key_of_token(token)?,
        (None, start) => start.clone().unwrap_or_default(),
    };
    let encoded = Encoding::of(input.encoding_type.as_ref());
    let asked = Asked {
        prefix: input.prefix.clone().unwrap_or_default(),
        after: begins,
        delimiter: input.delimiter.clone(),
        max_keys: input.max_keys,
    };
    let shows_owner = input.fetch_owner.unwrap_or_default();
    let page = read(&client, &input.bucket, &asked, &encoded, shows_owner).await?;
    let output = ListObjectsV2Output {
        name: Some(input.bucket),
        prefix: Some(encoded.text(&asked.prefix)),
        max_keys: Some(asked.max_keys.unwrap_or(KEYS_MAX)),
        key_count: Some(i32::try_from(page.objects.len() + page.prefixes.len()).unwrap_or(i32::MAX)),
        continuation_token: input.continuation_token,
        is_truncated: Some(page.last.is_some()),
        next_continuation_token: page.last.map(|key| BASE64URL_NOPAD.encode(key.as_bytes())),
        contents: Some(page.objects),
        common_prefixes: Some(page.prefixes),
        delimiter: input.delimiter.map(|delimiter| encoded.text(&delimiter)),
        encoding_type: input.encoding_type,
        start_after: input.start_after.map(|start| encoded.text(&start)),
        ..Default::default()
    };
    Ok(S3Response::new(output))
}

pub(crate) async fn list_v1(
    client: Client,
    request: S3Request<ListObjectsInput>,
) -> S3Result<S3Response<ListObjectsOutput>> {
    let input = request.input;
    let encoded = Encoding::of(input.encoding_type.as_ref());
    let asked = Asked {
        prefix: input.prefix.clone().unwrap_or_default(),
        after: input.marker.clone().unwrap_or_default(),
        delimiter: input.delimiter.clone(),
        max_keys: input.max_keys,
    };
    let page = read(&client, &input.bucket, &asked, &encoded, true).await?;
    let output = ListObjectsOutput {
        name: Some(input.bucket),
        prefix: Some(encoded.text(&asked.prefix)),
        marker: Some(encoded.text(&asked.after)),
        max_keys: Some(asked.max_keys.unwrap_or(KEYS_MAX)),
        is_truncated: Some(page.last.is_some()),
        next_marker: page.last.map(|key| encoded.text(&key)),
        contents: Some(page.objects),
        common_prefixes: Some(page.prefixes),
        delimiter: input.delimiter.map(|delimiter| encoded.text(&delimiter)),
        encoding_type: input.encoding_type,
        ..Default::default()
    };
    Ok(S3Response::new(output))
}

struct Asked {
    prefix: String,
    after: String,
    delimiter: Option<String>,
    max_keys: Option<i32>,
}

async fn read(client: &Client, bucket: &str, asked: &Asked, encoding: &Encoding, shows_owner: bool) -> S3Result<Page> {
    let max = asked.max_keys.unwrap_or(KEYS_MAX).min(KEYS_MAX);
    let max = usize::try_from(max).map_err(|_| s3_error!(InvalidArgument, "`max-keys` is below 0"))?;
    let by_folder = match asked.delimiter.as_deref() {
        None | Some("") => false,
        Some("/") => true,
        Some(_) => return Err(s3_error!(NotImplemented, "keys are divided by `/` alone")),
    };
    let folder = bucket_path(bucket)?;
    let wanted = Wanted { prefix: asked.prefix.clone(), after: asked.after.clone(), by_folder };
    let mut walk = KeyWalk::new(client.clone(), &folder, wanted);
    let mut page = Page { objects: Vec::new(), prefixes: Vec::new(), last: None };
    let mut last = None;
    while page.objects.len() + page.prefixes.len() < max {
        let Some(listed) = walk.next().await.map_err(|error| of_bucket(&error))? else {
            // An empty list may be of a bucket that is not there.
            if page.objects.is_empty() && page.prefixes.is_empty() {
                check_exists(client, &folder).await?;
            }
            return Ok(page);
        };
        match listed {
            Listed::Prefix(prefix) => {
                page.prefixes.push(CommonPrefix { prefix: Some(encoding.text(&prefix)) });
                last = Some(prefix);
            }
            Listed::Object { key, entry } => {
                let content = content_of(&entry);
                page.objects.push(Object {
                    key: Some(encoding.text(&key)),
                    size: Some(content.map_or(0, |content| content.bytes as i64)),
                    e_tag: Some(content.map_or_else(folder_etag, etag_of)),
                    last_modified: Some(modified(&entry)),
                    owner: shows_owner.then(|| owner_of(&entry)),
                    storage_class: Some(ObjectStorageClass::from_static(ObjectStorageClass::STANDARD)),
                    ..Default::default()
                });
                last = Some(key);
            }
        }
    }
    if max > 0 && walk.next().await.map_err(|error| of_bucket(&error))?.is_some() {
        page.last = last;
    }
    Ok(page)
}

fn owner_of(entry: &client::Entry) -> Owner {
    let owner = entry.owner.to_string();
    Owner { id: Some(owner.clone()), display_name: Some(owner) }
}

fn key_of_token(token: &str) -> S3Result<String> {
    let key = BASE64URL_NOPAD.decode(token.as_bytes()).ok().and_then(|key| String::from_utf8(key).ok());
    key.ok_or_else(|| s3_error!(InvalidArgument, "the continuation token is none of ours"))
}

/// How keys are written in XML, which has no place for some characters.
enum Encoding {
    Plain,
    Url,
}

impl Encoding {
    fn of(asked: Option<&EncodingType>) -> Self {
        if asked.is_some_and(|asked| asked.as_str() == EncodingType::URL) { Self::Url } else { Self::Plain }
    }

    fn text(&self, key: &str) -> String {
        match self {
            Self::Plain => key.to_owned(),
            Self::Url => utf8_percent_encode(key, ESCAPES).to_string(),
        }
    }
}

/// As Amazon escapes keys.
const ESCAPES: &AsciiSet = &NON_ALPHANUMERIC.remove(b'/').remove(b'-').remove(b'_').remove(b'.').remove(b'~');
/// Of one page.
const KEYS_MAX: i32 = 1_000;

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn tokens_and_escapes_lead_back_to_the_key() {
        let key = "a b/ü+%/c";
        assert_eq!(key_of_token(&BASE64URL_NOPAD.encode(key.as_bytes())).unwrap(), key);
        assert!(key_of_token("!").is_err());
        assert_eq!(Encoding::Url.text(key), "a%20b/%C3%BC%2B%25/c");
        assert_eq!(Encoding::Plain.text(key), key);
    }
}
