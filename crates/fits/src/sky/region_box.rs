//! Which pixels a region of the sky covers. Positions along its outline go to pixels. Where that is no sure way, pixels
//! go to positions: near a pole, over a seam, on the far half of a projection. It never gives a box outside of the
//! image.

use super::{PixelPosition, SkyMap, SkyPosition, SkyRegion};
use crate::{ImageError, pixel_box::around};

/// First and last pixel along the two axes on the sky, clipped to the image.
pub type SkyBox = [(u64, u64); 2];

/// The smallest box with all pixels of an image that a region touches.
///
/// # Errors
/// `NoOverlap` if it touches none.
pub fn box_of_region(map: &dyn SkyMap, region: &SkyRegion) -> Result<SkyBox, ImageError> {
    let extent = match outline_extent(map, region) {
        Outline::Sure(extent) => Some(extent),
        Outline::Unsure(extent) => merge(extent, grid_extent(map, region)),
    };
    let pixels = map.pixels();
    let clipped = extent.and_then(|Extent { from, to }| {
        let side = |axis: usize| clip(from[axis], to[axis], pixels[axis]);
        Some([side(0)?, side(1)?])
    });
    clipped.ok_or_else(|| ImageError::NoOverlap(region.to_string()))
}

/// The pixels of a rectangle of this size around a position. It lies along the image's axes, and its size is taken by
/// the pixel at the position, rounded to whole pixels, at least one.
///
/// # Errors
/// `NoOverlap` if the image has none of it; `TooLarge` for more pixels than an image can have.
pub fn box_around(map: &dyn SkyMap, position: SkyPosition, size_degrees: [f64; 2]) -> Result<SkyBox, ImageError> {
    let nowhere = || ImageError::NoOverlap(format!("the position {position}"));
    let place = sure_place(map, position).ok_or_else(nowhere)?;
    let sides = map.pixel_degrees(place).ok_or_else(nowhere)?;
    let pixels = map.pixels();
    let side = |axis: usize, centre: f64| {
        let length = (size_degrees[axis] / sides[axis]).round().max(1.0);
        if length.is_finite() { around(centre, length.min(LENGTH_PIXELS_MAX) as u64, pixels[axis]) } else { None }
    };
    Ok([side(0, place.x).ok_or_else(nowhere)?, side(1, place.y).ok_or_else(nowhere)?])
}

/// An extent in pixels, from the least to the greatest place.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Extent {
    from: [f64; 2],
    to: [f64; 2],
}

impl Extent {
    fn grow(extent: Option<Self>, PixelPosition { x, y }: PixelPosition) -> Option<Self> {
        let Some(Self { from, to }) = extent else { return Some(Self { from: [x, y], to: [x, y] }) };
        Some(Self { from: [from[0].min(x), from[1].min(y)], to: [to[0].max(x), to[1].max(y)] })
    }
}

fn merge(one: Option<Extent>, other: Option<Extent>) -> Option<Extent> {
    let Some(other) = other else { return one };
    let grown = Extent::grow(one, PixelPosition { x: other.from[0], y: other.from[1] });
    Extent::grow(grown, PixelPosition { x: other.to[0], y: other.to[1] })
}

enum Outline {
    /// All of the region lies within.
    Sure(Extent),
    /// There may be more of it elsewhere.
    Unsure(Option<Extent>),
}

/// The extent of the outline's places. It is sure if the outline is a closed line in the image too.
fn outline_extent(map: &dyn SkyMap, region: &SkyRegion) -> Outline {
    let outline = region.outline();
    let places: Vec<_> = outline.iter().map(|position| sure_place(map, *position)).collect();
    let centre = sure_place(map, region.centre());
    let extent = places.iter().flatten().copied().chain(centre).fold(None, Extent::grow);
    let next = |at: usize| (at + 1) % outline.len();
    let is_line = (0..outline.len()).all(|at| {
        let ends = places[at].zip(places[next(at)]);
        ends.is_some_and(|ends| is_joined(map, [outline[at], outline[next(at)]], [ends.0, ends.1]))
    });
    match extent {
        Some(extent) if is_line && centre.is_some() && region.reach_degrees() < REACH_DEGREES_MAX => {
            Outline::Sure(extent)
        }
        extent => Outline::Unsure(extent),
    }
}

