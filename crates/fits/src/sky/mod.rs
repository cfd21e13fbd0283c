//! Positions and regions on the sky, and which pixels of an image a region covers. Everything here is in ICRS, in
//! degrees, and pure geometry. It never reads a file, and never divides by the cosine of a declination: poles and the
//! seam at 0 h are places like others.

mod footprint;
mod frame;
mod position;
mod region;
mod region_box;
mod sky_map;

pub use footprint::{Footprint, footprint};
pub use frame::SkyFrame;
pub use position::SkyPosition;
pub use region::SkyRegion;
pub use region_box::{SkyBox, box_around, box_of_region};
pub use sky_map::{PixelPosition, SkyMap};
