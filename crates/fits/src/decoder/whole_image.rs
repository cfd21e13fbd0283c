//! All pixels of an image that is compressed in tiles. It is for who has asked for as many pixels as the image has: to
//! decode its tiles again and again would cost more. It never holds more than [`KEPT_BYTES_MAX`].

use std::ops::Range;

use fits_well::{
    FitsError,
    image::{Borrowed, Data, Image, Scaling, View},
};

use super::ImageDescription;

/// The decoded pixels of an image.
#[derive(Debug)]
pub(super) struct WholeImage {
    image: Image,
}

/// A copied part of it.
pub(super) struct CopiedPart {
    shape: Vec<usize>,
    samples: Data,
    scaling: Scaling,
}

/// How many pixels were decoded of an image so far.
#[derive(Debug, Default)]
pub(super) struct DecodedPixels {
    pixels: u64,
}

impl WholeImage {
    pub(super) fn new(image: Image) -> Self {
        Self { image }
    }

    /// Copies a part. The ranges lie within the image.
    pub(super) fn part(&self, ranges: &[Range<usize>]) -> CopiedPart {
        let whole = self.image.view();
        let shape = whole.metadata().shape;
        let samples = match whole.samples() {
            View::U8(samples) => Data::U8(gather(samples, shape, ranges)),
            View::I16(samples) => Data::I16(gather(samples, shape, ranges)),
            View::I32(samples) => Data::I32(gather(samples, shape, ranges)),
            View::I64(samples) => Data::I64(gather(samples, shape, ranges)),
            View::F32(samples) => Data::F32(gather(samples, shape, ranges)),
            View::F64(samples) => Data::F64(gather(samples, shape, ranges)),
        };
        CopiedPart { shape: ranges.iter().map(Range::len).collect(), samples, scaling: whole.scaling() }
    }
}

impl CopiedPart {
    pub(super) fn view(&self) -> Result<Borrowed<'_>, FitsError> {
        Borrowed::new(&self.shape, self.samples.view(), self.scaling)
    }
}

impl DecodedPixels {
    /// Adds a part with so many rows, and says whether all of the image should be decoded and kept instead. Tiles are
    /// rows, as most are: each row of a part costs a whole one.
    pub(super) fn add(&mut self, image: &ImageDescription, shape: &[u64]) -> bool {
        let all = image.shape.iter().product::<u64>();
        let row = image.shape.first().copied().unwrap_or(1);
        self.pixels = self.pixels.saturating_add(shape.iter().skip(1).product::<u64>().saturating_mul(row));
        self.pixels > all && all.saturating_mul(image.bitpix.unsigned_abs() / 8) <= KEPT_BYTES_MAX
    }
}

fn gather<T: Copy>(samples: &[T], shape: &[usize], ranges: &[Range<usize>]) -> Vec<T> {
    let mut part = Vec::with_capacity(ranges.iter().map(Range::len).product());
    copy_axis(samples, shape, ranges, &mut part);
    part
}

/// Copies along the last axis, and within it along those before.
fn copy_axis<T: Copy>(samples: &[T], shape: &[usize], ranges: &[Range<usize>], part: &mut Vec<T>) {
    let Some((range, inner)) = ranges.split_last() else { return };
    if inner.is_empty() {
        part.extend_from_slice(samples.get(range.clone()).unwrap_or_default());
        return;
    }
    let plane = shape[..inner.len()].iter().product::<usize>();
    for at in range.clone() {
        copy_axis(samples.get(at * plane..(at + 1) * plane).unwrap_or_default(), shape, inner, part);
    }
}

/// Largest image that is kept decoded, in bytes.
const KEPT_BYTES_MAX: u64 = 64 << 20;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_of_a_cube_is_that_of_each_plane() {
        let samples: Vec<i32> = (0..60).collect();
        assert_eq!(gather(&samples, &[5, 4, 3], &[1..3, 2..4, 1..2]), [31, 32, 36, 37]);
        assert_eq!(gather(&samples, &[30, 2], &[28..30, 1..2]), [58, 59]);
        assert_eq!(gather(&samples, &[5, 4, 3], &[0..5, 0..4, 0..3]), samples);
    }
}
