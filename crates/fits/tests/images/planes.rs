//! Planes of cubes, by wavelength and by polarisation.

#![allow(clippy::unwrap_used)]
use fits::{Cutout, ImageError, ImageFile, Provenance, Selection, polarisation_planes, spectral_planes};

use crate::made_file::{card, image, text};

/// A cube of eight planes along its third axis, with these cards.
fn cube(further: &[String]) -> Vec<u8> {
    image(&[4, 3, 8], further)
}

fn axis(kind: &str, unit: &str, value: f64, pixel: f64, step: f64) -> Vec<String> {
    vec![
        text("CTYPE3", kind),
        text("CUNIT3", unit),
        card("CRVAL3", &format!("{value:E}")),
        card("CRPIX3", &format!("{pixel:?}")),
        card("CDELT3", &format!("{step:E}")),
    ]
}

/// The planes with these wavelengths in metres, or the class of what is wrong.
fn spectral(cards: &[String], low: f64, high: f64) -> Result<Option<(u64, u64)>, &'static str> {
    let content = cube(cards);
    let file = ImageFile::open(content.as_slice()).unwrap();
    let planes = spectral_planes(&file.keywords(0).unwrap(), &[4, 3, 8], (low, high));
    planes.map(|planes| planes.map(|(_, range)| range)).map_err(|error| error.class())
}

#[test]
fn wavelengths_are_found_on_axes_of_each_kind() {
    // 500 to 507 nm.
    let nm = axis("WAVE", "nm", 500.0, 1.0, 1.0);
    assert_eq!(spectral(&nm, 502e-9, 504e-9), Ok(Some((3, 5))));
    assert_eq!(spectral(&nm, 502.6e-9, 502.7e-9), Ok(Some((4, 4))), "a pixel goes from half before to half behind");
    assert_eq!(spectral(&nm, f64::NEG_INFINITY, 500.1e-9), Ok(Some((1, 1))));
    assert_eq!(spectral(&nm, 600e-9, f64::INFINITY), Err("no-overlap"));
    // 1 to 8 GHz: the shortest waves come last. 0.1 m are 2.998 GHz.
    let ghz = axis("FREQ", "GHz", 1.0, 1.0, 1.0);
    assert_eq!(spectral(&ghz, 0.099, 0.101), Ok(Some((3, 3))));
    assert_eq!(spectral(&ghz, 0.06, 0.1), Ok(Some((3, 5))));
    // 1 to 8 keV: 12.398 Angstrom are 1 keV.
    assert_eq!(spectral(&axis("ENER", "keV", 1.0, 1.0, 1.0), 12.39e-10, 12.41e-10), Ok(Some((1, 1))));
    // The line at 1420.4 MHz moves by 1 % of it for 1 % of the speed of light.
    let rest = [card("RESTFRQ", "1.4204057E9")];
    let metres = |frequency: f64| 299_792_458.0 / frequency;
    let radio = [axis("VRAD", "km/s", 0.0, 1.0, 2997.92458), rest.to_vec()].concat();
    let wave = metres(1.4204057e9 * (1.0 - 0.03));
    assert_eq!(spectral(&radio, wave, wave), Ok(Some((4, 4))));
    let optical = [axis("VOPT", "m/s", 0.0, 1.0, 2_997_924.58), rest.to_vec()].concat();
    let wave = metres(1.4204057e9) * 1.05;
    assert_eq!(spectral(&optical, wave, wave), Ok(Some((6, 6))));
    let redshift = [axis("ZOPT", "", 0.0, 1.0, 1.0), rest.to_vec()].concat();
    assert_eq!(spectral(&redshift, metres(1.4204057e9) * 3.0, metres(1.4204057e9) * 3.0), Ok(Some((3, 3))));
    // Air: 500 nm are 500.139 nm in a vacuum.
    let air = axis("AWAV", "nm", 500.0, 1.0, 0.1);
    assert_eq!(spectral(&air, 500.139e-9, 500.140e-9), Ok(Some((1, 1))));
}

#[test]
fn an_image_without_a_spectral_axis_says_so_and_one_that_is_not_understood_is_refused() {
    assert_eq!(spectral(&[], 1.0, 2.0), Ok(None));
    let parsecs = axis("WAVE", "parsec", 500.0, 1.0, 1.0);
    let grating = axis("WAVE-F2W", "m", 500.0, 1.0, 1.0);
    let no_rest = axis("VRAD", "m/s", 0.0, 1.0, 1.0);
    let no_step = axis("WAVE", "m", 1.0, 1.0, 0.0);
    for cards in [parsecs, grating, no_rest, no_step] {
        assert_eq!(spectral(&cards, 1e-7, 1e-6), Err("usage"), "{cards:?}");
    }
}

#[test]
fn polarisations_are_found_by_name_also_the_negative_ones() {
    let planes = |cards: &[String], wanted: &[&str]| {
        let content = image(&[4, 3, 4], cards);
        let file = ImageFile::open(content.as_slice()).unwrap();
        let planes = polarisation_planes(&file.keywords(0).unwrap(), &[4, 3, 4], wanted);
        planes.map(|planes| planes.map(|(_, range)| range)).map_err(|error| error.class())
    };
    let stokes = axis("STOKES", "", 1.0, 1.0, 1.0);
    assert_eq!(planes(&stokes, &["Q"]), Ok(Some((2, 2))));
    assert_eq!(planes(&stokes, &["v", "U"]), Ok(Some((3, 4))));
    assert_eq!(planes(&stokes, &["XX"]), Err("no-overlap"));
    assert_eq!(planes(&axis("STOKES", "", -5.0, 1.0, -1.0), &["XY"]), Ok(Some((3, 3))));
    assert_eq!(planes(&stokes, &["Z"]), Err("usage"));
    assert_eq!(planes(&[], &["I"]), Ok(None));
}

#[test]
fn a_cutout_has_the_planes_that_it_takes_and_where_they_lie() {
    let content = cube(&axis("WAVE", "nm", 500.0, 1.0, 1.0));
    let mut file = ImageFile::open(content.as_slice()).unwrap();
    let selection: Selection = "[2:3,1:2,1:6]".parse().unwrap();
    let mut cut = Cutout::find(&mut file, &selection).unwrap();
    cut.take_planes(&file, |keywords, shape| spectral_planes(keywords, shape, (504e-9, 506e-9))).unwrap();
    assert_eq!(cut.parts[0].1.to_string(), "[2:3,1:2,5:6]", "what both have");
    let bytes = cut.fits(&mut file, &Provenance::default()).unwrap();
    let cutout = ImageFile::open(bytes.as_slice()).unwrap();
    assert_eq!(cutout.images()[0].shape, [2, 2, 2]);
    assert_eq!(cutout.keywords(0).unwrap().real("CRPIX3"), Some(-3.0));
    let nothing = cut.take_planes(&file, |keywords, shape| spectral_planes(keywords, shape, (500e-9, 501e-9)));
    assert!(matches!(nothing, Err(ImageError::NoOverlap(_))));
}
