//! The folder of an index: slices `zone-Z-of-N-RUN.parquet`, of which each has the images of a zone of declination that
//! a run found. It never holds another user's folder for an index.

use std::collections::BTreeMap;

use astroportal::{
    obscore::{ImageRow, IndexSlice, write_parquet, zones_near},
    tuples::{ManifestRow, Tuple},
};
use client::{Client, Entry, PutOptions, SectorPath};
use terminal::Failure;
use tokio::task::JoinSet;

use crate::{batches::by_image, nearest_images::NearestImages};

/// Slices of a run.
pub(crate) const SLICES: u32 = 64;

/// The folder of an index.
#[derive(Clone, Debug)]
pub(crate) struct IndexFolder {
    folder: SectorPath,
    slices: BTreeMap<SliceName, Entry>,
}

/// What a slice's name says.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct SliceName {
    /// The run that made it, from 1.
    pub(crate) run: u32,
    /// Its zone.
    pub(crate) zone: u64,
    /// Zones of that run.
    pub(crate) zones: u32,
}

impl SliceName {
    /// Reads a file's name.
    fn parse(name: &str) -> Option<Self> {
        let rest = name.strip_prefix("zone-")?.strip_suffix(".parquet")?;
        let (zone, rest) = rest.split_once("-of-")?;
        let (zones, run) = rest.split_once("-run-")?;
        Some(Self { run: run.parse().ok()?, zone: zone.parse().ok()?, zones: zones.parse().ok()? })
    }

    /// The file's name.
    fn text(self) -> String {
        let Self { run, zone, zones } = self;
        format!("zone-{zone:03}-of-{zones:03}-run-{run:05}.parquet")
    }
}

impl IndexFolder {
    /// Opens the folder; without slices if there is none.
    pub(crate) async fn open(cloud: &Client, folder: &SectorPath) -> Result<Self, Failure> {
        let entries = match cloud.find(folder).await? {
            Some(_) => cloud.list(folder).await?,
            None => Vec::new(),
        };
        let named = entries.into_iter().filter_map(|entry| Some((SliceName::parse(entry.path.name()?)?, entry)));
        Ok(Self { folder: folder.clone(), slices: named.collect() })
    }

    /// Whether there is nothing in it.
    pub(crate) fn is_empty(&self) -> bool {
        self.slices.is_empty()
    }

    /// The number of the next run.
    pub(crate) fn next_run(&self) -> u32 {
        self.slices.keys().map(|name| name.run).max().unwrap_or(0) + 1
    }

    /// The files of all slices, or of those that may have an image within a radius of one of these declinations.
    pub(crate) fn slices_near(&self, near: Option<&[(f64, f64)]>) -> impl Iterator<Item = &Entry> {
        let is_near = move |name: &SliceName| {
            let has_zone = |(dec, radius): &(f64, f64)| zones_near(*dec, *radius, name.zones).contains(&name.zone);
            near.is_none_or(|near| near.iter().any(has_zone))
        };
        self.slices.iter().filter(move |(name, _)| is_near(name)).map(|(_, entry)| entry)
    }

    /// The rows of one slice.
    pub(crate) async fn read(cloud: &Client, path: &SectorPath) -> Result<Vec<ImageRow>, Failure> {
        let (_, bytes) = cloud.read(path, None, Vec::new(), &|_| ()).await?;
        let rows = IndexSlice::open(bytes).and_then(|slice| slice.rows());
        rows.map_err(|error| Failure::failed(format!("`{path}`: {error}")))
    }

    /// The image of each position, with its tuples, and the rows of those that have none.
    pub(crate) async fn find_images(
        &self,
        cloud: &Client,
        mut nearest: NearestImages,
    ) -> Result<(Vec<Vec<Tuple>>, Vec<ManifestRow>), Failure> {
        for entry in self.slices_near(Some(&nearest.near())) {
            nearest.look_through(&Self::read(cloud, &entry.path).await?);
        }
        let (tuples, without) = nearest.finish();
        Ok((by_image(tuples).collect(), without))
    }

    /// The rows of all slices, or of those that may have an image within a radius of a declination.
    pub(crate) async fn rows(
        &self,
        cloud: &Client,
        near: Option<(f64, f64)>,
    ) -> Result<Vec<(SliceName, Vec<ImageRow>)>, Failure> {
        let is_near = |name: &SliceName| {
            near.is_none_or(|(dec, radius)| zones_near(dec, radius, name.zones).contains(&name.zone))
        };
        let (mut wanted, mut reading, mut rows) =
            (self.slices.iter().filter(|(name, _)| is_near(name)), JoinSet::new(), Vec::new());
        loop {
            while reading.len() < READ_AT_ONCE
                && let Some((name, entry)) = wanted.next()
            {
                let (cloud, name, path) = (cloud.clone(), *name, entry.path.clone());
                reading.spawn(async move { Ok::<_, Failure>((name, Self::read(&cloud, &path).await?)) });
            }
            let Some(read) = reading.join_next().await else { break };
            rows.push(read.map_err(|error| Failure::failed(error.to_string()))??);
        }
        rows.sort_by_key(|(name, _)| *name);
        Ok(rows)
    }

    /// Takes the slices that a job made, each of which is a zone.
    pub(crate) async fn take(&self, cloud: &Client, run: u32, made: &[Entry]) -> Result<(), Failure> {
        for entry in made {
            let zone = entry.path.name().and_then(|name| name.strip_prefix("part-")?.parse().ok());
            let zone = zone.ok_or_else(|| Failure::failed(format!("`{}` is no part of a job", entry.path)))?;
            let name = SliceName { run, zone, zones: SLICES };
            cloud.rename(&entry.path, &self.folder.join(&name.text())?).await?;
        }
        Ok(())
    }

    /// Puts other rows in a slice's place; without rows the slice goes.
    pub(crate) async fn replace(&self, cloud: &Client, name: SliceName, rows: &[ImageRow]) -> Result<(), Failure> {
        let path = self.folder.join(&name.text())?;
        if rows.is_empty() {
            return Ok(cloud.remove_now(&path, false).await?);
        }
        let bytes = write_parquet(rows).map_err(|error| Failure::failed(error.to_string()))?;
        cloud.put(std::io::Cursor::new(bytes), &path, &PutOptions::default(), &|_| ()).await?;
        Ok(())
    }
}

/// Slices that are read at once.
const READ_AT_ONCE: usize = 16;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slice_is_found_by_its_name_and_nothing_else_is() {
        let name = SliceName { run: 3, zone: 17, zones: 64 };
        assert_eq!(name.text(), "zone-017-of-064-run-00003.parquet");
        assert_eq!(SliceName::parse(&name.text()), Some(name));
        for text in ["part-00000", "zone-1.parquet", "zone-a-of-2-run-1.parquet", "zone-1-of-2-run-1"] {
            assert_eq!(SliceName::parse(text), None, "{text}");
        }
    }
}
