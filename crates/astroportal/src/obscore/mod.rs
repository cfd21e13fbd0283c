//! The index: a row for each image, with the columns of ObsCore (IVOA ObsCore 1.1) and some of ours, as slices of
//! Parquet. It never guesses what a header does not say: such a column is empty.

mod describe;
mod image_row;
mod observation_time;
mod parquet_slice;
mod passbands;
mod zones;

pub use describe::{FileFacts, describe};
pub use image_row::ImageRow;
pub use parquet_slice::{IndexSlice, SliceError, write_parquet};
pub use zones::{index_zone, zones_near};
