//! The one place that knows the FITS library ([`fits_well`]): what is in a file, its pixels, its header and its
//! coordinates. With another library, only these files change. It never trusts a size that a file claims.

mod cut_header;
mod image_description;
mod image_file;
mod keywords;
mod wcs_map;
mod whole_image;

pub use image_description::{Compression, ImageDescription};
pub use image_file::ImageFile;
pub(crate) use image_file::MEMORY_BYTES_MAX;
pub use keywords::Keywords;
