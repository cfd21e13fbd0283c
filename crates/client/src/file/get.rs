//! Download (path: `docs/paths/download.md`): locate, read from the nearest copy, go on at the next where one fails.
//! Every block is verified on its way; a local file appears under its name only when it is whole.

use std::{
    fs::{self, File, OpenOptions},
    io::{self, Read, Seek, SeekFrom, Write},
    ops::Range,
    path::{Path, PathBuf},
};

use net::{NetError, transfer::Frame};
use protocol::{
    SectorPath, limits,
    message::{
        client_master::{ClientReply, ClientRequest, Entry, EntryKind, FileContent, Located, Source},
        transfer::{TransferReply, TransferRequest},
    },
};

use super::{Progress, pump::WriteBehind};
use crate::{Client, ClientError};

/// How a file is fetched to a local one.
#[derive(Clone, Copy, Debug, Default)]
pub struct GetOptions {
    /// Replace a local file of that name.
    pub overwrite: bool,
}

impl Client {
    /// Where a file may be read, with its content as of now.
    pub async fn locate(&self, path: &SectorPath) -> Result<(FileContent, Located), ClientError> {
        let located = match self.ask(ClientRequest::Locate(path.clone())).await? {
            ClientReply::Located(located) => located,
            _ => return Err(ClientError::Unexpected { who: "master", request: "locate" }),
        };
        match &located.entry.kind {
            EntryKind::File(content) => Ok((content.clone(), located)),
            EntryKind::Folder => Err(ClientError::Usage(format!("`{path}` is a folder; use -r for all that it holds"))),
        }
    }

    /// Writes the bytes `range` of a file (all of it where `None`) to `to`, in order, and gives `to` back. A range that
    /// ends behind the file's end is cut there; one that begins there is refused.
    pub async fn read<W: Write + Send + 'static>(
        &self,
        path: &SectorPath,
        range: Option<Range<u64>>,
        to: W,
        progress: Progress<'_>,
    ) -> Result<(Entry, W), ClientError> {
        let (content, located) = self.locate(path).await?;
        let range = check_range(path, range, content.bytes)?;
        let mut sink = WriteBehind::start(to);
        let result = self.read_located(path, &content, &located.sources, range, &mut sink, progress).await;
        let written = sink.finish().await.map_err(|source| ClientError::Stream { what: "write what was read", source });
        // What stopped the writing is the cause, where it stopped.
        match (result, written) {
            (_, Err(error)) | (Err(error), Ok(_)) => Err(error),
            (Ok(()), Ok(to)) => Ok((located.entry, to)),
        }
    }

    /// Fetches a file to the local `file`. It is written beside it and gets its name when whole; what a broken attempt
    /// left is used by the next, and then the whole is compared with its digest.
    ///
    /// # Errors
    /// `Exists` where `file` is there and may not be replaced.
    pub async fn get_file(
        &self,
        path: &SectorPath,
        file: &Path,
        options: GetOptions,
        progress: Progress<'_>,
    ) -> Result<Entry, ClientError> {
        if !options.overwrite && file.try_exists().map_err(ClientError::file("look at", file))? {
            return Err(ClientError::file("write", file)(io::ErrorKind::AlreadyExists.into()));
        }
        let (content, located) = self.locate(path).await?;
        let part = part_file(file, &content);
        let (local, resumed_at) = open_part(&part, content.bytes).map_err(ClientError::file("write", &part))?;
        progress(resumed_at);
        let mut sink = WriteBehind::start(local);
        let range = resumed_at..content.bytes;
        let result = self.read_located(path, &content, &located.sources, range, &mut sink, progress).await;
        sink.finish().await.map_err(ClientError::file("write", &part))?;
        result?;
        if resumed_at > 0 && digest_of(&part).map_err(ClientError::file("read", &part))? != content.digest.0 {
            fs::remove_file(&part).map_err(ClientError::file("remove", &part))?;
            return Err(ClientError::Corrupt { path: path.clone() });
        }
        fs::rename(&part, file).map_err(ClientError::file("write", file))?;
        Ok(located.entry)
    }

    /// Reads `range` from the first source that can, going on at the next from where one broke off. As long as that
    /// brings bytes, sources and their tickets are asked for again.
    async fn read_located<W: Write + Send + 'static>(
        &self,
        path: &SectorPath,
        content: &FileContent,
        sources: &[Source],
        range: Range<u64>,
        sink: &mut WriteBehind<W>,
        progress: Progress<'_>,
    ) -> Result<(), ClientError> {
        let mut at = range.start;
        let mut sources = sources.to_vec();
        let mut last = String::from("no node that holds it is up");
        loop {
            let before = at;
            for source in &sources {
                if at >= range.end {
                    return Ok(());
                }
                match self.read_from(source, content, &mut at, range.end, sink, progress).await {
                    // The sink failed; it says why when it is finished.
                    Ok(false) => return Ok(()),
                    Ok(true) => {}
                    Err(error) => last = broken_off(path, at, error),
                }
            }
            if at >= range.end {
                return Ok(());
            }
            let (now, located) = self.locate(path).await?;
            if at == before || now.slice != content.slice {
                return Err(ClientError::NoCopy { path: path.clone(), last });
            }
            sources = located.sources;
        }
    }

    /// Reads from `at` on, moving it; false when the sink takes no more.
    async fn read_from<W: Write + Send + 'static>(
        &self,
        source: &Source,
        content: &FileContent,
        at: &mut u64,
        until: u64,
        sink: &mut WriteBehind<W>,
        progress: Progress<'_>,
    ) -> Result<bool, ClientError> {
        let failed = || ClientError::net(format!("cannot read from node {}", source.node));
        let request = TransferRequest::Read { ticket: source.ticket.clone(), slice: content.slice, from: *at, until };
        let (mut stream, reply) = self.connections().open(source, &request).await.map_err(failed())?;
        match reply {
            TransferReply::Reading { bytes } if bytes == until - *at => {}
            TransferReply::Refused(refusal) => return Err(refusal.into()),
            _ => return Err(ClientError::Unexpected { who: "node", request: "read" }),
        }
        loop {
            let mut frame = Frame { payload: sink.spare(), ..Frame::default() };
            if !stream.receive_frame(&mut frame).await.map_err(failed())? {
                break;
            }
            let bytes = frame.payload.len() as u64;
            if bytes > until - *at {
                return Err(ClientError::Unexpected { who: "node", request: "read" });
            }
            if !sink.write(frame.payload).await {
                return Ok(false);
            }
            *at += bytes;
            progress(bytes);
        }
        if *at < until {
            return Err(failed()(NetError::Closed { peer: source.address, operation: "reading a file" }));
        }
        self.connections().keep(&source.node, stream);
        Ok(true)
    }
}

