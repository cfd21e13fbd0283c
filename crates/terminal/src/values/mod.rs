//! Values that arguments of several commands take. It never reads a whole command line.

mod cloud_path;
mod count;

pub use cloud_path::cloud_path;
pub use count::{count_of, count_within};
