//! Parts of images in pixels, counted from 1 as FITS does. There is CFITSIO's notation, `[2][100:199,1:50]`, and the
//! paper's tuple of a centre, a height and a width (AstroPortal report, 4). It never knows an image's positions on the
//! sky.

use std::{fmt, ops::Range, str::FromStr};

use crate::ImageError;

/// A box of pixels: for each axis, the fastest first, its first and last pixel. Pixels count from 1.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PixelBox {
    axes: Vec<(u64, u64)>,
}

impl PixelBox {
    /// The box with these first and last pixels. An empty axis makes no box.
    ///
    /// # Errors
    /// `Usage` if a last pixel comes before the first one, or a pixel is 0.
    pub fn new(axes: Vec<(u64, u64)>) -> Result<Self, ImageError> {
        match axes.iter().find(|(first, last)| *first == 0 || last < first) {
            Some((first, last)) => Err(ImageError::Usage(format!(
                "`{first}:{last}` is no range of pixels: they count from 1, and the last one follows the first"
            ))),
            None => Ok(Self { axes }),
        }
    }

    /// First and last pixel of each axis.
    pub fn axes(&self) -> &[(u64, u64)] {
        &self.axes
    }

    /// Pixels along each axis.
    pub fn shape(&self) -> Vec<u64> {
        self.axes.iter().map(|(first, last)| last - first + 1).collect()
    }

    /// The ranges from 0 that array libraries use.
    pub(crate) fn ranges(&self) -> Vec<Range<usize>> {
        self.axes.iter().map(|&(first, last)| first as usize - 1..last as usize).collect()
    }
}

impl fmt::Display for PixelBox {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let axes: Vec<_> = self.axes.iter().map(|(first, last)| format!("{first}:{last}")).collect();
        write!(f, "[{}]", axes.join(","))
    }
}

/// Which image of a file is meant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Extension {
    /// By its number; the primary one is 0.
    Number(usize),
    /// By `EXTNAME`, and `EXTVER` where it is given.
    Name(String, Option<i64>),
}

impl FromStr for Extension {
    type Err = ImageError;

    /// `2`, `SCI`, or `SCI,2`.
    fn from_str(text: &str) -> Result<Self, ImageError> {
        let text = text.trim();
        if let Ok(number) = text.parse() {
            return Ok(Self::Number(number));
        }
        let (name, version) = match text.split_once(',') {
            Some((name, version)) => (name, Some(version.trim().parse().map_err(|_| bad_section(text))?)),
            None => (text, None),
        };
        if name.is_empty() || name.contains(['[', ']', ':']) {
            return Err(bad_section(text));
        }
        Ok(Self::Name(name.to_owned(), version))
    }
}

impl fmt::Display for Extension {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Number(number) => write!(f, "{number}"),
            Self::Name(name, None) => f.write_str(name),
            Self::Name(name, Some(version)) => write!(f, "{name},{version}"),
        }
    }
}

/// A section as people write it, of an image whose size is not known yet: `[ext][x1:x2,y1:y2]`. Each half may be left
/// out; `*` is a whole axis, and so is each axis that is not named.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Section {
    /// The image, where it is named.
    pub extension: Option<Extension>,
    /// For each axis its first and last pixel; `None` is all of them.
    axes: Vec<Option<(u64, u64)>>,
}

impl Section {
    /// The same of this image, where it names none itself.
    #[must_use]
    pub fn or_in(mut self, extension: Option<Extension>) -> Self {
        self.extension = self.extension.or(extension);
        self
    }

    /// The section of an image of this shape. It is clipped where it leaves the image.
    ///
    /// # Errors
    /// `NoOverlap` if it lies outside, `Usage` if it has more axes than the image.
    pub fn within(&self, shape: &[u64]) -> Result<PixelBox, ImageError> {
        if self.axes.len() > shape.len() {
            let message = format!("the section has {} axes, the image has {}", self.axes.len(), shape.len());
            return Err(ImageError::Usage(message));
        }
        let asked = self.axes.iter().copied().chain(std::iter::repeat(None));
        let clipped: Option<Vec<_>> = asked
            .zip(shape)
            .map(|(axis, &length)| {
                let (first, last) = axis.unwrap_or((1, length));
                (first <= length && length > 0).then(|| (first, last.min(length)))
            })
            .collect();
        PixelBox::new(clipped.ok_or_else(|| ImageError::NoOverlap(format!("the section {self}")))?)
    }
}

impl FromStr for Section {
    type Err = ImageError;

