//! Regions of the sky as SODA writes them (IVOA SODA 1.0, 3.3): `CIRCLE lon lat radius`, `RANGE lon1 lon2 lat1 lat2` and
//! `POLYGON lon lat …` with sides along great circles. It never asks which pixels those are.

use std::{fmt, str::FromStr};

use super::position::{SkyPosition, cross, dot, length};
use crate::ImageError;

/// A region of the sky in ICRS.
#[derive(Clone, Debug, PartialEq)]
pub enum SkyRegion {
    /// All within a radius, in degrees.
    Circle(SkyPosition, f64),
    /// Between two longitudes, from the first eastwards to the second, and two latitudes.
    Range {
        /// In degrees; a range of a full turn or more is all of them.
        longitudes: (f64, f64),
        /// In degrees.
        latitudes: (f64, f64),
    },
    /// The smaller side of a polygon.
    Polygon(Vec<SkyPosition>),
}

impl SkyRegion {
    /// Whether a position lies in it.
    pub fn contains(&self, position: SkyPosition) -> bool {
        match self {
            Self::Circle(centre, radius) => centre.separation_degrees(position) <= *radius,
            Self::Range { longitudes: (west, east), latitudes: (south, north) } => {
                let latitude = position.dec_degrees;
                let is_pole = latitude.abs() >= 90.0;
                let along = (position.ra_degrees - west).rem_euclid(360.0);
                (*south..=*north).contains(&latitude) && (is_pole || along <= east - west)
            }
            Self::Polygon(corners) => polygon_contains(corners, position.vector()),
        }
    }

    /// Whether it has something in common with another one, to the accuracy of lines along both edges.
    pub fn overlaps(&self, other: &Self) -> bool {
        let has_edge_of = |one: &Self, other: &Self| {
            let edge = other.outline().into_iter().chain([other.centre()]);
            edge.into_iter().any(|place| one.contains(place))
        };
        self.centre().separation_degrees(other.centre()) <= self.reach_degrees() + other.reach_degrees()
            && (has_edge_of(self, other) || has_edge_of(other, self))
    }

    /// A position within it, in its middle.
    pub fn centre(&self) -> SkyPosition {
        match self {
            Self::Circle(centre, _) => *centre,
            Self::Range { longitudes: (west, east), latitudes: (south, north) } => SkyPosition {
                ra_degrees: f64::midpoint(*west, *east).rem_euclid(360.0),
                dec_degrees: f64::midpoint(*south, *north),
            },
            Self::Polygon(corners) => SkyPosition::from_vector(sum(corners)),
        }
    }

    /// Positions along its edge, in order: a closed line.
    pub(super) fn outline(&self) -> Vec<SkyPosition> {
        match self {
            Self::Circle(centre, radius) => {
                (0..EDGE_POINTS).map(|step| centre.offset(*radius, turn(step, EDGE_POINTS, 360.0))).collect()
            }
            Self::Range { longitudes: (west, east), latitudes: (south, north) } => {
                let at = |longitude: f64, latitude: f64| SkyPosition {
                    ra_degrees: longitude.rem_euclid(360.0),
                    dec_degrees: latitude,
                };
                let edge = |step: usize| turn(step, EDGE_POINTS, 1.0);
                let (wide, high) = (east - west, north - south);
                let south_edge = (0..EDGE_POINTS).map(|step| at(west + edge(step) * wide, *south));
                let east_edge = (0..EDGE_POINTS).map(|step| at(*east, south + edge(step) * high));
                let north_edge = (0..EDGE_POINTS).map(|step| at(east - edge(step) * wide, *north));
                let west_edge = (0..EDGE_POINTS).map(|step| at(*west, north - edge(step) * high));
                south_edge.chain(east_edge).chain(north_edge).chain(west_edge).collect()
            }
            Self::Polygon(corners) => {
                let sides = corners.iter().zip(corners.iter().cycle().skip(1));
                sides
                    .flat_map(|(from, to)| {
                        let (from, to) = (from.vector(), to.vector());
                        (0..SIDE_POINTS).map(move |step| {
                            let share = turn(step, SIDE_POINTS, 1.0);
                            // Unevenly spaced along the great circle, but on it.
                            let mixed = std::array::from_fn(|axis| from[axis] * (1.0 - share) + to[axis] * share);
                            SkyPosition::from_vector(mixed)
                        })
                    })
                    .collect()
            }
        }
    }

