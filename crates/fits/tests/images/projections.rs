//! Where images of several projections lie, also at poles and over the seam at 0 h.

#![allow(clippy::unwrap_used)]
use std::sync::Arc;

use fits::{
    ImageFile,
    sky::{PixelPosition, SkyMap, SkyPosition, box_of_region, footprint},
};

use crate::made_file::{card, image, text, wcs};

fn map(shape: &[u64], cards: &[String]) -> Arc<dyn SkyMap + Send + Sync> {
    let file = image(shape, cards);
    let mut file = ImageFile::open(file.as_slice()).unwrap();
    let image = file.images()[0].clone();
    file.sky_map(&image).unwrap()
}

/// The pixels of a region must be all those whose middles lie in it, and few more.
fn check(map: &dyn SkyMap, region: &str) -> [(u64, u64); 2] {
    let region = region.parse().unwrap();
    let found = box_of_region(map, &region).unwrap();
    let [(left, right), (bottom, top)] = found;
    let [width, height] = map.pixels();
    let mut inside = 0;
    for y in 1..=height {
        for x in 1..=width {
            let position = map.position(PixelPosition { x: x as f64, y: y as f64 });
            if position.is_some_and(|position| region.contains(position)) {
                inside += 1;
                assert!((left..=right).contains(&x) && (bottom..=top).contains(&y), "{x},{y} is missing in {found:?}");
            }
        }
    }
    assert!(inside > 0, "{region} has no pixel");
    found
}

#[test]
fn a_tangent_image_at_the_pole_has_what_lies_around_it() {
    let pole = map(&[80, 60], &wcs("TAN", (0.0, 90.0), (40.5, 30.5), 0.1));
    assert_eq!(check(&*pole, "CIRCLE 123 90 0.99"), [(31, 50), (21, 40)]);
    check(&*pole, "CIRCLE 45 89.5 0.3");
    check(&*pole, "RANGE 10 50 88 89");
    check(&*pole, "POLYGON 0 89 90 89 180 89 270 89");
    assert!(box_of_region(&*pole, &"CIRCLE 0 -90 1".parse().unwrap()).is_err(), "the other pole is not there");
}

#[test]
fn the_seam_at_0_h_is_no_border_of_a_small_image() {
    let seam = map(&[80, 60], &wcs("TAN", (0.05, 10.0), (40.5, 30.5), 0.1));
    let [(left, right), _] = check(&*seam, "CIRCLE 359.9 10 0.5");
    assert!(right - left < 12, "{left} to {right}");
    check(&*seam, "RANGE 359 361 9.5 10.5");
    let footprint = footprint(&*seam).unwrap();
    assert!(footprint.diameter_degrees < 11.0 && footprint.corners.len() == 4);
    assert!((footprint.pixel_degrees - 0.1).abs() < 1e-4);
}

#[test]
fn an_image_of_the_whole_sky_has_both_poles_and_its_seam() {
    for projection in ["CAR", "AIT", "MOL", "SFL"] {
        let sky = map(&[180, 90], &wcs(projection, (0.0, 0.0), (90.5, 45.5), 2.0));
        for region in ["CIRCLE 180 0 15", "CIRCLE 20 30 9", "CIRCLE 77 85 12", "RANGE 150 210 -20 20", "CIRCLE 0 -90 8"]
        {
            check(&*sky, region);
        }
        let all = footprint(&*sky).unwrap();
        assert!(all.corners.is_empty() && all.diameter_degrees >= 300.0, "{projection}");
    }
}

#[test]
fn galactic_and_old_coordinates_are_turned() {
    let cards = [wcs("CAR/GLON", (0.0, 0.0), (20.5, 20.5), 0.1)].concat();
    let galactic = map(&[40, 40], &cards);
    // The galactic centre, as astropy has it in ICRS.
    let centre = SkyPosition::new(266.404_988_35, -28.936_177_71).unwrap();
    let place = galactic.place(centre).unwrap();
    assert!((place.x - 20.5).abs() < 1e-6 && (place.y - 20.5).abs() < 1e-6, "{place:?}");
    let old =
        [wcs("TAN", (10.0, 20.0), (20.5, 20.5), 0.1), vec![text("RADESYS", "FK4"), card("EQUINOX", "1950.0")]].concat();
    let moved = map(&[40, 40], &old).position(PixelPosition { x: 20.5, y: 20.5 }).unwrap();
    assert!((moved.separation_degrees(SkyPosition::new(10.0, 20.0).unwrap()) - 0.7).abs() < 0.1, "{moved}");
}

#[test]
fn a_cube_lies_where_its_planes_lie() {
    let mut cards = wcs("TAN", (10.0, 20.0), (5.5, 5.5), 0.1);
    cards.extend([text("CTYPE3", "VOPT"), card("CRVAL3", "0.0"), card("CRPIX3", "1.0"), card("CDELT3", "1.0")]);
    let cube = map(&[10, 10, 3], &cards);
    let centre = cube.position(PixelPosition { x: 5.5, y: 5.5 }).unwrap();
    assert!(centre.separation_degrees(SkyPosition::new(10.0, 20.0).unwrap()) < 1e-12);
}
