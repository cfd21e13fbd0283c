//! Requests about one object: it is written, read, looked at, removed and tagged. Conditions of a write are checked by the
//! master, with the change. An object never appears before all of its bytes have come and are what the client said.

use std::{collections::BTreeMap, io, ops::Range};

use bytes::Bytes;
use client::{
    Client, ClientError, Condition, Entry, FileContent, FileReader, LeaseWait, Policy, PutOptions, Reason, SectorPath,
};
use futures_util::{StreamExt, stream};
use percent_encoding::percent_decode_str;
use s3s::{
    S3Error, S3ErrorCode, S3Request, S3Response, S3Result,
    dto::{
        Checksum, ChecksumMode, DeleteObjectInput, DeleteObjectOutput, DeleteObjectTaggingInput,
        DeleteObjectTaggingOutput, DeleteObjectsInput, DeleteObjectsOutput, DeletedObject, ETag, ETagCondition, Error,
        GetObjectInput, GetObjectOutput, GetObjectTaggingInput, GetObjectTaggingOutput, HeadObjectInput,
        HeadObjectOutput, PutObjectInput, PutObjectOutput, PutObjectTaggingInput, PutObjectTaggingOutput,
        StreamingBlob, Tag, Timestamp,
    },
    s3_error,
};
use tokio::sync::mpsc;

use crate::{
    body_check::{BodyCheck, Checked, Said, kept_sums},
    bucket_requests::check_exists,
    errors::{of_bucket, of_client},
    list_requests::{folder_etag, is_folder_entry},
    object_metadata::{Described, TAGS, content_of, etag_of, matches, modified},
    object_path::{Named, bucket_path, named, object_path},
};

pub(crate) async fn put(client: Client, request: S3Request<PutObjectInput>) -> S3Result<S3Response<PutObjectOutput>> {
    let announced = announced(&request);
    refuse_ignored(&request.headers)?;
    let (trailing, input) = (request.trailing_headers, request.input);
    let bucket = bucket_path(&input.bucket)?;
    let path = match named(&input.bucket, &input.key)? {
        Named::Object(path) => path,
        Named::Folder(path) => {
            if input.content_length.is_some_and(|bytes| bytes > 0) {
                return Err(s3_error!(InvalidArgument, "the key `{}` names a folder, which has no bytes", input.key));
            }
            check_exists(&client, &bucket).await?;
            client.make_folder(&path, true).await.map_err(|error| of_client(&error))?;
            return Ok(S3Response::new(PutObjectOutput { e_tag: Some(folder_etag()), ..Default::default() }));
        }
    };
    let described = Described {
        content_type: input.content_type.clone(),
        content_encoding: input.content_encoding.as_deref().and_then(without_chunking),
        content_language: input.content_language.clone(),
        content_disposition: input.content_disposition.clone(),
        cache_control: input.cache_control.clone(),
        metadata: input.metadata.clone(),
        tags: input.tagging.clone(),
    };
    let said = Said {
        bytes: input.content_length,
        md5: input.content_md5.clone(),
        sums: Checksum {
            checksum_crc32: input.checksum_crc32.clone(),
            checksum_crc32c: input.checksum_crc32c.clone(),
            checksum_crc64nvme: input.checksum_crc64nvme.clone(),
            checksum_sha1: input.checksum_sha1.clone(),
            checksum_sha256: input.checksum_sha256.clone(),
            ..Checksum::default()
        },
        trailing,
        announced,
    };
    let condition = condition(&client, &path, input.if_match.as_ref(), input.if_none_match.as_ref()).await?;
    let options = PutOptions { condition, parents: true, user: described.into_user(), ..PutOptions::default() };
    check_exists_below(&client, &bucket, &path).await?;
    let (_, checked) = write(&client, &path, options, input.body, said).await?;
    let Checked { sums, .. } = &checked;
    let output = PutObjectOutput {
        e_tag: Some(ETag::Strong(checked.etag())),
        checksum_crc32: sums.checksum_crc32.clone(),
        checksum_crc32c: sums.checksum_crc32c.clone(),
        checksum_crc64nvme: sums.checksum_crc64nvme.clone(),
        checksum_sha1: sums.checksum_sha1.clone(),
        checksum_sha256: sums.checksum_sha256.clone(),
        ..Default::default()
    };
    Ok(S3Response::new(output))
}

