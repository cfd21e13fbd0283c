//! Many files at once: folders that go up, come down, are copied or made equal (path: `docs/paths/tree.md`). First a
//! plan says which file goes where, or refuses before anything is done. What a folder holds goes to the destination
//! itself, so the same call again goes on where an earlier one stopped. Files go several at a time, and one that fails
//! holds up no other. It never decides where slices lie.

mod download;
mod in_flight;
mod local_content;
mod local_walk;
mod outcome;
mod sources;
mod sync;
mod target_conflicts;
mod transfer_set;
mod tree_copy;
mod upload;

pub use download::{DownloadPlan, ExistingFiles, PlannedDownload, download};
pub use outcome::{FailedFile, TransferredFile, TreeEvent, TreeObserver, TreeOutcome};
pub use sync::{PathFilter, SyncAction, SyncActionKind, SyncFolder, SyncOptions, SyncOutcome, SyncPlan, sync};
pub use tree_copy::{CopyPlan, PlannedCopy, copy, plan_renames};
pub use upload::{LocalLinks, PlannedUpload, UploadDestination, UploadPlan, upload};
