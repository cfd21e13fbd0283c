//! Imports native files that are already on a node (path: `docs/paths/rebuild.md`): the node reads them where they are,
//! and only their checksums travel. A file never gives up its native name before it was published.

use net::transfer::TransferStream;
use protocol::{
    NodeId, SectorPath,
    message::{
        client_master::{Created, Entry, Source},
        request::{AbandonRequest, ImportRequest},
        transfer::{NativeFile, TransferReply, TransferRequest},
    },
};

use crate::{Client, ClientError, PutOptions, file::TransferProgress};

/// Files on a node's disk, and how they become files of the cloud.
#[derive(Clone, Debug)]
pub struct Import {
    /// The node.
    pub node: NodeId,
    /// The folder there: absolute, or relative to the node's own folder `import`.
    pub folder: String,
    /// Copy the bytes, and leave the files to their owner.
    pub keep: bool,
}

/// The result for a file.
#[derive(Clone, Debug)]
pub struct Imported {
    /// The file in the cloud.
    pub entry: Entry,
    /// Why the native file kept its name although it should not.
    pub removal_error: Option<String>,
}

impl Client {
    /// The files in and below the folder, by path within it.
    ///
    /// # Errors
    /// `Refused` for anyone but administrators, and if the node does not allow that folder.
    pub async fn native_files(&self, import: &Import) -> Result<Vec<NativeFile>, ClientError> {
        let mut files: Vec<NativeFile> = Vec::new();
        loop {
            let source = self.import_ticket(&import.node).await?;
            let after = files.last().map(|file| file.path.clone());
            let request =
                TransferRequest::ListFiles { ticket: source.ticket.clone(), folder: import.folder.clone(), after };
            let (stream, reply) = self.ask_node(&source, &request).await?;
            self.connections().release(&source.node, stream);
            let TransferReply::Files { files: page, more } = reply else {
                return Err(ClientError::Unexpected { who: "node", request: "list files" });
            };
            let is_end = !more || page.is_empty();
            files.extend(page);
            if is_end {
                return Ok(files);
            }
        }
    }

    /// Makes a native file the content of `path`. On any error the native file is where it was, and nothing is visible
    /// that was not there before.
    ///
    /// # Errors
    /// As [`put`](Client::put), and if the file changes while it is read.
    pub async fn import_file(
        &self,
        import: &Import,
        file: &NativeFile,
        path: &SectorPath,
        options: &PutOptions,
        progress: TransferProgress<'_>,
    ) -> Result<Imported, ClientError> {
        // Only a copy needs room.
        let bytes_expected = import.keep.then_some(file.bytes);
        let options = PutOptions { at: Some(import.node.clone()), bytes_expected, ..options.clone() };
        let created = self.create(path, &options).await?;
        let lease = created.lease;
        let slice = created.slice;
        let work = self.import_under_lease(import, file, created, progress);
        let entry = tokio::select! {
            entry = work => entry,
            error = self.keep_lease_alive(lease) => Err(error),
        };
        let entry = match entry {
            Ok(entry) => entry,
            Err(error) => {
                self.own_leases().remove(&lease);
                let _ = tokio::time::timeout(LAST_WORD_DEADLINE, self.ask(AbandonRequest(lease))).await;
                return Err(error);
            }
        };
        let left = match import.keep {
            true => None,
            false => self.leave_file(import, file, slice).await.err().map(|error| error.to_string()),
        };
        Ok(Imported { entry, removal_error: left })
    }

    async fn import_under_lease(
        &self,
        import: &Import,
        file: &NativeFile,
        created: Created,
        progress: TransferProgress<'_>,
    ) -> Result<Entry, ClientError> {
        let source = self.import_ticket(&import.node).await?;
        let request = TransferRequest::ImportFile {
            ticket: source.ticket.clone(),
            write: created.target.ticket.clone(),
            folder: import.folder.clone(),
            file: file.path.clone(),
            keep: import.keep,
        };
        let (mut stream, mut reply) = self.ask_node(&source, &request).await?;
        let mut done = 0;
        loop {
            match reply {
                TransferReply::Imported { bytes } => {
                    progress(bytes.saturating_sub(done));
                    done = bytes.max(done);
                }
                TransferReply::Stored { bytes, digest } => {
                    progress(bytes.saturating_sub(done));
                    self.connections().release(&source.node, stream);
                    return self.commit(created.lease, bytes, digest, true).await;
                }
                TransferReply::Refused(refusal) => return Err(refusal.into()),
                _ => return Err(ClientError::Unexpected { who: "node", request: "import" }),
            }
            let what = format!("node {} does not go on importing `{}`", import.node, file.path);
            reply = stream.receive().await.map_err(ClientError::net(what))?;
        }
    }

    async fn leave_file(
        &self,
        import: &Import,
        file: &NativeFile,
        slice: protocol::SliceId,
    ) -> Result<(), ClientError> {
        let source = self.import_ticket(&import.node).await?;
        let request = TransferRequest::UnlinkFile {
            ticket: source.ticket.clone(),
            folder: import.folder.clone(),
            file: file.path.clone(),
            slice,
        };
        let (stream, _) = self.ask_node(&source, &request).await?;
        self.connections().release(&source.node, stream);
        Ok(())
    }

    async fn import_ticket(&self, node: &NodeId) -> Result<Source, ClientError> {
        self.ask(ImportRequest { node: node.clone() }).await
    }

    /// Sends a request to a node; a refusal is an error.
    async fn ask_node(
        &self,
        source: &Source,
        request: &TransferRequest,
    ) -> Result<(TransferStream, TransferReply), ClientError> {
        let what = format!("cannot import at node {}", source.node);
        match self.connections().open(source, request).await.map_err(ClientError::net(what))? {
            (stream, TransferReply::Refused(refusal)) => {
                self.connections().release(&source.node, stream);
                Err(refusal.into())
            }
            answer => Ok(answer),
        }
    }
}

/// How long to try telling the master that a write is given up.
const LAST_WORD_DEADLINE: std::time::Duration = std::time::Duration::from_secs(2);
