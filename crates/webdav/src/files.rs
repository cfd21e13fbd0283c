//! Files and folders as the protocol's crate sees a file system. It would do step by step what the cloud does at once. So a
//! folder goes with all that is below it, and what replaces a file takes its place. It never reads a file.

use std::{
    pin::Pin,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use client::{ClientError, Condition, Entry, PutOptions, Reason, Refusal, Rights, SectorPath, namespace::is_folder};
use dav_server::{
    davpath::DavPath,
    fs::{
        DavDirEntry, DavFile, DavMetaData, DavProp, FsError, FsFuture, FsResult, FsStream, GuardedFileSystem,
        OpenOptions, ReadDirMeta,
    },
};
use futures_util::{StreamExt, stream};
use http::StatusCode;

use crate::{
    digests::{content_of, tag_of},
    listing, properties,
    request::DavRequest,
    upload::{Incoming, Upload, version_with},
};

/// The files of the cloud, with the rights of each request's user.
#[derive(Clone)]
pub(crate) struct CloudFiles;

/// An entry as a resource.
#[derive(Clone, Debug)]
pub(crate) struct Resource(pub(crate) Entry);

impl DavMetaData for Resource {
    fn len(&self) -> u64 {
        content_of(&self.0).map_or(0, |content| content.bytes)
    }

    fn modified(&self) -> FsResult<SystemTime> {
        Ok(UNIX_EPOCH + Duration::from_millis(self.0.modified_unix_millis))
    }

    fn created(&self) -> FsResult<SystemTime> {
        self.modified()
    }

    fn is_dir(&self) -> bool {
        is_folder(&self.0)
    }

    fn etag(&self) -> Option<String> {
        content_of(&self.0).map(tag_of)
    }
}

impl DavDirEntry for Resource {
    fn name(&self) -> Vec<u8> {
        self.0.path.name().unwrap_or_default().as_bytes().to_vec()
    }

    fn metadata(&'_ self) -> FsFuture<'_, Box<dyn DavMetaData>> {
        let found: Box<dyn DavMetaData> = Box::new(self.clone());
        Box::pin(async { Ok(found) })
    }
}

/// Runs a request to the cloud, and keeps what went wrong for the answer.
fn asking<'a, T: Send + 'a>(
    request: &'a DavRequest,
    asked: impl Future<Output = Result<T, ClientError>> + Send + 'a,
) -> FsFuture<'a, T> {
    Box::pin(async move { asked.await.map_err(|error| request.failed(&error)) })
}

impl GuardedFileSystem<DavRequest> for CloudFiles {
    fn open<'a>(
        &'a self,
        path: &'a DavPath,
        options: OpenOptions,
        request: &'a DavRequest,
    ) -> FsFuture<'a, Box<dyn DavFile>> {
        Box::pin(async move {
            let path = request.path(path)?;
            let failed = |error| request.failed(&error);
            let condition = if options.create_new { Condition::Absent } else { Condition::Any };
            let mut put = PutOptions { condition, bytes_expected: options.size, ..PutOptions::default() };
            let said = &request.said;
            // A lock makes an empty file where there is none.
            let is_for_lock = !options.truncate && options.size.is_none();
            if is_for_lock {
                put.condition = Condition::Absent;
            }
            let announced = said.announced.clone();
            if !said.if_match.is_empty() {
                let version = version_with(&request.client, &path, &said.if_match).await;
                put.condition = version.map_err(failed)?;
            }
            let incoming = Incoming::begin(&request.client, &path, put, announced).await;
            let mut upload = Upload::new(request.clone(), incoming.map_err(failed)?, options.size);
            if is_for_lock {
                upload.flush().await?;
            }
            Ok(Box::new(upload) as Box<dyn DavFile>)
        })
    }

    fn read_dir<'a>(
        &'a self,
        path: &'a DavPath,
        _: ReadDirMeta,
        request: &'a DavRequest,
    ) -> FsFuture<'a, FsStream<Box<dyn DavDirEntry>>> {
        Box::pin(async move {
            let path = request.path(path)?;
            if request.said.removed.as_ref() == Some(&path) {
                // It goes as a whole: nobody needs to know what is in it.
                return Ok(stream::empty().boxed());
            }
            let entries = listing::entries(request.clone(), path);
            Ok(entries.map(|entry| Ok(Box::new(Resource(entry?)) as Box<dyn DavDirEntry>)).boxed())
        })
    }

    fn metadata<'a>(&'a self, path: &'a DavPath, request: &'a DavRequest) -> FsFuture<'a, Box<dyn DavMetaData>> {
        Box::pin(async move {
            let path = request.path(path)?;
            match request.client.find(&path).await {
                Ok(Some(entry)) => Ok(Box::new(Resource(entry)) as Box<dyn DavMetaData>),
                Ok(None) => Err(FsError::NotFound),
                Err(error) => Err(request.failed(&error)),
            }
        })
    }

    fn create_dir<'a>(&'a self, path: &'a DavPath, request: &'a DavRequest) -> FsFuture<'a, ()> {
        asking(request, async move {
            let path = SectorPath::parse(&path_text(path))?;
            let making = request.client.make_folder(&path, false);
            in_place_of(request, &path, Replaced::First, making).await
        })
    }

    fn remove_dir<'a>(&'a self, path: &'a DavPath, request: &'a DavRequest) -> FsFuture<'a, ()> {
        asking(request, async move {
            let path = SectorPath::parse(&path_text(path))?;
            let is_whole = request.said.removed.as_ref() == Some(&path);
            if is_whole && request.said.is_replaced {
                request.postpone_removal(&path);
                return Ok(());
            }
            request.client.remove(&path, is_whole).await
        })
    }

    fn remove_file<'a>(&'a self, path: &'a DavPath, request: &'a DavRequest) -> FsFuture<'a, ()> {
        asking(request, async move {
            let path = SectorPath::parse(&path_text(path))?;
            if request.said.is_replaced && request.said.removed.as_ref() == Some(&path) {
                request.postpone_removal(&path);
                return Ok(());
            }
            request.client.remove(&path, false).await
        })
    }

    fn rename<'a>(&'a self, from: &'a DavPath, to: &'a DavPath, request: &'a DavRequest) -> FsFuture<'a, ()> {
        asking(request, async move {
            let (from, to) = (SectorPath::parse(&path_text(from))?, SectorPath::parse(&path_text(to))?);
            let moved = request.client.stat(&from).await?.entry;
            if !request.client.acl(&from).await?.mine.has(Rights::WRITE) {
                let message = format!("{} may not move `{from}`", request.client.user());
                return Err(Refusal::new(Reason::NoRight, message).into());
            }
            let replaced = if is_folder(&moved) { Replaced::First } else { Replaced::FirstIfFolder };
            in_place_of(request, &to, replaced, request.client.rename(&from, &to)).await
        })
    }

    fn copy<'a>(&'a self, from: &'a DavPath, to: &'a DavPath, request: &'a DavRequest) -> FsFuture<'a, ()> {
        asking(request, async move {
            let (from, to) = (SectorPath::parse(&path_text(from))?, SectorPath::parse(&path_text(to))?);
            let condition = if request.said.may_replace { Condition::Any } else { Condition::Absent };
            let options = PutOptions { condition, ..PutOptions::default() };
            let copying = async { request.client.copy(&from, &to, &options, &|_| ()).await.map(drop) };
            in_place_of(request, &to, Replaced::FirstIfFolder, copying).await
        })
    }

    fn have_props<'a>(
        &'a self,
        path: &'a DavPath,
        request: &'a DavRequest,
    ) -> Pin<Box<dyn Future<Output = bool> + Send + 'a>> {
        Box::pin(async move { self.metadata(path, request).await.is_ok_and(|found| !found.is_dir()) })
    }

    fn patch_props<'a>(
        &'a self,
        path: &'a DavPath,
        patch: Vec<(bool, DavProp)>,
        request: &'a DavRequest,
    ) -> FsFuture<'a, Vec<(StatusCode, DavProp)>> {
        asking(request, async move { properties::change(request, &SectorPath::parse(&path_text(path))?, patch).await })
    }
}

/// When what is in the place of something new goes.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Replaced {
    /// Before, whatever it is.
    First,
    /// Before, if it is a folder: a new file replaces a file at once.
    FirstIfFolder,
}

/// Does something that takes the place of what was to be removed. If it fails, that is put back.
async fn in_place_of(
    request: &DavRequest,
    path: &SectorPath,
    replaced: Replaced,
    work: impl Future<Output = Result<(), ClientError>>,
) -> Result<(), ClientError> {
    if !request.take_removal(path) {
        return work.await;
    }
    let client = &request.client;
    let goes_first = replaced == Replaced::First || client.find(path).await?.is_some_and(|entry| is_folder(&entry));
    if !goes_first {
        return work.await;
    }
    client.remove(path, true).await?;
    let done = work.await;
    if done.is_err()
        && let Err(error) = client.restore(path, None).await
    {
        tracing::warn!(%path, %error, "what was to be replaced is in the trash, and could not be put back");
    }
    done
}

fn path_text(path: &DavPath) -> String {
    // What is no UTF-8 is refused as a path with a letter that none has.
    String::from_utf8(path.as_bytes().to_vec()).unwrap_or_else(|_| "/\0".into())
}
