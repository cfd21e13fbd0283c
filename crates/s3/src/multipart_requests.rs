//! Uploads in parts. A part is a file of the cloud; at the end they are joined to one, which appears whole. It never makes an
//! object of parts that the client did not name.

use bytes::Bytes;
use client::{Client, EntryKind, FileWriter, PutOptions};
use data_encoding::HEXLOWER;
use futures_util::StreamExt;
use md5::{Digest, Md5};
use s3s::{
    S3Request, S3Response, S3Result,
    dto::{
        AbortMultipartUploadInput, AbortMultipartUploadOutput, Checksum, CompleteMultipartUploadInput,
        CompleteMultipartUploadOutput, CompletedPart, CopyPartResult, CreateMultipartUploadInput,
        CreateMultipartUploadOutput, ETag, ListMultipartUploadsInput, ListMultipartUploadsOutput, ListPartsInput,
        ListPartsOutput, MultipartUpload, Part, UploadPartCopyInput, UploadPartCopyOutput, UploadPartInput,
        UploadPartOutput,
    },
    s3_error,
};

use crate::{
    body_check::Said,
    bucket_requests::check_exists,
    copy_requests::{SourceConditions, source},
    errors::of_client,
    multipart_uploads::{self as uploads, PARTS_MAX, Upload, UploadedPart},
    object_metadata::{Described, ETAG, content_of, etag_of, modified},
    object_path::{bucket_path, object_path},
    object_requests::{announced, condition, refuse_ignored, stream_of, write},
};

pub(crate) async fn create(
    client: Client,
    request: S3Request<CreateMultipartUploadInput>,
) -> S3Result<S3Response<CreateMultipartUploadOutput>> {
    refuse_ignored(&request.headers)?;
    let input = request.input;
    object_path(&input.bucket, &input.key)?;
    check_exists(&client, &bucket_path(&input.bucket)?).await?;
    let described = Described {
        content_type: input.content_type,
        content_encoding: input.content_encoding,
        content_language: input.content_language,
        content_disposition: input.content_disposition,
        cache_control: input.cache_control,
        metadata: input.metadata,
        tags: input.tagging,
    };
    let id = uploads::begin(&client, &input.bucket, &input.key, described.into_user()).await?;
    let output = CreateMultipartUploadOutput {
        bucket: Some(input.bucket),
        key: Some(input.key),
        upload_id: Some(id),
        ..Default::default()
    };
    Ok(S3Response::new(output))
}

pub(crate) async fn upload_part(
    client: Client,
    request: S3Request<UploadPartInput>,
) -> S3Result<S3Response<UploadPartOutput>> {
    let announced = announced(&request);
    let (trailing, input) = (request.trailing_headers, request.input);
    let upload = uploads::find(&client, &input.bucket, &input.key, &input.upload_id).await?;
    let path = upload.part_path(input.part_number)?;
    let said = Said {
        bytes: input.content_length,
        md5: input.content_md5,
        sums: Checksum {
            checksum_crc32: input.checksum_crc32,
            checksum_crc32c: input.checksum_crc32c,
            checksum_crc64nvme: input.checksum_crc64nvme,
            checksum_sha1: input.checksum_sha1,
            checksum_sha256: input.checksum_sha256,
            ..Checksum::default()
        },
        trailing,
        announced,
    };
    let (_, checked) = write(&client, &path, PutOptions::default(), input.body, said).await?;
    let etag = ETag::Strong(checked.etag());
    let sums = checked.sums;
    let output = UploadPartOutput {
        e_tag: Some(etag),
        checksum_crc32: sums.checksum_crc32,
        checksum_crc32c: sums.checksum_crc32c,
        checksum_crc64nvme: sums.checksum_crc64nvme,
        checksum_sha1: sums.checksum_sha1,
        checksum_sha256: sums.checksum_sha256,
        ..Default::default()
    };
    Ok(S3Response::new(output))
}

pub(crate) async fn upload_part_copy(
    client: Client,
    request: S3Request<UploadPartCopyInput>,
) -> S3Result<S3Response<UploadPartCopyOutput>> {
    let input = request.input;
    let upload = uploads::find(&client, &input.bucket, &input.key, &input.upload_id).await?;
    let path = upload.part_path(input.part_number)?;
    let conditions = SourceConditions {
        if_match: input.copy_source_if_match.as_ref(),
        if_none_match: input.copy_source_if_none_match.as_ref(),
        if_modified_since: input.copy_source_if_modified_since.as_ref(),
        if_unmodified_since: input.copy_source_if_unmodified_since.as_ref(),
    };
    let (from, _) = source(&client, &input.copy_source, &conditions).await?;
    let file = client.open(&from).await.map_err(|error| of_client(&error))?;
    let range = match &input.copy_source_range {
        None => 0..file.bytes(),
        Some(asked) => {
            let range = s3s::dto::Range::parse(asked).ok().and_then(|range| range.check(file.bytes()).ok());
            range.ok_or_else(|| s3_error!(InvalidRange, "the source has {} bytes", file.bytes()))?
        }
    };
    let body = Some(stream_of(file, range));
    let (entry, checked) = write(&client, &path, PutOptions::default(), body, Said::default()).await?;
    let result = CopyPartResult {
        e_tag: Some(ETag::Strong(checked.etag())),
        last_modified: Some(modified(&entry)),
        ..Default::default()
    };
    Ok(S3Response::new(UploadPartCopyOutput { copy_part_result: Some(result), ..Default::default() }))
}

