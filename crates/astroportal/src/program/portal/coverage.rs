//! `/portal/coverage`: how many images of the index there are at each place of the sky, in cells of about a square degree.
//! A slice of the index that has not changed is not counted again. It never says what image it is.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    sync::Arc,
};

use astroportal::obscore::ImageRow;
use axum::{
    extract::{Request, State},
    response::Response,
};
use client::EntryKind;
use dali::{DaliRequest, typed};
use fits::sky::{SkyPosition, SkyRegion};
use serde::Serialize;
use tokio::{sync::Mutex, task::spawn_blocking};
use vo::Fault;

use super::{Portal, index_cache};
use crate::nearest_images::lies_in;

/// What was counted, by the digests of slices. One request counts at a time: the others find it done.
#[derive(Default)]
pub(super) struct Coverage {
    counted: Mutex<HashMap<String, Arc<SliceCounts>>>,
}

/// What a slice has.
#[derive(Debug, Default)]
struct SliceCounts {
    images: u64,
    without_place: u64,
    damaged: u64,
    cells: BTreeMap<SkyCell, u32>,
}

/// A cell: a ring of a degree of declination, and a part of that ring.
type SkyCell = (u16, u16);

/// The answer (contract: what the page reads).
#[derive(Debug, Default, PartialEq, Serialize)]
struct CoverageView {
    /// Images in all.
    images: u64,
    /// Those that say nothing of their place.
    without_place: u64,
    /// Files that could not be read.
    damaged: u64,
    /// Of each cell that has an image: its right ascensions and declinations, in degrees, and how many images.
    cells: Vec<(f64, f64, f64, f64, u32)>,
}

/// `/portal/coverage`.
pub(super) async fn coverage(State(portal): State<Arc<Portal>>, request: Request) -> Response {
    match answer(&portal, request).await {
        Ok(view) => typed("application/json", serde_json::to_vec(&view).unwrap_or_default()),
        Err(fault) => dali::fault(&fault),
    }
}

async fn answer(portal: &Portal, request: Request) -> Result<CoverageView, Fault> {
    let asked = DaliRequest::read(&portal.at, request).await?;
    let cloud = &asked.caller.client;
    let index = index_cache::required(portal.index.as_deref())?;
    let folder = index.open(cloud).await?;
    let mut counted = portal.coverage.counted.lock().await;
    let mut all = Vec::new();
    let mut digests = BTreeSet::new();
    for entry in folder.slices_near(None) {
        let EntryKind::File(content) = &entry.kind else { continue };
        let digest = content.digest.to_string();
        let counts = match counted.get(&digest) {
            Some(known) => Arc::clone(known),
            None => {
                let rows = index.slice(cloud, entry).await?;
                // Some hundred thousand rows take seconds, in which others are to be answered.
                let counting = spawn_blocking(move || count(&rows)).await;
                Arc::new(counting.map_err(|error| Fault::Failed(format!("the counting thread ended: {error}")))?)
            }
        };
        counted.insert(digest.clone(), Arc::clone(&counts));
        digests.insert(digest);
        all.push(counts);
    }
    counted.retain(|digest, _| digests.contains(digest));
    drop(counted);
    Ok(view(&all))
}

fn view(slices: &[Arc<SliceCounts>]) -> CoverageView {
    let mut view = CoverageView::default();
    let mut cells: BTreeMap<SkyCell, u32> = BTreeMap::new();
    for slice in slices {
        view.images += slice.images;
        view.without_place += slice.without_place;
        view.damaged += slice.damaged;
        for (cell, count) in &slice.cells {
            *cells.entry(*cell).or_default() += count;
        }
    }
    view.cells = cells
        .into_iter()
        .map(|((ring, part), count)| {
            let width = 360.0 / f64::from(parts_of(ring));
            let (west, east) = (f64::from(part) * width, f64::from(part + 1) * width);
            // Much less than a picture shows.
            let short = |degrees: f64| (degrees * 1e4).round() / 1e4;
            let south = f64::from(ring) - 90.0;
            (short(west), short(east), south, south + CELL_DEGREES, count)
        })
        .collect();
    view
}

fn count(rows: &[ImageRow]) -> SliceCounts {
    let mut counts = SliceCounts::default();
    for row in rows {
        if row.dataproduct_type.is_none() {
            counts.damaged += 1;
            continue;
        }
        counts.images += 1;
        let cells = cells_of(row);
        if cells.is_empty() {
            counts.without_place += 1;
        }
        for cell in cells {
            *counts.cells.entry(cell).or_default() += 1;
        }
    }
    counts
}

