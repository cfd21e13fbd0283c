//! Files that claim what is not so: each ends with an error that says it, and takes no memory beyond its limits.

#![allow(clippy::unwrap_used)]
use fits::{Cutout, ImageError, ImageFile, MadeImage, Provenance, Selection, sky::SkyPosition};

use crate::made_file::{card, header, image, pixels, primary, text, wcs};

fn attempt(file: &[u8], selection: &str) -> Result<Vec<u8>, ImageError> {
    let mut file = ImageFile::open(file)?;
    let selection: Selection = selection.parse()?;
    Cutout::find(&mut file, &selection)?.fits(&mut file, &Provenance::default())
}

fn class(file: &[u8], selection: &str) -> &'static str {
    attempt(file, selection).map_or_else(|error| error.class(), |_| "ok")
}

#[test]
fn what_is_no_fits_file_is_damaged() {
    for bytes in [&b""[..], b"S", b"SIMPLE  =", &[0; 2880], &[b' '; 5760], b"\x1f\x8b", &[b'A'; 10_000]] {
        assert_eq!(class(bytes, "[1:2,1:2]"), "damaged");
    }
}

#[test]
fn a_huge_image_that_is_not_there_is_refused_before_memory_is_taken() {
    for shape in [&[1 << 40, 1 << 20][..], &[1 << 62, 1 << 62], &[100_000, 100_000], &[10_000; 12]] {
        let mut file = header(&primary(shape));
        file.extend(pixels(100));
        let found = class(&file, "[1:100,1:100]");
        assert!(["damaged", "too-large", "no-image"].contains(&found), "{shape:?}: {found}");
    }
    let far = header(&primary(&[1 << 31, 1 << 31]));
    assert_eq!(class(&far, "[1:100000,1:100000]"), "too-large");
}

#[test]
fn a_file_that_ends_early_is_damaged() {
    let file = image(&[100, 100], &[]);
    let cut = &file[..2880 + 100 * 2 * 50];
    assert_eq!((class(cut, "[1:100,1:40]"), class(cut, "[1:100,45:60]")), ("damaged", "damaged"));
}

#[test]
fn tiles_that_lie_about_themselves_are_refused() {
    let centre = SkyPosition::new(1.0, 2.0).unwrap();
    let file = MadeImage { width: 64, height: 64, seed: 1, centre, is_rice: true }.fits().unwrap();
    let with = |name: &str, value: &str| {
        let at = file.windows(9).position(|window| window == format!("{name:<8}=").as_bytes()).unwrap();
        let mut bent = file.clone();
        bent[at..at + 80].copy_from_slice(format!("{:<80}", card(name, value)).as_bytes());
        bent
    };
    assert_eq!(class(&file, "[1][1:64,1:64]"), "ok");
    for (name, value) in [
        ("ZNAXIS1", "1000000000"),
        ("ZTILE2", "1000000000"),
        ("ZNAXIS", "0"),
        ("ZBITPIX", "17"),
        ("NAXIS2", "1"),
        ("PCOUNT", "99999999999"),
    ] {
        let found = class(&with(name, value), "[1][1:64,1:64]");
        assert!(["damaged", "too-large", "no-image", "usage"].contains(&found), "{name} = {value}: {found}");
    }
    // Bytes of the tiles themselves: never a panic, and never other than 64 x 64 pixels.
    for at in (file.len() - 2880..file.len()).step_by(7) {
        let mut bent = file.clone();
        bent[at] ^= 0xff;
        if let Ok(cutout) = attempt(&bent, "[1][1:64,1:64]") {
            assert!(cutout.len() > 64 * 64 * 2);
        }
    }
}

#[test]
fn coordinates_that_diverge_lie_nowhere() {
    let sip = |order: &str, factor: &str| {
        let mut cards = wcs("TAN-SIP", (10.0, 20.0), (50.0, 50.0), 0.001);
        cards.extend([card("A_ORDER", order), card("B_ORDER", order)]);
        cards.extend([card("A_2_0", factor), card("B_0_2", factor), card("A_1_1", factor)]);
        image(&[100, 100], &cards)
    };
    for file in [sip("2", "1.0E+5"), sip("2", "1.0E+300"), sip("9", "-3.0E-1"), sip("99999", "1.0E-5")] {
        let found = class(&file, "CIRCLE 10 20 0.01");
        assert!(["ok", "no-overlap", "no-sky"].contains(&found), "{found}");
        assert_eq!(class(&file, "[1:2,1:2]"), "ok", "its pixels are what they are");
    }
    for value in ["NaN", "1.0E+400", "'text    '", "0.0"] {
        let mut cards = wcs("TAN", (10.0, 20.0), (50.0, 50.0), 0.001);
        cards.retain(|card| !card.starts_with("CDELT1"));
        cards.push(card("CDELT1", value));
        let found = class(&image(&[100, 100], &cards), "CIRCLE 10 20 0.01");
        assert!(["no-overlap", "no-sky"].contains(&found), "CDELT1 = {value}: {found}");
    }
    let unknown = [wcs("TAN", (10.0, 20.0), (50.0, 50.0), 0.001), vec![text("RADESYS", "MARS")]].concat();
    assert_eq!(class(&image(&[100, 100], &unknown), "CIRCLE 10 20 0.01"), "no-sky");
}
