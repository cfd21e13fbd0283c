//! Objects as they are removed, one or many. They go to the trash, and empty folders go with them. A folder that says
//! something of rights or copies never goes with its objects.

use client::{Client, ClientError, Policy, Reason, SectorPath, namespace::is_folder};
use futures_util::{StreamExt, stream};
use s3s::{
    S3Request, S3Response, S3Result,
    dto::{
        DeleteObjectInput, DeleteObjectOutput, DeleteObjectsInput, DeleteObjectsOutput, DeletedObject, ETagCondition,
        Error, ObjectIdentifier,
    },
    s3_error,
};

use super::{
    metadata::{content_of, etag_of, matches},
    path::{Named, bucket_path, named},
};
use crate::{buckets::check_exists, errors::of_client, unsupported::refuse_version};

pub(crate) async fn delete(
    client: Client,
    request: S3Request<DeleteObjectInput>,
) -> S3Result<S3Response<DeleteObjectOutput>> {
    let input = request.input;
    refuse_version(input.version_id.as_deref())?;
    if input.if_match_last_modified_time.is_some() || input.if_match_size.is_some() {
        return Err(other_conditions());
    }
    remove(&client, &input.bucket, &input.key, input.if_match.as_ref()).await?;
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
    let (client, bucket) = (&client, &input.bucket);
    let removed: Vec<_> = stream::iter(input.delete.objects)
        .map(|object| async move { (remove_named(client, bucket, &object).await, object.key) })
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

async fn remove_named(client: &Client, bucket: &str, object: &ObjectIdentifier) -> S3Result<()> {
    refuse_version(object.version_id.as_deref())?;
    if object.last_modified_time.is_some() || object.size.is_some() {
        return Err(other_conditions());
    }
    let condition = object.e_tag.clone().map(ETagCondition::ETag);
    remove(client, bucket, &object.key, condition.as_ref()).await
}

fn other_conditions() -> s3s::S3Error {
    s3_error!(NotImplemented, "of a removal, the entity tag is the one condition")
}

/// Removes what a key names, and the folders that are empty then. What is not there is as good as removed.
async fn remove(client: &Client, bucket: &str, key: &str, condition: Option<&ETagCondition>) -> S3Result<()> {
    let named = named(bucket, key)?;
    let bucket = bucket_path(bucket)?;
    let (path, removed) = match named {
        Named::Folder(_) if condition.is_some() => return Err(s3_error!(NotImplemented, "a folder has no entity tag")),
        Named::Folder(path) => {
            let removed = client.remove(&path, false).await;
            (path, removed)
        }
        Named::Object(path) => {
            let found = client.find(&path).await.map_err(|error| of_client(&error))?;
            let content = found.as_ref().and_then(content_of);
            let removed = match (condition, content) {
                (None, None) if found.as_ref().is_some_and(is_folder) => return Ok(()),
                (None, _) => client.remove(&path, false).await,
                (Some(asked), Some(content)) if matches(asked, &etag_of(content)) => {
                    client.remove_content(&path, content.slice).await
                }
                (Some(_), _) => {
                    return Err(s3_error!(PreconditionFailed, "the object is another one, or there is none"));
                }
            };
            (path, removed)
        }
    };
    match removed {
        Ok(()) => {}
        Err(error) if matches!(error.reason(), Reason::NotFound | Reason::NotFolder) => {
            return check_exists(client, &bucket).await;
        }
        // A folder with objects in it stands for none of its own.
        Err(error) if error.reason() == Reason::NotEmpty => return Ok(()),
        Err(error) => return Err(of_client(&error)),
    }
    remove_empty_above(client, &bucket, path.parent()).await;
    Ok(())
}

/// Removes folders of the bucket, upwards from this one, as long as they are there for objects alone and have none. What
/// cannot be looked at or removed stays, which harms nobody.
pub(crate) async fn remove_empty_above(client: &Client, bucket: &SectorPath, mut folder: Option<SectorPath>) {
    while let Some(at) = folder.filter(|folder| folder != bucket && folder.is_within(bucket)) {
        if !is_for_objects_alone(client, &at).await.unwrap_or_default() || client.remove_now(&at, false).await.is_err()
        {
            return;
        }
        folder = at.parent();
    }
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

const REMOVED_AT_ONCE_MAX: usize = 1_000;
/// Of one request.
const REMOVALS_UNDER_WAY: usize = 16;
