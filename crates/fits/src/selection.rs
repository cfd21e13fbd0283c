//! What to cut out of a file: pixels, or a place on the sky. It never reads a pixel.

use std::{fmt, str::FromStr};

use crate::{
    Extension, ImageDescription, ImageError, ImageFile, PixelBox, Section,
    pixel_box::around,
    sky::{SkyBox, SkyMap, SkyPosition, SkyRegion, box_around, box_of_region},
};

/// What to cut out of a file.
#[derive(Clone, Debug, PartialEq)]
pub enum Selection {
    /// A section of one image.
    Section(Section),
    /// The paper's tuple: pixels around a centre, counted from 1.
    Pixels {
        /// The image; the first one of the file where it is not named.
        extension: Option<Extension>,
        /// The centre.
        centre: (f64, f64),
        /// Pixels along the first and the second axis.
        size: (u64, u64),
    },
    /// What an image has of a region of the sky.
    Region {
        /// The image; all that have a part of it where none is named.
        extension: Option<Extension>,
        /// The region.
        region: SkyRegion,
    },
    /// A rectangle along the image's axes around a position.
    Around {
        /// The image; all that have a part of it where none is named.
        extension: Option<Extension>,
        /// Its middle.
        position: SkyPosition,
        /// Its size along the image's two axes on the sky, in arc minutes.
        size_arcmin: (f64, f64),
    },
}

impl Selection {
    /// The parts of the file's images that it means, in the order of the file.
    pub(crate) fn parts(&self, file: &mut ImageFile<'_>) -> Result<Vec<(usize, PixelBox)>, ImageError> {
        match self {
            Self::Section(section) => {
                let image = one_image(file, section.extension.as_ref())?;
                Ok(vec![(image.hdu, section.within(&image.shape)?)])
            }
            Self::Pixels { extension, centre, size } => {
                let image = one_image(file, extension.as_ref())?;
                Ok(vec![(image.hdu, self.pixels_around(image, *centre, *size)?)])
            }
            Self::Region { extension, region } => {
                self.on_sky(file, extension.as_ref(), &|map| box_of_region(map, region))
            }
            Self::Around { extension, position, size_arcmin: (width, height) } => {
                let is_size = |size: f64| size.is_finite() && size > 0.0;
                if !is_size(*width) || !is_size(*height) {
                    return Err(ImageError::Usage(format!("`{width}` by `{height}` arc minutes is no size")));
                }
                let size_degrees = [width / 60.0, height / 60.0];
                self.on_sky(file, extension.as_ref(), &|map| box_around(map, *position, size_degrees))
            }
        }
    }

    fn pixels_around(
        &self,
        image: &ImageDescription,
        (x, y): (f64, f64),
        (width, height): (u64, u64),
    ) -> Result<PixelBox, ImageError> {
        let [across, along, ref others @ ..] = image.shape[..] else {
            return Err(ImageError::Usage("the image has one axis alone; give a section".into()));
        };
        if width == 0 || height == 0 {
            return Err(ImageError::Usage("a cutout has at least one pixel".into()));
        }
        let sides = around(x, width, across).zip(around(y, height, along));
        let (columns, rows) = sides.ok_or_else(|| ImageError::NoOverlap(self.to_string()))?;
        PixelBox::new([columns, rows].into_iter().chain(others.iter().map(|length| (1, *length))).collect())
    }

    /// The boxes of all images that have one; the reason of the first image if none has.
    fn on_sky(
        &self,
        file: &mut ImageFile<'_>,
        extension: Option<&Extension>,
        find: FindBox<'_>,
    ) -> Result<Vec<(usize, PixelBox)>, ImageError> {
        let images = match extension {
            Some(extension) => vec![file.image(extension)?.clone()],
            None => file.images().to_vec(),
        };
        let (mut parts, mut refused) = (Vec::new(), None);
        for image in images {
            let found = file.sky_map(&image).and_then(|map| {
                let mut axes: Vec<_> = image.shape.iter().map(|length| (1, *length)).collect();
                let [longitude, latitude] = map.sky_axes();
                [axes[longitude], axes[latitude]] = find(&*map)?;
                PixelBox::new(axes)
            });
            match found {
                Ok(part) => parts.push((image.hdu, part)),
                // That an image lies elsewhere says more than that another lies nowhere.
                Err(error @ ImageError::NoOverlap(_)) => refused = Some(error),
                Err(error) => {
                    refused.get_or_insert(error);
                }
            }
        }
        match refused {
            _ if !parts.is_empty() => Ok(parts),
            Some(refused) => Err(refused),
            None => Err(ImageError::NoImage("at all".into())),
        }
    }
}

