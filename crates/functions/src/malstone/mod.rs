//! MalStone and its data (paper of the Open Cloud Testbed, 5): which sites compromise the entities that visit them.
//! Serves `sector oct malgen` and `malstone`. It never looks at more than one segment at a time.

mod draws;
mod entities;
mod events;
mod ids;
mod malgen;
mod partial;
mod power_law;
mod record;
mod sites;
mod time;
mod visits;

pub use draws::Plan;
pub use malgen::{OUTCOME_ENTRY_BYTES, START};
pub use record::{RECORD_BYTES, SITE_COLUMN};
pub use time::{DAYS_MAX, parse_date};
pub use visits::OUTSIDE;

pub(crate) use entities::malstone_entities;
pub(crate) use events::malstone_events;
pub(crate) use malgen::{malgen, malgen_marked, malgen_outcome};
pub(crate) use sites::malstone_sites;
pub(crate) use visits::malstone_visits;

#[cfg(test)]
mod tests;
