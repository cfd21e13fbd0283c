//! What a header says of its image. It never promises that the pixels are there.

use fits_well::io::{Hdu, HduKind};

use super::Keywords;

/// An image of a file, as its header describes it.
#[derive(Clone, Debug, PartialEq)]
pub struct ImageDescription {
    /// The number of its header in the file; the primary one is 0.
    pub hdu: usize,
    /// `EXTNAME`, if it has one.
    pub name: Option<String>,
    /// `EXTVER`.
    pub version: i64,
    /// Pixels along each axis, the fastest first.
    pub shape: Vec<u64>,
    /// Bits of a pixel, negative for reals, as FITS has it.
    pub bitpix: i64,
    /// How its pixels are compressed.
    pub compression: Compression,
}

/// How an image's pixels are compressed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Compression {
    /// Not at all.
    None,
    /// The whole file, by gzip: each read has inflated all of it.
    Gzip,
    /// In tiles, by the algorithm of this name, such as `RICE_1`.
    Tiles(String),
}

impl Compression {
    /// Its name in an index: `none`, `gzip`, or the algorithm.
    pub fn name(&self) -> &str {
        match self {
            Self::None => "none",
            Self::Gzip => "gzip",
            Self::Tiles(algorithm) => algorithm,
        }
    }
}

impl ImageDescription {
    /// That of a header; `None` if it has no image, or makes no sense.
    pub(super) fn of(hdu: &Hdu, is_gzip: bool) -> Option<Self> {
        let layout = hdu.image_metadata().ok()?;
        if layout.shape.is_empty() || layout.shape.contains(&0) {
            return None;
        }
        let keywords = Keywords::new(&hdu.header);
        let compression = if hdu.kind == HduKind::CompressedImage {
            Compression::Tiles(keywords.text("ZCMPTYPE").unwrap_or("unknown").to_owned())
        } else if is_gzip {
            Compression::Gzip
        } else {
            Compression::None
        };
        Some(Self {
            hdu: hdu.index,
            name: keywords.text("EXTNAME").map(str::to_owned),
            version: hdu.extver().unwrap_or(1),
            shape: layout.shape.iter().map(|pixels| *pixels as u64).collect(),
            bitpix: layout.bitpix.code(),
            compression,
        })
    }
}
