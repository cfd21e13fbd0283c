//! `versions`: the contents of a file that were replaced and can be had back. It works on names alone and never carries
//! a file's bytes.

use client::{Client, SectorPath};
use serde::Serialize;
use terminal::{failure::Failure, show};

use crate::arguments::{Global, Versions};

/// `sector versions`.
pub(crate) async fn run(cloud: &Client, asked: &Versions, global: &Global) -> Result<(), Failure> {
    let versions = cloud.versions(&SectorPath::parse(&asked.path)?).await?;
    if global.json {
        let views = versions.into_iter().map(|version| VersionView {
            trash_path: version.at.to_string(),
            version: version.version.0,
            size_bytes: version.bytes,
            user: version.user.to_string(),
            replaced: show::time(version.replaced_unix_millis, true),
            replaced_by: version.replaced_by.to_string(),
            until: show::time(version.until_unix_millis, true),
        });
        return show::json(&views.collect::<Vec<_>>());
    }
    let rows: Vec<_> = versions
        .into_iter()
        .map(|version| {
            vec![
                show::size(version.bytes),
                version.version.to_string(),
                show::time(version.replaced_unix_millis, false),
                version.replaced_by.to_string(),
                show::time(version.until_unix_millis, false),
                version.at.to_string(),
            ]
        })
        .collect();
    show::table(&[" size", "version", "replaced", "by", "kept until", "path"], &rows);
    Ok(())
}

/// Content that was replaced, as JSON.
#[derive(Serialize)]
struct VersionView {
    trash_path: String,
    version: u64,
    size_bytes: u64,
    user: String,
    replaced: String,
    replaced_by: String,
    until: String,
}
