//! Shapes on the sphere as ADQL has them: points, circles and polygons, made of numbers and back, with area and
//! centroid. A polygon's edges are great circles, and its inside is the smaller side. This file never asks how two
//! shapes lie to each other.

use std::{
    f64::consts::{PI, TAU},
    ops::Add,
};

pub(super) use super::vector::Vector;

/// A point, a circle or a polygon.
///
/// Degenerate polygons are allowed. One without area is the line or the point that its edges cover. One that crosses
/// itself has inside what an odd number of edges parts from its outside; its area counts lobes of other winding off.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Shape {
    /// One place.
    Point(Direction),
    /// All within a radius of a centre.
    Circle {
        /// The middle.
        centre: Direction,
        /// From 0 to 180 degrees.
        radius_degrees: f64,
    },
    /// The smaller side of a closed line, of either winding. Two halves of the sphere are told apart by winding: the
    /// inside is then on the left, seen from outside the sphere with north up.
    Polygon(Vec<Direction>),
}

/// A place on the sphere, as a unit vector.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Direction {
    pub(super) unit: Vector,
}

/// The shorter arc of a great circle between two places.
#[derive(Clone, Copy, Debug)]
pub(super) struct Edge {
    pub(super) from: Vector,
    pub(super) to: Vector,
    /// Their cross product; zero where both are the same place.
    pub(super) normal: Vector,
}

/// How a closed line goes round the sphere, from which its area and its inside follow.
#[derive(Clone, Copy, Debug)]
pub(super) struct Winding {
    /// A place away from every edge.
    pub(super) far: Vector,
    /// The area of the side without `far`, in steradians. It is below 0 where that side is right of the edges.
    area_without_far: f64,
}

impl Shape {
    /// The shape of these numbers, as DALI 1.1 writes them: a point of 2, a circle of 3, a polygon of 6 or more.
    /// `None` where they are none, and where neighbours in a polygon are antipodes, which no single edge joins.
    pub(crate) fn of(numbers: &[f64]) -> Option<Self> {
        match *numbers {
            [ra, dec] => Direction::checked(ra, dec).map(Self::Point),
            [ra, dec, radius_degrees] => {
                let centre = Direction::checked(ra, dec)?;
                (0.0..=180.0).contains(&radius_degrees).then_some(Self::Circle { centre, radius_degrees })
            }
            _ if numbers.len() >= 6 && numbers.len().is_multiple_of(2) => {
                let pairs = numbers.chunks_exact(2);
                let vertices: Option<Vec<_>> = pairs.map(|pair| Direction::checked(pair[0], pair[1])).collect();
                let vertices = vertices.filter(|vertices| edges(vertices).all(|edge| edge.is_determined()))?;
                Some(Self::Polygon(vertices))
            }
            _ => None,
        }
    }

    /// The numbers that make this shape. Those of places may differ in the last digits from what they were made of.
    pub(crate) fn numbers(&self) -> Vec<f64> {
        let pair = |place: &Direction| [place.ra_degrees(), place.dec_degrees()];
        match self {
            Self::Point(place) => pair(place).to_vec(),
            Self::Circle { centre, radius_degrees } => {
                pair(centre).into_iter().chain(std::iter::once(*radius_degrees)).collect()
            }
            Self::Polygon(vertices) => vertices.iter().flat_map(pair).collect(),
        }
    }

    /// ADQL's box: the polygon of the four corners that lie half an extent from the centre in each coordinate. Its
    /// upper and lower sides are great circles, as in every polygon, and bulge towards the pole. Corners beyond a pole
    /// are at the pole. `None` from a width of 180 degrees on, where the sides would go round the other way.
    pub(crate) fn boxed(ra: f64, dec: f64, width: f64, height: f64) -> Option<Self> {
        Direction::checked(ra, dec)?;
        if !((0.0..180.0).contains(&width) && (0.0..f64::INFINITY).contains(&height)) {
            return None;
        }
        let (west, east) = (ra - width / 2.0, ra + width / 2.0);
        let (south, north) = ((dec - height / 2.0).max(-90.0), (dec + height / 2.0).min(90.0));
        let corners = if south <= -90.0 && north >= 90.0 {
            // From pole to pole: a side needs a vertex between, which says along which meridian it goes.
            vec![west, south, east, 0.0, east, north, west, 0.0]
        } else {
            vec![west, south, east, south, east, north, west, north]
        };
        Self::of(&corners)
    }

