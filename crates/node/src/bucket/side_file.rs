//! A side file of a job on this node. The first of the job's SPEs that asks has it fetched once, and all of them read
//! it. It serves the path *job*. The caller decides how to fetch it; an incomplete file is never handed out.

use std::fs::File;

use protocol::SliceId;
use tokio::sync::OnceCell;

use super::scratch::ClosedScratch;
use crate::NodeError;

/// The entry of a side file, empty until somebody has fetched the file.
#[derive(Debug)]
pub struct SideFile {
    slice: SliceId,
    content: OnceCell<SideFileContent>,
}

/// A side file that is here: verified, and open for reading.
#[derive(Debug)]
pub struct SideFileContent {
    file: File,
    /// The fetched file, if it was fetched; it is removed with the job.
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

    /// Waits until the file is here. If nobody has fetched it, `bring` does so while all others wait. If that fails or
    /// is dropped, the next waiting caller tries with its own `bring`.
    pub async fn get_or_fetch(
        &self,
        bring: impl Future<Output = Result<SideFileContent, NodeError>>,
    ) -> Result<(), NodeError> {
        self.content.get_or_try_init(|| bring).await.map(drop)
    }

    /// Another descriptor of it for an SPE; `None` if it is not here.
    ///
    /// # Errors
    /// When this process has as many files open as it may.
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
        // Opened anew for reading only, because SPEs share it.
        Ok(Self { file: scratch.open()?, _fetched: Some(scratch) })
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::{future::pending, io::Write, os::unix::fs::FileExt};

    use protocol::Reason;
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
            side.get_or_fetch(async { Err(NodeError::refused(Reason::Unavailable, "the other node is away")) });
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