/// Refuses what a client asks for and would not get: encryption of its own, locks, rights of others, places in a file.
pub(crate) fn refuse_ignored(headers: &http::HeaderMap) -> S3Result<()> {
    let value = |name: &str| headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let is_private = matches!(value("x-amz-acl"), "" | "private" | "bucket-owner-full-control");
    let asked = headers.keys().map(http::HeaderName::as_str).find(|name| {
        ["x-amz-server-side-encryption", "x-amz-copy-source-server-side", "x-amz-object-lock", "x-amz-grant"]
            .iter()
            .any(|start| name.starts_with(start))
            || matches!(*name, "x-amz-write-offset-bytes" | "x-amz-website-redirect-location")
            || (*name == "x-amz-acl" && !is_private)
    });
    match asked {
        Some(asked) => Err(s3_error!(NotImplemented, "`{asked}` is not supported")),
        None => Ok(()),
    }
}

/// Refuses a version: an object is what it is now.
fn refuse_version(version: Option<&str>) -> S3Result<()> {
    match version {
        None | Some("null") => Ok(()),
        Some(_) => Err(s3_error!(NotImplemented, "versions of objects are `sector versions`")),
    }
}

/// What a request says of checksums that come behind its bytes, and of the algorithm.
pub(crate) fn announced<T>(request: &S3Request<T>) -> String {
    let get = |name: &str| request.headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default();
    format!("{},{}", get("x-amz-trailer"), get("x-amz-sdk-checksum-algorithm"))
}

/// The encoding of the bytes that are kept: how they came in pieces is none of it.
fn without_chunking(encoding: &str) -> Option<String> {
    let kept: Vec<_> = encoding.split(',').map(str::trim).filter(|word| *word != "aws-chunked").collect();
    (!kept.is_empty()).then(|| kept.join(", "))
}

/// Writes a file from a body. A small one knows its entity tag before it is sent, a large one gets it when it is whole.
pub(crate) async fn write(
    client: &Client,
    path: &SectorPath,
    options: PutOptions,
    body: Option<StreamingBlob>,
    said: Said,
) -> S3Result<(Entry, Checked)> {
    let client = client.waiting(LeaseWait { longest: Some(OTHERS_WRITE_MAX), told: std::sync::Arc::new(|_| ()) });
    let failed = |error: ClientError| match error.reason() {
        Reason::IsFolder => {
            let code = S3ErrorCode::Custom("KeyIsFolder".into());
            let mut said = S3Error::with_message(code, error.to_string());
            said.set_status_code(http::StatusCode::CONFLICT);
            said
        }
        _ => of_client(&error),
    };
    let (mut check, mut first) = (BodyCheck::new(said), Vec::new());
    let mut body = body.unwrap_or_else(|| StreamingBlob::wrap(stream::empty::<Result<Bytes, io::Error>>()));
    while first.len() <= AT_ONCE_BYTES_MAX {
        let Some(piece) = next(&mut body).await? else {
            let checked = check.finish()?;
            let mut user = options.user;
            user.extend(checked.user());
            let options = PutOptions { user, bytes_expected: Some(first.len() as u64), ..options };
            let entry = client.put(io::Cursor::new(first), path, &options, &|_| ()).await.map_err(failed)?;
            return Ok((entry, checked));
        };
        check.add(&piece);
        first.extend_from_slice(&piece);
    }
    let mut file = client.open_writer(path, options, false).await.map_err(failed)?;
    let mut piece = Some(first);
    while let Some(bytes) = piece {
        file.write(bytes).await.map_err(failed)?;
        piece = match next(&mut body).await {
            Ok(Some(bytes)) => {
                check.add(&bytes);
                Some(bytes.into())
            }
            Ok(None) => None,
            Err(error) => {
                file.discard().await;
                return Err(error);
            }
        };
    }
    let checked = match check.finish() {
        Ok(checked) => checked,
        Err(error) => {
            file.discard().await;
            return Err(error);
        }
    };
    let entry = file.finish().await.map_err(failed)?;
    let changes = checked.user().into_iter().map(|(key, value)| (key, Some(value))).collect();
    Ok((describe(&client, path, entry, changes).await?, checked))
}