    /// The middle of the shape's area; of a polygon without area, the mean of its vertices.
    pub(crate) fn centroid(&self) -> Direction {
        match self {
            Self::Point(place) | Self::Circle { centre: place, .. } => *place,
            Self::Polygon(vertices) => centroid(vertices),
        }
    }

    /// The area in square degrees.
    pub(crate) fn area_square_degrees(&self) -> f64 {
        let steradians = match self {
            Self::Point(_) => 0.0,
            Self::Circle { radius_degrees, .. } => 2.0 * TAU * (radius_degrees / 2.0).to_radians().sin().powi(2),
            Self::Polygon(vertices) => Winding::of(vertices).area(),
        };
        steradians.to_degrees().to_degrees()
    }
}

impl Direction {
    /// The place of these coordinates.
    pub(crate) fn of(ra_degrees: f64, dec_degrees: f64) -> Self {
        let (ra_sin, ra_cos) = ra_degrees.rem_euclid(360.0).to_radians().sin_cos();
        let (dec_sin, dec_cos) = dec_degrees.to_radians().sin_cos();
        Self { unit: Vector { x: dec_cos * ra_cos, y: dec_cos * ra_sin, z: dec_sin } }
    }

    fn checked(ra_degrees: f64, dec_degrees: f64) -> Option<Self> {
        let is_place = ra_degrees.is_finite() && (-90.0..=90.0).contains(&dec_degrees);
        is_place.then(|| Self::of(ra_degrees, dec_degrees))
    }

    /// Right ascension, from 0 to below 360.
    pub(crate) fn ra_degrees(self) -> f64 {
        let ra = self.unit.y.atan2(self.unit.x).to_degrees().rem_euclid(360.0);
        // What is barely below 0 becomes 360 by rounding; adding 0 makes -0 a plain 0.
        if ra < 360.0 { ra + 0.0 } else { 0.0 }
    }

    /// Declination, from -90 to 90.
    pub(crate) fn dec_degrees(self) -> f64 {
        self.unit.z.atan2(self.unit.x.hypot(self.unit.y)).to_degrees()
    }

    /// The angle to another place.
    pub(crate) fn separation_degrees(self, other: Self) -> f64 {
        self.unit.angle(other.unit).to_degrees()
    }
}

/// The edges of a polygon, with that from its last vertex to its first.
pub(super) fn edges(vertices: &[Direction]) -> impl Iterator<Item = Edge> {
    let next = vertices.iter().cycle().skip(1);
    vertices.iter().zip(next).map(|(from, to)| Edge::of(from.unit, to.unit))
}

impl Edge {
    pub(super) fn of(from: Vector, to: Vector) -> Self {
        let normal = from.unit_cross(to);
        // The direction of what is shorter is rounding.
        let is_edge = normal.length() > SAME_RADIANS;
        Self { from, to, normal: if is_edge { normal } else { normal * 0.0 } }
    }

    /// Whether one shorter arc joins the ends: antipodes have many.
    fn is_determined(&self) -> bool {
        self.from.dot(self.to) > 0.0 || self.normal.length() > ANTIPODE_RADIANS
    }

    /// Whether a place on the edge's great circle is on the edge; of other places, whether they are beside it.
    pub(super) fn spans(&self, place: Vector) -> bool {
        self.normal.cross(self.from).dot(place) >= 0.0 && self.to.cross(self.normal).dot(place) >= 0.0
    }

    /// The angle from a unit vector to the nearest place on the edge, in radians.
    pub(super) fn distance(&self, place: Vector) -> f64 {
        if self.normal.length() > 0.0 && self.spans(place) {
            self.normal.dot(place).abs().atan2(self.normal.cross(place).length())
        } else {
            self.from.angle(place).min(self.to.angle(place))
        }
    }

    /// Where the edge crosses a plane through the middle of the sphere, as a vector of any length. A vertex on the
    /// plane counts as above it, so that a line through a vertex crosses once or not at all.
    pub(super) fn crossing(&self, normal: Vector) -> Option<Vector> {
        let (from, to) = (normal.dot(self.from), normal.dot(self.to));
        ((from >= 0.0) != (to >= 0.0)).then(|| self.from * to.abs() + self.to * from.abs())
    }
}

impl Winding {
    pub(super) fn of(vertices: &[Direction]) -> Self {
        let hub = hub(vertices);
        // Triangles from the hub to each edge tell the area about `far`, whatever the line: they never cover `far`.
        let area_without_far = edges(vertices).map(|edge| signed_area(hub, &edge)).sum();
        Self { far: -hub, area_without_far }
    }

    /// The area of the smaller side, in steradians.
    fn area(&self) -> f64 {
        self.area_without_far.abs().min(2.0 * TAU - self.area_without_far.abs())
    }

