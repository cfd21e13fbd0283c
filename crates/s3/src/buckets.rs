//! Requests about buckets: they are listed, made, looked at and removed. A bucket with objects is never removed.

use client::{Client, Reason, SectorPath, namespace::is_folder};
use s3s::{
    S3Request, S3Response, S3Result,
    dto::{
        Bucket, CreateBucketInput, CreateBucketOutput, DeleteBucketInput, DeleteBucketOutput, HeadBucketInput,
        HeadBucketOutput, ListBucketsInput, ListBucketsOutput, Owner,
    },
    s3_error,
};

use crate::{
    errors::{of_bucket, of_client},
    objects::{
        metadata::modified,
        path::{UPLOADS, bucket_path, is_bucket_name},
    },
};

pub(crate) async fn list(
    client: Client,
    request: S3Request<ListBucketsInput>,
) -> S3Result<S3Response<ListBucketsOutput>> {
    let entries = client.list(&SectorPath::root()).await.map_err(|error| of_client(&error))?;
    let prefix = request.input.prefix.unwrap_or_default();
    let shown = entries.into_iter().filter(is_folder).filter_map(|entry| {
        let name = entry.path.name().filter(|name| is_bucket_name(name) && name.starts_with(&prefix))?;
        Some(Bucket { name: Some(name.to_owned()), creation_date: Some(modified(&entry)), bucket_region: None })
    });
    let user = client.user().to_string();
    let owner = Owner { id: Some(user.clone()), display_name: Some(user) };
    let output = ListBucketsOutput { buckets: Some(shown.collect()), owner: Some(owner), ..Default::default() };
    Ok(S3Response::new(output))
}

pub(crate) async fn create(
    client: Client,
    request: S3Request<CreateBucketInput>,
) -> S3Result<S3Response<CreateBucketOutput>> {
    let bucket = &request.input.bucket;
    match client.make_folder(&bucket_path(bucket)?, false).await {
        Ok(()) => Ok(S3Response::new(CreateBucketOutput { location: Some(format!("/{bucket}")) })),
        Err(error) if error.reason() == Reason::Exists => {
            Err(s3_error!(BucketAlreadyOwnedByYou, "the folder `/{bucket}` exists already"))
        }
        Err(error) => Err(of_client(&error)),
    }
}

pub(crate) async fn head(
    client: Client,
    request: S3Request<HeadBucketInput>,
) -> S3Result<S3Response<HeadBucketOutput>> {
    check_exists(&client, &bucket_path(&request.input.bucket)?).await?;
    Ok(S3Response::new(HeadBucketOutput::default()))
}

pub(crate) async fn delete(
    client: Client,
    request: S3Request<DeleteBucketInput>,
) -> S3Result<S3Response<DeleteBucketOutput>> {
    let bucket = bucket_path(&request.input.bucket)?;
    check_exists(&client, &bucket).await?;
    let page = client.page(&bucket, false, None).await.map_err(|error| of_bucket(&error))?;
    let is_uploads = |name: Option<&str>| name == Some(UPLOADS);
    if let [only] = &page.entries[..]
        && is_uploads(only.path.name())
    {
        // Uploads that nobody has finished are no objects.
        client.remove_now(&only.path, true).await.map_err(|error| of_client(&error))?;
    }
    client.remove(&bucket, false).await.map_err(|error| of_bucket(&error))?;
    Ok(S3Response::new(DeleteBucketOutput {}))
}

/// Refuses what is no bucket.
pub(crate) async fn check_exists(client: &Client, bucket: &SectorPath) -> S3Result<()> {
    let found = client.find(bucket).await.map_err(|error| of_bucket(&error))?;
    if found.as_ref().is_some_and(is_folder) {
        return Ok(());
    }
    Err(s3_error!(NoSuchBucket, "there is no folder `{bucket}`"))
}
