//! Where the pixels of an image lie on the sky, as this crate asks for it. Whatever library knows the projections is
//! behind [`SkyMap`], so another one can take its place. It never knows a projection.

use super::SkyPosition;

/// A place in an image: pixels count from 1, and a pixel's middle has its number.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PixelPosition {
    /// Along the first of the image's two axes on the sky.
    pub x: f64,
    /// Along the second one.
    pub y: f64,
}

/// Where the pixels of an image lie on the sky.
pub trait SkyMap {
    /// The numbers of the two axes that lie on the sky, from 0.
    fn sky_axes(&self) -> [usize; 2];

    /// Pixels along these two axes.
    fn pixels(&self) -> [u64; 2];

    /// Where a place of the image lies; `None` if it lies nowhere.
    fn position(&self, place: PixelPosition) -> Option<SkyPosition>;

    /// Where in the image, or around it, a position is; `None` if it is nowhere there.
    fn place(&self, position: SkyPosition) -> Option<PixelPosition>;

    /// The sides of the pixel at a place in degrees, along the two axes; `None` if it lies nowhere.
    fn pixel_degrees(&self, place: PixelPosition) -> Option<[f64; 2]> {
        let PixelPosition { x, y } = place;
        let side = |from, to| Some(self.position(from)?.separation_degrees(self.position(to)?));
        let at = |x, y| PixelPosition { x, y };
        Some([side(at(x - 0.5, y), at(x + 0.5, y))?, side(at(x, y - 0.5), at(x, y + 0.5))?])
    }
}