/// What is said when no other source does better.
fn broken_off(path: &SectorPath, at: u64, error: ClientError) -> String {
    tracing::info!(%path, %error, at, "reading broke off and goes on from another source");
    error.to_string()
}

/// The range to read of a file of `bytes` bytes.
fn check_range(path: &SectorPath, range: Option<Range<u64>>, bytes: u64) -> Result<Range<u64>, ClientError> {
    let Some(range) = range else { return Ok(0..bytes) };
    if range.start > range.end || range.start > bytes {
        let (start, end) = (range.start, range.end);
        return Err(ClientError::Usage(format!(
            "`{path}` has {bytes} bytes; the range {start}-{end} is not within it"
        )));
    }
    Ok(range.start..range.end.min(bytes))
}

/// What is written until the file is whole: beside it, bound to the slice, so that another version does not resume it.
fn part_file(file: &Path, content: &FileContent) -> PathBuf {
    let name = file.file_name().unwrap_or_default().to_string_lossy();
    file.with_file_name(format!(".{name}.{:.8}.part", content.slice.to_string()))
}

/// Opens the part, positioned behind the whole blocks that it has already.
fn open_part(part: &Path, bytes: u64) -> io::Result<(File, u64)> {
    let mut file = OpenOptions::new().create(true).read(true).write(true).truncate(false).open(part)?;
    let there = file.metadata()?.len().min(bytes);
    let resumed_at = there - there % limits::BLOCK_BYTES;
    file.set_len(resumed_at)?;
    file.seek(SeekFrom::Start(resumed_at))?;
    Ok((file, resumed_at))
}

/// The BLAKE3 digest of a local file.
pub fn digest_of(file: &Path) -> io::Result<[u8; 32]> {
    let mut hasher = blake3::Hasher::new();
    let mut file = File::open(file)?;
    let mut buffer = vec![0; limits::FRAME_BYTES_MAX];
    loop {
        match file.read(&mut buffer)? {
            0 => return Ok(hasher.finalize().into()),
            bytes => hasher.update(&buffer[..bytes]),
        };
    }
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

    #[test]
    fn a_part_is_resumed_at_a_whole_block() {
        let folder = tempfile::tempdir().unwrap();
        let part = folder.path().join("part");
        assert_eq!(open_part(&part, 1 << 20).unwrap().1, 0);
        fs::write(&part, vec![1; 70_000]).unwrap();
        assert_eq!(open_part(&part, 1 << 20).unwrap().1, limits::BLOCK_BYTES);
        assert_eq!(fs::metadata(&part).unwrap().len(), limits::BLOCK_BYTES);
        assert_eq!(open_part(&part, 5).unwrap().1, 0, "a shorter file was begun by another version");
    }
}
