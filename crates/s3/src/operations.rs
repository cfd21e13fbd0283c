//! The requests of S3 that are answered, each with the rights of who has signed it. What is not here is answered with
//! `NotImplemented`. It never answers one itself.

use client::Client;
use s3s::{S3, S3Request, S3Response, S3Result, dto, s3_error};

use crate::{
    bucket_requests, copy_requests, key_ring::KeyRing, list_requests, multipart_requests, object_path::bucket_path,
    object_requests,
};

/// All requests that are answered.
pub(crate) struct Operations {
    keys: KeyRing,
}

impl Operations {
    pub(crate) fn new(keys: KeyRing) -> Self {
        Self { keys }
    }

    /// The cloud with the rights of who has signed a request.
    async fn client<T>(&self, request: &S3Request<T>) -> S3Result<Client> {
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

            // One region, in which all buckets are.
            async fn get_bucket_location(
                &self,
                request: S3Request<dto::GetBucketLocationInput>,
            ) -> S3Result<S3Response<dto::GetBucketLocationOutput>> {
                let client = self.client(&request).await?;
                bucket_requests::check_exists(&client, &bucket_path(&request.input.bucket)?).await?;
                Ok(S3Response::new(dto::GetBucketLocationOutput::default()))
            }

            // Replaced contents are the cloud's versions, which S3 does not see.
            async fn get_bucket_versioning(
                &self,
                request: S3Request<dto::GetBucketVersioningInput>,
            ) -> S3Result<S3Response<dto::GetBucketVersioningOutput>> {
                let client = self.client(&request).await?;
                bucket_requests::check_exists(&client, &bucket_path(&request.input.bucket)?).await?;
                Ok(S3Response::new(dto::GetBucketVersioningOutput::default()))
            }
        }
    };
}

operations! {
    list_buckets: ListBucketsInput => ListBucketsOutput = bucket_requests::list;
    create_bucket: CreateBucketInput => CreateBucketOutput = bucket_requests::create;
    head_bucket: HeadBucketInput => HeadBucketOutput = bucket_requests::head;
    delete_bucket: DeleteBucketInput => DeleteBucketOutput = bucket_requests::delete;
    list_objects: ListObjectsInput => ListObjectsOutput = list_requests::list_v1;
    list_objects_v2: ListObjectsV2Input => ListObjectsV2Output = list_requests::list_v2;
    put_object: PutObjectInput => PutObjectOutput = object_requests::put;
    get_object: GetObjectInput => GetObjectOutput = object_requests::get;
    head_object: HeadObjectInput => HeadObjectOutput = object_requests::head;
    delete_object: DeleteObjectInput => DeleteObjectOutput = object_requests::delete;
    delete_objects: DeleteObjectsInput => DeleteObjectsOutput = object_requests::delete_many;
    get_object_tagging: GetObjectTaggingInput => GetObjectTaggingOutput = object_requests::get_tags;
    put_object_tagging: PutObjectTaggingInput => PutObjectTaggingOutput = object_requests::put_tags;
    delete_object_tagging: DeleteObjectTaggingInput => DeleteObjectTaggingOutput = object_requests::delete_tags;
    copy_object: CopyObjectInput => CopyObjectOutput = copy_requests::copy;
    create_multipart_upload: CreateMultipartUploadInput => CreateMultipartUploadOutput = multipart_requests::create;
    upload_part: UploadPartInput => UploadPartOutput = multipart_requests::upload_part;
    upload_part_copy: UploadPartCopyInput => UploadPartCopyOutput = multipart_requests::upload_part_copy;
    complete_multipart_upload: CompleteMultipartUploadInput => CompleteMultipartUploadOutput = multipart_requests::complete;
    abort_multipart_upload: AbortMultipartUploadInput => AbortMultipartUploadOutput = multipart_requests::abort;
    list_parts: ListPartsInput => ListPartsOutput = multipart_requests::list_parts;
    list_multipart_uploads: ListMultipartUploadsInput => ListMultipartUploadsOutput = multipart_requests::list_uploads;
}
