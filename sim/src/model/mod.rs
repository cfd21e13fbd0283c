//! The truth beside the cloud: a slow and obvious model of what the clients were told, kept by the simulation alone. The
//! invariants compare the cloud with it; the cloud never sees it.

mod content;
mod recovered;
mod region;
mod register;
mod tree;
mod version;

pub(crate) use content::{ContentId, Contents, digest_of};
pub(crate) use recovered::{Held, Recovered};
pub(crate) use region::{Outcome, Region};
pub(crate) use register::Register;
pub(crate) use tree::{Change, Item, Tree, path};
pub(crate) use version::Versions;

/// All that is known to be true.
#[derive(Debug, Default)]
pub(crate) struct Book {
    pub(crate) contents: Contents,
    /// One folder for each client who changes names: nobody else changes anything in it.
    pub(crate) regions: Vec<Region>,
    /// Files that all clients overwrite.
    pub(crate) registers: Vec<Register>,
    /// What anybody ever began to write, also where it was given up.
    pub(crate) attempted: Vec<(protocol::SectorPath, ContentId)>,
    /// Files that jobs have published.
    pub(crate) outputs: Vec<(protocol::SectorPath, ContentId)>,
    /// Once the master has lost its journal: what may be found again. Regions and registers count no longer.
    pub(crate) recovered: Option<Recovered>,
    /// Versions that clients were told.
    pub(crate) versions: Versions,
    /// People who are not at rest: what they are changing is seen before they are told.
    pub(crate) people_at_work: usize,
    /// The node that was taken out of use for good: it must become empty.
    pub(crate) leaving: Option<usize>,
    /// Appends that were answered with success.
    pub(crate) appended: u32,
    /// Uploads that went on behind what an earlier attempt had left at a node.
    pub(crate) resumed: u32,
    /// Jobs that ended well.
    pub(crate) jobs_done: u32,
    /// Deliveries of kept results that ended well.
    pub(crate) delivered_again: u32,
}
