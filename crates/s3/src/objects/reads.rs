//! Objects as they are read and looked at: the bytes, and what is said of them. A read is of the version that was there when it
//! began, and never gives a byte that was not verified.

use std::ops::Range;

use bytes::Bytes;
use client::{Client, ClientError, Entry, FileContent, FileReader, Reason, SectorPath, namespace::is_folder};
use futures_util::stream;
use s3s::{
    S3Error, S3ErrorCode, S3Request, S3Response, S3Result,
    dto::{
        self, Checksum, ChecksumMode, ETag, ETagCondition, GetObjectInput, GetObjectOutput, HeadObjectInput,
        HeadObjectOutput, StreamingBlob, Timestamp,
    },
    s3_error,
};

use super::{
    body_check::kept_sums,
    metadata::{Described, content_of, etag_of, folder_etag, matches, modified},
    path::{Named, bucket_path, named, object_path},
    tags,
};
use crate::{
    buckets::check_exists,
    errors::of_client,
    unsupported::{refuse_part, refuse_version},
};

/// The file that a key names, as it is now.
pub(crate) struct Found {
    pub(crate) path: SectorPath,
    pub(crate) entry: Entry,
    pub(crate) content: FileContent,
}

/// Looks at the file that a key names.
pub(crate) async fn stat(client: &Client, bucket: &str, key: &str) -> S3Result<Found> {
    let path = object_path(bucket, key)?;
    let entry = match client.stat(&path).await {
        Ok(status) => status.entry,
        Err(error) => return Err(missing(client, bucket, &error).await),
    };
    let content = content_of(&entry).cloned().ok_or_else(|| s3_error!(NoSuchKey, "`{key}` is a folder"))?;
    Ok(Found { path, entry, content })
}

/// What is missing: the object, or its bucket.
async fn missing(client: &Client, bucket: &str, error: &ClientError) -> S3Error {
    if error.reason() == Reason::NotFound
        && let Ok(path) = bucket_path(bucket)
        && let Err(error) = check_exists(client, &path).await
    {
        return error;
    }
    of_client(error)
}

/// What an answer says of an object.
struct Facts {
    /// Length of the answer in bytes.
    bytes: u64,
    content_range: Option<String>,
    described: Described,
    sums: Checksum,
    etag: ETag,
    modified: Timestamp,
}

/// The answer to a question about an object, with what only one of them says.
macro_rules! answer {
    ($output:ident, $facts:expr, { $($field:ident: $value:expr),* }) => {{
        let Facts { bytes, content_range, described, sums, etag, modified } = $facts;
        $output {
            accept_ranges: Some("bytes".to_owned()),
            content_length: Some(bytes as i64),
            content_range,
            content_type: described.content_type,
            content_encoding: described.content_encoding,
            content_language: described.content_language,
            content_disposition: described.content_disposition,
            cache_control: described.cache_control,
            metadata: described.metadata,
            checksum_crc32: sums.checksum_crc32,
            checksum_crc32c: sums.checksum_crc32c,
            checksum_crc64nvme: sums.checksum_crc64nvme,
            checksum_sha1: sums.checksum_sha1,
            checksum_sha256: sums.checksum_sha256,
            e_tag: Some(etag),
            last_modified: Some(modified),
            $($field: $value,)*
            ..Default::default()
        }
    }};
}

impl Facts {
    /// Of a part of an entry, or of all of it. An empty folder is an object of no bytes.
    fn of(entry: &Entry, part: Option<&Range<u64>>, mode: Option<&ChecksumMode>) -> Self {
        let modified = modified(entry);
        let Some(content) = content_of(entry) else {
            let described = Described { content_type: Some(FOLDER_TYPE.to_owned()), ..Described::default() };
            let sums = Checksum::default();
            return Self { bytes: 0, content_range: None, described, sums, etag: folder_etag(), modified };
        };
        let mut described = Described::of(content);
        described.content_type.get_or_insert_with(|| BYTES_TYPE.to_owned());
        // A sum of all bytes says nothing of a part.
        let is_asked = mode.is_some_and(|mode| mode.as_str() == ChecksumMode::ENABLED) && part.is_none();
        let total = content.bytes;
        Self {
            bytes: part.map_or(total, |part| part.end - part.start),
            content_range: part.map(|part| format!("bytes {}-{}/{total}", part.start, part.end - 1)),
            described,
            sums: if is_asked { kept_sums(content) } else { Checksum::default() },
            etag: etag_of(content),
            modified,
        }
    }
}

