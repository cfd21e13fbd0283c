//! Which image a position is cut from where none is named: of those in the index that have it, the one whose middle is
//! nearest. It goes through the index slice by slice, so that all of it need not be in memory. It never
//! opens an image.

use std::collections::BTreeSet;

use astroportal::{
    obscore::ImageRow,
    tuples::{ManifestRow, Tuple},
};
use fits::{
    Extension, Selection,
    sky::{SkyPosition, SkyRegion},
};

/// A cutout of whatever image has a position.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct PlacedTuple {
    /// Its number in the table, from 1.
    pub(crate) number: u64,
    /// The middle of the cutout.
    pub(crate) position: SkyPosition,
    /// Its sides in arc minutes.
    pub(crate) size_arcmin: (f64, f64),
    /// A filter or a collection that the image must be of.
    pub(crate) layer: Option<String>,
    /// The name of the file to make.
    pub(crate) name: String,
}

/// The best image of each position, as far as the index was looked through.
pub(crate) struct NearestImages {
    /// By declination.
    wanted: Vec<PlacedTuple>,
    best: Vec<Option<NearImage>>,
}

struct NearImage {
    distance: f64,
    id: String,
    path: String,
    hdu: i32,
}

impl NearestImages {
    pub(crate) fn new(mut wanted: Vec<PlacedTuple>) -> Self {
        wanted.sort_by(|one, other| one.position.dec_degrees.total_cmp(&other.position.dec_degrees));
        Self { best: wanted.iter().map(|_| None).collect(), wanted }
    }

    /// The declinations around which the index must be looked through, each with a radius.
    pub(crate) fn near(&self) -> Vec<(f64, f64)> {
        let whole: BTreeSet<_> = self.wanted.iter().map(|tuple| tuple.position.dec_degrees.floor() as i64).collect();
        whole.into_iter().map(|dec| (dec as f64 + 0.5, 0.5)).collect()
    }

    /// Looks through rows of the index.
    pub(crate) fn look_through<'rows>(&mut self, rows: impl IntoIterator<Item = &'rows ImageRow>) {
        for row in rows {
            let (Some(centre), Some(diameter)) = (row.centre(), row.s_fov) else { continue };
            let dec = |tuple: &PlacedTuple| tuple.position.dec_degrees;
            let first = self.wanted.partition_point(|tuple| dec(tuple) < centre.dec_degrees - diameter / 2.0);
            let outline = outline(row);
            for (tuple, best) in self.wanted.iter().zip(&mut self.best).skip(first) {
                if dec(tuple) > centre.dec_degrees + diameter / 2.0 {
                    break;
                }
                let distance = centre.separation_degrees(tuple.position);
                let is_nearer = best.as_ref().is_none_or(|best| {
                    distance.total_cmp(&best.distance).then_with(|| row.obs_publisher_did.cmp(&best.id)).is_lt()
                });
                let has_it =
                    || distance <= diameter / 2.0 && outline.as_ref().is_none_or(|all| all.contains(tuple.position));
                if is_nearer && is_of(row, tuple.layer.as_deref()) && has_it() {
                    *best = Some(NearImage {
                        distance,
                        id: row.obs_publisher_did.clone(),
                        path: row.path.clone(),
                        hdu: row.hdu,
                    });
                }
            }
        }
    }

    /// The cutouts, with the image of each, and those that have none.
    pub(crate) fn finish(self) -> (Vec<Tuple>, Vec<ManifestRow>) {
        let (mut tuples, mut without) = (Vec::new(), Vec::new());
        for (placed, best) in self.wanted.into_iter().zip(self.best) {
            let PlacedTuple { number, position, size_arcmin, layer, name } = placed;
            let extension = best.as_ref().and_then(|best| usize::try_from(best.hdu).ok()).map(Extension::Number);
            let path = best.as_ref().map_or_else(String::new, |best| best.path.clone());
            let tuple = Tuple { number, path, selection: Selection::Around { extension, position, size_arcmin }, name };
            if best.is_some() {
                tuples.push(tuple);
            } else {
                let of = layer.map_or_else(String::new, |layer| format!(" of `{layer}`"));
                let message = format!("no image{of} in the index has {position}");
                without.push(ManifestRow::refused(&tuple, "not-found", &message));
            }
        }
        tuples.sort_by_key(|tuple| tuple.number);
        without.sort_by_key(|row| row.tuple);
        (tuples, without)
    }
}

