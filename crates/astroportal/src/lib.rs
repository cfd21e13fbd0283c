//! AstroPortal's work on one image or one slice of the index, as it runs in SPEs beside the images (AstroPortal report,
//! 4; path *cutout*). [`functions`] has what a job calls; the program `sector-images` has the jobs. Everything here is
//! the same wherever it runs. It never opens a file, and never asks the cloud anything.

mod functions;
pub mod obscore;
mod path_table;
pub mod tuples;

pub use functions::{CUT_IMAGES, DESCRIBE_IMAGES, WRITE_INDEX};
pub use path_table::{PathTable, TableError};