/// What holds of a read (RFC 9110, 13.2.2), or the refusal.
fn check_read(
    etag: &ETag,
    modified: &Timestamp,
    (if_match, if_none_match): (Option<&ETagCondition>, Option<&ETagCondition>),
    (since, until): (Option<&Timestamp>, Option<&Timestamp>),
) -> S3Result<()> {
    let failed = || s3_error!(PreconditionFailed, "the object is not what the condition says");
    let unchanged = || {
        let mut error = S3Error::new(S3ErrorCode::NotModified);
        let tag = etag.to_http_header().ok();
        error.set_headers(tag.map(|tag| (http::header::ETAG, tag)).into_iter().collect());
        error
    };
    let is_later = |than: &Timestamp| modified > than;
    match (if_match, until) {
        (Some(asked), _) if !matches(asked, etag) => return Err(failed()),
        (None, Some(until)) if is_later(until) => return Err(failed()),
        _ => {}
    }
    match (if_none_match, since) {
        (Some(asked), _) if matches(asked, etag) => Err(unchanged()),
        (None, Some(since)) if !is_later(since) => Err(unchanged()),
        _ => Ok(()),
    }
}

/// The part of so many bytes that a range asks for.
fn part_of(range: Option<dto::Range>, bytes: u64) -> S3Result<Option<Range<u64>>> {
    let Some(range) = range else { return Ok(None) };
    // Of no bytes, even the last ones are none.
    if let Some(part) = range.check(bytes).ok().filter(|part| part.start < part.end) {
        return Ok(Some(part));
    }
    let mut error = s3_error!(InvalidRange, "the object has {bytes} bytes");
    let range = http::HeaderValue::from_str(&format!("bytes */{bytes}")).ok();
    error.set_headers(range.map(|range| (http::header::CONTENT_RANGE, range)).into_iter().collect());
    Err(error)
}

pub(crate) async fn get(client: Client, request: S3Request<GetObjectInput>) -> S3Result<S3Response<GetObjectOutput>> {
    let input = request.input;
    refuse_version(input.version_id.as_deref())?;
    refuse_part(input.part_number)?;
    let (entry, file) = match named(&input.bucket, &input.key)? {
        Named::Folder(path) => (folder(&client, &path).await?, None),
        Named::Object(path) => match client.open(&path).await {
            Ok(file) => (file.entry().clone(), Some(file)),
            Err(error) => return Err(missing(&client, &input.bucket, &error).await),
        },
    };
    let bytes = file.as_ref().map_or(0, FileReader::bytes);
    let conditions = (input.if_match.as_ref(), input.if_none_match.as_ref());
    let dates = (input.if_modified_since.as_ref(), input.if_unmodified_since.as_ref());
    let whole = Facts::of(&entry, None, None);
    check_read(&whole.etag, &whole.modified, conditions, dates)?;
    let part = part_of(input.range, bytes)?;
    let mut facts = Facts::of(&entry, part.as_ref(), input.checksum_mode.as_ref());
    let said = &mut facts.described;
    for (asked, said) in [
        (input.response_content_type, &mut said.content_type),
        (input.response_content_encoding, &mut said.content_encoding),
        (input.response_content_language, &mut said.content_language),
        (input.response_content_disposition, &mut said.content_disposition),
        (input.response_cache_control, &mut said.cache_control),
    ] {
        *said = asked.or(said.take());
    }
    let tags = said.tags.as_deref().map(|tags| tags::count(tags) as i32).filter(|count| *count > 0);
    let body = file.map_or_else(no_bytes, |file| stream_of(&file, part.unwrap_or(0..bytes)));
    Ok(S3Response::new(answer!(GetObjectOutput, facts, { body: Some(body), tag_count: tags })))
}