    fn from_str(text: &str) -> Result<Self, ImageError> {
        let mut section = Self::default();
        let mut rest = text.trim();
        let mut parts = Vec::new();
        while !rest.is_empty() {
            let (part, after) =
                rest.strip_prefix('[').and_then(|rest| rest.split_once(']')).ok_or_else(|| bad_section(text))?;
            parts.push(part.trim());
            rest = after.trim_start();
        }
        let is_box = |part: &str| part.contains([':', '*']);
        match parts[..] {
            [part] if is_box(part) => section.axes = axes(part, text)?,
            [part] => section.extension = Some(part.parse()?),
            [extension, part] if is_box(part) => {
                (section.extension, section.axes) = (Some(extension.parse()?), axes(part, text)?);
            }
            _ => return Err(bad_section(text)),
        }
        Ok(section)
    }
}

impl fmt::Display for Section {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(extension) = &self.extension {
            write!(f, "[{extension}]")?;
        }
        if self.axes.is_empty() {
            return Ok(());
        }
        let axis = |axis: &Option<(u64, u64)>| axis.map_or("*".into(), |(first, last)| format!("{first}:{last}"));
        write!(f, "[{}]", self.axes.iter().map(axis).collect::<Vec<_>>().join(","))
    }
}

fn axes(part: &str, text: &str) -> Result<Vec<Option<(u64, u64)>>, ImageError> {
    part.split(',')
        .map(|axis| {
            if axis.trim() == "*" {
                return Ok(None);
            }
            let (first, last) = axis.split_once(':').ok_or_else(|| bad_section(text))?;
            let number = |text: &str| text.trim().parse::<u64>().ok().filter(|number| *number > 0);
            match (number(first), number(last)) {
                (Some(first), Some(last)) if first <= last => Ok(Some((first, last))),
                _ => Err(bad_section(text)),
            }
        })
        .collect()
}

fn bad_section(text: &str) -> ImageError {
    ImageError::Usage(format!(
        "`{text}` is no section: write it like [x1:x2,y1:y2] or [extension][x1:x2,y1:y2], with pixels from 1"
    ))
}

/// The pixels of `length` around a centre, both in pixels that count from 1, clipped to the axis. Half pixels go as in
/// astropy's `Cutout2D`: an even length has one pixel more before the centre's. `None` if none are left.
pub(crate) fn around(centre: f64, length: u64, axis_pixels: u64) -> Option<(u64, u64)> {
    // A last bit of the position must not move the box.
    let first = (centre - length as f64 / 2.0 - ROUNDING_PIXELS).ceil();
    let last = first + length as f64 - 1.0;
    if !first.is_finite() || last < 1.0 || first > axis_pixels as f64 || length == 0 {
        return None;
    }
    Some((first.max(1.0) as u64, last.min(axis_pixels as f64) as u64))
}

/// Positions this near to the border of a pixel count as on it.
const ROUNDING_PIXELS: f64 = 1e-9;

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn a_section_has_an_extension_a_box_or_both_and_is_clipped() {
        let section: Section = "[SCI,2][ 3:5 , * ]".parse().unwrap();
        assert_eq!(section.extension, Some(Extension::Name("SCI".into(), Some(2))));
        assert_eq!(section.within(&[4, 10, 7]).unwrap().axes(), [(3, 4), (1, 10), (1, 7)]);
        assert_eq!(section.to_string(), "[SCI,2][3:5,*]");
        assert_eq!("[1]".parse::<Section>().unwrap().extension, Some(Extension::Number(1)));
        assert_eq!("[1:1,2:2]".parse::<Section>().unwrap().within(&[9, 9]).unwrap().shape(), [1, 1]);
        assert_eq!(section.within(&[2, 10]).unwrap_err().class(), "no-overlap");
        assert_eq!(section.within(&[9]).unwrap_err().class(), "usage");
    }

    #[test]
    fn what_is_no_section_is_said() {
        for text in
            ["[", "1:2", "[0:2,1:2]", "[3:2]", "[1:2][1:2][1:2]", "[a,b]", "[-1:2]", "[1:2", "[1:99999999999999999999]"]
        {
            assert!(text.parse::<Section>().is_err(), "{text}");
        }
    }

    #[test]
    fn a_centre_and_a_length_are_those_pixels() {
        assert_eq!(around(50.0, 10, 100), Some((45, 54)));
        assert_eq!(around(50.0, 11, 100), Some((45, 55)));
        assert_eq!(around(50.0, 1, 100), Some((50, 50)));
        assert_eq!(around(1.0, 10, 100), Some((1, 5)));
        assert_eq!((around(-6.0, 10, 100), around(106.0, 10, 100)), (None, None));
        assert_eq!(
            (around(f64::NAN, 10, 100), around(f64::INFINITY, 10, 100), around(5.0, 0, 100)),
            (None, None, None)
        );
    }
}
