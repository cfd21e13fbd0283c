//! Uploads in parts. A part is a file of the cloud; at the end they are joined to one, which appears whole. It never makes an
//! object of parts that the client did not name.

use std::{collections::BTreeMap, time::Duration};

use client::{Client, FileWriter, PutOptions, SectorPath};
use data_encoding::{BASE64, HEXLOWER};
use md5::{Digest, Md5};
use s3s::{
    S3ErrorCode, S3Request, S3Response, S3Result,
    dto::{
        self, AbortMultipartUploadInput, AbortMultipartUploadOutput, Checksum, ChecksumType,
        CompleteMultipartUploadInput, CompleteMultipartUploadOutput, CompletedPart, CopyPartResult,
        CreateMultipartUploadInput, CreateMultipartUploadOutput, ETag, ListMultipartUploadsInput,
        ListMultipartUploadsOutput, ListPartsInput, ListPartsOutput, MultipartUpload, Part, UploadPartCopyInput,
        UploadPartCopyOutput, UploadPartInput, UploadPartOutput,
    },
    s3_error,
};
use tokio::time::timeout;

use super::parts::{self, PARTS_MAX, Upload, UploadedPart};
use crate::{
    buckets::check_exists,
    errors::{of_client, of_write},
    objects::{
        body_check::{BodyCheck, Said, kept_sums, named, said_sums},
        copies::{SourceConditions, source, source_conditions},
        metadata::{
            BYTES, CHECKSUM_PREFIX, Described, ETAG, content_of, described, etag_of, modified, without_chunking,
        },
        path::{bucket_path, object_path},
        reads::{stat, stream_of},
        tags,
        writes::{announced, condition, write},
    },
};

pub(crate) async fn create(
    client: Client,
    request: S3Request<CreateMultipartUploadInput>,
) -> S3Result<S3Response<CreateMultipartUploadOutput>> {
    let input = request.input;
    object_path(&input.bucket, &input.key)?;
    check_exists(&client, &bucket_path(&input.bucket)?).await?;
    let described = described!(input, tags::of_header(input.tagging.clone())?);
    let id = parts::begin(&client, &input.bucket, &input.key, described.into_user()).await?;
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
    let upload = parts::find(&client, &input.bucket, &input.key, &input.upload_id).await?;
    let path = upload.part_path(input.part_number)?;
    let sums = said_sums!(input);
    let said = Said { bytes: input.content_length, md5: input.content_md5, sums, trailing, announced };
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
    let upload = parts::find(&client, &input.bucket, &input.key, &input.upload_id).await?;
    let path = upload.part_path(input.part_number)?;
    let source = source(&client, &input.copy_source, &source_conditions!(input)).await?;
    let file = client.open(&source.path).await.map_err(|error| of_client(&error))?;
    let range = match &input.copy_source_range {
        None => 0..file.bytes(),
        Some(asked) => match dto::Range::parse(asked) {
            Ok(dto::Range::Int { first, last: Some(last) }) if last < file.bytes() => first..last + 1,
            Ok(dto::Range::Int { last: Some(_), .. }) => {
                return Err(s3_error!(InvalidRange, "the source has {} bytes", file.bytes()));
            }
            _ => return Err(s3_error!(InvalidArgument, "the range is `bytes=FIRST-LAST`")),
        },
    };
    let body = Some(stream_of(&file, range));
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
    let parts = input.multipart_upload.as_ref().and_then(|named| named.parts.clone()).unwrap_or_default();
    let answer = |etag: String| CompleteMultipartUploadOutput {
        location: Some(format!("/{}/{}", input.bucket, input.key)),
        bucket: Some(input.bucket.clone()),
        key: Some(input.key.clone()),
        e_tag: Some(ETag::Strong(etag)),
        ..Default::default()
    };
    let upload = match parts::find(&client, &input.bucket, &input.key, &input.upload_id).await {
        Ok(upload) => upload,
        Err(error) if *error.code() == S3ErrorCode::NoSuchUpload => {
            // The answer to the first time may have been lost.
            let etag = etag_of_parts(parts.iter().filter_map(|part| part.e_tag.as_ref()));
            let there = stat(&client, &input.bucket, &input.key).await.ok();
            let is_done = there.is_some_and(|there| Some(etag_of(&there.content).value()) == etag.as_deref());
            return etag.filter(|_| is_done).map(|etag| S3Response::new(answer(etag))).ok_or(error);
        }
        Err(error) => return Err(error),
    };
    let found = chosen(upload.parts(&client).await?, &parts)?;
    let etag = etag_of_parts(parts.iter().filter_map(|part| part.e_tag.as_ref()));
    let etag = etag.ok_or_else(|| s3_error!(InvalidPart, "a part has no entity tag of ours"))?;
    let bytes: u64 = found.iter().filter_map(|part| content_of(&part.entry)).map(|content| content.bytes).sum();
    if input.mpu_object_size.is_some_and(|said| u64::try_from(said) != Ok(bytes)) {
        return Err(s3_error!(InvalidRequest, "the parts have {bytes} bytes together"));
    }
    let whole = whole_sums(&found, said_sums!(input), input.checksum_type.as_ref())?;
    let condition = condition(&client, &path, input.if_match.as_ref(), input.if_none_match.as_ref()).await?;
    let mut user = upload.user.clone();
    user.extend([(ETAG.to_owned(), etag.clone()), (BYTES.to_owned(), bytes.to_string())]);
    let options = PutOptions { condition, parents: true, user, bytes_expected: Some(bytes), ..PutOptions::default() };
    let mut joining = tokio::spawn(async move { join(&client, &upload, &path, options, found, whole).await });
    // What goes wrong does so early, and is said as such. Of a long object the answer begins, and keeps the connection.
    if let Ok(joined) = timeout(AT_ONCE_MAX, &mut joining).await {
        ended(joined)?;
        return Ok(S3Response::new(answer(etag)));
    }
    let told = answer(etag.clone());
    let future = Box::pin(async move {
        ended(joining.await)?;
        Ok(told)
    });
    Ok(S3Response::new(CompleteMultipartUploadOutput { future: Some(future), ..answer(etag) }))
}