pub(crate) async fn head(
    client: Client,
    request: S3Request<HeadObjectInput>,
) -> S3Result<S3Response<HeadObjectOutput>> {
    let input = request.input;
    refuse_version(input.version_id.as_deref())?;
    refuse_part(input.part_number)?;
    let entry = match named(&input.bucket, &input.key)? {
        Named::Folder(path) => folder(&client, &path).await?,
        Named::Object(_) => stat(&client, &input.bucket, &input.key).await?.entry,
    };
    let whole = Facts::of(&entry, None, None);
    let conditions = (input.if_match.as_ref(), input.if_none_match.as_ref());
    let dates = (input.if_modified_since.as_ref(), input.if_unmodified_since.as_ref());
    check_read(&whole.etag, &whole.modified, conditions, dates)?;
    let part = part_of(input.range, whole.bytes)?;
    let facts = Facts::of(&entry, part.as_ref(), input.checksum_mode.as_ref());
    Ok(S3Response::new(answer!(HeadObjectOutput, facts, {})))
}

/// The folder that a key with a `/` at its end names.
async fn folder(client: &Client, path: &SectorPath) -> S3Result<Entry> {
    let found = client.find(path).await.map_err(|error| of_client(&error))?;
    found.filter(is_folder).ok_or_else(|| s3_error!(NoSuchKey, "there is no folder `{path}`"))
}

/// The bytes in order. A client that is gone ends it.
pub(crate) fn stream_of(file: &FileReader, range: Range<u64>) -> StreamingBlob {
    let mut pieces = file.stream(range);
    StreamingBlob::wrap(stream::poll_fn(move |context| pieces.poll_next(context).map_ok(Bytes::from)))
}

pub(crate) fn no_bytes() -> StreamingBlob {
    StreamingBlob::wrap(stream::empty::<Result<Bytes, ClientError>>())
}

/// Of an object whose type nobody said, and of a folder.
const BYTES_TYPE: &str = "binary/octet-stream";
const FOLDER_TYPE: &str = "application/x-directory";

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use std::time::{Duration, UNIX_EPOCH};

    use super::*;

    #[test]
    fn conditions_of_reads_have_their_order() {
        let date = |seconds| Timestamp::from(UNIX_EPOCH + Duration::from_secs(seconds));
        let (etag, at) = (ETag::Strong("a".into()), date(10));
        let tag = |value: &str| ETagCondition::ETag(ETag::Strong(value.into()));
        let check = |yes: Option<&str>, no: Option<&str>, since: Option<u64>, until: Option<u64>| {
            let (yes, no) = (yes.map(tag), no.map(tag));
            let (since, until) = (since.map(date), until.map(date));
            let dates = (since.as_ref(), until.as_ref());
            check_read(&etag, &at, (yes.as_ref(), no.as_ref()), dates).map_err(|error| error.code().clone())
        };
        let (gone, same) = (Err(S3ErrorCode::PreconditionFailed), Err(S3ErrorCode::NotModified));
        assert_eq!(check(None, None, None, None), Ok(()));
        assert_eq!(check(Some("a"), None, None, Some(1)), Ok(()), "the tag counts more than the date");
        assert_eq!((check(Some("b"), None, None, None), check(None, None, None, Some(9))), (gone.clone(), gone));
        assert_eq!((check(None, Some("a"), None, None), check(None, None, Some(10), None)), (same.clone(), same));
        assert_eq!(check(None, Some("b"), Some(99), None), Ok(()));
        assert_eq!(check(None, None, Some(9), Some(10)), Ok(()));
    }

    #[test]
    fn a_part_has_bytes_or_there_is_none() {
        let part = |text: &str, bytes| part_of(Some(dto::Range::parse(text).unwrap()), bytes).ok().flatten();
        assert_eq!(part("bytes=-3", 10), Some(7..10));
        assert_eq!(part("bytes=2-99", 10), Some(2..10));
        assert_eq!((part("bytes=10-", 10), part("bytes=-5", 0), part("bytes=0-", 0)), (None, None, None));
        assert_eq!(part_of(None, 0).unwrap(), None);
    }
}
