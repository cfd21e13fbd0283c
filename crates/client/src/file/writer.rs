//! Writing a file piece by piece (path *upload*), for callers that get their bytes over time, as gateways do. At most
//! [`CHUNKS_MAX`] chunks wait for the network; a faster caller waits. The file appears whole when it is finished. A file
//! that is discarded, or merely dropped, never appears.

use std::{
    collections::BTreeMap,
    io::{self, Cursor, Read},
    mem,
    sync::Arc,
};

use protocol::{
    Reason, Refusal, SectorPath,
    message::client_master::{Condition, Entry, EntryKind},
};
use tokio::{
    sync::mpsc::{self, Receiver, Sender},
    task::JoinHandle,
};

use super::put::PutOptions;
use crate::{Client, ClientError};

/// A file that is being written.
pub struct FileWriter {
    target: Arc<WriteTarget>,
    /// Bytes that do not fill a chunk yet.
    gathered: Vec<u8>,
    state: WriteState,
}

/// How far a file is.
enum WriteState {
    /// Nothing was sent: the upload begins with the first chunk.
    Gathering,
    /// Its first chunks were sent.
    Sending(ChunkUpload),
    /// It failed, or a call was dropped half way: nothing of it may be published.
    Failed,
}

/// What is written, and how.
struct WriteTarget {
    client: Client,
    path: SectorPath,
    options: PutOptions,
    append: bool,
}

impl Client {
    /// Begins a file, whose bytes are published by [`FileWriter::finish`]. With `append` they follow those that are
    /// there. What is in the way already is reported now.
    ///
    /// ```no_run
    /// # async fn example(cloud: client::Client) -> Result<(), client::ClientError> {
    /// let path = client::SectorPath::parse("/log/today.txt")?;
    /// let mut file = cloud.open_writer(&path, client::PutOptions::default(), false).await?;
    /// for line in ["first\n", "second\n"] {
    ///     file.write(line).await?;
    /// }
    /// file.finish().await?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`ClientError::IsFolder`] if a folder is there, `Exists` if a file is and the condition forbids it.
    pub async fn open_writer(
        &self,
        path: &SectorPath,
        options: PutOptions,
        append: bool,
    ) -> Result<FileWriter, ClientError> {
        match self.find(path).await?.map(|entry| entry.kind) {
            Some(EntryKind::Folder) => Err(ClientError::IsFolder { path: path.clone() }),
            Some(EntryKind::File(_)) if options.condition == Condition::Absent => {
                Err(Refusal::new(Reason::Exists, format!("`{path}` exists already")).into())
            }
            _ => {
                let target = WriteTarget { client: self.clone(), path: path.clone(), options, append };
                Ok(FileWriter { target: Arc::new(target), gathered: Vec::new(), state: WriteState::Gathering })
            }
        }
    }
}

impl FileWriter {
    /// The path at which it will appear.
    pub fn path(&self) -> &SectorPath {
        &self.target.path
    }

    /// Takes all of the bytes. Waits while those before wait for the network.
    ///
    /// # Errors
    /// If the upload has failed: then every further call fails. A call that is dropped half way ends the file too.
    pub async fn write(&mut self, bytes: impl Into<Vec<u8>>) -> Result<(), ClientError> {
        if self.gather(bytes) { self.send().await } else { Ok(()) }
    }

    /// Takes all of the bytes into memory. If it gives true, at least one chunk has gathered, and the caller should
    /// [`send`](Self::send) it before it gives more.
    pub fn gather(&mut self, bytes: impl Into<Vec<u8>>) -> bool {
        let bytes = bytes.into();
        match self.gathered.is_empty() {
            true => self.gathered = bytes,
            false => self.gathered.extend_from_slice(&bytes),
        }
        self.gathered.len() >= CHUNK_BYTES
    }

    /// Sends what has gathered.
    ///
    /// # Errors
    /// As [`write`](Self::write).
    pub async fn send(&mut self) -> Result<(), ClientError> {
        // Until the chunk is sent the file counts as failed: a call that is dropped here has lost its bytes.
        let mut upload = match mem::replace(&mut self.state, WriteState::Failed) {
            WriteState::Gathering => begin(&self.target),
            WriteState::Sending(upload) => upload,
            WriteState::Failed => return Err(self.failed()),
        };
        let chunk = mem::take(&mut self.gathered);
        if upload.chunks.send(UploadChunk::Bytes(chunk)).await.is_ok() {
            self.state = WriteState::Sending(upload);
            return Ok(());
        }
        // Nothing receives the chunks: the upload has ended with an error.
        upload.outcome().await.and(Err(self.failed()))
    }