/// Finds the pixels that are meant, by where an image lies.
type FindBox<'a> = &'a dyn Fn(&dyn SkyMap) -> Result<SkyBox, ImageError>;

impl FromStr for Selection {
    type Err = ImageError;

    /// A section, or `PIXELS x y width height`, `AROUND ra dec width height` (in arc minutes), or a region. All but the
    /// section may follow the image in brackets: `[SCI] CIRCLE 10 20 0.1`.
    fn from_str(text: &str) -> Result<Self, ImageError> {
        let text = text.trim();
        let (bracketed, shape) = match text.rfind(']') {
            Some(end) => text.split_at(end + 1),
            None => ("", text),
        };
        let shape = shape.trim();
        if shape.is_empty() {
            return if text.is_empty() { Err(no_selection(text)) } else { text.parse().map(Self::Section) };
        }
        let extension = match bracketed {
            "" => None,
            _ => {
                let inner = bracketed.strip_prefix('[').and_then(|rest| rest.strip_suffix(']'));
                Some(inner.ok_or_else(|| no_selection(text))?.parse()?)
            }
        };
        let real = |word: &str| {
            let number = word.parse::<f64>().ok().filter(|number| number.is_finite());
            number.ok_or_else(|| no_selection(text))
        };
        let mut words = shape.split_ascii_whitespace();
        match words.next().map(str::to_ascii_uppercase).as_deref() {
            Some("PIXELS") => {
                let [x, y, width, height] = four(words).ok_or_else(|| no_selection(text))?;
                let whole = |word: &str| word.parse::<u64>().map_err(|_| no_selection(text));
                Ok(Self::Pixels { extension, centre: (real(x)?, real(y)?), size: (whole(width)?, whole(height)?) })
            }
            Some("AROUND") => {
                let [ra, dec, width, height] = four(words).ok_or_else(|| no_selection(text))?;
                let position = SkyPosition::new(real(ra)?, real(dec)?)?;
                Ok(Self::Around { extension, position, size_arcmin: (real(width)?, real(height)?) })
            }
            _ => Ok(Self::Region { extension, region: shape.parse()? }),
        }
    }
}

impl fmt::Display for Selection {
    /// As it is read.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let extension = match self {
            Self::Section(section) => return write!(f, "{section}"),
            Self::Pixels { extension, .. } | Self::Region { extension, .. } | Self::Around { extension, .. } => {
                extension
            }
        };
        if let Some(extension) = extension {
            write!(f, "[{extension}] ")?;
        }
        match self {
            Self::Pixels { centre: (x, y), size: (width, height), .. } => write!(f, "PIXELS {x} {y} {width} {height}"),
            Self::Region { region, .. } => write!(f, "{region}"),
            Self::Around {
                position: SkyPosition { ra_degrees, dec_degrees }, size_arcmin: (width, height), ..
            } => {
                write!(f, "AROUND {ra_degrees} {dec_degrees} {width} {height}")
            }
            Self::Section(_) => Ok(()),
        }
    }
}

fn four<'w>(words: impl Iterator<Item = &'w str>) -> Option<[&'w str; 4]> {
    words.collect::<Vec<_>>().try_into().ok()
}

fn no_selection(text: &str) -> ImageError {
    ImageError::Usage(format!(
        "`{text}` says no part of an image: write a section like [1][1:100,1:100], CIRCLE, RANGE or POLYGON with degrees, \
         AROUND RA DEC WIDTH HEIGHT with arc minutes, or PIXELS X Y WIDTH HEIGHT"
    ))
}

/// The image that is named, else the first one of the file.
fn one_image<'f>(file: &'f ImageFile<'_>, extension: Option<&Extension>) -> Result<&'f ImageDescription, ImageError> {
    match extension {
        Some(extension) => file.image(extension),
        None => file.images().first().ok_or_else(|| ImageError::NoImage("at all".into())),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn a_selection_is_read_as_it_is_written() {
        for text in [
            "[2][1:5,*]",
            "[1:5,2:3]",
            "[SCI,1]",
            "PIXELS 10.5 20 100 50",
            "[2] CIRCLE 10 20 0.1",
            "[SCI,2] AROUND 10 -20 1.5 2",
            "RANGE 10 20 -5 5",
        ] {
            assert_eq!(text.parse::<Selection>().unwrap().to_string(), text);
        }
        for text in [
            "",
            "  ",
            "PIXELS 1 2 3",
            "AROUND 1 2 x 4",
            "[x CIRCLE 1 2 3",
            "PIXELS 1 2 -3 4",
            "PIXELS nan 2 3 4",
            "BOX 1 2 3 4",
        ] {
            assert_eq!(text.parse::<Selection>().unwrap_err().class(), "usage", "{text}");
        }
    }
}
