//! A side file of a job on this node: brought here once, by whichever of the job's SPEs asks first, and read by all of
//! them. It serves the path *job*. How it is brought is the business of who asks; it never hands out what was not
//! brought whole.

use std::fs::File;

use protocol::SliceId;
use tokio::sync::OnceCell;

use super::ClosedScratch;
use crate::NodeError;

/// The place of a side file, which is empty until somebody has brought it.
#[derive(Debug)]
pub struct SideFile {
    slice: SliceId,
    content: OnceCell<SideFileContent>,
}

/// A side file that is here: verified, and open for reading.
#[derive(Debug)]
pub struct SideFileContent {
    file: File,
    /// Where it lies if it was fetched; it goes with the job.
    _fetched: Option<ClosedScratch>,
}

impl SideFile {
    pub(super) fn new(slice: SliceId) -> Self {
        Self { slice, content: OnceCell::new() }
    }

    /// The slice whose bytes it has.
    pub fn slice(&self) -> SliceId {
        self.slice
    }

    /// Waits until it is here. Where nobody has brought it, `bring` does while all others wait; where that fails or is
    /// given up, the next who waits tries with his own.
    pub async fn get_or_fetch(
        &self,
        bring: impl Future<Output = Result<SideFileContent, NodeError>>,
    ) -> Result<(), NodeError> {
        self.content.get_or_try_init(|| bring).await.map(drop)
    }

    /// A further descriptor of it for an SPE; `None` where it is not here.
    ///
    /// # Errors
    /// When this process has as many open as it may.
    pub fn share(&self) -> Result<Option<File>, std::io::Error> {
        self.content.get().map(|brought| brought.file.try_clone()).transpose()
    }
}

impl SideFileContent {
    /// One that lies here as a slice.
    pub fn local(file: File) -> Self {
        Self { file, _fetched: None }
    }

    /// One that was fetched.
    pub fn fetched(scratch: ClosedScratch) -> Result<Self, NodeError> {
        // Opened anew, for reading alone: SPEs share it.
        Ok(Self { file: scratch.open()?, _fetched: Some(scratch) })
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::{future::pending, io::Write, os::unix::fs::FileExt};

    use protocol::Status;
    use tokio::sync::oneshot;

    use super::*;

    fn brought(bytes: &[u8]) -> SideFileContent {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(bytes).unwrap();
        SideFileContent::local(file)
    }

    fn first_byte(side: &SideFile) -> Option<u8> {
        let mut byte = [0];
        side.share().unwrap()?.read_exact_at(&mut byte, 0).unwrap();
        Some(byte[0])
    }

    #[tokio::test]
    async fn who_asks_while_another_brings_it_waits_and_gets_the_same() {
        let side = SideFile::new(SliceId(1));
        let (arrive, arrived) = oneshot::channel();
        let first = side.get_or_fetch(async {
            arrived.await.unwrap();
            Ok(brought(b"a"))
        });
        let second = side.get_or_fetch(async { panic!("it is brought once") });
        let (first, second, ()) = tokio::join!(first, second, async { arrive.send(()).unwrap() });
        assert!(first.is_ok() && second.is_ok());
        assert_eq!(first_byte(&side), Some(b'a'));
    }

    #[tokio::test]
    async fn after_one_that_failed_and_one_that_was_given_up_the_next_brings_it() {
        let side = SideFile::new(SliceId(1));
        let failed =
            side.get_or_fetch(async { Err(NodeError::refused(Status::Unavailable, "the other node is away")) });
        assert!(failed.await.is_err());
        assert_eq!(first_byte(&side), None);
        tokio::select! {
            biased;
            _ = side.get_or_fetch(pending()) => panic!("it never comes"),
            () = async {} => {}
        }
        side.get_or_fetch(async { Ok(brought(b"b")) }).await.unwrap();
        assert_eq!(first_byte(&side), Some(b'b'));
    }
}