/// Whether an image has a part of a region.
pub(crate) fn lies_in(row: &ImageRow, place: &SkyRegion) -> bool {
    let (Some(centre), Some(diameter)) = (row.centre(), row.s_fov) else { return false };
    centre.separation_degrees(place.centre()) <= diameter / 2.0 + place.reach_degrees()
        && outline(row).is_none_or(|outline| outline.overlaps(place))
}

fn outline(row: &ImageRow) -> Option<SkyRegion> {
    row.s_region.as_deref()?.replace(" ICRS", "").parse().ok()
}

fn is_of(row: &ImageRow, layer: Option<&str>) -> bool {
    layer.is_none_or(|layer| row.filter.as_deref() == Some(layer) || row.obs_collection == layer)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn image(path: &str, ra: f64, dec: f64, filter: &str) -> ImageRow {
        ImageRow {
            path: path.into(),
            obs_publisher_did: format!("{path}#0"),
            s_ra: Some(ra),
            s_dec: Some(dec),
            s_fov: Some(2.0),
            filter: Some(filter.into()),
            ..ImageRow::default()
        }
    }

    fn wanted(number: u64, ra: f64, dec: f64, layer: Option<&str>) -> PlacedTuple {
        let position = SkyPosition::new(ra, dec).expect("a position");
        let name = format!("{number:06}.fits");
        PlacedTuple { number, position, size_arcmin: (1.0, 1.0), layer: layer.map(Into::into), name }
    }

    #[test]
    fn a_position_is_cut_from_the_image_whose_middle_is_nearest() {
        let rows = [
            image("/far", 10.0, 0.9, "r"),
            image("/near", 10.0, 0.1, "r"),
            image("/same", 10.0, 0.1, "r"),
            image("/g", 10.0, 0.8, "g"),
            image("/seam", 359.9, -45.0, "r"),
            ImageRow { problem: Some("damaged".into()), ..ImageRow::default() },
        ];
        let tuples = vec![
            wanted(1, 10.0, 0.0, None),
            wanted(2, 10.0, 0.0, Some("g")),
            wanted(3, 0.05, -45.0, None),
            wanted(4, 100.0, 0.0, None),
            wanted(5, 10.0, 0.0, Some("z")),
            wanted(6, 10.0, 1.2, None),
        ];
        // In any order of slices.
        for turn in 0..rows.len() {
            let mut nearest = NearestImages::new(tuples.clone());
            nearest.look_through(&rows[turn..]);
            nearest.look_through(&rows[..turn]);
            let (found, without) = nearest.finish();
            let found: Vec<_> = found.iter().map(|tuple| (tuple.number, tuple.path.as_str())).collect();
            assert_eq!(found, [(1, "/near"), (2, "/g"), (3, "/seam"), (6, "/far")]);
            let without: Vec<_> = without.iter().map(|row| (row.tuple, row.status.as_str())).collect();
            assert_eq!(without, [(4, "not-found"), (5, "not-found")]);
        }
    }

    #[test]
    fn the_outline_decides_where_an_image_has_one() {
        let outline = Some("POLYGON ICRS 1 -1 0 -1 0 1 1 1".into());
        let row = ImageRow { s_region: outline, ..image("/half", 0.0, 0.0, "r") };
        let mut nearest = NearestImages::new(vec![wanted(1, 0.5, 0.0, None), wanted(2, 359.5, 0.0, None)]);
        nearest.look_through([&row]);
        let (found, without) = nearest.finish();
        assert_eq!((found.len(), without.len()), (1, 1));
        assert_eq!(found[0].number, 1);
    }

    #[test]
    fn many_positions_ask_for_few_parts_of_the_index() {
        let tuples = (0..1_000).map(|number| wanted(number, 0.0, -10.0 + number as f64 / 500.0, None)).collect();
        assert_eq!(NearestImages::new(tuples).near(), [(-9.5, 0.5), (-8.5, 0.5)]);
    }
}
