//! A folder that is made equal to another, of which one at least is in the cloud (path: `docs/paths/sync.md`). First a
//! plan compares both, without changing anything. Then files go as in any transfer of many, and removals come last. It
//! never removes anything of a source.

mod folder_listing;
mod path_filter;
mod removals;
mod sync_actions;
mod sync_plan;

pub use folder_listing::SyncFolder;
pub use path_filter::PathFilter;
pub use sync_actions::{SyncAction, SyncActionKind};
pub use sync_plan::{SyncOptions, SyncOutcome, SyncPlan, sync};
