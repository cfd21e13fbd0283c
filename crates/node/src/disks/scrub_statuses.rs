//! How far the scrub of each disk is, for the status that the master gets. It never scrubs.

use std::sync::{Mutex, PoisonError};

use protocol::disk::{DiskStatus, ScrubStatus};

/// The progress of each disk's scrub, by the disk's position in the settings.
#[derive(Debug, Default)]
pub(crate) struct ScrubStatuses(Mutex<Vec<Option<ScrubStatus>>>);

impl ScrubStatuses {
    /// Fills in what is known of the scrubs.
    pub(crate) fn fill(&self, disks: &mut [DiskStatus]) {
        let board = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        for (disk, scrub) in disks.iter_mut().zip(&*board) {
            disk.scrub.clone_from(scrub);
        }
    }

    /// Records how far the scrub of a disk is.
    pub(crate) fn note(&self, disk: usize, status: ScrubStatus) {
        let mut board = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if board.len() <= disk {
            board.resize(disk + 1, None);
        }
        board[disk] = Some(status);
    }
}
