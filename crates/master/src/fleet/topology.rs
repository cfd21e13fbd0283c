//! Where the topology comes from, and what is wrong with its file. Serves placement and every reload. It never reads
//! the file.

/// Where the topology comes from.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct TopologyOrigin {
    /// The file; none if there is none to read.
    pub(crate) file: Option<String>,
    /// Why the present file is not in use.
    pub(crate) fault: Option<String>,
}
