//! Places on the sky in statements (ADQL 2.1, 4.2): points, circles and polygons as lists of numbers. It says what they have
//! to do with each other, and what of a catalogue need not be read. It never joins catalogues: that is the cross-match.

mod cone_rule;
mod functions;
mod relation;
mod shape;
mod vector;

pub(crate) use cone_rule::{ConeRule, Distance};
pub(crate) use functions::{functions, names};
