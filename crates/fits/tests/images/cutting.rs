//! Pixels and headers of cutouts.

#![allow(clippy::unwrap_used)]
use std::{
    io::Write,
    sync::{Arc, atomic::Ordering},
};

use fits::{
    Cutout, Extension, ImageFile, MadeImage, PixelBox, Provenance, Selection, sky::PixelPosition, sky::SkyPosition,
};

use crate::made_file::{Counted, card, extension, header, image, pixels, primary, text, wcs};

/// The cutout of a file for a selection.
pub(crate) fn cut(file: &[u8], selection: &str) -> Vec<u8> {
    let mut file = ImageFile::open(file).unwrap();
    let selection: Selection = selection.parse().unwrap();
    let provenance = Provenance { path: "/sky/a.fits".into(), content: "abc".into(), selection: selection.to_string() };
    Cutout::find(&mut file, &selection).unwrap().fits(&mut file, &provenance).unwrap()
}

fn values(file: &[u8], hdu: usize) -> Vec<f32> {
    let mut file = ImageFile::open(file).unwrap();
    let shape = file.image(&Extension::Number(hdu)).unwrap().shape.clone();
    file.values(hdu, &PixelBox::new(shape.into_iter().map(|length| (1, length)).collect()).unwrap()).unwrap()
}

fn made(is_rice: bool) -> Vec<u8> {
    let centre = SkyPosition::new(202.47, 47.2).unwrap();
    MadeImage { width: 300, height: 200, seed: 7, centre, is_rice }.fits().unwrap()
}

#[test]
fn a_section_has_the_pixels_of_its_place() {
    let file = image(&[50, 40], &[]);
    let cutout = cut(&file, "[11:13,21:22]");
    let at = |x: u64, y: u64| ((y - 1) * 50 + x - 1) as f32;
    let known: Vec<f32> = [(11, 21), (12, 21), (13, 21), (11, 22), (12, 22), (13, 22)].map(|(x, y)| at(x, y)).into();
    assert_eq!(values(&cutout, 0), known);
    assert_eq!(values(&cut(&file, "[50:50,40:40]"), 0), [at(50, 40)]);
    assert_eq!(
        values(&cut(&file, "PIXELS 50 40 4 4"), 0),
        [at(48, 38), at(49, 38), at(50, 38), at(48, 39), at(49, 39), at(50, 39), at(48, 40), at(49, 40), at(50, 40)]
    );
}

#[test]
fn tiles_and_streams_give_the_pixels_of_the_plain_image() {
    let plain = made(false);
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    gzip.write_all(&plain).unwrap();
    let of_plain = values(&cut(&plain, "[120:219,50:149]"), 0);
    assert_eq!(of_plain.len(), 10_000);
    assert_eq!(values(&cut(&made(true), "[1][120:219,50:149]"), 0), of_plain);
    assert_eq!(values(&cut(&gzip.finish().unwrap(), "[120:219,50:149]"), 0), of_plain);
}

#[test]
fn an_image_in_tiles_gives_the_same_however_often_it_is_asked() {
    let file = made(true);
    let mut file = ImageFile::open(file.as_slice()).unwrap();
    let mut cutouts = Vec::new();
    for _ in 0..12 {
        let selection: Selection = "[1][10:60,20:70]".parse().unwrap();
        cutouts.push(Cutout::find(&mut file, &selection).unwrap().fits(&mut file, &Provenance::default()).unwrap());
    }
    assert!(cutouts.iter().all(|cutout| *cutout == cutouts[0]), "from tiles at first, then from all pixels");
}

#[test]
fn a_cutout_lies_where_its_pixels_lay() {
    let file = made(false);
    let mut whole = ImageFile::open(file.as_slice()).unwrap();
    let cutout = cut(&file, "AROUND 202.47 47.2 0.2 0.3");
    let mut part = ImageFile::open(cutout.as_slice()).unwrap();
    let (image, of_part) = (whole.images()[0].clone(), part.images()[0].clone());
    assert_eq!(of_part.shape, [30, 45], "0.4 arc seconds a pixel");
    let (before, after) = (whole.sky_map(&image).unwrap(), part.sky_map(&of_part).unwrap());
    // Cutout2D's rule: the first pixel is ceil(150.5 - 15), ceil(100.5 - 22.5).
    for (x, y) in [(1.0, 1.0), (30.0, 45.0), (0.5, 45.5), (15.25, 7.75)] {
        let here = after.position(PixelPosition { x, y }).unwrap();
        let there = before.position(PixelPosition { x: x + 135.0, y: y + 77.0 }).unwrap();
        assert!(here.separation_degrees(there) < 1e-12);
    }
}

