//! How near the copy is that a cutout was read from (AstroPortal report, storage levels). It never looks for one.

/// Where bytes came from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum StorageLevel {
    /// The machine that cuts.
    Machine,
    /// Another machine of its site.
    Site,
    /// Another site, or a machine whose place is not known.
    Elsewhere,
}

impl StorageLevel {
    /// All of them, from the nearest one.
    pub const ALL: [Self; 3] = [Self::Machine, Self::Site, Self::Elsewhere];

    /// Its number in the report: 1 is the nearest.
    pub fn number(self) -> u8 {
        match self {
            Self::Machine => 1,
            Self::Site => 2,
            Self::Elsewhere => 3,
        }
    }
}