/// The cells that an image has: that of its middle, and those whose middles it has.
fn cells_of(row: &ImageRow) -> BTreeSet<SkyCell> {
    let (Some(centre), Some(diameter)) = (row.centre(), row.s_fov) else { return BTreeSet::new() };
    let mut cells = BTreeSet::from([cell_at(centre)]);
    if diameter > CELL_DEGREES / 2.0 {
        let ring = |dec: f64| ring_at(dec.clamp(-90.0, 90.0));
        for ring in ring(centre.dec_degrees - diameter / 2.0)..=ring(centre.dec_degrees + diameter / 2.0) {
            let has = |part: &u16| {
                middle_of((ring, *part)).is_some_and(|middle| lies_in(row, &SkyRegion::Circle(middle, 0.0)))
            };
            cells.extend((0..parts_of(ring)).filter(has).map(|part| (ring, part)));
        }
    }
    cells
}

fn cell_at(position: SkyPosition) -> SkyCell {
    let ring = ring_at(position.dec_degrees);
    let parts = parts_of(ring);
    let part = (position.ra_degrees / 360.0 * f64::from(parts)).floor() as u16;
    (ring, part.min(parts - 1))
}

fn middle_of((ring, part): SkyCell) -> Option<SkyPosition> {
    let ra = (f64::from(part) + 0.5) * 360.0 / f64::from(parts_of(ring));
    SkyPosition::new(ra, f64::from(ring) - 89.5).ok()
}

fn ring_at(dec_degrees: f64) -> u16 {
    ((dec_degrees + 90.0).floor() as u16).min(RINGS - 1)
}

/// Parts of a ring, each about as wide as it is high.
fn parts_of(ring: u16) -> u16 {
    let middle = f64::from(ring) - 89.5;
    ((360.0 * middle.to_radians().cos()).round() as u16).max(1)
}

const CELL_DEGREES: f64 = 1.0;
const RINGS: u16 = 180;

#[cfg(test)]
mod tests {
    use super::*;

    fn image(ra: f64, dec: f64, diameter: f64) -> ImageRow {
        ImageRow {
            dataproduct_type: Some("image".into()),
            s_ra: Some(ra),
            s_dec: Some(dec),
            s_fov: Some(diameter),
            ..ImageRow::default()
        }
    }

    #[test]
    fn cells_are_about_a_square_degree_and_cover_the_sky_once() {
        let cells: u32 = (0..RINGS).map(|ring| u32::from(parts_of(ring))).sum();
        assert!((cells as f64 - 41_253.0).abs() < 60.0, "{cells}");
        for ring in 0..RINGS {
            for part in [0, parts_of(ring) / 2, parts_of(ring) - 1] {
                assert_eq!(middle_of((ring, part)).map(cell_at), Some((ring, part)));
            }
        }
        let poles =
            [(0.0, 90.0), (359.999, -90.0)].map(|(ra, dec)| cell_at(SkyPosition::new(ra, dec).expect("a place")));
        assert_eq!(poles[0].0, 179);
        assert_eq!(poles[1].0, 0);
    }

    #[test]
    fn an_image_is_counted_where_it_lies() {
        assert_eq!(cells_of(&image(10.2, 0.3, 0.1)).len(), 1);
        // A circle of ten degrees has 78 square degrees.
        let large = cells_of(&image(0.0, 30.0, 10.0));
        assert!((70..90).contains(&large.len()), "{}", large.len());
        let pole = cells_of(&image(0.0, 90.0, 4.0));
        assert!((10..16).contains(&pole.len()), "{}", pole.len());
        let outlined = ImageRow { s_region: Some("POLYGON ICRS 12 0 10 0 10 2 12 2".into()), ..image(11.0, 1.0, 2.83) };
        assert_eq!(cells_of(&outlined).len(), 4);
    }

    #[test]
    fn what_has_no_place_is_said_apart() {
        let damaged = ImageRow { problem: Some("damaged".into()), ..ImageRow::default() };
        let nowhere = ImageRow { dataproduct_type: Some("image".into()), ..ImageRow::default() };
        let one = Arc::new(count(&[image(0.5, 0.5, 0.1), damaged, nowhere]));
        let view = view(&[Arc::clone(&one), one]);
        assert_eq!((view.images, view.without_place, view.damaged), (4, 2, 2));
        assert_eq!(view.cells, [(0.0, 1.0, 0.0, 1.0, 2)]);
    }
}