    /// Publishes the file and gives what it is now.
    ///
    /// # Errors
    /// As [`Client::put`]: then nothing of it appears.
    pub async fn finish(mut self) -> Result<Entry, ClientError> {
        if matches!(self.state, WriteState::Gathering) && !self.target.append {
            // Of a small file, the length is known before it is sent.
            let WriteTarget { client, path, options, .. } = &*self.target;
            let options = PutOptions { bytes_expected: Some(self.gathered.len() as u64), ..options.clone() };
            return client.put(Cursor::new(self.gathered), path, &options, &|_| ()).await;
        }
        self.send().await?;
        match self.state {
            WriteState::Sending(upload) => upload.finish().await,
            WriteState::Gathering | WriteState::Failed => Err(self.failed()),
        }
    }

    /// Publishes the file, and keeps these keys and values with it, which may be known only now that its bytes are. If
    /// somebody replaces it at once, they are for nobody.
    ///
    /// # Errors
    /// As [`finish`](Self::finish).
    pub async fn finish_with(mut self, known: BTreeMap<String, String>) -> Result<Entry, ClientError> {
        if let (WriteState::Gathering, false, Some(target)) =
            (&self.state, self.target.append, Arc::get_mut(&mut self.target))
        {
            target.options.user.extend(known);
            return self.finish().await;
        }
        let target = Arc::clone(&self.target);
        let entry = self.finish().await?;
        let EntryKind::File(content) = &entry.kind else { return Ok(entry) };
        let changes = known.into_iter().map(|(key, value)| (key, Some(value))).collect();
        match target.client.change_metadata(&target.path, content.slice, changes).await {
            Err(error) if matches!(error.reason(), Reason::VersionChanged { .. } | Reason::NotFound) => Ok(entry),
            changed => changed,
        }
    }

    /// Gives the file up: nothing of it appears, and its path is free again when this returns.
    pub async fn discard(self) {
        if let WriteState::Sending(upload) = self.state {
            upload.give_up().await;
        }
    }

    fn failed(&self) -> ClientError {
        ClientError::Usage(format!("the upload of `{}` has failed before; begin it anew", self.target.path))
    }
}

impl std::fmt::Debug for FileWriter {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "FileWriter({})", self.target.path)
    }
}

/// An upload that is under way. When dropped, it ends by itself and returns its lease.
struct ChunkUpload {
    chunks: Sender<UploadChunk>,
    task: JoinHandle<Result<Entry, ClientError>>,
}

impl ChunkUpload {
    async fn finish(mut self) -> Result<Entry, ClientError> {
        // If nothing receives it any more, the outcome says why.
        let _ = self.chunks.send(UploadChunk::End).await;
        self.outcome().await
    }

    async fn give_up(mut self) {
        drop(mem::replace(&mut self.chunks, mpsc::channel(1).0));
        let _ = self.outcome().await;
    }

    async fn outcome(&mut self) -> Result<Entry, ClientError> {
        (&mut self.task).await.unwrap_or_else(|_| Err(ClientError::Usage("the upload was ended from outside".into())))
    }
}

/// What goes to an upload.
pub(super) enum UploadChunk {
    Bytes(Vec<u8>),
    /// The end. The file is complete only with this message.
    End,
}

/// The bytes of an upload as they come.
pub(super) struct ChunkReader {
    chunks: Receiver<UploadChunk>,
    chunk: Cursor<Vec<u8>>,
    is_whole: bool,
}

/// The way to an upload that reads what comes: a few chunks may wait in it.
pub(super) fn chunk_channel() -> (Sender<UploadChunk>, ChunkReader) {
    let (sender, chunks) = mpsc::channel(CHUNKS_MAX);
    (sender, ChunkReader { chunks, chunk: Cursor::default(), is_whole: false })
}

impl Read for ChunkReader {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            let bytes = self.chunk.read(buffer)?;
            if bytes > 0 || buffer.is_empty() || self.is_whole {
                return Ok(bytes);
            }
            match self.chunks.blocking_recv() {
                Some(UploadChunk::Bytes(chunk)) => self.chunk = Cursor::new(chunk),
                Some(UploadChunk::End) => self.is_whole = true,
                None => return Err(io::Error::other("it was given up before it was whole")),
            }
        }
    }
}

/// Begins to send.
fn begin(target: &Arc<WriteTarget>) -> ChunkUpload {
    let (sender, source) = chunk_channel();
    let target = Arc::clone(target);
    let task = tokio::spawn(async move {
        let WriteTarget { client, path, options, append } = &*target;
        match append {
            true => client.append(source, path, options, &|_| ()).await,
            false => client.put(source, path, options, &|_| ()).await,
        }
    });
    ChunkUpload { chunks: sender, task }
}

/// Gathered bytes that make a chunk: a frame's length.
const CHUNK_BYTES: usize = protocol::limits::FRAME_BYTES_MAX;
/// Chunks that wait for the network.
const CHUNKS_MAX: usize = 4;