pub(crate) async fn complete(
    client: Client,
    request: S3Request<CompleteMultipartUploadInput>,
) -> S3Result<S3Response<CompleteMultipartUploadOutput>> {
    let input = request.input;
    let path = object_path(&input.bucket, &input.key)?;
    let upload = uploads::find(&client, &input.bucket, &input.key, &input.upload_id).await?;
    let named = input.multipart_upload.and_then(|named| named.parts).unwrap_or_default();
    let (parts, etag) = chosen(upload.parts(&client).await?, &named)?;
    let condition = condition(&client, &path, input.if_match.as_ref(), input.if_none_match.as_ref()).await?;
    let mut user = upload.user.clone();
    user.insert(ETAG.to_owned(), etag.clone());
    let bytes = parts.iter().filter_map(|part| content_of(&part.entry)).map(|content| content.bytes).sum();
    let options = PutOptions { condition, parents: true, user, bytes_expected: Some(bytes), ..PutOptions::default() };
    let (bucket, key) = (input.bucket, input.key);
    let output = CompleteMultipartUploadOutput {
        location: Some(format!("/{bucket}/{key}")),
        bucket: Some(bucket),
        key: Some(key),
        e_tag: Some(ETag::Strong(etag)),
        ..Default::default()
    };
    let told = output_of(&output);
    // Joining takes as long as the object is long, while the answer has begun and keeps the connection.
    let joining = async move {
        join(&client, &upload, &path, options, parts).await?;
        Ok(told)
    };
    Ok(S3Response::new(CompleteMultipartUploadOutput { future: Some(Box::pin(joining)), ..output }))
}

/// The same answer once more: that of the future is the one that is sent.
fn output_of(output: &CompleteMultipartUploadOutput) -> CompleteMultipartUploadOutput {
    CompleteMultipartUploadOutput {
        location: output.location.clone(),
        bucket: output.bucket.clone(),
        key: output.key.clone(),
        e_tag: output.e_tag.clone(),
        ..Default::default()
    }
}

/// The parts that the client names, as it knows them, and the entity tag of the whole.
fn chosen(parts: Vec<UploadedPart>, named: &[CompletedPart]) -> S3Result<(Vec<UploadedPart>, String)> {
    if named.is_empty() {
        return Err(s3_error!(MalformedXML, "name the parts of the object"));
    }
    let mut parts: std::collections::BTreeMap<_, _> = parts.into_iter().map(|part| (part.number, part)).collect();
    let (mut found, mut md5, mut last) = (Vec::new(), Md5::new(), 0);
    for (at, part) in named.iter().enumerate() {
        let number = part.part_number.unwrap_or_default();
        if number <= last {
            return Err(s3_error!(InvalidPartOrder, "parts are named in the order of their numbers"));
        }
        last = number;
        let missing = || s3_error!(InvalidPart, "part {number} did not come, or is another one");
        let known = parts.remove(&number).ok_or_else(missing)?;
        let content = content_of(&known.entry).ok_or_else(missing)?;
        let etag = etag_of(content);
        if part.e_tag.as_ref().is_none_or(|said| said.value() != etag.value()) {
            return Err(missing());
        }
        if at + 1 < named.len() && content.bytes < PART_BYTES_MIN {
            return Err(s3_error!(EntityTooSmall, "a part has 5 MiB at least, unless it is the last"));
        }
        md5.update(HEXLOWER.decode(etag.value().as_bytes()).map_err(|_| missing())?);
        found.push(known);
    }
    let etag = format!("{}-{}", HEXLOWER.encode(&md5.finalize()), found.len());
    Ok((found, etag))
}

/// Joins the parts to the object, and removes them.
async fn join(
    client: &Client,
    upload: &Upload,
    path: &client::SectorPath,
    options: PutOptions,
    parts: Vec<UploadedPart>,
) -> S3Result<()> {
    let mut file = client.open_writer(path, options, false).await.map_err(|error| of_client(&error))?;
    for part in parts {
        if let Err(error) = append(client, &mut file, &part).await {
            file.discard().await;
            return Err(error);
        }
    }
    file.finish().await.map_err(|error| of_client(&error))?;
    if let Err(error) = upload.remove(client).await {
        // The object is there; what is left goes by its lifetime.
        tracing::info!(%path, ?error, "the parts of an upload were not removed");
    }
    Ok(())
}