async fn next(body: &mut StreamingBlob) -> S3Result<Option<Bytes>> {
    match body.next().await.transpose() {
        Ok(piece) => Ok(piece),
        Err(error) => Err(match error.downcast::<S3Error>() {
            Ok(error) => *error,
            Err(error) => s3_error!(IncompleteBody, "the upload broke off: {error}"),
        }),
    }
}

/// Says of a file that was just written what is known of it only now. If it was replaced meanwhile, that is for nobody.
pub(crate) async fn describe(
    client: &Client,
    path: &SectorPath,
    entry: Entry,
    changes: BTreeMap<String, Option<String>>,
) -> S3Result<Entry> {
    let Some(slice) = content_of(&entry).map(|content| content.slice) else { return Ok(entry) };
    match client.change_metadata(path, slice, changes).await {
        Ok(entry) => Ok(entry),
        Err(error) if matches!(error.reason(), Reason::VersionChanged { .. } | Reason::NotFound) => Ok(entry),
        Err(error) => Err(of_client(&error)),
    }
}

/// What must hold for a write, as the master checks it.
pub(crate) async fn condition(
    client: &Client,
    path: &SectorPath,
    if_match: Option<&ETagCondition>,
    if_none_match: Option<&ETagCondition>,
) -> S3Result<Condition> {
    let failed = || s3_error!(PreconditionFailed, "the object is another one, or there is none");
    match (if_match, if_none_match) {
        (None, None) => Ok(Condition::Any),
        (None, Some(ETagCondition::Any)) => Ok(Condition::Absent),
        (None, Some(ETagCondition::ETag(_))) => {
            Err(s3_error!(NotImplemented, "`If-None-Match` of a write is `*` or nothing"))
        }
        (Some(asked), _) => {
            let found = client.find(path).await.map_err(|error| of_client(&error))?;
            let Some(content) = found.as_ref().and_then(content_of) else {
                return Err(s3_error!(NoSuchKey, "there is no object to match"));
            };
            if matches(asked, &etag_of(content)) { Ok(Condition::Version(content.version)) } else { Err(failed()) }
        }
    }
}

/// Refuses a write into a bucket that is not there. Folders of a key are made, a bucket is not.
pub(crate) async fn check_exists_below(client: &Client, bucket: &SectorPath, path: &SectorPath) -> S3Result<()> {
    // Where the folder is there, so is the bucket; most writes go where others went.
    let folder = path.parent().unwrap_or_else(SectorPath::root);
    if folder != *bucket && client.find(&folder).await.map_err(|error| of_bucket(&error))?.is_some() {
        return Ok(());
    }
    check_exists(client, bucket).await
}

/// The object that is there, which is open.
enum Found {
    File(FileReader),
    Folder(Entry),
}

