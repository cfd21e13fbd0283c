//! FITS images by parts: what is in a file, where on the sky it lies, and small images cut out of it. It serves the
//! path *cutout* (AstroPortal report, 1 and 4). Begin with [`ImageFile`], then [`Cutout`]. Only the bytes that are
//! needed are read of a [`ByteSource`]. Tables are in [`table`], and are read as a whole. It never opens a socket, and
//! never takes more memory than its limits say, whatever a file claims.

mod byte_source;
mod cutout;
mod decoder;
mod error;
mod gzip;
mod made_image;
mod pixel_box;
mod planes;
pub mod preview;
mod provenance;
mod selection;
pub mod sky;
pub mod table;

pub use byte_source::{ByteSource, LocalFile, Runs};
pub use cutout::Cutout;
pub use decoder::{Compression, ImageDescription, ImageFile, Keywords};
pub use error::ImageError;
pub use gzip::is_gzip;
pub use made_image::MadeImage;
pub use pixel_box::{Extension, PixelBox, Section};
pub use planes::{Planes, polarisation_planes, spectral_planes};
pub use provenance::Provenance;
pub use selection::Selection;
