//! `sector images find`: the images that have a position, or come near it, by the index. It opens the slices of the
//! zones around it alone, and never an image.

use astroportal::obscore::ImageRow;
use client::{Client, SectorPath};
use fits::sky::{SkyPosition, SkyRegion};
use protocol::Reason;
use terminal::{Failure, Global, show};

use crate::{arguments::Find, index_folder::IndexFolder};

/// `sector images find`.
pub(crate) async fn run(cloud: &Client, arguments: &Find, global: &Global) -> Result<(), Failure> {
    let Find { position, index, radius } = arguments;
    if !(0.0..=180.0 * 60.0).contains(radius) {
        return Err(Failure::usage(format!("`{radius}` is no radius: give arc minutes from 0 to 10800")));
    }
    let radius = radius / 60.0;
    let folder = IndexFolder::open(cloud, &SectorPath::parse(index)?).await?;
    if folder.is_empty() {
        let message = format!("`{index}` is no index: make one with `sector images index … --to {index}`");
        return Err(Failure::new(Reason::NotFound, message));
    }
    let slices = folder.rows(cloud, Some((position.dec_degrees, radius))).await?;
    let rows = slices.into_iter().flat_map(|(_, rows)| rows);
    let mut found: Vec<(f64, ImageRow)> =
        rows.filter_map(|row| Some((distance(&row, *position, radius)?, row))).collect();
    found.sort_by(|one, other| one.0.total_cmp(&other.0).then_with(|| one.1.path.cmp(&other.1.path)));
    if global.json {
        return show::json(&found.into_iter().map(|(_, row)| row).collect::<Vec<_>>());
    }
    if found.is_empty() {
        return Err(Failure::new(Reason::NotFound, format!("no image in the index has {position}")));
    }
    let text = |text: &Option<String>| text.clone().unwrap_or_else(|| "-".into());
    let number = |number: Option<f64>, digits: usize| number.map_or("-".into(), |number| format!("{number:.digits$}"));
    let line = |(distance, row): &(f64, ImageRow)| {
        let size = row.s_xel1.zip(row.s_xel2).map_or("-".into(), |(width, height)| format!("{width}x{height}"));
        vec![
            row.path.clone(),
            row.hdu.to_string(),
            number(row.s_ra, 5),
            number(row.s_dec, 5),
            number(Some(distance * 60.0), 2),
            size,
            number(row.s_pixel_scale, 3),
            text(&row.filter),
            number(row.t_min, 3),
        ]
    };
    let head = ["image", " hdu", " ra", " dec", " arcmin off", " pixels", " arcsec/pixel", "filter", " mjd"];
    show::table(&head, &found.iter().map(line).collect::<Vec<_>>());
    Ok(())
}

/// How far an image's centre is from a position in degrees, if the image comes within the radius of it.
fn distance(row: &ImageRow, position: SkyPosition, radius_degrees: f64) -> Option<f64> {
    let distance = row.centre()?.separation_degrees(position);
    if distance > row.s_fov? / 2.0 + radius_degrees {
        return None;
    }
    let outline = row.s_region.as_deref().and_then(|text| text.replace(" ICRS", "").parse::<SkyRegion>().ok());
    match outline {
        // Within a radius of the outline is near enough; the outline itself is exact.
        Some(outline) if radius_degrees == 0.0 && !outline.contains(position) => None,
        _ => Some(distance),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn an_image_is_found_by_its_outline_and_near_it_by_its_circle() {
        let row = ImageRow {
            s_ra: Some(0.0),
            s_dec: Some(0.0),
            s_fov: Some(2.9),
            s_region: Some("POLYGON ICRS 1 -1 359 -1 359 1 1 1".into()),
            ..ImageRow::default()
        };
        let at = |ra, dec| SkyPosition::new(ra, dec).unwrap();
        assert!(distance(&row, at(359.5, 0.5), 0.0).is_some());
        assert_eq!(distance(&row, at(1.2, 0.0), 0.0), None, "the circle has it, the outline does not");
        assert!(distance(&row, at(1.2, 0.0), 0.1).is_some());
        assert_eq!(distance(&row, at(5.0, 0.0), 0.1), None);
        assert_eq!(distance(&ImageRow::default(), at(5.0, 0.0), 1.0), None, "an image that lies nowhere");
    }
}
