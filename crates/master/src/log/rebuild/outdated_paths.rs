//! Paths under which nodes hold files that have other ones by now, with the copy of the small rows that each node had
//! then. Serves the rebuild of the names. It never moves a file.

use std::collections::BTreeMap;

use protocol::{JournalId, NodeId, SectorPath, message::rebuild::MirrorPosition};

/// Which copy of the small rows each node had that has a slice under an outdated path. The root stands for a path that
/// nobody knows: the node was away when the file got its present path or rights.
pub(crate) type OutdatedPaths = BTreeMap<(NodeId, SectorPath), MirrorPosition>;

/// The mark of a node that keeps no rows, or whose copy is older than the change.
pub(crate) const NO_MARK: MirrorPosition = MirrorPosition { journal: JournalId(0), generation: 0, sequence: 0 };
