//! `sector images index`: a job reads the headers of images where they lie, and writes a row for each into the index.
//! Files that are in the index in the same version are left alone, and rows of files that are gone, or are others now,
//! go. What cannot be read gets a row that says why. It never moves an image.

use std::{
    collections::{BTreeMap, BTreeSet},
    io::Cursor,
};

use astroportal::{DESCRIBE_IMAGES, PathTable, WRITE_INDEX, obscore::ImageRow};
use client::{
    Client, Entry, EntryKind, PutOptions, SectorPath,
    job::{JobOutput, SideFileName, SideFileSpec, StageSpec},
};
use serde::Serialize;
use terminal::{Failure, Global, drive, show};

use crate::{
    arguments::Index,
    index_folder::{IndexFolder, SLICES, SliceName},
    job_library::{JobLibrary, over_files},
};

/// `sector images index`.
pub(crate) async fn run(cloud: &Client, arguments: &Index, global: &Global) -> Result<(), Failure> {
    let to = SectorPath::parse(&arguments.to)?;
    let mut wanted = BTreeMap::new();
    for pattern in &arguments.images {
        let found = cloud.expand(pattern).await?;
        wanted.extend(
            found.into_iter().filter(|entry| is_image(&entry.path)).map(|entry| (entry.path.to_string(), entry)),
        );
    }
    wanted.retain(|_, entry| !is_within(&entry.path, &to));
    if wanted.is_empty() {
        let message = "none of these files is named like a FITS image: .fits, .fit or .fts, perhaps with .fz or .gz";
        return Err(Failure::new(protocol::Reason::NotFound, message));
    }
    let folder = IndexFolder::open(cloud, &to).await?;
    let known = folder.rows(cloud, None).await?;
    let in_index: BTreeMap<&str, &str> =
        known.iter().flat_map(|(_, rows)| rows).map(|row| (row.path.as_str(), row.content.as_str())).collect();
    let is_new = |entry: &&Entry| in_index.get(entry.path.as_str()) != Some(&digest(entry).as_str());
    let new: Vec<Entry> = wanted.values().filter(is_new).cloned().collect();
    let run = folder.next_run();
    let files = new.len();
    if !new.is_empty() {
        describe(cloud, new, &folder, &to, run, global).await?;
    }
    let gone = drop_stale(cloud, &folder, known, &wanted, &arguments.images).await?;
    let after = IndexFolder::open(cloud, &to).await?.rows(cloud, None).await?;
    report(&Report::of(after, run, files, wanted.len() - files, gone), global)
}

/// Has a job describe images, and takes the slices that it makes.
async fn describe(
    cloud: &Client,
    images: Vec<Entry>,
    folder: &IndexFolder,
    to: &SectorPath,
    run: u32,
    global: &Global,
) -> Result<(), Failure> {
    let scratch = to.join(&format!(".run-{run}"))?;
    let made = run_job(cloud, images, &scratch, global).await;
    let taken = match made {
        Ok(slices) => folder.take(cloud, run, &slices).await,
        Err(failure) => Err(failure),
    };
    match cloud.remove_now(&scratch, true).await {
        Err(error) if taken.is_ok() => Err(error.into()),
        _ => taken,
    }
}

async fn run_job(
    cloud: &Client,
    images: Vec<Entry>,
    scratch: &SectorPath,
    global: &Global,
) -> Result<Vec<Entry>, Failure> {
    let library = JobLibrary::load()?;
    let contents = scratch.join("contents")?;
    let table = PathTable::write(images.iter().map(|entry| (entry.path.as_str(), digest(entry))).collect());
    let options = PutOptions { parents: true, copies: Some(1), sync_copies: Some(1), ..PutOptions::default() };
    cloud.put(Cursor::new(table), &contents, &options, &|_| ()).await?;
    let name = SideFileName::new("contents").map_err(|error| Failure::failed(error.to_string()))?;
    let stages = vec![
        StageSpec::shuffle(library.function(DESCRIBE_IMAGES), SLICES)
            .with_side_files(vec![SideFileSpec { name, path: contents }]),
        StageSpec::shuffle(library.function(WRITE_INDEX), SLICES),
    ];
    let title = format!("index of {}", show::count(images.len(), "file"));
    let spec = over_files(title, images, stages, JobOutput::Folder(scratch.join("slices")?));
    Ok(drive(cloud, spec, "index", global).await?.outputs)
}

