//! Paths under which nodes hold files that have other ones by now, with the copy of the small rows that each node had
//! then. Serves the rebuild of the names. It never moves a file.

use std::collections::BTreeMap;

use protocol::{NodeId, SectorPath, message::rebuild::MirrorPosition};

/// Which copy of the small rows each node had that came with a slice under an outdated path.
pub(crate) type OutdatedPaths = BTreeMap<(NodeId, SectorPath), MirrorPosition>;
