//! Numbers for nodes, sites, racks and inventories, valid in this master's life. They are shorter than names, and
//! comparing them is cheap. They never go to the disk or to another program.

/// A node's number in this master's life. It is shorter than the name, since millions of replicas refer to their node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct NodeKey(pub(super) u32);

impl NodeKey {
    /// The smallest key.
    pub(crate) const FIRST: Self = Self(0);

    /// The key of this number.
    pub(crate) fn numbered(number: u32) -> Self {
        Self(number)
    }

    /// The number itself.
    pub(crate) fn number(self) -> u32 {
        self.0
    }
}

/// A site's number in this master's life.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct SiteKey(pub(super) u16);

/// A rack's number, over all sites.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct RackKey(pub(super) u16);

/// Epochs wrap around. A replica never lags this many inventories behind: after each complete one, those it did not
/// name are forgotten.
pub(crate) const EPOCHS: u32 = 1 << 17;
