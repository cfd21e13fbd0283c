//! The bytes of an upload. They go to the nodes as they come, and the client waits for these. A file appears whole, if its
//! length and its sums are those that were said, and else not at all. It never changes a part of a file.

use std::{io::SeekFrom, mem};

use bytes::{Buf, Bytes};
use client::{Client, ClientError, Condition, Entry, FileWriter, PutOptions, Reason, Refusal, SectorPath};
use dav_server::fs::{DavFile, DavMetaData, FsError, FsFuture};

use crate::{
    digests::{Announced, Kind, Summing, as_user_metadata, content_of, tag_of},
    failure::DavFailure,
    files::Resource,
    request::DavRequest,
};

/// A file that is being written, with its sums.
pub(crate) struct Incoming {
    writer: FileWriter,
    summing: Summing,
    announced: Announced,
}

impl Incoming {
    /// Begins a file.
    pub(crate) async fn begin(
        client: &Client,
        path: &SectorPath,
        options: PutOptions,
        announced: Announced,
    ) -> Result<Self, ClientError> {
        let writer = client.open_writer(path, options, false).await?;
        let summing = Summing::new(announced.kinds().chain([KEPT]));
        Ok(Self { writer, summing, announced })
    }

    /// Sums that the bytes must have, too. They are said before the first byte has come.
    pub(crate) fn expect(&mut self, more: Announced) {
        self.announced.add(more);
        self.summing = Summing::new(self.announced.kinds().chain([KEPT]));
    }

    pub(crate) async fn write(&mut self, bytes: Bytes) -> Result<(), ClientError> {
        self.summing.add(&bytes);
        self.writer.write(bytes).await
    }

    /// How many bytes have come.
    pub(crate) fn bytes(&self) -> u64 {
        self.summing.bytes()
    }

    /// Publishes it, if it has so many bytes and the sums that were said. Else nothing of it appears.
    pub(crate) async fn finish(self, expected: Option<u64>) -> Result<Entry, ClientError> {
        let bytes = self.bytes();
        let sums = self.summing.finish();
        let wrong = match expected {
            Some(expected) if expected != bytes => Some(format!("the upload has {bytes} of {expected} bytes")),
            _ => self.announced.check(&sums).err(),
        };
        if let Some(why) = wrong {
            self.writer.discard().await;
            return Err(Refusal::new(Reason::Invalid, why).into());
        }
        self.writer.finish_with(as_user_metadata(&sums, bytes)).await
    }

    /// Gives it up: nothing of it appears.
    pub(crate) async fn discard(self) {
        self.writer.discard().await;
    }
}

/// The version that has one of these tags, if the file has it now.
pub(crate) async fn version_with(
    client: &Client,
    path: &SectorPath,
    tags: &[String],
) -> Result<Condition, ClientError> {
    let found = client.find(path).await?;
    match found.as_ref().and_then(content_of) {
        Some(content) if tags.contains(&tag_of(content)) => Ok(Condition::Version(content.version)),
        _ => {
            let message = format!("`{path}` is not what the condition says");
            Err(Refusal::new(Reason::VersionChanged { current: None }, message).into())
        }
    }
}

/// An upload as the protocol's crate writes it.
pub(crate) struct Upload {
    request: DavRequest,
    expected: Option<u64>,
    state: UploadState,
}

enum UploadState {
    Open(Box<Incoming>),
    Published(Box<Entry>),
    Failed,
}

impl Upload {
    pub(crate) fn new(request: DavRequest, incoming: Incoming, expected: Option<u64>) -> Self {
        Self { request, expected, state: UploadState::Open(Box::new(incoming)) }
    }

    async fn write(&mut self, bytes: Bytes) -> Result<(), FsError> {
        let UploadState::Open(incoming) = &mut self.state else { return Err(FsError::GeneralFailure) };
        incoming.write(bytes).await.map_err(|error| self.request.failed(&error))
    }

    async fn publish(&mut self) -> Result<(), FsError> {
        let UploadState::Open(incoming) = mem::replace(&mut self.state, UploadState::Failed) else {
            return Err(FsError::GeneralFailure);
        };
        let entry = incoming.finish(self.expected).await.map_err(|error| self.request.failed(&error))?;
        self.state = UploadState::Published(Box::new(entry));
        Ok(())
    }
}

impl std::fmt::Debug for Upload {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Upload")
    }
}

impl DavFile for Upload {
    fn metadata(&'_ mut self) -> FsFuture<'_, Box<dyn DavMetaData>> {
        Box::pin(async {
            match &self.state {
                UploadState::Published(entry) => Ok(Box::new(Resource((**entry).clone())) as Box<dyn DavMetaData>),
                UploadState::Open(_) | UploadState::Failed => Err(FsError::NotFound),
            }
        })
    }

    fn write_buf(&'_ mut self, mut buf: Box<dyn Buf + Send>) -> FsFuture<'_, ()> {
        Box::pin(async move {
            let length = buf.remaining();
            self.write(buf.copy_to_bytes(length)).await
        })
    }

    fn write_bytes(&'_ mut self, buf: Bytes) -> FsFuture<'_, ()> {
        Box::pin(self.write(buf))
    }

    fn flush(&'_ mut self) -> FsFuture<'_, ()> {
        Box::pin(self.publish())
    }

    fn read_bytes(&'_ mut self, _: usize) -> FsFuture<'_, Bytes> {
        Box::pin(async { Err(FsError::NotImplemented) })
    }

    fn seek(&'_ mut self, _: SeekFrom) -> FsFuture<'_, u64> {
        let message = "a file is written whole: send all of it";
        self.request.refuse(DavFailure::new(http::StatusCode::NOT_IMPLEMENTED, message));
        Box::pin(async { Err(FsError::NotImplemented) })
    }
}

/// What is kept with every upload: it costs little, and storage elements ask for it.
const KEPT: Kind = Kind::Adler32;
