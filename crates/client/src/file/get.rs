//! Download (path: `docs/paths/download.md`): locates a file, and reads it on this machine if it is here, else from the
//! nearest nodes. Every block is verified on its way. A local file never appears under its name before it is complete.

use std::{
    fs::OpenOptions,
    io::{self, Write},
    ops::Range,
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use protocol::{
    SectorPath,
    message::{
        client_master::{Entry, EntryKind, FileContent, Located, Source},
        request::LocateRequest,
    },
};
use tokio::sync::Notify;

use super::{
    TransferProgress,
    checksummed_file::UnreadableBytes,
    executable::is_executable,
    fetch::{Fetch, FetchOutput, STALL_MAX},
    fetch_plan::RangeSet,
    local_slice::LocalSlice,
    local_target::LocalTarget,
    partial_download::PartialDownload,
    range_writer::{InOrder, RangeWriter},
};
use crate::{Client, ClientError};

/// How a file is fetched to a local one.
#[derive(Clone, Debug)]
pub struct GetOptions {
    /// Replace a local file of that name.
    pub overwrite: bool,
    /// How long a node may bring nothing before another takes its place.
    pub stall: Duration,
    /// Counts the bytes that [`get_file`](Client::get_file) did not fetch because an earlier call had.
    pub kept_bytes: Option<Arc<AtomicU64>>,
}

impl Default for GetOptions {
    fn default() -> Self {
        Self { overwrite: false, stall: STALL_MAX, kept_bytes: None }
    }
}

impl Client {
    /// Where a file may be read, with its content as of now.
    pub async fn locate(&self, path: &SectorPath) -> Result<(FileContent, Located), ClientError> {
        let located = self.ask(LocateRequest(path.clone())).await?;
        match &located.entry.kind {
            EntryKind::File(content) => Ok((content.clone(), located)),
            EntryKind::Folder => Err(ClientError::IsFolder { path: path.clone() }),
        }
    }

    /// Writes the bytes `range` of a file (all of it if `None`) to `to`, in order, and gives `to` back. A range that
    /// extends beyond the file's end is cut there; one that begins beyond it is refused.
    pub async fn read<W: Write + Send + 'static>(
        &self,
        path: &SectorPath,
        range: Option<Range<u64>>,
        to: W,
        progress: TransferProgress<'_>,
    ) -> Result<(Entry, W), ClientError> {
        let (content, located) = self.locate(path).await?;
        let range = check_range(path, range, content.bytes)?;
        let to = self.read_version((path, &content), located.sources, range, to, progress).await?;
        Ok((located.entry, to))
    }

    /// [`read`](Self::read) of a version that was located: this range of exactly these bytes, or an error.
    pub(super) async fn read_version<W: Write + Send + 'static>(
        &self,
        (path, content): (&SectorPath, &FileContent),
        sources: Vec<Source>,
        range: Range<u64>,
        to: W,
        progress: TransferProgress<'_>,
    ) -> Result<W, ClientError> {
        let wrote = Arc::new(Notify::new());
        let sink = RangeWriter::start(InOrder::new(to, range.start), Arc::clone(&wrote));
        let mut at = range.start;
        let mut here = sources.clone();
        while at < range.end
            && !sink.sender().is_closed()
            && let Some(doors) = self.local_sockets()
            && let Some(slice) = LocalSlice::open(doors, &here, content).await
        {
            let (reached, result) = slice.send_to(sink.sender(), at..range.end, progress).await;
            at = reached;
            note_unreadable(&slice, result, &mut here).await;
        }
        let fetch = Fetch { client: self, path, content, stall: STALL_MAX, progress };
        let outlet = FetchOutput { sender: sink.sender(), write_notify: wrote, in_order: true };
        let result = fetch.run(sources, RangeSet::of(at..range.end), outlet).await;
        let written = sink.finish().await.map_err(|source| ClientError::Stream { what: "write what was read", source });
        // If the writing stopped, its error is the cause.
        match (result, written) {
            (_, Err(error)) | (Err(error), Ok(_)) => Err(error),
            (Ok(()), Ok(to)) => Ok(to),
        }
    }

    /// Fetches a file to the local `file`. It is written beside it and gets its name when complete. What a broken
    /// attempt left is used by the next, and then the whole is compared with its digest. A link stays, and what it
    /// leads to is written. A device or pipe gets the bytes, as from a shell, and is never replaced.
    ///
    /// # Errors
    /// `Exists` if `file` exists and may not be replaced.
    pub async fn get_file(
        &self,
        path: &SectorPath,
        file: &Path,
        options: GetOptions,
        progress: TransferProgress<'_>,
    ) -> Result<Entry, ClientError> {
        let found = LocalTarget::at(file).map_err(ClientError::file("look at", file))?;
        if let LocalTarget::Special = found {
            return self.get_into(path, file, progress).await;
        }
        let file = match &found {
            LocalTarget::File(real) => real,
            LocalTarget::Nothing | LocalTarget::Special => file,
        };
        if !options.overwrite && matches!(found, LocalTarget::File(_)) {
            return Err(ClientError::file("write", file)(io::ErrorKind::AlreadyExists.into()));
        }
        let (content, located) = self.locate(path).await?;
        let (part, mut missing) = PartialDownload::open(file, &content).map_err(ClientError::file("write", file))?;
        let resumed_bytes = content.bytes - missing.bytes();
        progress(resumed_bytes);
        if let Some(kept_bytes) = &options.kept_bytes {
            kept_bytes.fetch_add(resumed_bytes, Ordering::Relaxed);
        }
        let mut here = located.sources.clone();
        while !missing.is_empty()
            && let Some(doors) = self.local_sockets()
            && let Some(slice) = LocalSlice::open(doors, &here, &content).await
        {
            let result = slice.copy_to(&part, &mut missing, progress).await;
            note_unreadable(&slice, result, &mut here).await;
        }
        let sources = located.sources;
        self.fetch_to(
            (&part, file),
            Fetch { client: self, path, content: &content, stall: options.stall, progress },
            sources,
            missing,
        )
        .await?;
        if resumed_bytes > 0 && !part.has_digest(&content.digest).map_err(ClientError::file("read", part.path()))? {
            part.discard().map_err(ClientError::file("remove", file))?;
            return Err(ClientError::Corrupt { path: path.clone() });
        }
        part.publish(file, located.entry.modified_unix_millis, is_executable(&content))
            .map_err(ClientError::file("write", file))?;
        Ok(located.entry)
    }

    /// Writes a file to a device, a pipe or a socket, from its first byte to its last, as a shell would.
    async fn get_into(
        &self,
        path: &SectorPath,
        file: &Path,
        progress: TransferProgress<'_>,
    ) -> Result<Entry, ClientError> {
        let named = file.to_owned();
        // A pipe is open once somebody reads from it.
        let opened = tokio::task::spawn_blocking(move || OpenOptions::new().write(true).open(named)).await;
        let opened = opened.unwrap_or_else(|error| Err(io::Error::other(error)));
        let to = opened.map_err(ClientError::file("write", file))?;
        match self.read(path, None, to, progress).await {
            Ok((entry, _)) => Ok(entry),
            Err(ClientError::Stream { source, .. }) => Err(ClientError::file("write", file)(source)),
            Err(error) => Err(error),
        }
    }

    /// Fetches what a part lacks. An error names the file that it is a part of.
    async fn fetch_to(
        &self,
        (part, file): (&PartialDownload, &Path),
        fetch: Fetch<'_>,
        sources: Vec<Source>,
        missing: RangeSet,
    ) -> Result<(), ClientError> {
        if missing.is_empty() {
            return Ok(());
        }
        let wrote = Arc::new(Notify::new());
        let sink = RangeWriter::start(part.clone(), Arc::clone(&wrote));
        let outlet = FetchOutput { sender: sink.sender(), write_notify: wrote, in_order: false };
        let result = fetch.run(sources, missing, outlet).await;
        sink.finish().await.map_err(ClientError::file("write", file))?;
        result
    }
}

