//! What the master does about its journal's copies at the nodes, and after its loss: it reads the nodes' copies and
//! puts the names together. It never removes what no person has seen listed.

pub(crate) mod incarnation_tracking;
pub(crate) mod local_change_tracking;
pub(crate) mod mirror_restore;
pub(crate) mod mirror_updates;
pub(crate) mod missed_changes;
pub(crate) mod missing_slices;
pub(crate) mod name_recovery;
pub(crate) mod outdated_path_recovery;
pub(crate) mod rebuild_requests;
pub(crate) mod rebuild_steps;
pub(crate) mod stale_journal_detection;
pub(crate) mod tombstones;