async fn append(client: &Client, file: &mut FileWriter, part: &UploadedPart) -> S3Result<()> {
    let source = client.open(&part.entry.path).await.map_err(|error| of_client(&error))?;
    let slice = |kind: &EntryKind| match kind {
        EntryKind::File(content) => Some(content.slice),
        EntryKind::Folder => None,
    };
    if slice(&source.entry().kind) != slice(&part.entry.kind) {
        return Err(s3_error!(InvalidPart, "part {} was replaced meanwhile", part.number));
    }
    let bytes = source.bytes();
    let mut pieces = stream_of(source, 0..bytes);
    while let Some(piece) = pieces.next().await {
        let piece: Bytes = piece.map_err(|error| s3_error!(InternalError, "a part cannot be read: {error}"))?;
        file.write(piece).await.map_err(|error| of_client(&error))?;
    }
    Ok(())
}

pub(crate) async fn abort(
    client: Client,
    request: S3Request<AbortMultipartUploadInput>,
) -> S3Result<S3Response<AbortMultipartUploadOutput>> {
    let input = request.input;
    let upload = uploads::find(&client, &input.bucket, &input.key, &input.upload_id).await?;
    upload.remove(&client).await?;
    Ok(S3Response::new(AbortMultipartUploadOutput::default()))
}

pub(crate) async fn list_parts(
    client: Client,
    request: S3Request<ListPartsInput>,
) -> S3Result<S3Response<ListPartsOutput>> {
    let input = request.input;
    let upload = uploads::find(&client, &input.bucket, &input.key, &input.upload_id).await?;
    let after = input.part_number_marker.unwrap_or_default();
    let max = usize::try_from(input.max_parts.unwrap_or(PARTS_SHOWN).min(PARTS_SHOWN)).unwrap_or_default();
    let mut parts = upload.parts(&client).await?;
    parts.retain(|part| part.number > after);
    let is_truncated = parts.len() > max;
    parts.truncate(max);
    let last = parts.last().map(|part| part.number);
    let shown = parts.into_iter().filter_map(|part| {
        let content = content_of(&part.entry)?;
        Some(Part {
            part_number: Some(part.number),
            e_tag: Some(etag_of(content)),
            size: Some(content.bytes as i64),
            last_modified: Some(modified(&part.entry)),
            ..Default::default()
        })
    });
    let output = ListPartsOutput {
        parts: Some(shown.collect()),
        bucket: Some(input.bucket),
        key: Some(input.key),
        upload_id: Some(input.upload_id),
        is_truncated: Some(is_truncated),
        max_parts: Some(max as i32),
        part_number_marker: Some(after),
        next_part_number_marker: last.filter(|_| is_truncated),
        ..Default::default()
    };
    Ok(S3Response::new(output))
}

pub(crate) async fn list_uploads(
    client: Client,
    request: S3Request<ListMultipartUploadsInput>,
) -> S3Result<S3Response<ListMultipartUploadsOutput>> {
    let input = request.input;
    check_exists(&client, &bucket_path(&input.bucket)?).await?;
    let prefix = input.prefix.clone().unwrap_or_default();
    let marker = (input.key_marker.clone().unwrap_or_default(), input.upload_id_marker.clone().unwrap_or_default());
    let max = usize::try_from(input.max_uploads.unwrap_or(UPLOADS_SHOWN).min(UPLOADS_SHOWN)).unwrap_or_default();
    let mut all = uploads::all(&client, &input.bucket).await?;
    all.retain(|(key, id, _)| {
        // Without an id, a marker stands behind all uploads of its key.
        let is_behind = if marker.1.is_empty() { *key > marker.0 } else { (key, id) > (&marker.0, &marker.1) };
        key.starts_with(&prefix) && (marker.0.is_empty() || is_behind)
    });
    let is_truncated = all.len() > max;
    all.truncate(max);
    let last = all.last().map(|(key, id, _)| (key.clone(), id.clone())).filter(|_| is_truncated);
    let shown = all.into_iter().map(|(key, id, begun)| MultipartUpload {
        key: Some(key),
        upload_id: Some(id),
        initiated: Some(modified(&begun)),
        ..Default::default()
    });
    let output = ListMultipartUploadsOutput {
        uploads: Some(shown.collect()),
        bucket: Some(input.bucket),
        prefix: input.prefix,
        key_marker: input.key_marker,
        upload_id_marker: input.upload_id_marker,
        max_uploads: Some(max as i32),
        is_truncated: Some(is_truncated),
        next_key_marker: last.as_ref().map(|(key, _)| key.clone()),
        next_upload_id_marker: last.map(|(_, id)| id),
        ..Default::default()
    };
    Ok(S3Response::new(output))
}

/// The smallest part that is not the last.
const PART_BYTES_MIN: u64 = 5 << 20;
/// Of one page.
const PARTS_SHOWN: i32 = 1_000;
const UPLOADS_SHOWN: i32 = 1_000;
const _: () = assert!(PARTS_SHOWN <= PARTS_MAX);
