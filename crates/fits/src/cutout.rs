//! A cutout: parts of a file's images as a file of their own. It never reads more of the file than those parts.

use crate::{ImageError, ImageFile, Keywords, PixelBox, Planes, Provenance, Selection};

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

    /// Takes of each image only these planes; of an axis that is cut already, what both have.
    ///
    /// # Errors
    /// What `planes` gives for an image, and `NoOverlap` if nothing is left.
    pub fn take_planes(
        &mut self,
        file: &ImageFile<'_>,
        planes: impl Fn(&Keywords<'_>, &[u64]) -> Result<Option<Planes>, ImageError>,
    ) -> Result<(), ImageError> {
        for (hdu, part) in &mut self.parts {
            let shape = file.images().iter().find(|image| image.hdu == *hdu).map(|image| image.shape.clone());
            let (Some(shape), Some(keywords)) = (shape, file.keywords(*hdu)) else { continue };
            let Some((axis, (first, last))) = planes(&keywords, &shape)? else { continue };
            let mut axes = part.axes().to_vec();
            if let Some(side) = axes.get_mut(axis) {
                *side = (side.0.max(first), side.1.min(last));
                if side.0 > side.1 {
                    return Err(ImageError::NoOverlap(format!("the planes {first} to {last}")));
                }
            }
            *part = PixelBox::new(axes)?;
        }
        Ok(())
    }

    /// The cutout as a FITS file. `CRPIX` of all coordinate systems is moved, and history lines say where it comes from.
    ///
    /// # Errors
    /// `TooLarge` for more pixels than the limit allows; `Damaged` if the file does not hold them.
    pub fn fits(&self, file: &mut ImageFile<'_>, provenance: &Provenance) -> Result<Vec<u8>, ImageError> {
        file.write_fits(&self.parts, provenance)
    }
}
