//! `sector index`: makes the index files by which jobs find records of any length. The client library does this with
//! a job; the command never reads the files itself.

use client::{Client, RecordFraming, job::IndexedRecords};
use terminal::{
    failure::Failure,
    show::{self, Meter},
};

use super::jobs;
use crate::arguments::{Global, Index};

/// `sector index`.
pub(crate) async fn index(cloud: &Client, asked: Index, global: &Global) -> Result<(), Failure> {
    let records = match (asked.begins, asked.records) {
        (Some(text), _) => IndexedRecords::Begins(text),
        (None, RecordFraming::Fixed(bytes)) => IndexedRecords::Fixed(bytes),
        (None, _) => IndexedRecords::Lines,
    };
    let files = jobs::expand_all(cloud, &asked.files).await?;
    let meter = Meter::start("index", 0, global);
    let made = cloud.index(&files, &records, |progress| meter.set(progress.bytes_done, progress.bytes_total)).await?;
    meter.finish();
    if global.json {
        return show::json(&made.iter().map(ToString::to_string).collect::<Vec<_>>());
    }
    made.iter().for_each(|path| show::line(path.as_str()));
    Ok(())
}
