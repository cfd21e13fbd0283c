//! The outline of an image on the sky, for the index: centre, extent and a polygon. It never reads a pixel.

use super::{PixelPosition, SkyMap, SkyPosition};

/// Where an image lies on the sky.
#[derive(Clone, Debug, PartialEq)]
pub struct Footprint {
    /// The position of its middle.
    pub centre: SkyPosition,
    /// The diameter, in degrees, of the circle around the centre that has all of it.
    pub diameter_degrees: f64,
    /// Its corners in order, where all of them lie on the sky. Of an image that spans much of the sky there are none.
    pub corners: Vec<SkyPosition>,
    /// The side of a pixel in the middle, in degrees: the geometric mean of both.
    pub pixel_degrees: f64,
}

/// The footprint of an image; `None` if its middle is nowhere on the sky.
pub fn footprint(map: &dyn SkyMap) -> Option<Footprint> {
    let [width, height] = map.pixels().map(|pixels| pixels as f64);
    let middle = PixelPosition { x: f64::midpoint(1.0, width), y: f64::midpoint(1.0, height) };
    let centre = map.position(middle)?;
    let [across, along] = map.pixel_degrees(middle)?;
    let at = |x: f64, y: f64| map.position(PixelPosition { x: 0.5 + x * width, y: 0.5 + y * height });
    let edge = (0..EDGE_POINTS).flat_map(|step| {
        let share = f64::from(step) / f64::from(EDGE_POINTS);
        [at(share, 0.0), at(1.0, share), at(1.0 - share, 1.0), at(0.0, 1.0 - share)]
    });
    let edge: Vec<_> = edge.collect();
    let reach = edge.iter().flatten().map(|place| centre.separation_degrees(*place)).fold(0.0, f64::max);
    // Where an edge is nowhere on the sky, the image has all of the sky on its side.
    let is_whole = edge.iter().all(Option::is_some) && reach < REACH_DEGREES_MAX;
    let corners = if is_whole { edge.iter().take(4).copied().flatten().collect() } else { Vec::new() };
    let diameter_degrees = if is_whole { 2.0 * reach } else { 360.0 };
    Some(Footprint { centre, diameter_degrees, corners, pixel_degrees: (across * along).sqrt() })
}

/// Points along each edge.
const EDGE_POINTS: u8 = 16;
/// Larger images are not told from the whole sky.
const REACH_DEGREES_MAX: f64 = 60.0;