    /// The radius in degrees of a circle around the [centre](Self::centre) that has all of its outline.
    pub fn reach_degrees(&self) -> f64 {
        let centre = self.centre();
        self.outline().into_iter().map(|place| centre.separation_degrees(place)).fold(0.0, f64::max)
    }
}

impl FromStr for SkyRegion {
    type Err = ImageError;

    fn from_str(text: &str) -> Result<Self, ImageError> {
        let wrong = |why: &str| ImageError::Usage(format!("`{text}` is no region: {why}"));
        let mut words = text.split_ascii_whitespace();
        let shape = words.next().unwrap_or_default().to_ascii_uppercase();
        let numbers: Result<Vec<f64>, _> = words.map(number).collect();
        let numbers = numbers.map_err(|word: String| wrong(&format!("`{word}` is no number of degrees")))?;
        match (shape.as_str(), &numbers[..]) {
            ("CIRCLE", &[ra, dec, radius]) if (0.0..=180.0).contains(&radius) => {
                Ok(Self::Circle(SkyPosition::new(ra, dec)?, radius))
            }
            ("CIRCLE", _) => Err(wrong("write CIRCLE RA DEC RADIUS, with a radius of 0 to 180 degrees")),
            ("RANGE", &[west, east, south, north]) if west <= east && south <= north => {
                range((west, east), (south, north))
            }
            ("RANGE", _) => Err(wrong("write RANGE RA1 RA2 DEC1 DEC2, each pair ascending")),
            ("POLYGON", corners) if corners.len() >= 6 && corners.len().is_multiple_of(2) => {
                let corners: Result<Vec<_>, _> =
                    corners.chunks_exact(2).map(|pair| SkyPosition::new(pair[0], pair[1])).collect();
                let corners = corners?;
                if length(sum(&corners)) < 1e-9 {
                    return Err(wrong("its corners go around half of the sky, so no side is the smaller one"));
                }
                Ok(Self::Polygon(corners))
            }
            ("POLYGON", _) => Err(wrong("write POLYGON RA DEC RA DEC RA DEC …, with three corners or more")),
            _ => Err(wrong("it begins with CIRCLE, RANGE or POLYGON")),
        }
    }
}

impl fmt::Display for SkyRegion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let at = |place: &SkyPosition| format!("{} {}", place.ra_degrees, place.dec_degrees);
        match self {
            Self::Circle(centre, radius) => write!(f, "CIRCLE {} {radius}", at(centre)),
            Self::Range { longitudes: (west, east), latitudes: (south, north) } => {
                write!(f, "RANGE {west} {east} {south} {north}")
            }
            Self::Polygon(corners) => {
                write!(f, "POLYGON {}", corners.iter().map(at).collect::<Vec<_>>().join(" "))
            }
        }
    }
}

fn range(longitudes: (f64, f64), latitudes: (f64, f64)) -> Result<SkyRegion, ImageError> {
    // An open end is where longitudes begin and end.
    let west = if longitudes.0 == f64::NEG_INFINITY { 0.0 } else { longitudes.0 };
    let east = if longitudes.1 == f64::INFINITY { TURN } else { longitudes.1 };
    if !west.is_finite() || !east.is_finite() || west > east {
        return Err(ImageError::Usage("the range has no longitudes: the first one comes before the second".into()));
    }
    let longitudes = if east - west >= TURN { (0.0, TURN) } else { (west, east) };
    let latitudes = (latitudes.0.max(-90.0), latitudes.1.min(90.0));
    if latitudes.0 > latitudes.1 {
        return Err(ImageError::Usage("the range lies beyond a pole".into()));
    }
    Ok(SkyRegion::Range { longitudes, latitudes })
}

/// A number of degrees; `Inf` and `-Inf` are open ends.
fn number(word: &str) -> Result<f64, String> {
    word.parse::<f64>().ok().filter(|number| !number.is_nan()).ok_or_else(|| word.to_owned())
}

/// Adds up the angles under which the sides are seen from the position: a full turn from within, nothing from without.
fn polygon_contains(corners: &[SkyPosition], from: [f64; 3]) -> bool {
    // From behind, the polygon is seen mirrored: only its own half of the sky is inside.
    if dot(sum(corners), from) < 0.0 && corners.iter().all(|corner| dot(corner.vector(), from) < 0.0) {
        return false;
    }
    let sides = corners.iter().zip(corners.iter().cycle().skip(1));
    let turned: f64 = sides
        .map(|(one, other)| {
            let (one, other) = (cross(from, one.vector()), cross(from, other.vector()));
            dot(from, cross(one, other)).atan2(dot(one, other))
        })
        .sum();
    turned.abs() > std::f64::consts::PI
}