async fn open(client: &Client, bucket: &str, key: &str) -> S3Result<Found> {
    match named(bucket, key)? {
        Named::Object(path) => match client.open(&path).await {
            Ok(file) => Ok(Found::File(file)),
            Err(error) => Err(missing(client, bucket, &error).await),
        },
        Named::Folder(path) => {
            let found = client.find(&path).await.map_err(|error| of_client(&error))?;
            match found.filter(|entry| is_folder_entry(Some(entry))) {
                Some(entry) => Ok(Found::Folder(entry)),
                None => Err(s3_error!(NoSuchKey, "there is no folder `{key}`")),
            }
        }
    }
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

pub(crate) async fn get(client: Client, request: S3Request<GetObjectInput>) -> S3Result<S3Response<GetObjectOutput>> {
    refuse_ignored(&request.headers)?;
    let input = request.input;
    refuse_version(input.version_id.as_deref())?;
    let found = open(&client, &input.bucket, &input.key).await?;
    let conditions = (input.if_match.as_ref(), input.if_none_match.as_ref());
    let dates = (input.if_modified_since.as_ref(), input.if_unmodified_since.as_ref());
    let file = match found {
        Found::Folder(entry) => {
            let (etag, modified) = (folder_etag(), modified(&entry));
            check_read(&etag, &modified, conditions, dates)?;
            let body = StreamingBlob::wrap(stream::empty::<Result<Bytes, io::Error>>());
            let output = GetObjectOutput {
                body: Some(body),
                content_length: Some(0),
                content_type: Some(FOLDER_TYPE.to_owned()),
                e_tag: Some(etag),
                last_modified: Some(modified),
                ..Default::default()
            };
            return Ok(S3Response::new(output));
        }
        Found::File(file) => file,
    };
    let Some(content) = content_of(file.entry()).cloned() else { return Err(s3_error!(NoSuchKey)) };
    let (etag, modified) = (etag_of(&content), modified(file.entry()));
    check_read(&etag, &modified, conditions, dates)?;
    if input.part_number.is_some_and(|part| part != 1) {
        return Err(s3_error!(NotImplemented, "an object is one part once it is complete"));
    }
    let part = match input.range {
        None => None,
        Some(range) => Some(range.check(content.bytes).map_err(|_| out_of_range(content.bytes))?),
    };
    let all = part.clone().unwrap_or(0..content.bytes);
    let shown = Shown::of(&content, input.checksum_mode.as_ref(), part.is_some());
    let Described {
        content_type,
        content_encoding,
        content_language,
        content_disposition,
        cache_control,
        metadata,
        ..
    } = shown.described;
    let output = GetObjectOutput {
        accept_ranges: Some("bytes".to_owned()),
        content_length: Some((all.end - all.start) as i64),
        content_range: part.map(|part| format!("bytes {}-{}/{}", part.start, part.end - 1, content.bytes)),
        body: Some(stream_of(file, all)),
        content_type: input.response_content_type.or(content_type).or_else(|| Some(BYTES_TYPE.to_owned())),
        content_encoding: input.response_content_encoding.or(content_encoding),
        content_language: input.response_content_language.or(content_language),
        content_disposition: input.response_content_disposition.or(content_disposition),
        cache_control: input.response_cache_control.or(cache_control),
        checksum_crc32: shown.sums.checksum_crc32,
        checksum_crc32c: shown.sums.checksum_crc32c,
        checksum_crc64nvme: shown.sums.checksum_crc64nvme,
        checksum_sha1: shown.sums.checksum_sha1,
        checksum_sha256: shown.sums.checksum_sha256,
        e_tag: Some(etag),
        last_modified: Some(modified),
        metadata,
        tag_count: shown.tags,
        ..Default::default()
    };
    Ok(S3Response::new(output))
}

/// What an answer says of a file.
struct Shown {
    described: Described,
    sums: Checksum,
    tags: Option<i32>,
}

impl Shown {
    fn of(content: &FileContent, mode: Option<&ChecksumMode>, is_part: bool) -> Self {
        let described = Described::of(content);
        let tags = described.tags.as_deref().map(|tags| tags_of(tags).len() as i32).filter(|count| *count > 0);
        // A sum of all bytes says nothing of a part.
        let is_asked = mode.is_some_and(|mode| mode.as_str() == ChecksumMode::ENABLED) && !is_part;
        let sums = if is_asked { kept_sums(&content.user) } else { Checksum::default() };
        Self { described, sums, tags }
    }
}

fn out_of_range(bytes: u64) -> S3Error {
    let mut error = s3_error!(InvalidRange, "the object has {bytes} bytes");
    let range = http::HeaderValue::from_str(&format!("bytes */{bytes}")).ok();
    error.set_headers(range.map(|range| (http::header::CONTENT_RANGE, range)).into_iter().collect());
    error
}

/// The bytes in order, some pieces ahead of the network. A client that is gone ends it.
pub(crate) fn stream_of(file: FileReader, range: Range<u64>) -> StreamingBlob {
    let (sender, mut pieces) = mpsc::channel::<Result<Bytes, io::Error>>(1);
    tokio::spawn(async move {
        let starts = stream::iter(range.clone().step_by(PIECE_BYTES));
        let file = &file;
        let mut read = starts
            .map(|start| async move {
                let bytes = (range.end - start).min(PIECE_BYTES as u64);
                file.read_at(start, bytes as usize).await.map(Bytes::from).map_err(io::Error::other)
            })
            .buffered(PIECES_AHEAD);
        while let Some(piece) = read.next().await {
            if sender.send(piece).await.is_err() {
                break;
            }
        }
    });
    StreamingBlob::wrap(stream::poll_fn(move |context| pieces.poll_recv(context)))
}

pub(crate) async fn head(
    client: Client,
    request: S3Request<HeadObjectInput>,
) -> S3Result<S3Response<HeadObjectOutput>> {
    refuse_ignored(&request.headers)?;
    let input = request.input;
    refuse_version(input.version_id.as_deref())?;
    let entry = match named(&input.bucket, &input.key)? {
        Named::Object(path) => match client.stat(&path).await {
            Ok(status) => Some(status.entry).filter(|entry| !is_folder_entry(Some(entry))),
            Err(error) => return Err(missing(&client, &input.bucket, &error).await),
        },
        Named::Folder(path) => {
            client.find(&path).await.map_err(|error| of_client(&error))?.filter(|entry| is_folder_entry(Some(entry)))
        }
    };
    let entry = entry.ok_or_else(|| s3_error!(NoSuchKey))?;
    let content = content_of(&entry);
    let (etag, modified) = (content.map_or_else(folder_etag, etag_of), modified(&entry));
    let conditions = (input.if_match.as_ref(), input.if_none_match.as_ref());
    check_read(&etag, &modified, conditions, (input.if_modified_since.as_ref(), input.if_unmodified_since.as_ref()))?;
    let Some(content) = content else {
        let output = HeadObjectOutput {
            content_length: Some(0),
            content_type: Some(FOLDER_TYPE.to_owned()),
            e_tag: Some(etag),
            last_modified: Some(modified),
            ..Default::default()
        };
        return Ok(S3Response::new(output));
    };
    let part = match input.range {
        None => None,
        Some(range) => Some(range.check(content.bytes).map_err(|_| out_of_range(content.bytes))?),
    };
    let shown = Shown::of(content, input.checksum_mode.as_ref(), part.is_some());
    let Described {
        content_type,
        content_encoding,
        content_language,
        content_disposition,
        cache_control,
        metadata,
        ..
    } = shown.described;
    let output = HeadObjectOutput {
        accept_ranges: Some("bytes".to_owned()),
        content_length: Some(part.as_ref().map_or(content.bytes, |part| part.end - part.start) as i64),
        content_range: part.map(|part| format!("bytes {}-{}/{}", part.start, part.end - 1, content.bytes)),
        content_type: content_type.or_else(|| Some(BYTES_TYPE.to_owned())),
        content_encoding,
        content_language,
        content_disposition,
        cache_control,
        checksum_crc32: shown.sums.checksum_crc32,
        checksum_crc32c: shown.sums.checksum_crc32c,
        checksum_crc64nvme: shown.sums.checksum_crc64nvme,
        checksum_sha1: shown.sums.checksum_sha1,
        checksum_sha256: shown.sums.checksum_sha256,
        e_tag: Some(etag),
        last_modified: Some(modified),
        metadata,
        ..Default::default()
    };
    Ok(S3Response::new(output))
}

pub(crate) async fn delete(
    client: Client,
    request: S3Request<DeleteObjectInput>,
) -> S3Result<S3Response<DeleteObjectOutput>> {
    let input = request.input;
    refuse_version(input.version_id.as_deref())?;
    if let Some(asked) = &input.if_match {
        let path = object_path(&input.bucket, &input.key)?;
        let found = client.find(&path).await.map_err(|error| of_client(&error))?;
        let is_it = found.as_ref().and_then(content_of).is_some_and(|content| matches(asked, &etag_of(content)));
        if !is_it {
            return Err(s3_error!(PreconditionFailed, "the object is another one, or there is none"));
        }
    }
    remove(&client, &input.bucket, &input.key).await?;
    Ok(S3Response::new(DeleteObjectOutput::default()))
}

pub(crate) async fn delete_many(
    client: Client,
    request: S3Request<DeleteObjectsInput>,
) -> S3Result<S3Response<DeleteObjectsOutput>> {
    let input = request.input;
    check_exists(&client, &bucket_path(&input.bucket)?).await?;
    if input.delete.objects.len() > REMOVED_AT_ONCE_MAX {
        return Err(s3_error!(MalformedXML, "a request removes at most {REMOVED_AT_ONCE_MAX} objects"));
    }
    let is_quiet = input.delete.quiet.unwrap_or_default();
    let bucket = &input.bucket;
    let removed: Vec<_> = stream::iter(input.delete.objects)
        .map(|object| {
            let client = client.clone();
            async move {
                let removed = match refuse_version(object.version_id.as_deref()) {
                    Ok(()) => remove(&client, bucket, &object.key).await,
                    Err(error) => Err(error),
                };
                (removed, object.key)
            }
        })
        .buffered(REMOVALS_UNDER_WAY)
        .collect()
        .await;
    let (mut deleted, mut errors) = (Vec::new(), Vec::new());
    for (outcome, key) in removed {
        match outcome {
            Ok(()) if is_quiet => {}
            Ok(()) => deleted.push(DeletedObject { key: Some(key), ..Default::default() }),
            Err(error) => errors.push(Error {
                code: Some(error.code().as_str().to_owned()),
                message: error.message().map(str::to_owned),
                key: Some(key),
                version_id: None,
            }),
        }
    }
    Ok(S3Response::new(DeleteObjectsOutput { deleted: Some(deleted), errors: Some(errors), request_charged: None }))
}

/// Removes what a key names, and the folders that are empty then. What is not there is as good as removed.
async fn remove(client: &Client, bucket: &str, key: &str) -> S3Result<()> {
    let bucket = bucket_path(bucket)?;
    let path = match named(bucket.name().unwrap_or_default(), key)? {
        Named::Object(path) => {
            if is_folder_entry(client.find(&path).await.map_err(|error| of_client(&error))?.as_ref()) {
                // The key without a `/` names no object.
                return Ok(());
            }
            path
        }
        Named::Folder(path) => path,
    };
    match client.remove(&path, false).await {
        Ok(()) => {}
        Err(error) if matches!(error.reason(), Reason::NotFound | Reason::NotFolder) => {
            return check_exists(client, &bucket).await;
        }
        // A folder with objects in it stands for none of its own.
        Err(error) if error.reason() == Reason::NotEmpty => return Ok(()),
        Err(error) => return Err(of_client(&error)),
    }
    let mut above = path.parent();
    while let Some(folder) = above.filter(|folder| *folder != bucket && folder.is_within(&bucket)) {
        // Folders are there for their objects alone. What cannot be looked at or removed stays, which harms nobody.
        if !is_for_objects_alone(client, &folder).await.unwrap_or_default()
            || client.remove_now(&folder, false).await.is_err()
        {
            break;
        }
        above = folder.parent();
    }
    Ok(())
}

/// Whether a folder is empty, and says nothing itself of rights or copies that would be gone with it.
async fn is_for_objects_alone(client: &Client, folder: &SectorPath) -> Result<bool, ClientError> {
    let page = client.page(folder, false, None).await?;
    if !page.entries.is_empty() || page.more {
        return Ok(false);
    }
    let has_rights = client.stat(folder).await?.entry.has_acl;
    Ok(!has_rights && client.policy(folder).await?.own == Policy::default())
}

pub(crate) async fn get_tags(
    client: Client,
    request: S3Request<GetObjectTaggingInput>,
) -> S3Result<S3Response<GetObjectTaggingOutput>> {
    let (_, _, content) = content(&client, &request.input.bucket, &request.input.key).await?;
    let tags = content.user.get(TAGS).map(|tags| tags_of(tags)).unwrap_or_default();
    let tag_set = tags.into_iter().map(|(key, value)| Tag { key: Some(key), value: Some(value) }).collect();
    Ok(S3Response::new(GetObjectTaggingOutput { tag_set, version_id: None }))
}

pub(crate) async fn put_tags(
    client: Client,
    request: S3Request<PutObjectTaggingInput>,
) -> S3Result<S3Response<PutObjectTaggingOutput>> {
    let input = request.input;
    if input.tagging.tag_set.len() > TAGS_MAX {
        return Err(s3_error!(InvalidTag, "an object has at most {TAGS_MAX} tags"));
    }
    let mut tags = BTreeMap::new();
    for Tag { key, value } in input.tagging.tag_set {
        let key = key.filter(|key| !key.is_empty()).ok_or_else(|| s3_error!(InvalidTag, "a tag has a key"))?;
        if tags.insert(key, value.unwrap_or_default()).is_some() {
            return Err(s3_error!(InvalidTag, "a key is given twice"));
        }
    }
    set_tags(&client, &input.bucket, &input.key, Some(text_of_tags(&tags))).await?;
    Ok(S3Response::new(PutObjectTaggingOutput::default()))
}

pub(crate) async fn delete_tags(
    client: Client,
    request: S3Request<DeleteObjectTaggingInput>,
) -> S3Result<S3Response<DeleteObjectTaggingOutput>> {
    set_tags(&client, &request.input.bucket, &request.input.key, None).await?;
    Ok(S3Response::new(DeleteObjectTaggingOutput::default()))
}

async fn set_tags(client: &Client, bucket: &str, key: &str, tags: Option<String>) -> S3Result<()> {
    let (path, _, content) = content(client, bucket, key).await?;
    let changes = [(TAGS.to_owned(), tags.filter(|tags| !tags.is_empty()))].into();
    client.change_metadata(&path, content.slice, changes).await.map_err(|error| of_client(&error))?;
    Ok(())
}

/// The file that a key names, as it is now.
pub(crate) async fn content(client: &Client, bucket: &str, key: &str) -> S3Result<(SectorPath, Entry, FileContent)> {
    let path = object_path(bucket, key)?;
    let entry = match client.stat(&path).await {
        Ok(status) => status.entry,
        Err(error) => return Err(missing(client, bucket, &error).await),
    };
    let content = content_of(&entry).cloned().ok_or_else(|| s3_error!(NoSuchKey, "`{key}` is a folder"))?;
    Ok((path, entry, content))
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

fn text_of_tags(tags: &BTreeMap<String, String>) -> String {
    let escaped =
        |text: &str| percent_encoding::utf8_percent_encode(text, percent_encoding::NON_ALPHANUMERIC).to_string();
    let pairs: Vec<_> = tags.iter().map(|(key, value)| format!("{}={}", escaped(key), escaped(value))).collect();
    pairs.join("&")
}

/// Objects up to this are taken into memory as a whole before they are sent.
const AT_ONCE_BYTES_MAX: usize = 1 << 20;
/// How long a write waits for another one of the same object: the last one counts, as everywhere in S3.
const OTHERS_WRITE_MAX: std::time::Duration = std::time::Duration::from_secs(60);
/// Read at once; four of them wait for a slow client at most.
const PIECE_BYTES: usize = 1 << 20;
const PIECES_AHEAD: usize = 4;
const REMOVED_AT_ONCE_MAX: usize = 1_000;
/// Of one request.
const REMOVALS_UNDER_WAY: usize = 16;
const TAGS_MAX: usize = 10;
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
    fn tags_lead_back_to_themselves() {
        let tags = BTreeMap::from([("a b".to_owned(), "x=&+ü".to_owned()), ("empty".to_owned(), String::new())]);
        assert_eq!(tags_of(&text_of_tags(&tags)), tags.into_iter().collect::<Vec<_>>());
        assert_eq!(tags_of("a=1+2&b"), [("a".to_owned(), "1 2".to_owned()), ("b".to_owned(), String::new())]);
    }

    #[test]
    fn what_would_be_ignored_is_refused() {
        let refused = |name: &'static str, value: &str| {
            let headers = [(name.parse().unwrap(), value.parse().unwrap())].into_iter().collect();
            refuse_ignored(&headers).is_err()
        };
        assert!(refused("x-amz-server-side-encryption", "AES256"));
        assert!(refused("x-amz-object-lock-mode", "GOVERNANCE"));
        assert!(refused("x-amz-acl", "public-read") && !refused("x-amz-acl", "private"));
        assert!(!refused("x-amz-meta-lock", "x") && !refused("x-amz-storage-class", "STANDARD"));
        assert!(refuse_version(Some("1")).is_err() && refuse_version(Some("null")).is_ok());
    }

    #[test]
    fn how_bytes_came_is_no_encoding_of_the_object() {
        assert_eq!(without_chunking("aws-chunked"), None);
        assert_eq!(without_chunking("aws-chunked, gzip").as_deref(), Some("gzip"));
    }
}