/// Whether the middle between two positions is near the middle between their places. If it is not, a seam or a pole lies
/// between them, and the region is not what the places enclose.
fn is_joined(map: &dyn SkyMap, positions: [SkyPosition; 2], places: [PixelPosition; 2]) -> bool {
    let [one, other] = positions.map(SkyPosition::vector);
    let middle = SkyPosition::from_vector(std::array::from_fn(|axis| one[axis] + other[axis]));
    let Some(place) = map.place(middle) else { return false };
    let length = (places[1].x - places[0].x).hypot(places[1].y - places[0].y);
    let (x, y) = (f64::midpoint(places[0].x, places[1].x), f64::midpoint(places[0].y, places[1].y));
    (place.x - x).hypot(place.y - y) <= length * BENT_SHARE_MAX + BENT_PIXELS_MAX
}

/// Where a position is, if that place lies there again. A projection may give a place for the far half of the sky, and a
/// distortion beyond its image may send positions anywhere.
fn sure_place(map: &dyn SkyMap, position: SkyPosition) -> Option<PixelPosition> {
    let place = map.place(position)?;
    let back = map.position(place)?;
    (back.separation_degrees(position) < BACK_DEGREES_MAX).then_some(place)
}

/// The extent of the pixels whose positions are in the region: first over a coarse grid, and then closer at its borders.
fn grid_extent(map: &dyn SkyMap, region: &SkyRegion) -> Option<Extent> {
    let [width, height] = map.pixels().map(|pixels| pixels as f64);
    let is_in = |x: f64, y: f64| map.position(PixelPosition { x, y }).is_some_and(|position| region.contains(position));
    let node = |step: u32, pixels: f64| 0.5 + f64::from(step) / f64::from(GRID_STEPS) * pixels;
    let mut extent = None;
    for row in 0..=GRID_STEPS {
        for column in 0..=GRID_STEPS {
            let (x, y) = (node(column, width), node(row, height));
            if is_in(x, y) {
                extent = Extent::grow(extent, PixelPosition { x, y });
            }
        }
    }
    let Extent { mut from, mut to } = extent?;
    let mut step = [width, height].map(|pixels| pixels / f64::from(GRID_STEPS));
    while step.iter().any(|step| *step > GRID_PIXELS_MIN) {
        step = step.map(|step| step / 2.0);
        for axis in [0, 1] {
            let across = 1 - axis;
            let any_at = |at: f64| {
                let (low, high) = (from[across] - step[across], to[across] + step[across]);
                (0..=GRID_STEPS).any(|part| {
                    let other = low + f64::from(part) / f64::from(GRID_STEPS) * (high - low);
                    if axis == 0 { is_in(at, other) } else { is_in(other, at) }
                })
            };
            let (before, after) = (from[axis] - step[axis], to[axis] + step[axis]);
            let (grows_before, grows_after) = (any_at(before), any_at(after));
            from[axis] = if grows_before { before } else { from[axis] };
            to[axis] = if grows_after { after } else { to[axis] };
        }
    }
    Some(Extent { from, to })
}

/// The pixels between two places, a pixel reaching half a pixel to both sides.
fn clip(from: f64, to: f64, pixels: u64) -> Option<(u64, u64)> {
    let first = (from + 0.5).floor().max(1.0);
    // A region that ends on a pixel's border has nothing of the next pixel; one of no extent has one pixel.
    let last = (to - 0.5).ceil().max((from + 0.5).floor()).min(pixels as f64);
    (first <= last).then_some((first as u64, last as u64))
}

