//! Unfinished uploads as files beside what they become. Each is a folder in `.s3-uploads` of the object's own folder, with a
//! file for what is to be made and one for each part. So any gateway takes any part, and the rights are those of the
//! object's folder. They go by themselves after a week, and never with a gateway.

use std::collections::BTreeMap;

use client::{Client, Entry, Policy, PutOptions, Reason, SectorPath};
use data_encoding::HEXLOWER;
use ring::rand::{SecureRandom, SystemRandom};
use s3s::{S3Error, S3Result, s3_error};

use crate::{
    errors::{of_client, of_write},
    objects::{
        metadata::content_of,
        path::{UPLOADS, bucket_path, object_path},
        removals::remove_empty_above,
    },
};

/// An upload that was begun.
pub(crate) struct Upload {
    bucket: SectorPath,
    folder: SectorPath,
    /// What is to be said of the object.
    pub(crate) user: BTreeMap<String, String>,
}

/// A part that has come.
pub(crate) struct UploadedPart {
    pub(crate) number: i32,
    pub(crate) entry: Entry,
}

/// Begins an upload of an object of which `user` is to be said. Gives its id. Who may not write beside the object is refused.
pub(crate) async fn begin(
    client: &Client,
    bucket: &str,
    key: &str,
    mut user: BTreeMap<String, String>,
) -> S3Result<String> {
    let mut random = [0; 16];
    SystemRandom::new().fill(&mut random).map_err(|_| s3_error!(InternalError, "the system gives no random bytes"))?;
    let id = HEXLOWER.encode(&random);
    let all = uploads_path(bucket, key)?;
    if client.find(&all).await.map_err(|error| of_write(&error))?.is_none() {
        client.make_folder(&all, true).await.map_err(|error| of_write(&error))?;
        let policy = Policy { lifetime_seconds: Some(UNFINISHED_SECONDS_MAX), ..Policy::default() };
        if let Err(error) = client.set_policy(&all, policy).await {
            tracing::info!(folder = %all, %error, "unfinished uploads will stay until they are aborted");
        }
    }
    user.insert(KEY.to_owned(), key.to_owned());
    let options = PutOptions { parents: true, user, bytes_expected: Some(0), ..PutOptions::default() };
    let about = joined(&folder_of(bucket, key, &id)?, ABOUT)?;
    client.put(std::io::empty(), &about, &options, &|_| ()).await.map_err(|error| of_write(&error))?;
    Ok(id)
}

/// An upload by its id.
pub(crate) async fn find(client: &Client, bucket: &str, key: &str, id: &str) -> S3Result<Upload> {
    let folder = folder_of(bucket, key, id)?;
    let begun = match client.stat(&joined(&folder, ABOUT)?).await {
        Ok(status) => status.entry,
        Err(error) if matches!(error.reason(), Reason::NotFound | Reason::NotFolder) => return Err(unknown()),
        Err(error) => return Err(of_client(&error)),
    };
    let mut user = content_of(&begun).ok_or_else(unknown)?.user.clone();
    if user.remove(KEY).as_deref() != Some(key) {
        return Err(unknown());
    }
    Ok(Upload { bucket: bucket_path(bucket)?, folder, user })
}

/// All uploads of a bucket whose keys begin so: keys, ids, and when they were begun. Reads all names below the folder of the
/// prefix, of which the user sees what he may.
pub(crate) async fn all(client: &Client, bucket: &str, prefix: &str) -> S3Result<Vec<(String, String, Entry)>> {
    let above = prefix.rsplit_once('/').map_or("", |(above, _)| above);
    let mut names = above.split('/').filter(|name| !name.is_empty());
    let Ok(folder) = names.try_fold(bucket_path(bucket)?, |at, name| at.join(name)) else {
        return Ok(Vec::new());
    };
    let (mut uploads, mut after) = (Vec::new(), None);
    loop {
        let page = match client.page(&folder, true, after).await {
            Ok(page) => page,
            Err(error) if matches!(error.reason(), Reason::NotFound | Reason::NotFolder) => break,
            Err(error) => return Err(of_client(&error)),
        };
        let last = page.next.or_else(|| page.entries.last().map(|entry| entry.path.clone()));
        for begun in page.entries {
            let names: Vec<_> = begun.path.components().rev().take(3).map(str::to_owned).collect();
            let [about, id, uploads_folder] = &names[..] else { continue };
            let key = content_of(&begun).and_then(|content| content.user.get(KEY).cloned());
            if about == ABOUT
                && uploads_folder == UPLOADS
                && let Some(key) = key.filter(|key| key.starts_with(prefix))
            {
                uploads.push((key, id.clone(), begun));
            }
        }
        if !page.more || last.is_none() {
            break;
        }
        after = last;
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
        joined(&self.folder, &format!("{number:05}"))
    }

    /// The parts that have come, by number.
    pub(crate) async fn parts(&self, client: &Client) -> S3Result<Vec<UploadedPart>> {
        let files = client.list(&self.folder).await.map_err(|error| of_client(&error))?;
        let part = |entry: Entry| Some(UploadedPart { number: entry.path.name()?.parse().ok()?, entry });
        Ok(files.into_iter().filter_map(part).collect())
    }

    /// Removes it with all of its parts, and the folders that are empty then.
    pub(crate) async fn remove(&self, client: &Client) -> S3Result<()> {
        match client.remove_now(&self.folder, true).await {
            Err(error) if error.reason() != Reason::NotFound => return Err(of_client(&error)),
            _ => {}
        }
        let Some(all) = self.folder.parent() else { return Ok(()) };
        // With others in it, it stays.
        if client.remove_now(&all, false).await.is_ok() {
            remove_empty_above(client, &self.bucket, all.parent()).await;
        }
        Ok(())
    }
}

/// Where the uploads are that become objects in the folder of this one.
fn uploads_path(bucket: &str, key: &str) -> S3Result<SectorPath> {
    let object = object_path(bucket, key)?;
    joined(&object.parent().unwrap_or_else(SectorPath::root), UPLOADS)
}

fn folder_of(bucket: &str, key: &str, id: &str) -> S3Result<SectorPath> {
    if id.len() != ID_LETTERS || !id.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        return Err(unknown());
    }
    joined(&uploads_path(bucket, key)?, id)
}

fn joined(folder: &SectorPath, name: &str) -> S3Result<SectorPath> {
    folder.join(name).map_err(|error| s3_error!(InvalidArgument, "{error}"))
}

fn unknown() -> S3Error {
    s3_error!(NoSuchUpload, "there is no such upload (any more)")
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
