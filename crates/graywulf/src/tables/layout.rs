//! How a table's rows are divided into slices and sorted within each (GrayWulf, section 5). They are sliced by a key, or by
//! zones of declination as the zones algorithm wants them. It never moves a row.

use std::fmt;

use datafusion::{
    functions::math::expr_fn::floor,
    prelude::{Expr, ident, lit},
};
use serde::{Deserialize, Serialize};

/// How rows lie.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Layout {
    /// As they came.
    #[default]
    Unordered,
    /// By these columns, the first one first.
    Key(Vec<String>),
    /// By zone of declination, and by right ascension within each. Rows that are near each other on the sky lie near each
    /// other in a slice (Gray, Nieto-Santisteban and Szalay, MSR-TR-2006-52).
    Zones {
        /// The column of right ascension, in degrees.
        ra: String,
        /// The column of declination, in degrees.
        dec: String,
        /// The height of a zone.
        height_arcsec: f64,
    },
}

impl Layout {
    /// The columns that decide.
    pub(crate) fn columns(&self) -> Vec<&str> {
        match self {
            Self::Unordered => Vec::new(),
            Self::Key(columns) => columns.iter().map(String::as_str).collect(),
            Self::Zones { ra, dec, .. } => vec![dec, ra],
        }
    }

    /// What rows are sorted by.
    pub(crate) fn sort_by(&self) -> Vec<Expr> {
        match self {
            Self::Unordered => Vec::new(),
            Self::Key(columns) => columns.iter().map(ident).collect(),
            Self::Zones { ra, dec, height_arcsec } => {
                let zone = floor((ident(dec) + lit(90.0)) * lit(3600.0 / height_arcsec));
                vec![zone, ident(ra)]
            }
        }
    }
}

impl fmt::Display for Layout {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unordered => f.write_str("unordered"),
            Self::Key(columns) => write!(f, "sorted by {}", columns.join(", ")),
            Self::Zones { ra, dec, height_arcsec } => write!(f, "zones of {height_arcsec}\" of {dec}, then by {ra}"),
        }
    }
}
