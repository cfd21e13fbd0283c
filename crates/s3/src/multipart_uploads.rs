//! Unfinished uploads as files of the bucket. Each is a folder below `.s3-uploads`, with a file for what is to be made and
//! one for each part. So any gateway takes any part. They go by themselves after a week, and never with a gateway.

use std::collections::BTreeMap;

use client::{Client, Entry, Policy, PutOptions, Reason, SectorPath, namespace::is_folder};
use data_encoding::HEXLOWER;
use ring::rand::{SecureRandom, SystemRandom};
use s3s::{S3Result, s3_error};

use crate::{
    errors::of_client,
    object_metadata::content_of,
    object_path::{UPLOADS, bucket_path},
};

/// An upload that was begun.
pub(crate) struct Upload {
    pub(crate) folder: SectorPath,
    /// What is to be said of the object.
    pub(crate) user: BTreeMap<String, String>,
}

/// A part that has come.
pub(crate) struct UploadedPart {
    pub(crate) number: i32,
    pub(crate) entry: Entry,
}

/// Begins an upload of an object of which `user` is to be said. Gives its id.
pub(crate) async fn begin(
    client: &Client,
    bucket: &str,
    key: &str,
    mut user: BTreeMap<String, String>,
) -> S3Result<String> {
    let mut random = [0; 16];
    SystemRandom::new().fill(&mut random).map_err(|_| s3_error!(InternalError, "the system gives no random bytes"))?;
    let id = HEXLOWER.encode(&random);
    let all = uploads_path(bucket)?;
    if client.find(&all).await.map_err(|error| of_client(&error))?.is_none() {
        client.make_folder(&all, true).await.map_err(|error| of_client(&error))?;
        let policy = Policy { lifetime_seconds: Some(UNFINISHED_SECONDS_MAX), ..Policy::default() };
        if let Err(error) = client.set_policy(&all, policy).await {
            tracing::info!(bucket, %error, "unfinished uploads will stay until they are aborted");
        }
    }
    let folder = folder_of(bucket, &id)?;
    user.insert(KEY.to_owned(), key.to_owned());
    let options = PutOptions { parents: true, user, bytes_expected: Some(0), ..PutOptions::default() };
    let about = folder.join(ABOUT).map_err(|error| s3_error!(InternalError, "{error}"))?;
    client.put(std::io::empty(), &about, &options, &|_| ()).await.map_err(|error| of_client(&error))?;
    Ok(id)
}

/// An upload by its id.
pub(crate) async fn find(client: &Client, bucket: &str, key: &str, id: &str) -> S3Result<Upload> {
    let folder = folder_of(bucket, id)?;
    let unknown = || s3_error!(NoSuchUpload, "there is no such upload (any more)");
    let about = folder.join(ABOUT).map_err(|_| unknown())?;
    let begun = match client.stat(&about).await {
        Ok(status) => status.entry,
        Err(error) if error.reason() == Reason::NotFound => return Err(unknown()),
        Err(error) => return Err(of_client(&error)),
    };
    let mut user = content_of(&begun).ok_or_else(unknown)?.user.clone();
    if user.remove(KEY).as_deref() != Some(key) {
        return Err(unknown());
    }
    Ok(Upload { folder, user })
}

/// All uploads of a bucket: their keys, ids, and when they were begun.
pub(crate) async fn all(client: &Client, bucket: &str) -> S3Result<Vec<(String, String, Entry)>> {
    let folders = match client.list(&uploads_path(bucket)?).await {
        Ok(folders) => folders,
        Err(error) if error.reason() == Reason::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(of_client(&error)),
    };
    let mut uploads = Vec::new();
    for folder in folders.into_iter().filter(is_folder) {
        let Ok(about) = folder.path.join(ABOUT) else { continue };
        // It may have been finished meanwhile.
        let Some(begun) = client.find(&about).await.map_err(|error| of_client(&error))? else { continue };
        let key = content_of(&begun).and_then(|content| content.user.get(KEY).cloned());
        if let (Some(key), Some(id)) = (key, folder.path.name()) {
            uploads.push((key, id.to_owned(), begun));
        }
    }
    uploads.sort_by(|a, b| (&a.0, &a.1).cmp(&(&b.0, &b.1)));
    Ok(uploads)
}

impl Upload {
    /// The file of a part.
    pub(crate) fn part_path(&self, number: i32) -> S3Result<SectorPath> {
        if !(1..=PARTS_MAX).contains(&number) {
            return Err(s3_error!(InvalidArgument, "parts have numbers from 1 to {PARTS_MAX}"));
        }
        self.folder.join(&format!("{number:05}")).map_err(|error| s3_error!(InternalError, "{error}"))
    }

    /// The parts that have come, by number.
    pub(crate) async fn parts(&self, client: &Client) -> S3Result<Vec<UploadedPart>> {
        let files = client.list(&self.folder).await.map_err(|error| of_client(&error))?;
        let part = |entry: Entry| Some(UploadedPart { number: entry.path.name()?.parse().ok()?, entry });
        Ok(files.into_iter().filter_map(part).collect())
    }

    /// Removes it with all of its parts.
    pub(crate) async fn remove(&self, client: &Client) -> S3Result<()> {
        match client.remove_now(&self.folder, true).await {
            Err(error) if error.reason() != Reason::NotFound => Err(of_client(&error)),
            _ => Ok(()),
        }
    }
}

fn uploads_path(bucket: &str) -> S3Result<SectorPath> {
    bucket_path(bucket)?.join(UPLOADS).map_err(|error| s3_error!(InternalError, "{error}"))
}

fn folder_of(bucket: &str, id: &str) -> S3Result<SectorPath> {
    let is_id = id.len() == ID_LETTERS && id.bytes().all(|byte| byte.is_ascii_hexdigit());
    let folder = uploads_path(bucket)?;
    if !is_id {
        return Err(s3_error!(NoSuchUpload, "there is no such upload"));
    }
    folder.join(id).map_err(|error| s3_error!(InternalError, "{error}"))
}

/// The file that says what is to be made, and the key of its metadata that names the object.
const ABOUT: &str = "about";
const KEY: &str = "s3.upload-key";
/// Letters of an id.
const ID_LETTERS: usize = 32;
/// Of one upload.
pub(crate) const PARTS_MAX: i32 = 10_000;
/// What nobody finishes goes after a week.
const UNFINISHED_SECONDS_MAX: u64 = 7 * 86_400;