/// Removes the rows of earlier runs whose files have another content now, or are gone from among those that were looked
/// for. Says how many files are gone.
async fn drop_stale(
    cloud: &Client,
    folder: &IndexFolder,
    known: Vec<(SliceName, Vec<ImageRow>)>,
    wanted: &BTreeMap<String, Entry>,
    patterns: &[String],
) -> Result<usize, Failure> {
    let mut gone = BTreeSet::new();
    let mut still_there = BTreeMap::new();
    for (name, rows) in known {
        let before = rows.len();
        let mut kept = Vec::with_capacity(before);
        for row in rows {
            if let Some(entry) = wanted.get(&row.path) {
                if digest(entry) == row.content {
                    kept.push(row);
                }
                continue;
            }
            let is_there = match still_there.get(&row.path) {
                Some(is_there) => *is_there,
                None => {
                    let path = SectorPath::parse(&row.path)?;
                    let is_there = !covers(patterns, &path) || cloud.find(&path).await?.is_some();
                    still_there.insert(row.path.clone(), is_there);
                    is_there
                }
            };
            if is_there {
                kept.push(row);
            } else {
                gone.insert(row.path);
            }
        }
        if kept.len() < before {
            folder.replace(cloud, name, &kept).await?;
        }
    }
    Ok(gone.len())
}

/// Whether a path lies below one of these, or a glob is among them that might mean it.
fn covers(patterns: &[String], path: &SectorPath) -> bool {
    patterns.iter().any(|pattern| {
        let fixed = pattern.split(['*', '?', '[', '{']).next().unwrap_or_default();
        path.as_str().starts_with(fixed.trim_end_matches('/'))
    })
}

/// What a run did (contract: `--json`).
#[derive(Debug, Serialize)]
struct Report {
    run: u32,
    files_new: usize,
    files_known: usize,
    files_gone: usize,
    images: usize,
    problems: Vec<Problem>,
}

/// An image or a file of which not all is known, and why.
#[derive(Debug, Serialize)]
struct Problem {
    path: String,
    hdu: i32,
    problem: String,
}

impl Report {
    fn of(
        rows: Vec<(SliceName, Vec<ImageRow>)>,
        run: u32,
        files_new: usize,
        files_known: usize,
        files_gone: usize,
    ) -> Self {
        let rows: Vec<_> = rows.into_iter().flat_map(|(_, rows)| rows).collect();
        let images = rows.iter().filter(|row| row.dataproduct_type.is_some()).count();
        let problem = |row: ImageRow| Some(Problem { problem: row.problem?, path: row.path, hdu: row.hdu });
        let mut problems: Vec<_> = rows.into_iter().filter_map(problem).collect();
        problems.sort_by(|one, other| (&one.path, one.hdu).cmp(&(&other.path, other.hdu)));
        Self { run, files_new, files_known, files_gone, images, problems }
    }
}

fn report(report: &Report, global: &Global) -> Result<(), Failure> {
    if global.json {
        return show::json(report);
    }
    if global.quiet {
        return Ok(());
    }
    let Report { files_new, files_known, files_gone, images, problems, .. } = report;
    let gone = if *files_gone > 0 { format!(", {files_gone} gone") } else { String::new() };
    show::line(format!(
        "{} in the index: {}, {files_known} known{gone}",
        show::count(*images, "image"),
        show::count(*files_new, "new file")
    ));
    if !problems.is_empty() {
        let row = |problem: &Problem| vec![problem.path.clone(), problem.hdu.to_string(), problem.problem.clone()];
        show::table(&["file", " hdu", "problem"], &problems.iter().take(PROBLEMS_SHOWN).map(row).collect::<Vec<_>>());
        if problems.len() > PROBLEMS_SHOWN {
            show::line(format!("and {} more; --json has all", problems.len() - PROBLEMS_SHOWN));
        }
    }
    Ok(())
}

fn is_image(path: &SectorPath) -> bool {
    let name = path.name().unwrap_or_default().to_ascii_lowercase();
    let name = name.strip_suffix(".gz").or_else(|| name.strip_suffix(".fz")).unwrap_or(&name);
    [".fits", ".fit", ".fts"].iter().any(|ending| name.ends_with(ending))
}

fn is_within(path: &SectorPath, folder: &SectorPath) -> bool {
    path.as_str().strip_prefix(folder.as_str()).is_some_and(|rest| rest.starts_with('/'))
}

/// The digest of a file's content.
fn digest(entry: &Entry) -> String {
    match &entry.kind {
        EntryKind::File(content) => content.digest.to_string(),
        EntryKind::Folder => String::new(),
    }
}

/// Problems that people see.
const PROBLEMS_SHOWN: usize = 20;

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn images_are_told_by_their_names() {
        let path = |text: &str| SectorPath::parse(text).unwrap();
        for name in ["/a.fits", "/a.FIT", "/b/a.fits.fz", "/a.fts.gz"] {
            assert!(is_image(&path(name)), "{name}");
        }
        for name in ["/a.txt", "/fits", "/a.fits.png", "/a.gz"] {
            assert!(!is_image(&path(name)), "{name}");
        }
        assert!(
            is_within(&path("/sky/index/a"), &path("/sky/index"))
                && !is_within(&path("/sky/index2"), &path("/sky/index"))
        );
        let patterns = ["/sky/*.fits".to_owned(), "/other/".to_owned()];
        assert!(covers(&patterns, &path("/sky/a.fits")) && covers(&patterns, &path("/other/b")));
        assert!(!covers(&patterns, &path("/away/a")));
    }
}
