//! Objects as they are written. Conditions of a write are checked by the master, with the change. An object never appears
//! before all of its bytes have come and are what the client said.

use std::{collections::BTreeMap, io};

use bytes::Bytes;
use client::{Client, ClientError, Condition, Entry, LeaseWait, PutOptions, Reason, SectorPath};
use futures_util::StreamExt;
use s3s::{
    S3Error, S3Request, S3Response, S3Result,
    dto::{Checksum, ETag, ETagCondition, PutObjectInput, PutObjectOutput, StreamingBlob},
    s3_error,
};

use super::{
    body_check::{BodyCheck, Checked, Said, said_sums},
    metadata::{Described, content_of, described, etag_of, folder_etag, matches, without_chunking},
    path::{Named, bucket_path, named},
    reads::no_bytes,
    tags,
};
use crate::{
    buckets::check_exists,
    errors::{of_bucket, of_client, of_write},
};

pub(crate) async fn put(client: Client, request: S3Request<PutObjectInput>) -> S3Result<S3Response<PutObjectOutput>> {
    let announced = announced(&request);
    let (trailing, input) = (request.trailing_headers, request.input);
    let bucket = bucket_path(&input.bucket)?;
    let said = Said {
        bytes: input.content_length,
        md5: input.content_md5.clone(),
        sums: said_sums!(input),
        trailing,
        announced,
    };
    let described = described!(input, tags::of_header(input.tagging.clone())?);
    let path = match named(&input.bucket, &input.key)? {
        Named::Object(path) => path,
        Named::Folder(path) => return put_folder(&client, &bucket, &path, input, said, described).await,
    };
    let condition = condition(&client, &path, input.if_match.as_ref(), input.if_none_match.as_ref()).await?;
    let options = PutOptions { condition, parents: true, user: described.into_user(), ..PutOptions::default() };
    check_exists_below(&client, &bucket, &path).await?;
    let (_, checked) = write(&client, &path, options, input.body, said).await?;
    let (etag, sums) = (checked.etag(), checked.sums);
    let output = PutObjectOutput {
        e_tag: Some(ETag::Strong(etag)),
        checksum_crc32: sums.checksum_crc32,
        checksum_crc32c: sums.checksum_crc32c,
        checksum_crc64nvme: sums.checksum_crc64nvme,
        checksum_sha1: sums.checksum_sha1,
        checksum_sha256: sums.checksum_sha256,
        ..Default::default()
    };
    Ok(S3Response::new(output))
}

/// Makes a folder, of which nothing can be said but its name.
async fn put_folder(
    client: &Client,
    bucket: &SectorPath,
    path: &SectorPath,
    input: PutObjectInput,
    said: Said,
    described: Described,
) -> S3Result<S3Response<PutObjectOutput>> {
    let says_more = described.metadata.is_some_and(|metadata| !metadata.is_empty()) || described.tags.is_some();
    if says_more || input.if_match.is_some() {
        return Err(s3_error!(NotImplemented, "a folder has no metadata, tags or entity tag"));
    }
    let (mut check, mut body) = (BodyCheck::new(said), input.body.unwrap_or_else(no_bytes));
    while let Some(piece) = next(&mut body).await? {
        check.add(&piece);
        if !piece.is_empty() {
            return Err(s3_error!(InvalidArgument, "the key `{}` names a folder, which has no bytes", input.key));
        }
    }
    check.finish()?;
    check_exists(client, bucket).await?;
    if input.if_none_match.is_some() && client.find(path).await.map_err(|error| of_client(&error))?.is_some() {
        return Err(s3_error!(PreconditionFailed, "the folder exists"));
    }
    client.make_folder(path, true).await.map_err(|error| of_write(&error))?;
    Ok(S3Response::new(PutObjectOutput { e_tag: Some(folder_etag()), ..Default::default() }))
}

/// What a request says of checksums that come behind its bytes, and of the algorithm.
pub(crate) fn announced<T>(request: &S3Request<T>) -> String {
    let get = |name: &str| request.headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default();
    format!("{},{}", get("x-amz-trailer"), get("x-amz-sdk-checksum-algorithm"))
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
    let failed = |error: ClientError| of_write(&error);
    let (mut check, mut first) = (BodyCheck::new(said), Vec::new());
    let mut body = body.unwrap_or_else(no_bytes);
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

/// Objects up to this are taken into memory as a whole before they are sent.
const AT_ONCE_BYTES_MAX: usize = 1 << 20;
/// How long a write waits for another one of the same object: the last one counts, as everywhere in S3.
const OTHERS_WRITE_MAX: std::time::Duration = std::time::Duration::from_secs(60);
