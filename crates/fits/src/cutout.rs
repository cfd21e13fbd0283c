//! A cutout: parts of a file's images as a file of their own. It never reads more of the file than those parts.

use crate::{ImageError, ImageFile, PixelBox, Provenance, Selection};

/// Parts of the images of one file that were found for a selection.
#[derive(Clone, Debug, PartialEq)]
pub struct Cutout {
    /// For each image its number in the file, and the part of it.
    pub parts: Vec<(usize, PixelBox)>,
}

impl Cutout {
    /// Finds the parts that a selection means.
    ///
    /// # Errors
    /// `NoOverlap` if no image has any of it; `NoSky` if none says where it lies, and it is asked for by position.
    pub fn find(file: &mut ImageFile<'_>, selection: &Selection) -> Result<Self, ImageError> {
        Ok(Self { parts: selection.parts(file)? })
    }

    /// The cutout as a FITS file. `CRPIX` of all coordinate systems is moved, and history lines say where it comes from.
    ///
    /// # Errors
    /// `TooLarge` for more pixels than the limit allows; `Damaged` if the file does not hold them.
    pub fn fits(&self, file: &mut ImageFile<'_>, provenance: &Provenance) -> Result<Vec<u8>, ImageError> {
        file.write_fits(&self.parts, provenance)
    }
}
