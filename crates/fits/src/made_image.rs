//! Images that are made for measurements: noise around a sky level, and a star here and there, on a tangent plane. They
//! never stand for an observation, and their headers say so.

use fits_well::{
    FitsError, FitsWriter,
    compress::{Compression, CompressionConfig},
    header::{CommentaryName, Header},
    image::{Image, Scaling},
};

use crate::{ImageError, sky::SkyPosition};

/// An image that is to be made.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct MadeImage {
    /// Pixels along the first axis.
    pub width: u32,
    /// Pixels along the second one.
    pub height: u32,
    /// What its noise and its stars are drawn from.
    pub seed: u64,
    /// Where its middle lies.
    pub centre: SkyPosition,
    /// Whether its pixels are compressed in tiles of a row, by RICE_1.
    pub is_rice: bool,
}

impl MadeImage {
    /// The image as a FITS file of 16-bit integers.
    ///
    /// # Errors
    /// `TooLarge` if it is beyond the limit of a read.
    pub fn fits(&self) -> Result<Vec<u8>, ImageError> {
        let bytes = u64::from(self.width) * u64::from(self.height) * 2;
        ImageError::check_bytes("the image", bytes, crate::decoder::MEMORY_BYTES_MAX)?;
        self.write().map_err(|error| ImageError::damaged("the made image", error))
    }

    fn write(&self) -> Result<Vec<u8>, FitsError> {
        let mut header = Header::new();
        let scale_degrees = 0.4 / 3_600.0;
        for (axis, name, centre, step, pixels) in [
            (1, "RA---TAN", self.centre.ra_degrees, -scale_degrees, self.width),
            (2, "DEC--TAN", self.centre.dec_degrees, scale_degrees, self.height),
        ] {
            header.set(format!("CTYPE{axis}").as_str(), name)?;
            header.set(format!("CRVAL{axis}").as_str(), centre)?;
            header.set(format!("CRPIX{axis}").as_str(), f64::from(pixels + 1) / 2.0)?;
            header.set(format!("CDELT{axis}").as_str(), step)?;
        }
        header.set("RADESYS", "ICRS")?;
        header.push_commentary(CommentaryName::COMMENT, "Made for a measurement, by sector images: no observation")?;
        let image = Image::new(vec![self.width as usize, self.height as usize], self.pixels(), Scaling::IDENTITY)?;
        let mut writer = FitsWriter::new(Vec::new()).with_checksums();
        if self.is_rice {
            writer.write_compressed_image(image.view(), &CompressionConfig::new(Compression::Rice), Some(&header))?;
        } else {
            writer.write_image(image.view(), Some(&header))?;
        }
        Ok(writer.into_inner())
    }

    fn pixels(&self) -> Vec<i16> {
        let count = self.width as usize * self.height as usize;
        let mut state = self.seed;
        let mut next = move || {
            // SplitMix64.
            state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
            let mixed = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
            mixed ^ (mixed >> 31)
        };
        let noise = |bits: u64| (bits.to_le_bytes().iter().map(|byte| i16::from(*byte)).sum::<i16>() - 1_020) / 32;
        let mut pixels: Vec<i16> = (0..count).map(|_| SKY_LEVEL + noise(next())).collect();
        for _ in 0..count / PIXELS_A_STAR {
            let (place, light) = (next() as usize % count, (next() % 20_000) as i16);
            pixels[place] = light.saturating_add(SKY_LEVEL);
        }
        pixels
    }
}

/// As in a short exposure of SDSS, with its offset.
const SKY_LEVEL: i16 = 1_100;
const PIXELS_A_STAR: usize = 4_000;
