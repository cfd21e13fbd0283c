//! A copy of a file within Sector: read from one node and written to another as it comes, through this client.

use std::io::{self, Read, Write};

use protocol::{SectorPath, message::client_master::Entry};
use tokio::sync::mpsc::{self, Receiver, Sender};

use super::{FRAMES_IN_FLIGHT, Progress, put::PutOptions};
use crate::{Client, ClientError};

impl Client {
    /// Copies the file `from` to `to`, with its record format and its user metadata. How many copies are kept is as the
    /// folder of `to` says, unless `options` do.
    pub async fn copy(
        &self,
        from: &SectorPath,
        to: &SectorPath,
        options: &PutOptions,
        progress: Progress<'_>,
    ) -> Result<Entry, ClientError> {
        let (content, _) = self.locate(from).await?;
        let options = PutOptions {
            copies: options.copies,
            records: content.records,
            user: content.user,
            bytes_expected: Some(content.bytes),
            ..options.clone()
        };
        let (send, receive) = mpsc::channel(FRAMES_IN_FLIGHT);
        let reading = self.read(from, None, PipeWriter { frames: Some(send) }, &|_| ());
        let writing = self.put(PipeReader { frames: receive, frame: io::Cursor::default() }, to, &options, progress);
        let reading = async {
            let (_, mut pipe) = reading.await?;
            pipe.end();
            Ok(())
        };
        // The writer must not take a reader that broke off for the end: `try_join` drops it at the reader's error.
        let ((), entry) = tokio::try_join!(reading, writing)?;
        Ok(entry)
    }
}

/// The writing end: a frame a write.
struct PipeWriter {
    frames: Option<Sender<Option<Vec<u8>>>>,
}

impl PipeWriter {
    /// Tells the reader that all has been written; a pipe dropped without it is broken.
    fn end(&mut self) {
        if let Some(frames) = self.frames.take() {
            tokio::spawn(async move { frames.send(None).await });
        }
    }
}

impl Write for PipeWriter {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let frames = self.frames.as_ref().ok_or(io::ErrorKind::BrokenPipe)?;
        frames.blocking_send(Some(bytes.to_vec())).map_err(|_| io::ErrorKind::BrokenPipe)?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// The reading end.
struct PipeReader {
    frames: Receiver<Option<Vec<u8>>>,
    frame: io::Cursor<Vec<u8>>,
}

impl Read for PipeReader {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            match self.frame.read(buffer)? {
                0 => match self.frames.blocking_recv() {
                    Some(Some(frame)) => self.frame = io::Cursor::new(frame),
                    Some(None) => return Ok(0),
                    None => return Err(io::Error::new(io::ErrorKind::BrokenPipe, "the source broke off")),
                },
                bytes => return Ok(bytes),
            }
        }
    }
}
