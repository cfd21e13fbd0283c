//! Pictures of cutouts for people: grey PNG with the first row at the bottom, as astronomers look at images. It never
//! takes part in a measurement.

mod limits;
mod stretch;

pub use limits::{Limits, zscale};
pub use stretch::Stretch;

use crate::ImageError;

/// How values become grey.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Rendering {
    /// Which values are black and white.
    pub limits: Limits,
    /// How those between become grey.
    pub stretch: Stretch,
}

/// A picture of an image as PNG: of its values, the fastest axis first, and its width and height. Undefined values are
/// black.
///
/// # Errors
/// `Usage` if an image has no pixels, more values than pixels, or sides of more than [`SIDE_PIXELS_MAX`].
pub fn png(values: &[f32], width: u64, height: u64, rendering: Rendering) -> Result<Vec<u8>, ImageError> {
    let is_side = |side: u64| (1..=SIDE_PIXELS_MAX).contains(&side);
    if !is_side(width) || !is_side(height) || width * height != values.len() as u64 {
        return Err(ImageError::Usage(format!("a picture of {width} by {height} pixels cannot be drawn")));
    }
    let (low, high) = rendering.limits.of(values);
    let grey = |value: &f32| rendering.stretch.grey(f64::from(*value), low, high);
    let rows = values.chunks_exact(width as usize).rev();
    let pixels: Vec<u8> = rows.flat_map(|row| row.iter().map(grey)).collect();
    let mut picture = Vec::new();
    let mut encoder = png::Encoder::new(&mut picture, width as u32, height as u32);
    encoder.set_color(png::ColorType::Grayscale);
    encoder.set_depth(png::BitDepth::Eight);
    let written = encoder.write_header().and_then(|mut writer| {
        writer.write_image_data(&pixels)?;
        writer.finish()
    });
    written.map_err(|error| ImageError::damaged("the picture", error))?;
    Ok(picture)
}

/// Most pixels along a side of a picture: browsers show no more.
pub const SIDE_PIXELS_MAX: u64 = 16_384;

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn pixels(picture: &[u8]) -> Vec<u8> {
        let mut reader = png::Decoder::new(std::io::Cursor::new(picture)).read_info().unwrap();
        let mut pixels = vec![0; reader.output_buffer_size().unwrap()];
        reader.next_frame(&mut pixels).unwrap();
        pixels
    }

    #[test]
    fn the_first_row_is_at_the_bottom_and_undefined_values_are_black() {
        let rendering = Rendering { limits: Limits::Values(0.0, 4.0), stretch: Stretch::Linear };
        let picture = png(&[0.0, 1.0, 2.0, f32::NAN, 4.0, 9.0], 3, 2, rendering).unwrap();
        assert_eq!(pixels(&picture), [0, 255, 255, 0, 64, 128]);
    }

    #[test]
    fn what_is_no_picture_is_refused() {
        for (values, width, height) in [(0, 0, 5), (4, 3, 2), (SIDE_PIXELS_MAX as usize + 1, SIDE_PIXELS_MAX + 1, 1)] {
            let refused = png(&vec![0.0; values], width, height, Rendering::default()).unwrap_err();
            assert_eq!(refused.class(), "usage");
        }
    }
}
