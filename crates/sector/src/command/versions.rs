//! `versions`: the contents of a file that were replaced and can be had back. It works on names alone and never carries
//! a file's bytes.

use client::{Client, SectorPath, views::VersionView};
use terminal::{failure::Failure, show};

use crate::arguments::{Global, Versions};

/// `sector versions`.
pub(crate) async fn run(cloud: &Client, asked: &Versions, global: &Global) -> Result<(), Failure> {
    let versions = cloud.versions(&SectorPath::parse(&asked.path)?).await?;
    if global.json {
        return show::json(&versions.iter().map(VersionView::from).collect::<Vec<_>>());
    }
    let rows: Vec<_> = versions
        .into_iter()
        .map(|version| {
            vec![
                show::size(version.bytes),
                version.version.to_string(),
                show::time(version.replaced_unix_millis),
                version.replaced_by.to_string(),
                show::time(version.until_unix_millis),
                version.at.to_string(),
            ]
        })
        .collect();
    show::table(&[" size", "version", "replaced", "by", "kept until", "path"], &rows);
    Ok(())
}
