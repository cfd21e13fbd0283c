//! Terasort's data: making it and checking it (Sector/Sphere paper, 4). Serves `sector oct terasort gen` and `validate`.
//! It never sorts.

mod check;
mod record;

pub use check::{SegmentCheck, TotalCheck};
pub use record::{RECORD_BYTES, Rows};

pub(crate) use check::teravalidate;
pub(crate) use record::teragen;
