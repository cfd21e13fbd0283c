//! The requests of S3 that are answered, each with the rights of who has signed it. What is not here is answered with
//! `NotImplemented`. It never answers one itself.

use client::Client;
use s3s::{S3, S3Request, S3Response, S3Result, dto, s3_error};

use crate::{
    buckets,
    key_ring::KeyRing,
    lists::requests as lists,
    objects::{copies, path::bucket_path, reads, removals, tags, writes},
    unsupported::refuse_ignored,
    uploads::requests as uploads,
};

/// All requests that are answered.
pub(crate) struct Operations {
    keys: KeyRing,
}

impl Operations {
    pub(crate) fn new(keys: KeyRing) -> Self {
        Self { keys }
    }

    /// The cloud with the rights of who has signed a request, unless that asks for what it would not get.
    async fn client<T>(&self, request: &S3Request<T>) -> S3Result<Client> {
        refuse_ignored(&request.headers)?;
        match &request.credentials {
            Some(given) => self.keys.client(&given.access_key).await,
            None => Err(s3_error!(AccessDenied, "sign the request with an access key")),
        }
    }
}

/// Each request in a room of its own.
macro_rules! operations {
    ($($name:ident: $input:ident => $output:ident = $($to:ident)::+;)+) => {
        #[async_trait::async_trait]
        impl S3 for Operations {
            $(async fn $name(&self, request: S3Request<dto::$input>) -> S3Result<S3Response<dto::$output>> {
                $($to)::+(self.client(&request).await?, request).await
            })+

            // `s3s` would take a form as an upload.
            async fn post_object(
                &self,
                _: S3Request<dto::PostObjectInput>,
            ) -> S3Result<S3Response<dto::PostObjectOutput>> {
                Err(s3_error!(NotImplemented, "forms are not taken: sign an address for `PUT`"))
            }

            // One region, in which all buckets are.
            async fn get_bucket_location(
                &self,
                request: S3Request<dto::GetBucketLocationInput>,
            ) -> S3Result<S3Response<dto::GetBucketLocationOutput>> {
                let client = self.client(&request).await?;
                buckets::check_exists(&client, &bucket_path(&request.input.bucket)?).await?;
                Ok(S3Response::new(dto::GetBucketLocationOutput::default()))
            }

            // Replaced contents are the cloud's versions, which S3 does not see.
            async fn get_bucket_versioning(
                &self,
                request: S3Request<dto::GetBucketVersioningInput>,
            ) -> S3Result<S3Response<dto::GetBucketVersioningOutput>> {
                let client = self.client(&request).await?;
                buckets::check_exists(&client, &bucket_path(&request.input.bucket)?).await?;
                Ok(S3Response::new(dto::GetBucketVersioningOutput::default()))
            }
        }
    };
}

operations! {
    list_buckets: ListBucketsInput => ListBucketsOutput = buckets::list;
    create_bucket: CreateBucketInput => CreateBucketOutput = buckets::create;
    head_bucket: HeadBucketInput => HeadBucketOutput = buckets::head;
    delete_bucket: DeleteBucketInput => DeleteBucketOutput = buckets::delete;
    list_objects: ListObjectsInput => ListObjectsOutput = lists::list_v1;
    list_objects_v2: ListObjectsV2Input => ListObjectsV2Output = lists::list_v2;
    put_object: PutObjectInput => PutObjectOutput = writes::put;
    get_object: GetObjectInput => GetObjectOutput = reads::get;
    head_object: HeadObjectInput => HeadObjectOutput = reads::head;
    delete_object: DeleteObjectInput => DeleteObjectOutput = removals::delete;
    delete_objects: DeleteObjectsInput => DeleteObjectsOutput = removals::delete_many;
    get_object_tagging: GetObjectTaggingInput => GetObjectTaggingOutput = tags::get;
    put_object_tagging: PutObjectTaggingInput => PutObjectTaggingOutput = tags::put;
    delete_object_tagging: DeleteObjectTaggingInput => DeleteObjectTaggingOutput = tags::delete;
    copy_object: CopyObjectInput => CopyObjectOutput = copies::copy;
    create_multipart_upload: CreateMultipartUploadInput => CreateMultipartUploadOutput = uploads::create;
    upload_part: UploadPartInput => UploadPartOutput = uploads::upload_part;
    upload_part_copy: UploadPartCopyInput => UploadPartCopyOutput = uploads::upload_part_copy;
    complete_multipart_upload: CompleteMultipartUploadInput => CompleteMultipartUploadOutput = uploads::complete;
    abort_multipart_upload: AbortMultipartUploadInput => AbortMultipartUploadOutput = uploads::abort;
    list_parts: ListPartsInput => ListPartsOutput = uploads::list_parts;
    list_multipart_uploads: ListMultipartUploadsInput => ListMultipartUploadsOutput = uploads::list_uploads;
}
