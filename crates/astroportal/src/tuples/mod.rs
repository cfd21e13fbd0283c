//! Many cutouts in one go: what is asked for ([`Tuple`]), grouped by image ([`TupleTable`]), and what became of each
//! ([`ManifestRow`]). It never reads a table of a user, which the program does.

mod cut;
mod manifest_row;
mod parcel;
mod storage_level;
mod table;
mod tuple;

pub use cut::cut_group;
pub use manifest_row::ManifestRow;
pub use parcel::{Parcel, ParcelError, ParcelReader};
pub use storage_level::StorageLevel;
pub use table::{TupleGroup, TupleTable};
pub use tuple::Tuple;