fn ended(joined: Result<S3Result<()>, tokio::task::JoinError>) -> S3Result<()> {
    joined.unwrap_or_else(|error| Err(s3_error!(InternalError, "the joining of parts ended: {error}")))
}

/// The parts that the client names, as it knows them.
fn chosen(parts: Vec<UploadedPart>, named_parts: &[CompletedPart]) -> S3Result<Vec<UploadedPart>> {
    if named_parts.is_empty() {
        return Err(s3_error!(MalformedXML, "name the parts of the object"));
    }
    let mut parts: BTreeMap<_, _> = parts.into_iter().map(|part| (part.number, part)).collect();
    let (mut found, mut last) = (Vec::new(), 0);
    for (at, part) in named_parts.iter().enumerate() {
        let number = part.part_number.unwrap_or_default();
        if number <= last {
            return Err(s3_error!(InvalidPartOrder, "parts are named in the order of their numbers"));
        }
        last = number;
        let missing = || s3_error!(InvalidPart, "part {number} did not come, or is another one");
        let known = parts.remove(&number).ok_or_else(missing)?;
        let content = content_of(&known.entry).ok_or_else(missing)?;
        let (stated, kept) = (said_sums!(part), kept_sums(content));
        let has = |name: &str, sum: &String| named(&kept).any(|(of, kept)| of == name && kept == sum);
        let is_it = part.e_tag.as_ref().is_some_and(|said| said.value() == etag_of(content).value());
        if !is_it || !named(&stated).all(|(name, sum)| has(name, sum)) {
            return Err(missing());
        }
        if at + 1 < named_parts.len() && content.bytes < PART_BYTES_MIN {
            return Err(s3_error!(EntityTooSmall, "a part has 5 MiB at least, unless it is the last"));
        }
        found.push(known);
    }
    Ok(found)
}

/// The entity tag of an object of such parts; `None` if one of the tags is no MD5.
fn etag_of_parts<'a>(tags: impl Iterator<Item = &'a ETag>) -> Option<String> {
    let (mut md5, mut count) = (Md5::new(), 0);
    for tag in tags {
        md5.update(HEXLOWER.decode(tag.value().as_bytes()).ok()?);
        count += 1;
    }
    Some(format!("{}-{count}", HEXLOWER.encode(&md5.finalize())))
}

/// What is said of the sums of the whole: sums of sums are compared now, those of all bytes are what is left.
fn whole_sums(parts: &[UploadedPart], said: Checksum, kind: Option<&ChecksumType>) -> S3Result<Checksum> {
    let is_of_sums = kind.is_some_and(|kind| kind.as_str() == ChecksumType::COMPOSITE)
        || named(&said).any(|(_, sum)| sum.contains('-'));
    if !is_of_sums {
        return Ok(said);
    }
    for (name, sum) in named(&said) {
        let wrong = || s3_error!(BadDigest, "the parts have another checksum `{name}` together");
        let mut check = BodyCheck::new(Said { announced: name.to_owned(), ..Said::default() });
        for part in parts {
            let kept = content_of(&part.entry).map(kept_sums).unwrap_or_default();
            let of_part = named(&kept).find(|(of, _)| *of == name).map(|(_, sum)| BASE64.decode(sum.as_bytes()));
            check.add(&of_part.and_then(Result::ok).ok_or_else(wrong)?);
        }
        let sums = check.finish()?.sums;
        let stated = sum.split('-').next().unwrap_or_default();
        if !named(&sums).any(|(of, made)| of == name && made == stated) {
            return Err(wrong());
        }
    }
    Ok(Checksum::default())
}

