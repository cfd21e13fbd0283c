//! One tuple of a table: an image and a part of it (AstroPortal report, 4: path and name of the file, coordinates,
//! height and width). It never knows the image.

use fits::Selection;

/// A cutout that is asked for.
#[derive(Clone, Debug, PartialEq)]
pub struct Tuple {
    /// Its number in the table, from 1.
    pub number: u64,
    /// The image's path in the cloud.
    pub path: String,
    /// What to cut out.
    pub selection: Selection,
    /// The name of the file to make.
    pub name: String,
}