    /// Whether both sides are as large.
    pub(super) fn is_half(&self) -> bool {
        (self.area_without_far.abs() - TAU).abs() < HALF_STERADIANS
    }

    /// Whether the far place is inside: on the smaller side, or left of a half's border.
    pub(super) fn is_far_inside(&self) -> bool {
        if self.is_half() { self.area_without_far < 0.0 } else { self.area_without_far.abs() > TAU }
    }
}

/// A place whose antipode is away from every edge: the middle of the vertices, unless they reach too far round.
fn hub(vertices: &[Direction]) -> Vector {
    let middle = mean(vertices);
    if let Some(middle) = middle.filter(|middle| vertices.iter().all(|vertex| vertex.unit.dot(*middle) > 0.2)) {
        return middle;
    }
    let steps = [-1.0, 0.0, 1.0];
    let rows = steps.into_iter().flat_map(|x| steps.map(|y| (x, y)));
    let grid = rows.flat_map(|(x, y)| steps.map(|z| Vector { x, y, z })).filter_map(Vector::unit);
    let mut best = (0.0, Vector { x: 0.0, y: 0.0, z: 1.0 });
    for hub in middle.into_iter().chain(grid) {
        let room = edges(vertices).map(|edge| edge.distance(-hub)).fold(PI, f64::min);
        if room > ROOM_RADIANS {
            return hub;
        }
        if room > best.0 {
            best = (room, hub);
        }
    }
    best.1
}

/// The mean of places, or `None` where they lie evenly round the sphere.
fn mean(vertices: &[Direction]) -> Option<Vector> {
    let sum = vertices.iter().map(|vertex| vertex.unit).reduce(Vector::add)?;
    if sum.length() > SAME_RADIANS { sum.unit() } else { None }
}

/// The area of the triangle from a hub to an edge, in steradians; below 0 where the edge goes clockwise round the hub.
fn signed_area(hub: Vector, edge: &Edge) -> f64 {
    // Differences keep the digits of tiny triangles, which a product of three unit vectors would lose.
    let volume = hub.dot((edge.from - hub).cross(edge.to - hub));
    2.0 * volume.atan2(1.0 + hub.dot(edge.from) + edge.from.dot(edge.to) + edge.to.dot(hub))
}

fn centroid(vertices: &[Direction]) -> Direction {
    let winding = Winding::of(vertices);
    let hub = -winding.far;
    let reach = vertices.iter().map(|vertex| vertex.unit.angle(hub)).fold(0.0, f64::max);
    let length: f64 = edges(vertices).map(|edge| edge.from.angle(edge.to)).sum();
    let middle = if winding.area() <= length * SAME_RADIANS {
        None
    } else if reach < FLAT_RADIANS {
        // As in a plane. The exact sum below would lose the digits of so small a polygon.
        let moment = edges(vertices).map(|edge| (edge.from - hub + (edge.to - hub)) * signed_area(hub, &edge));
        moment.reduce(Vector::add).and_then(|sum| (hub + sum * (1.0 / (3.0 * winding.area_without_far))).unit())
    } else {
        let moment = edges(vertices).map(|edge| edge.normal * turn_over_sine(&edge)).reduce(Vector::add);
        let is_left = (winding.area_without_far > 0.0) != winding.is_far_inside();
        moment.and_then(Vector::unit).map(|sum| if is_left { sum } else { -sum })
    };
    let first = vertices.first().map_or(hub, |vertex| vertex.unit);
    Direction { unit: middle.or_else(|| mean(vertices)).unwrap_or(first) }
}

/// An edge's angle divided by its sine.
fn turn_over_sine(edge: &Edge) -> f64 {
    let sine = edge.normal.length();
    if sine > 0.0 { sine.atan2(edge.from.dot(edge.to)) / sine } else { 1.0 }
}

/// Places nearer than this are the same: unit vectors are rounded to some parts of 10^16.
const SAME_RADIANS: f64 = 1e-14;
/// Ends of an edge this near to antipodes do not say where it goes.
const ANTIPODE_RADIANS: f64 = 1e-12;
/// A place this far from every edge is far enough. The furthest would do no better, and takes longer to find.
const ROOM_RADIANS: f64 = 0.2;
/// Polygons that reach less far from their middle are taken as flat for the centroid: it then errs by a part of 10^12.
const FLAT_RADIANS: f64 = 1e-4;
/// Sides whose areas differ less from half the sphere are taken as halves.
const HALF_STERADIANS: f64 = 1e-9;
