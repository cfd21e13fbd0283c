//! A table in batches: what one job of the cloud does, or one archive of the portal has. The same table gives the same
//! batches, so that work that was interrupted goes on after the last whole one. It never asks the cloud.

use std::collections::{BTreeMap, btree_map};

use astroportal::tuples::{ManifestRow, Tuple};

use crate::{nearest_images::NearestImages, tuple_file::TupleFile};

/// A part of a table.
pub(crate) enum Batch {
    /// Whole images, each with its tuples.
    Images(Vec<Vec<Tuple>>),
    /// Positions near each other, of which the index is asked when their turn comes.
    Placed(NearestImages),
}

/// The batches of a table, and its rows that make no sense.
pub(crate) fn batches(table: TupleFile) -> (Vec<Batch>, Vec<ManifestRow>) {
    let TupleFile { tuples, mut placed, refused } = table;
    let mut batches: Vec<_> = of_images(tuples).into_iter().map(Batch::Images).collect();
    let zone = |dec: f64| dec.floor() as i64;
    placed.sort_by(|one, other| {
        let (one, other) = (one.position, other.position);
        zone(one.dec_degrees).cmp(&zone(other.dec_degrees)).then(one.ra_degrees.total_cmp(&other.ra_degrees))
    });
    let parts = placed.chunks(IMAGES_MAX).map(|part| Batch::Placed(NearestImages::new(part.to_vec())));
    batches.extend(parts);
    (batches, refused)
}

/// Tuples by their image.
pub(crate) fn by_image(tuples: Vec<Tuple>) -> impl Iterator<Item = Vec<Tuple>> {
    let mut images: BTreeMap<String, Vec<Tuple>> = BTreeMap::new();
    for tuple in tuples {
        match images.entry(tuple.path.clone()) {
            btree_map::Entry::Vacant(image) => {
                image.insert(vec![tuple]);
            }
            btree_map::Entry::Occupied(mut image) => image.get_mut().push(tuple),
        }
    }
    images.into_values()
}

fn of_images(tuples: Vec<Tuple>) -> Vec<Vec<Vec<Tuple>>> {
    let mut batches: Vec<Vec<Vec<Tuple>>> = Vec::new();
    let mut in_batch = usize::MAX;
    for image in by_image(tuples) {
        let is_full = batches.last().is_none_or(|batch| batch.len() >= IMAGES_MAX);
        if is_full || in_batch.saturating_add(image.len()) > TUPLES_MAX {
            batches.push(Vec::new());
            in_batch = 0;
        }
        in_batch += image.len();
        if let Some(batch) = batches.last_mut() {
            batch.push(image);
        }
    }
    batches
}

/// Tuples of a batch: some hundred megabytes of usual cutouts, which a job leaves at the nodes for a while.
const TUPLES_MAX: usize = 20_000;
/// Images of a batch: the files of one job.
const IMAGES_MAX: usize = 4_000;

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn batches_have_whole_images_and_are_not_too_large() {
        let tuple = |number: u64| Tuple {
            number,
            path: format!("/{}", number % 7),
            selection: "[1:2,3:4]".parse().unwrap(),
            name: String::new(),
        };
        let batches = of_images((0..60_000).map(tuple).collect());
        let sizes: Vec<Vec<usize>> = batches.iter().map(|batch| batch.iter().map(Vec::len).collect()).collect();
        assert_eq!(sizes.iter().map(Vec::len).collect::<Vec<_>>(), [2, 2, 2, 1]);
        assert!(sizes.iter().all(|batch| batch.iter().sum::<usize>() <= TUPLES_MAX));
        assert_eq!(sizes.iter().flatten().sum::<usize>(), 60_000);
        assert!(of_images(Vec::new()).is_empty());
    }

    #[test]
    fn positions_of_a_batch_lie_near_each_other() {
        let rows: String = (0..10_000).map(|row| format!("{},{}\n", row % 360, f64::from(row % 3) * 30.0)).collect();
        let (batches, refused) = batches(TupleFile::read(format!("ra,dec\n{rows}").as_bytes()).unwrap());
        assert!(refused.is_empty());
        let zones: Vec<_> = batches
            .iter()
            .map(|batch| match batch {
                Batch::Placed(nearest) => nearest.near().len(),
                Batch::Images(_) => 0,
            })
            .collect();
        assert_eq!(zones, [2, 2, 1]);
    }
}