/// A region that reaches further is looked for by pixels too.
const REACH_DEGREES_MAX: f64 = 30.0;
/// How far the middle of a piece of the outline may be off its chord, as a share of it, and in pixels besides.
const BENT_SHARE_MAX: f64 = 0.25;
const BENT_PIXELS_MAX: f64 = 0.5;
/// How far a place may lie from the position that it was found for: a milliarcsecond.
const BACK_DEGREES_MAX: f64 = 3e-7;
/// The coarse grid.
const GRID_STEPS: u32 = 96;
/// How fine the grid gets at the region's borders.
const GRID_PIXELS_MIN: f64 = 0.25;
/// A longer box is longer than any image.
const LENGTH_PIXELS_MAX: f64 = 1e12;

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    /// The whole sky in squares of a degree: longitude falls with x, as on the sky, from 180 over 0 to -180.
    struct WholeSky;

    impl SkyMap for WholeSky {
        fn sky_axes(&self) -> [usize; 2] {
            [0, 1]
        }

        fn pixels(&self) -> [u64; 2] {
            [360, 180]
        }

        fn position(&self, PixelPosition { x, y }: PixelPosition) -> Option<SkyPosition> {
            SkyPosition::new(180.5 - x, y - 90.5).ok()
        }

        fn place(&self, SkyPosition { ra_degrees, dec_degrees }: SkyPosition) -> Option<PixelPosition> {
            let longitude = if ra_degrees > 180.0 { ra_degrees - 360.0 } else { ra_degrees };
            Some(PixelPosition { x: 180.5 - longitude, y: dec_degrees + 90.5 })
        }
    }

    /// A map of which nothing is known beyond its own pixels, and which does not find places at all.
    struct Blind;

    impl SkyMap for Blind {
        fn sky_axes(&self) -> [usize; 2] {
            [0, 1]
        }

        fn pixels(&self) -> [u64; 2] {
            [1_000, 1_000]
        }

        fn position(&self, PixelPosition { x, y }: PixelPosition) -> Option<SkyPosition> {
            SkyPosition::new(10.0 - x / 1_000.0, y / 1_000.0).ok()
        }

        fn place(&self, _: SkyPosition) -> Option<PixelPosition> {
            None
        }
    }

    fn found(map: &dyn SkyMap, region: &str) -> Result<SkyBox, ImageError> {
        box_of_region(map, &region.parse().unwrap())
    }

    #[test]
    fn a_region_within_the_image_is_its_pixels() {
        assert_eq!(found(&WholeSky, "RANGE 10 12 20 25").unwrap(), [(169, 170), (111, 115)]);
        assert_eq!(found(&WholeSky, "CIRCLE 10.5 20.5 0.01").unwrap(), [(170, 170), (111, 111)]);
        assert_eq!(found(&WholeSky, "CIRCLE 10.5 20.5 0").unwrap(), [(170, 170), (111, 111)]);
        assert_eq!(found(&WholeSky, "RANGE -2 2 -1 1").unwrap(), [(179, 182), (90, 91)]);
    }

    #[test]
    fn a_pole_has_all_longitudes_and_a_seam_both_ends() {
        assert_eq!(found(&WholeSky, "CIRCLE 77 89 3").unwrap(), [(1, 360), (177, 180)]);
        assert_eq!(found(&WholeSky, "CIRCLE 77 -90 0.9").unwrap(), [(1, 360), (1, 1)]);
        assert_eq!(found(&WholeSky, "RANGE 178.5 181.5 0 1").unwrap(), [(1, 360), (91, 91)]);
    }

    #[test]
    fn where_places_are_not_found_pixels_are_looked_at() {
        let [(left, right), (bottom, top)] = found(&Blind, "CIRCLE 9.5 0.5 0.1").unwrap();
        assert!((400..=401).contains(&left) && (599..=600).contains(&right), "{left} to {right}");
        assert!((400..=401).contains(&bottom) && (599..=600).contains(&top), "{bottom} to {top}");
        assert_eq!(found(&Blind, "CIRCLE 20 0.5 0.1").unwrap_err().class(), "no-overlap");
    }

    #[test]
    fn a_size_around_a_position_is_whole_pixels_and_clipped() {
        let at = |ra, dec| SkyPosition::new(ra, dec).unwrap();
        assert_eq!(box_around(&WholeSky, at(0.0, 0.0), [4.0, 2.0]).unwrap(), [(179, 182), (90, 91)]);
        assert_eq!(box_around(&WholeSky, at(0.0, 89.5), [4.0, 9.0]).unwrap()[1], (176, 180));
        assert_eq!(box_around(&Blind, at(9.5, 0.5), [1.0, 1.0]).unwrap_err().class(), "no-overlap");
        assert_eq!(box_around(&WholeSky, at(0.0, 0.0), [1e300, 0.0]).unwrap(), [(1, 360), (90, 90)]);
    }
}