fn sum(corners: &[SkyPosition]) -> [f64; 3] {
    corners
        .iter()
        .map(|corner| corner.vector())
        .fold([0.0; 3], |sum, vector| std::array::from_fn(|axis| sum[axis] + vector[axis]))
}

fn turn(step: usize, steps: usize, whole: f64) -> f64 {
    step as f64 / steps as f64 * whole
}

/// Points along a circle's edge, and along each edge of a range.
const EDGE_POINTS: usize = 128;
/// Points along a polygon's side.
const SIDE_POINTS: usize = 64;
/// A full turn in degrees.
const TURN: f64 = 360.0;

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn contains(region: &str, ra: f64, dec: f64) -> bool {
        region.parse::<SkyRegion>().unwrap().contains(SkyPosition::new(ra, dec).unwrap())
    }

    #[test]
    fn regions_contain_what_lies_in_them_also_over_the_seam_and_at_poles() {
        assert!(contains("CIRCLE 359.9 0 0.3", 0.1, 0.0) && !contains("CIRCLE 359.9 0 0.3", 0.3, 0.0));
        assert!(contains("circle 10 89.9 0.2", 190.0, 89.95));
        assert!(contains("RANGE 350 370 -1 1", 5.0, 0.0) && !contains("RANGE 350 370 -1 1", 20.0, 0.0));
        assert!(contains("RANGE -Inf Inf 80 Inf", 123.0, 81.0) && !contains("RANGE -Inf Inf 80 Inf", 123.0, 79.0));
        assert!(contains("RANGE -Inf 20 0 90", 5.0, 1.0) && !contains("RANGE -Inf 20 0 90", 300.0, 1.0));
        assert!(contains("RANGE 10 20 80 90", 300.0, 90.0), "the pole has every longitude");
        let square = "POLYGON 359 -1 1 -1 1 1 359 1";
        assert!(contains(square, 0.0, 0.0) && !contains(square, 1.5, 0.0) && !contains(square, 180.0, 0.0));
        let reversed = "POLYGON 359 1 1 1 1 -1 359 -1";
        assert!(contains(reversed, 0.5, 0.5) && !contains(reversed, 180.5, 0.5));
        let cap = "POLYGON 0 85 90 85 180 85 270 85";
        assert!(contains(cap, 45.0, 90.0) && contains(cap, 45.0, 87.0) && !contains(cap, 45.0, 80.0));
        assert!(!contains(cap, 45.0, -88.0));
    }

    #[test]
    fn regions_overlap_where_one_has_a_part_of_the_other() {
        let overlap = |one: &str, other: &str| {
            let (one, other) = (one.parse::<SkyRegion>().unwrap(), other.parse::<SkyRegion>().unwrap());
            assert_eq!(one.overlaps(&other), other.overlaps(&one));
            one.overlaps(&other)
        };
        let square = "POLYGON 359 -1 1 -1 1 1 359 1";
        assert!(overlap(square, "CIRCLE 0 0 0.1"), "within");
        assert!(overlap(square, "CIRCLE 0 0 20"), "around");
        assert!(overlap(square, "CIRCLE 1.5 0 0.6") && !overlap(square, "CIRCLE 1.5 0 0.4"));
        assert!(!overlap(square, "CIRCLE 1.6 1.6 0.7"), "their circles meet, and they do not");
        assert!(overlap(square, "RANGE 0 10 -90 90") && !overlap(square, "RANGE 2 10 -90 90"));
    }

    #[test]
    fn what_is_no_region_is_said() {
        for text in [
            "",
            "BOX 1 2 3 4",
            "CIRCLE 1 2",
            "CIRCLE 1 2 -3",
            "CIRCLE 1 91 3",
            "CIRCLE nan 1 3",
            "RANGE 2 1 0 1",
            "RANGE 0 1 91 92",
            "RANGE -Inf -Inf 0 1",
            "RANGE -Inf -30 0 1",
            "POLYGON 1 2 3 4",
            "POLYGON 0 0 90 0 180 0 270 0",
            "CIRCLE 1 x 2",
        ] {
            assert!(text.parse::<SkyRegion>().is_err(), "{text}");
        }
        let text = "POLYGON 1 2 3 4 5 -6";
        assert_eq!(text.parse::<SkyRegion>().unwrap().to_string(), text);
    }
}
