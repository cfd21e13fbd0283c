//! Pictures of cutouts for people: grey PNG or JPEG with the first row at the bottom, as astronomers look at images. It
//! never takes part in a measurement.

mod limits;
mod stretch;

pub use limits::{Limits, zscale};
pub use stretch::Stretch;

use jpeg_encoder::{ColorType, Encoder, EncodingError};

use crate::ImageError;

/// How values become grey.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Rendering {
    /// Which values are black and white.
    pub limits: Limits,
    /// How those between become grey.
    pub stretch: Stretch,
}

/// What a picture is written as.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PictureFormat {
    /// Without loss.
    Png,
    /// Smaller, for pages with many of them.
    Jpeg,
}

/// A picture of an image: of its values, the fastest axis first, and its width and height. Undefined values are black.
///
/// # Errors
/// `Usage` if an image has no pixels, more values than pixels, or sides of more than [`SIDE_PIXELS_MAX`].
pub fn picture(
    values: &[f32],
    (width, height): (u64, u64),
    rendering: Rendering,
    format: PictureFormat,
) -> Result<Vec<u8>, ImageError> {
    let is_side = |side: u64| (1..=SIDE_PIXELS_MAX).contains(&side);
    if !is_side(width) || !is_side(height) || width * height != values.len() as u64 {
        return Err(ImageError::Usage(format!("a picture of {width} by {height} pixels cannot be drawn")));
    }
    let (low, high) = rendering.limits.of(values);
    let grey = |value: &f32| rendering.stretch.grey(f64::from(*value), low, high);
    let rows = values.chunks_exact(width as usize).rev();
    let pixels: Vec<u8> = rows.flat_map(|row| row.iter().map(grey)).collect();
    let written = match format {
        PictureFormat::Png => png(&pixels, width as u32, height as u32).map_err(|error| error.to_string()),
        PictureFormat::Jpeg => jpeg(&pixels, width as u16, height as u16).map_err(|error| error.to_string()),
    };
    written.map_err(|error| ImageError::damaged("the picture", error))
}

fn png(pixels: &[u8], width: u32, height: u32) -> Result<Vec<u8>, png::EncodingError> {
    let mut picture = Vec::new();
    let mut encoder = png::Encoder::new(&mut picture, width, height);
    encoder.set_color(png::ColorType::Grayscale);
    encoder.set_depth(png::BitDepth::Eight);
    let mut writer = encoder.write_header()?;
    writer.write_image_data(pixels)?;
    writer.finish()?;
    Ok(picture)
}

fn jpeg(pixels: &[u8], width: u16, height: u16) -> Result<Vec<u8>, EncodingError> {
    let mut picture = Vec::new();
    Encoder::new(&mut picture, JPEG_QUALITY).encode(pixels, width, height, ColorType::Luma)?;
    Ok(picture)
}

/// Most pixels along a side of a picture: browsers show no more.
pub const SIDE_PIXELS_MAX: u64 = 16_384;
/// Of 100. Faint stars are noise below it.
const JPEG_QUALITY: u8 = 90;

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use zune_jpeg::{
        JpegDecoder,
        zune_core::{bytestream::ZCursor, colorspace::ColorSpace, options::DecoderOptions},
    };

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
        let values = [0.0, 1.0, 2.0, f32::NAN, 4.0, 9.0];
        let drawn = picture(&values, (3, 2), rendering, PictureFormat::Png).unwrap();
        assert_eq!(pixels(&drawn), [0, 255, 255, 0, 64, 128]);
    }

    #[test]
    fn a_jpeg_shows_nearly_the_same() {
        let rendering = Rendering { limits: Limits::Values(0.0, 63.0), stretch: Stretch::Linear };
        let values: Vec<f32> = (0..64 * 64).map(|place| (place / 64) as f32).collect();
        let drawn = picture(&values, (64, 64), rendering, PictureFormat::Jpeg).unwrap();
        let options = DecoderOptions::default().jpeg_set_out_colorspace(ColorSpace::Luma);
        let mut decoder = JpegDecoder::new_with_options(ZCursor::new(&drawn), options);
        let seen = decoder.decode().unwrap();
        assert_eq!(decoder.dimensions(), Some((64, 64)));
        let rows = seen.chunks(64).map(|row| i32::from(row[0]));
        let expected = (0..64).rev().map(|row| row * 255 / 63);
        assert!(rows.zip(expected).all(|(seen, expected)| (seen - expected).abs() < 8));
    }

    #[test]
    fn what_is_no_picture_is_refused() {
        for (values, width, height) in [(0, 0, 5), (4, 3, 2), (SIDE_PIXELS_MAX as usize + 1, SIDE_PIXELS_MAX + 1, 1)] {
            let values = vec![0.0; values];
            let refused = picture(&values, (width, height), Rendering::default(), PictureFormat::Png).unwrap_err();
            assert_eq!(refused.class(), "usage");
        }
    }
}