/// If a copy on this machine did not bring everything, notes why, and that it is not tried again. Another copy here, or
/// the network, brings the rest.
async fn note_unreadable(slice: &LocalSlice, result: Result<(), UnreadableBytes>, here: &mut Vec<Source>) {
    here.retain(|source| source.node != slice.source().node);
    match result {
        Ok(()) => {}
        Err(UnreadableBytes::BadBlock(at)) => slice.report_bad(at).await,
        Err(UnreadableBytes::Io(error)) => {
            tracing::info!(node = %slice.source().node, %error, "not read on this machine to the end");
        }
    }
}

/// The range to read of a file of `bytes` bytes.
fn check_range(path: &SectorPath, range: Option<Range<u64>>, bytes: u64) -> Result<Range<u64>, ClientError> {
    let Some(range) = range else { return Ok(0..bytes) };
    if range.start > range.end || range.start > bytes {
        // Callers count the end in different ways.
        let start = range.start;
        return Err(ClientError::Usage(format!("`{path}` has {bytes} bytes; no range of it begins at {start}")));
    }
    Ok(range.start..range.end.min(bytes))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn a_range_is_cut_at_the_end_and_refused_behind_it() {
        let path = SectorPath::parse("/x").unwrap();
        assert_eq!(check_range(&path, None, 10).unwrap(), 0..10);
        assert_eq!(check_range(&path, Some(3..100), 10).unwrap(), 3..10);
        assert_eq!(check_range(&path, Some(10..12), 10).unwrap(), 10..10);
        assert!(check_range(&path, Some(11..12), 10).is_err());
        #[allow(clippy::reversed_empty_ranges)]
        let backwards = 5..4;
        assert!(check_range(&path, Some(backwards), 10).is_err());
    }
}
