//! Whether one shape on the sphere lies within another, and whether two share a place. Borders belong to shapes, and
//! what is off by rounding counts as on the border. This file never makes a shape of two.

use std::f64::consts::PI;

use super::shape::{Direction, Edge, Shape, Vector, Winding, edges};

/// Whether one shape lies wholly within another. A polygon without area lies within like a line, and holds what is on
/// that line.
pub(crate) fn contains(outer: &Shape, inner: &Shape) -> bool {
    match (&Figure::of(outer), &Figure::of(inner)) {
        (Figure::Cap(outer), Figure::Cap(inner)) => {
            // No place is further than the antipode of the centre.
            let furthest = (outer.centre.angle(inner.centre) + inner.radius).min(PI);
            furthest <= outer.radius + SAME_RADIANS
        }
        (Figure::Cap(outer), Figure::Region(inner)) => {
            // What a circle leaves out is a circle around the antipode. So edges that bulge and large circles need
            // nothing of their own.
            inner.distance(-outer.centre) >= PI - outer.radius - BORDER_RADIANS
        }
        (Figure::Region(outer), Figure::Cap(inner)) => {
            outer.holds(inner.centre) && outer.border_distance(inner.centre) >= inner.radius - BORDER_RADIANS
        }
        (Figure::Region(outer), Figure::Region(inner)) => outer.holds_region(inner),
    }
}

/// Whether two shapes share a place.
pub(crate) fn intersects(one: &Shape, other: &Shape) -> bool {
    match (&Figure::of(one), &Figure::of(other)) {
        (Figure::Cap(one), Figure::Cap(other)) => {
            one.centre.angle(other.centre) <= one.radius + other.radius + SAME_RADIANS
        }
        (Figure::Cap(cap), Figure::Region(region)) | (Figure::Region(region), Figure::Cap(cap)) => {
            region.distance(cap.centre) <= cap.radius + BORDER_RADIANS
        }
        (Figure::Region(one), Figure::Region(other)) => one.meets(other),
    }
}

/// A shape, made ready for questions.
enum Figure {
    /// A circle, or a point, which is a circle without radius.
    Cap(Cap),
    /// A polygon.
    Region(Region),
}

struct Cap {
    centre: Vector,
    /// In radians.
    radius: f64,
}

struct Region {
    edges: Vec<Edge>,
    winding: Winding,
}

impl Figure {
    fn of(shape: &Shape) -> Self {
        let cap =
            |centre: &Direction, degrees: f64| Self::Cap(Cap { centre: centre.unit, radius: degrees.to_radians() });
        match shape {
            Shape::Point(place) => cap(place, 0.0),
            Shape::Circle { centre, radius_degrees } => cap(centre, *radius_degrees),
            Shape::Polygon(vertices) => {
                Self::Region(Region { edges: edges(vertices).collect(), winding: Winding::of(vertices) })
            }
        }
    }
}

impl Region {
    /// The angle from a place to the nearest edge, in radians.
    fn border_distance(&self, place: Vector) -> f64 {
        self.edges.iter().map(|edge| edge.distance(place)).fold(PI, f64::min)
    }

    /// The angle from a place to the nearest place of the polygon, in radians.
    fn distance(&self, place: Vector) -> f64 {
        let border = self.border_distance(place);
        // The crossings below say nothing of a place on the border.
        if border > BORDER_RADIANS && self.is_inside(place) { 0.0 } else { border }
    }

    /// Whether a place is inside or on the border.
    fn holds(&self, place: Vector) -> bool {
        self.distance(place) <= BORDER_RADIANS
    }

    /// Whether a place off the border is inside: by counting the edges on the way to the far place.
    fn is_inside(&self, place: Vector) -> bool {
        let is_even = match way(place, self.winding.far) {
            None => true,
            Some(Way { normal, end }) => {
                let (ahead, before_end) = (normal.cross(place), end.cross(normal));
                let is_on_way = |at: &Vector| ahead.dot(*at) > 0.0 && before_end.dot(*at) > 0.0;
                self.edges.iter().filter_map(|edge| edge.crossing(normal)).filter(is_on_way).count().is_multiple_of(2)
            }
        };
        is_even == self.winding.is_far_inside()
    }

    /// Whether another polygon lies within this one.
    fn holds_region(&self, inner: &Self) -> bool {
        let holds_border = inner.edges.iter().all(|edge| self.holds_edge(edge));
        // Two halves of the sphere have one border, and are not the same.
        let is_rest = || inner.winding.is_half() && inner.holds(self.winding.far) != self.winding.is_far_inside();
        holds_border && !is_rest()
    }

    /// Whether all of an edge is inside or on the border.
    fn holds_edge(&self, edge: &Edge) -> bool {
        if !self.holds(edge.from) || !self.holds(edge.to) {
            return false;
        }
        // Between the places where the edge meets the border, it lies on one side. Ends that touch the border from
        // within are not enough: a notch may lie between them.
        let crossings = self.edges.iter().filter_map(|own| crossing(own, edge));
        let touching = self.edges.iter().map(|own| own.from).filter(|vertex| edge.distance(*vertex) <= BORDER_RADIANS);
        let mut places: Vec<Vector> = [edge.from, edge.to].into_iter().chain(crossings).chain(touching).collect();
        places.sort_by(|one, other| edge.from.angle(*one).total_cmp(&edge.from.angle(*other)));
        let mut middles = places.iter().zip(places.iter().skip(1)).filter_map(|(one, next)| (*one + *next).unit());
        middles.all(|middle| self.holds(middle))
    }

    /// Whether two polygons share a place.
    fn meets(&self, other: &Self) -> bool {
        self.edges.iter().any(|edge| other.holds(edge.from))
            || other.edges.iter().any(|edge| self.holds(edge.from))
            || self.edges.iter().any(|edge| other.edges.iter().any(|own| crossing(own, edge).is_some()))
    }
}

/// Where two edges cross, if they do. Edges on one great circle may meet without.
fn crossing(one: &Edge, other: &Edge) -> Option<Vector> {
    one.crossing(other.normal).filter(|at| other.spans(*at)).and_then(Vector::unit)
}

/// An arc of a great circle from a place.
struct Way {
    /// The normal of its plane.
    normal: Vector,
    end: Vector,
}

/// The way from a place to the far place, or to right beside it; `None` where there is none to go.
fn way(place: Vector, far: Vector) -> Option<Way> {
    let normal = place.unit_cross(far);
    let (normal, end) = if normal.length() > NEAR_RADIANS {
        (normal, far)
    } else if place.dot(far) > 0.0 {
        return None;
    } else {
        // Nearly antipodes: any way to the antipode does, and it has no edge near, as the far place has none.
        let axis =
            if place.x.abs() < 0.5 { Vector { x: 1.0, y: 0.0, z: 0.0 } } else { Vector { x: 0.0, y: 1.0, z: 0.0 } };
        (place.cross(axis), -place)
    };
    normal.unit().map(|normal| Way { normal, end })
}

/// What counts as the same place, or as on a circle: 1e-12 degrees.
const SAME_RADIANS: f64 = 1e-12 * PI / 180.0;
/// What counts as on a polygon's border: 1e-10 degrees.
const BORDER_RADIANS: f64 = 1e-10 * PI / 180.0;
/// Whoever is this near to the far place is on its side of all edges.
const NEAR_RADIANS: f64 = 1e-8;

#[cfg(test)]
#[path = "relation_tests.rs"]
mod tests;
