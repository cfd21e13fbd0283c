//! Tables in FITS files (FITS 4.0, section 7): binary ones are read and written, ASCII ones are read. Begin with
//! [`read`] and [`write`](write()). A table is in memory as a whole. It never takes more memory than some times the
//! file's length, whatever a header claims.

mod ascii;
mod binary;
mod error;
mod lists;
mod meaning;
mod memory;
mod null;
mod reader;
mod values;
mod writer;

pub use error::FitsTableError;
pub use reader::read;
pub use values::{FitsColumn, FitsTable, FitsValues};
pub use writer::write;
