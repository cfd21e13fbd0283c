//! A side file of a job on this node: brought here once, by whichever of the job's SPEs asks first, and read by all of them.
//! It serves the path *job*. How it is brought is the business of who asks; it never hands out what was not brought whole.

use std::fs::File;

use protocol::SliceId;
use tokio::sync::OnceCell;

use super::ClosedScratch;
use crate::NodeError;

/// The place of a side file, which is empty until somebody has brought it.
#[derive(Debug)]
pub struct SideFile {
    slice: SliceId,
    brought: OnceCell<Brought>,
}

/// A side file that is here: verified, and open for reading.
#[derive(Debug)]
pub struct Brought {
    file: File,
    /// Where it lies if it was fetched; it goes with the job.
    _fetched: Option<ClosedScratch>,
}

impl SideFile {
    pub(super) fn new(slice: SliceId) -> Self {
        Self { slice, brought: OnceCell::new() }
    }

    /// The slice whose bytes it has.
    pub fn slice(&self) -> SliceId {
        self.slice
    }

    /// Waits until it is here. Where nobody has brought it, `bring` does while all others wait; where that fails or is given
    /// up, the next who waits tries with his own.
    pub async fn brought_by(&self, bring: impl Future<Output = Result<Brought, NodeError>>) -> Result<(), NodeError> {
        self.brought.get_or_try_init(|| bring).await.map(drop)
    }

    /// A further descriptor of it for an SPE; `None` where it is not here.
    ///
    /// # Errors
    /// When this process has as many open as it may.
    pub fn share(&self) -> Result<Option<File>, std::io::Error> {
        self.brought.get().map(|brought| brought.file.try_clone()).transpose()
    }
}

impl Brought {
    /// One that lies here as a slice.
    pub fn here(file: File) -> Self {
        Self { file, _fetched: None }
    }

    /// One that was fetched.
    pub fn fetched(scratch: ClosedScratch) -> Result<Self, NodeError> {
        // Opened anew, for reading alone: SPEs share it.
        Ok(Self { file: scratch.open()?, _fetched: Some(scratch) })
    }
}