#[test]
fn a_header_is_moved_and_what_was_true_of_the_whole_is_gone() {
    let mut cards = wcs("TAN", (10.0, 20.0), (25.0, 20.0), 0.01);
    cards.extend([
        text("CTYPE1A", "LINEAR"),
        card("CRPIX1A", "1.0"),
        card("LTV1", "0.0"),
        card("CNPIX1", "100"),
        card("CNPIX2", "200"),
        text("DATASEC", "[1:50,1:40]"),
        card("DATAMAX", "5.0"),
        text("OBJECT", "M 51"),
        "HIERARCH ESO DET ID = 'x'".into(),
        card("PV2_1", "0.5"),
        "HISTORY as it was".into(),
    ]);
    let cutout = cut(&image(&[50, 40], &cards), "[11:20,6:9]");
    let file = ImageFile::open(cutout.as_slice()).unwrap();
    let keywords = file.keywords(0).unwrap();
    let reals = ["CRPIX1", "CRPIX2", "CRPIX1A", "LTV1", "CRVAL1", "PV2_1"].map(|name| keywords.real(name).unwrap());
    assert_eq!(reals, [15.0, 15.0, -9.0, -10.0, 10.0, 0.5]);
    assert_eq!((keywords.integer("CNPIX1"), keywords.integer("CNPIX2")), (Some(110), Some(205)));
    assert_eq!(
        (keywords.text("OBJECT"), keywords.text("DATASEC"), keywords.real("DATAMAX")),
        (Some("M 51"), None, None)
    );
    let text = String::from_utf8_lossy(&cutout[..2880]).into_owned();
    for part in [
        "HIERARCH ESO DET ID",
        "HISTORY as it was",
        "/sky/a.fits[0][11:20,6:9]",
        "Asked for [11:20,6:9]",
        "abc",
        "CHECKSUM",
        "DATASUM",
    ] {
        assert!(text.contains(part), "{part} in {text}");
    }
}

#[test]
fn a_region_cuts_every_image_that_has_a_part_of_it() {
    let mut file = header(&[primary(&[]), vec![card("EXTEND", "T"), text("TELESCOP", "x")]].concat());
    for (name, centre) in [("SCI", (10.0, 0.0)), ("FAR", (80.0, 0.0)), ("MASK", (10.0, 0.0))] {
        let mut cards = extension(&[50, 40], name);
        cards.extend(wcs("TAN", centre, (25.0, 20.0), 0.01));
        cards.push(card("INHERIT", "T"));
        file.extend(header(&cards));
        file.extend(pixels(2_000));
    }
    let both = cut(&file, "CIRCLE 10 0 0.02");
    let found = ImageFile::open(both.as_slice()).unwrap();
    let names: Vec<_> =
        found.images().iter().map(|image| (image.hdu, image.name.as_deref(), image.shape.clone())).collect();
    assert_eq!(names, [(1, Some("SCI"), vec![5, 5]), (2, Some("MASK"), vec![5, 5])]);
    assert_eq!(found.keywords(0).unwrap().text("TELESCOP"), Some("x"));
    let one = cut(&file, "[MASK] CIRCLE 10 0 0.02");
    let found = ImageFile::open(one.as_slice()).unwrap();
    assert_eq!(found.images()[0].hdu, 0);
    let keywords = found.keywords(0).unwrap();
    assert_eq!((keywords.text("TELESCOP"), keywords.text("INHERIT")), (Some("x"), None), "an extension inherits");
    let mut file = ImageFile::open(file.as_slice()).unwrap();
    let refused = Cutout::find(&mut file, &"CIRCLE 200 0 1".parse().unwrap()).unwrap_err();
    assert_eq!(refused.class(), "no-overlap");
}

#[test]
fn only_the_bytes_of_the_part_are_read() {
    let read = Arc::default();
    let content = image(&[2_000, 1_000], &[]);
    let mut file = ImageFile::open(Counted { content, read: Arc::clone(&read) }).unwrap();
    let opened = read.load(Ordering::Relaxed);
    assert!(opened <= 4_096 * 2, "{opened} bytes to open");
    let selection: Selection = "[500:599,300:399]".parse().unwrap();
    Cutout::find(&mut file, &selection).unwrap().fits(&mut file, &Provenance::default()).unwrap();
    let read = read.load(Ordering::Relaxed) - opened;
    assert!((20_000..=100 * 4_000).contains(&read), "{read} bytes for 20,000, where rows are 4,000 apart");
}

#[test]
fn an_image_without_positions_is_cut_by_pixels_alone() {
    let file = image(&[50, 40], &[]);
    let mut opened = ImageFile::open(file.as_slice()).unwrap();
    for (selection, class) in [
        ("CIRCLE 1 2 3", "no-sky"),
        ("[60:70,1:2]", "no-overlap"),
        ("PIXELS -50 1 3 3", "no-overlap"),
        ("[5][1:2,1:2]", "no-image"),
    ] {
        let refused = Cutout::find(&mut opened, &selection.parse().unwrap()).unwrap_err();
        assert_eq!(refused.class(), class, "{selection}: {refused}");
    }
    assert_eq!(values(&cut(&file, "[1:1,1:1]"), 0), [0.0]);
}
