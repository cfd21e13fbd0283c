//! Copies of objects, made by the nodes: no byte passes through the gateway. A copy of an object onto itself changes what is
//! said of it alone. It never copies from another cloud.

use client::{Client, PutOptions};
use http::{HeaderMap, HeaderName, header};
use s3s::{
    S3Request, S3Response, S3Result,
    dto::{
        CopyObjectInput, CopyObjectOutput, CopyObjectResult, CopySource, ETagCondition, MetadataDirective,
        TaggingDirective, Timestamp,
    },
    s3_error,
};

use super::{
    metadata::{Described, content_of, described, etag_of, matches, modified, replacing, without_chunking},
    path::{bucket_path, object_path},
    reads::{Found, stat},
    tags,
    writes::{condition, describe},
};
use crate::{buckets::check_exists, errors::of_write};

/// What must hold of a source.
pub(crate) struct SourceConditions<'a> {
    pub(crate) if_match: Option<&'a ETagCondition>,
    pub(crate) if_none_match: Option<&'a ETagCondition>,
    pub(crate) if_modified_since: Option<&'a Timestamp>,
    pub(crate) if_unmodified_since: Option<&'a Timestamp>,
}

/// The conditions of a request that copies, whichever it is.
macro_rules! source_conditions {
    ($input:expr) => {
        SourceConditions {
            if_match: $input.copy_source_if_match.as_ref(),
            if_none_match: $input.copy_source_if_none_match.as_ref(),
            if_modified_since: $input.copy_source_if_modified_since.as_ref(),
            if_unmodified_since: $input.copy_source_if_unmodified_since.as_ref(),
        }
    };
}
pub(crate) use source_conditions;

/// The source of a copy, if its conditions hold.
pub(crate) async fn source(client: &Client, named: &CopySource, conditions: &SourceConditions<'_>) -> S3Result<Found> {
    let CopySource::Bucket { bucket, key, version_id: None } = named else {
        return Err(s3_error!(NotImplemented, "a copy is of `/BUCKET/KEY`, as it is now"));
    };
    let found = stat(client, bucket, key).await?;
    let (etag, modified) = (etag_of(&found.content), modified(&found.entry));
    let holds = conditions.if_match.is_none_or(|asked| matches(asked, &etag))
        && conditions.if_none_match.is_none_or(|asked| !matches(asked, &etag))
        && conditions.if_modified_since.is_none_or(|since| modified > *since)
        && conditions.if_unmodified_since.is_none_or(|until| modified <= *until);
    if holds { Ok(found) } else { Err(s3_error!(PreconditionFailed, "the source is not what the condition says")) }
}

pub(crate) async fn copy(
    client: Client,
    request: S3Request<CopyObjectInput>,
) -> S3Result<S3Response<CopyObjectOutput>> {
    // Of the destination; `s3s` does not read them.
    let if_match = condition_in(&request.headers, &header::IF_MATCH)?;
    let if_none_match = condition_in(&request.headers, &header::IF_NONE_MATCH)?;
    let input = request.input;
    let source = source(&client, &input.copy_source, &source_conditions!(input)).await?;
    let to = object_path(&input.bucket, &input.key)?;
    let replaces = input.metadata_directive.as_ref().is_some_and(|word| word.as_str() == MetadataDirective::REPLACE);
    let replaces_tags = input.tagging_directive.as_ref().is_some_and(|word| word.as_str() == TaggingDirective::REPLACE);
    let condition = condition(&client, &to, if_match.as_ref(), if_none_match.as_ref()).await?;
    let entry = if source.path == to {
        if !replaces && !replaces_tags {
            return Err(s3_error!(InvalidRequest, "a copy of an object onto itself changes what is said of it"));
        }
        if if_none_match.is_some() {
            return Err(s3_error!(PreconditionFailed, "the object exists"));
        }
        source.entry
    } else {
        check_exists(&client, &bucket_path(&input.bucket)?).await?;
        let options = PutOptions { condition, parents: true, ..PutOptions::default() };
        client.copy(&source.path, &to, &options, &|_| ()).await.map_err(|error| of_write(&error))?
    };
    let before = Described::of(&source.content);
    let mut now = match replaces {
        false => before.clone(),
        true => described!(input, before.tags.clone()),
    };
    if replaces_tags {
        now.tags = tags::of_header(input.tagging)?;
    }
    let entry = match content_of(&entry) {
        Some(content) if now != before => {
            let changes = replacing(content, now.into_user());
            describe(&client, &to, entry, changes).await?
        }
        _ => entry,
    };
    let result = CopyObjectResult {
        e_tag: content_of(&entry).map(etag_of),
        last_modified: Some(modified(&entry)),
        ..Default::default()
    };
    Ok(S3Response::new(CopyObjectOutput { copy_object_result: Some(result), ..Default::default() }))
}

fn condition_in(headers: &HeaderMap, name: &HeaderName) -> S3Result<Option<ETagCondition>> {
    let read = |value: &http::HeaderValue| ETagCondition::parse_http_header(value.as_bytes());
    let given = headers.get(name).map(read).transpose();
    given.map_err(|_| s3_error!(InvalidArgument, "`{name}` is no entity tag"))
}