/// Joins the parts to the object, and removes them.
async fn join(
    client: &Client,
    upload: &Upload,
    path: &SectorPath,
    mut options: PutOptions,
    parts: Vec<UploadedPart>,
    said: Checksum,
) -> S3Result<()> {
    let mut check =
        named(&said).next().is_some().then(|| BodyCheck::new(Said { sums: said.clone(), ..Said::default() }));
    // They are kept if they turn out to be right; the file does not appear otherwise.
    let sums = named(&said).map(|(name, sum)| (format!("{CHECKSUM_PREFIX}{name}"), sum.clone()));
    options.user.extend(sums);
    let mut file = client.open_writer(path, options, false).await.map_err(|error| of_write(&error))?;
    let mut joined = Ok(());
    for part in parts {
        joined = append(client, &mut file, &part, check.as_mut()).await;
        if joined.is_err() {
            break;
        }
    }
    if let Err(error) = joined.and_then(|()| check.map_or(Ok(()), |check| check.finish().map(drop))) {
        file.discard().await;
        return Err(error);
    }
    file.finish().await.map_err(|error| of_write(&error))?;
    if let Err(error) = upload.remove(client).await {
        // The object is there; what is left goes by its lifetime.
        tracing::info!(%path, ?error, "the parts of an upload were not removed");
    }
    Ok(())
}

async fn append(
    client: &Client,
    file: &mut FileWriter,
    part: &UploadedPart,
    mut check: Option<&mut BodyCheck>,
) -> S3Result<()> {
    let source = client.open(&part.entry.path).await.map_err(|error| of_client(&error))?;
    let slice = |entry| content_of(entry).map(|content| content.slice);
    if slice(source.entry()) != slice(&part.entry) {
        return Err(s3_error!(InvalidPart, "part {} was replaced meanwhile", part.number));
    }
    let mut pieces = source.stream(0..source.bytes());
    while let Some(piece) = pieces.next().await {
        let piece = piece.map_err(|error| of_client(&error))?;
        if let Some(check) = &mut check {
            check.add(&piece);
        }
        file.write(piece).await.map_err(|error| of_write(&error))?;
    }
    Ok(())
}

pub(crate) async fn abort(
    client: Client,
    request: S3Request<AbortMultipartUploadInput>,
) -> S3Result<S3Response<AbortMultipartUploadOutput>> {
    let input = request.input;
    let upload = parts::find(&client, &input.bucket, &input.key, &input.upload_id).await?;
    upload.remove(&client).await?;
    Ok(S3Response::new(AbortMultipartUploadOutput::default()))
}

pub(crate) async fn list_parts(
    client: Client,
    request: S3Request<ListPartsInput>,
) -> S3Result<S3Response<ListPartsOutput>> {
    let input = request.input;
    let upload = parts::find(&client, &input.bucket, &input.key, &input.upload_id).await?;
    let after = input.part_number_marker.unwrap_or_default();
    let max = page_of(input.max_parts, PARTS_SHOWN)?;
    let mut parts = upload.parts(&client).await?;
    parts.retain(|part| part.number > after);
    let is_truncated = max > 0 && parts.len() > max;
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
    let max = page_of(input.max_uploads, UPLOADS_SHOWN)?;
    let mut all = parts::all(&client, &input.bucket, &prefix).await?;
    all.retain(|(key, id, _)| {
        // Without an id, a marker stands behind all uploads of its key.
        let is_behind = if marker.1.is_empty() { *key > marker.0 } else { (key, id) > (&marker.0, &marker.1) };
        marker.0.is_empty() || is_behind
    });
    let is_truncated = max > 0 && all.len() > max;
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

/// How many are shown on a page.
fn page_of(asked: Option<i32>, most: i32) -> S3Result<usize> {
    let asked = asked.unwrap_or(most).min(most);
    usize::try_from(asked).map_err(|_| s3_error!(InvalidArgument, "a page has no fewer than 0"))
}

/// The smallest part that is not the last.
const PART_BYTES_MIN: u64 = 5 << 20;
/// Of one page.
const PARTS_SHOWN: i32 = 1_000;
const UPLOADS_SHOWN: i32 = 1_000;
const _: () = assert!(PARTS_SHOWN <= PARTS_MAX);
/// How long the joining of parts may take before the answer begins: less than clients wait.
const AT_ONCE_MAX: Duration = Duration::from_secs(20);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tag_of_an_object_in_parts_is_that_of_their_tags() {
        let tags = ["25f9e794323b453885f5181f1b624d0b", "d41d8cd98f00b204e9800998ecf8427e"];
        let tags = tags.map(|tag| ETag::Strong(tag.to_owned()));
        assert_eq!(etag_of_parts(tags.iter()).as_deref(), Some("d2e03436c2dc09537f7ac78c5b1ff394-2"));
        assert_eq!(etag_of_parts([ETag::Strong("x-0".to_owned())].iter()), None);
    }

    #[test]
    fn pages_have_their_bounds() {
        assert_eq!(
            (page_of(None, 10).ok(), page_of(Some(99), 10).ok(), page_of(Some(0), 10).ok()),
            (Some(10), Some(10), Some(0))
        );
        assert!(page_of(Some(-1), 10).is_err());
    }
}
