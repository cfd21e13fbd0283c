//! Has a job cut a batch where its images lie, and reads what it made into the archive. Whatever happens, it never leaves
//! the job's results in the cloud.

use std::io::Cursor;

use astroportal::{
    CUT_IMAGES,
    tuples::{ParcelReader, TupleGroup, TupleTable},
};
use client::{
    Client, Entry, PutOptions, SectorPath,
    job::{JobOutput, JobSpec, SideFileName, SideFileSpec, StageSpec},
};
use terminal::{Failure, Global, drive, show};
use tokio::task::spawn_blocking;

use crate::{
    archive::Archive,
    cloud_source::CloudSource,
    job_library::{JobLibrary, over_files},
};

/// Cuts by jobs.
pub(crate) struct NodeCutter<'a> {
    pub(crate) cloud: &'a Client,
    pub(crate) library: JobLibrary,
    /// Where a job's results are kept for a while, each batch in a hidden folder.
    pub(crate) folder: SectorPath,
    pub(crate) global: &'a Global,
}

impl NodeCutter<'_> {
    /// Cuts the groups of these images into the archive. `what` is what the progress bar says.
    pub(crate) async fn cut(
        &self,
        inputs: Vec<Entry>,
        groups: Vec<TupleGroup>,
        archive: Archive,
        what: &str,
    ) -> Result<Archive, Failure> {
        let scratch = self.folder.join(&format!(".images-{}-{}", std::process::id(), archive.batches()))?;
        let parts = self.run_job(inputs, &groups, &scratch, what).await;
        let archive = match parts {
            Ok(parts) => self.gather(parts, archive).await,
            Err(failure) => Err(failure),
        };
        // What the job made is in the archive, or will be made again.
        match self.cloud.remove_now(&scratch, true).await {
            Err(error) if archive.is_ok() => Err(error.into()),
            _ => archive,
        }
    }

    async fn run_job(
        &self,
        inputs: Vec<Entry>,
        groups: &[TupleGroup],
        scratch: &SectorPath,
        what: &str,
    ) -> Result<Vec<Entry>, Failure> {
        let table = scratch.join("tuples")?;
        let options = PutOptions { parents: true, copies: Some(1), sync_copies: Some(1), ..PutOptions::default() };
        self.cloud.put(Cursor::new(TupleTable::write(groups)), &table, &options, &|_| ()).await?;
        let name = SideFileName::new("tuples").map_err(|error| Failure::failed(error.to_string()))?;
        let stage = StageSpec::local(self.library.function(CUT_IMAGES))
            .with_side_files(vec![SideFileSpec { name, path: table }]);
        let tuples: usize = groups.iter().map(|group| group.tuples.len()).sum();
        let title = format!("{tuples} cutouts of {}", show::count(inputs.len(), "image"));
        let output = JobOutput::Folder(scratch.join("parcels")?);
        let spec = JobSpec { copies: Some(1), sync_copies: Some(1), ..over_files(title, inputs, vec![stage], output) };
        Ok(drive(self.cloud, spec, what, self.global).await?.outputs)
    }

    async fn gather(&self, parts: Vec<Entry>, mut archive: Archive) -> Result<Archive, Failure> {
        for part in parts {
            let source = CloudSource::new(self.cloud.open(&part.path).await?);
            let reading = spawn_blocking(move || {
                let mut parcels = ParcelReader::new(source.stream());
                while let Some(parcel) = parcels.next_parcel().map_err(|error| Failure::failed(error.to_string()))? {
                    archive.add(&parcel)?;
                }
                Ok::<_, Failure>(archive)
            });
            archive = reading.await.map_err(|error| Failure::failed(error.to_string()))??;
        }
        Ok(archive)
    }
}
