//! FITS files made card by card, so that a test may say anything in them. It never checks what it writes.

use std::io;

use fits::ByteSource;
use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

/// A header unit of these cards, as they are, with its end and its fill.
pub(crate) fn header(cards: &[String]) -> Vec<u8> {
    let mut bytes: Vec<u8> =
        cards.iter().chain([&"END".to_owned()]).flat_map(|card| format!("{card:<80}").into_bytes()).collect();
    bytes.resize(bytes.len().next_multiple_of(2880), b' ');
    bytes
}

/// A card with a value as it stands in the file.
pub(crate) fn card(name: &str, value: &str) -> String {
    format!("{name:<8}= {value:>20}")
}

/// A card with a text.
pub(crate) fn text(name: &str, value: &str) -> String {
    format!("{name:<8}= '{value:<8}'")
}

/// The first cards of a primary image of 16-bit integers.
pub(crate) fn primary(shape: &[u64]) -> Vec<String> {
    let mut cards = vec![card("SIMPLE", "T"), card("BITPIX", "16"), card("NAXIS", &shape.len().to_string())];
    cards.extend(shape.iter().zip(1..).map(|(pixels, axis)| card(&format!("NAXIS{axis}"), &pixels.to_string())));
    cards
}

/// The first cards of an image extension of 16-bit integers.
pub(crate) fn extension(shape: &[u64], name: &str) -> Vec<String> {
    let mut cards = vec![text("XTENSION", "IMAGE"), card("BITPIX", "16"), card("NAXIS", &shape.len().to_string())];
    cards.extend(shape.iter().zip(1..).map(|(pixels, axis)| card(&format!("NAXIS{axis}"), &pixels.to_string())));
    cards.extend([card("PCOUNT", "0"), card("GCOUNT", "1"), text("EXTNAME", name)]);
    cards
}

/// Pixels with the number of their place, filled to whole blocks.
pub(crate) fn pixels(count: u64) -> Vec<u8> {
    let mut bytes: Vec<u8> = (0..count).flat_map(|place| (place as i16).to_be_bytes()).collect();
    bytes.resize(bytes.len().next_multiple_of(2880), 0);
    bytes
}

/// A whole file of one image with these further cards.
pub(crate) fn image(shape: &[u64], further: &[String]) -> Vec<u8> {
    let mut bytes = header(&[primary(shape), further.to_vec()].concat());
    bytes.extend(pixels(shape.iter().product()));
    bytes
}

/// The cards of a linear WCS around a position, with a pixel of this size.
pub(crate) fn wcs(kind: &str, centre: (f64, f64), crpix: (f64, f64), degrees: f64) -> Vec<String> {
    let (longitude, latitude) = if kind.ends_with("GLON") { ("GLON", "GLAT") } else { ("RA--", "DEC-") };
    let projection = kind.split('/').next().unwrap_or(kind);
    vec![
        text("CTYPE1", &format!("{longitude}-{projection}")),
        text("CTYPE2", &format!("{latitude}-{projection}")),
        card("CRVAL1", &format!("{:?}", centre.0)),
        card("CRVAL2", &format!("{:?}", centre.1)),
        card("CRPIX1", &format!("{:?}", crpix.0)),
        card("CRPIX2", &format!("{:?}", crpix.1)),
        card("CDELT1", &format!("{:?}", -degrees)),
        card("CDELT2", &format!("{degrees:?}")),
    ]
}

/// A source that counts the bytes that are read.
pub(crate) struct Counted {
    pub(crate) content: Vec<u8>,
    pub(crate) read: Arc<AtomicU64>,
}

impl ByteSource for Counted {
    fn bytes(&self) -> u64 {
        self.content.len() as u64
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<()> {
        self.read.fetch_add(buffer.len() as u64, Ordering::Relaxed);
        self.content.read_at(offset, buffer)
    }

    fn read_ahead_bytes(&self) -> usize {
        4_096
    }
}
