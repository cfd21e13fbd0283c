//! `put`, `get` and `cat`: bytes between this machine and the cloud. Destinations follow `cp`. It never decides where
//! slices lie.

use std::{
    io,
    ops::Range,
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use client::{Client, Condition, EntryKind, FileContent, GetOptions, PutOptions, SectorPath};
use protocol::{Reason, Version};

use super::{
    in_flight::InFlightWindow,
    target_conflicts::{PathMapping, resolve_targets},
};
use crate::{
    arguments::{Cat, Get, Global, Put},
    failure::Failure,
    show::{Meter, size},
};

/// `sector put`.
pub(crate) async fn put(cloud: &Client, put: Put, global: &Global) -> Result<(), Failure> {
    let Some((to, from)) = put.paths.split_last() else { return Err(Failure::usage("put needs SRC and DST")) };
    if (put.append || put.if_version.is_some()) && from.len() > 1 {
        return Err(Failure::usage("--append and --if-version are for one file"));
    }
    let condition = match put.if_version {
        Some(version) => Condition::Version(Version(version)),
        None if put.if_absent => Condition::Absent,
        None => Condition::Any,
    };
    let options = PutOptions {
        copies: put.copies,
        sync_copies: put.sync_copies,
        records: put.records,
        condition,
        parents: true,
        ..PutOptions::default()
    };
    let into = destination(cloud, to, from.len()).await?;
    if from == ["-"] {
        let path = into.file_for(None)?;
        if put.append {
            cloud.append(io::stdin(), &path, &options, &|_| ()).await?;
        } else {
            cloud.put(io::stdin(), &path, &options, &|_| ()).await?;
        }
        return Ok(());
    }
    let mut uploads = Vec::new();
    for source in from {
        uploads.extend(plan_upload(Path::new(source), &into, put.recursive)?);
    }
    let uploads = resolve_targets(
        uploads,
        |upload| PathMapping { from: upload.file.clone(), to: upload.to.as_str().into() },
        false,
    )?;
    if put.append {
        return append_one(cloud, uploads, &options, global).await;
    }
    upload_all(cloud, uploads, &options, "put", global).await
}

/// Appends to a file in the cloud.
async fn append_one(
    cloud: &Client,
    uploads: Vec<Upload>,
    options: &PutOptions,
    global: &Global,
) -> Result<(), Failure> {
    let [Upload { file, to, bytes }] = &uploads[..] else { return Err(Failure::usage("--append is for one file")) };
    let meter = Meter::start("append", *bytes, global).of(cloud);
    cloud.append_file(file, to, options, &|bytes| meter.add(bytes)).await?;
    meter.finish();
    Ok(())
}

/// A local file and where it goes.
pub(crate) struct Upload {
    pub(crate) file: PathBuf,
    pub(crate) to: SectorPath,
    pub(crate) bytes: u64,
}

/// Uploads several files at once. A file that is already there, byte for byte, is not sent again: this is how an
/// interrupted `put -r` resumes.
pub(crate) async fn upload_all(
    cloud: &Client,
    uploads: Vec<Upload>,
    options: &PutOptions,
    what: &str,
    global: &Global,
) -> Result<(), Failure> {
    let total: u64 = uploads.iter().map(|upload| upload.bytes).sum();
    let meter = Arc::new(Meter::start(what, total, global).of(cloud));
    let kept_bytes = Arc::new(AtomicU64::new(0));
    let options = PutOptions { kept_bytes: Some(Arc::clone(&kept_bytes)), ..options.clone() };
    let mut flight = InFlightWindow::new();
    for upload in uploads {
        let bytes = upload.bytes;
        let (session, options, meter) = (cloud.clone(), options.clone(), Arc::clone(&meter));
        let work = async move {
            let cloud = session;
            // A user who sets a condition wants to know whether it holds.
            if options.condition == Condition::Any && is_there_already(&cloud, &upload).await? {
                meter.add(upload.bytes);
                return Ok(());
            }
            cloud.put_file(&upload.file, &upload.to, &options, &|bytes| meter.add(bytes)).await?;
            Ok(())
        };
        flight.start(bytes, || cloud.round_trip(), work).await;
    }
    let landed = flight.finish().await;
    meter.finish();
    let kept_bytes = kept_bytes.load(Ordering::Relaxed);
    if kept_bytes > 0 && !global.quiet && !global.json {
        crate::show::say!("{what}: {} of {} had arrived before and were not sent again", size(kept_bytes), size(total));
    }
    landed
}

/// `sector get`. A file that is already there, byte for byte, is not fetched again.
pub(crate) async fn get(cloud: &Client, get: Get, global: &Global) -> Result<(), Failure> {
    let Some((to, from)) = get.paths.split_last() else { return Err(Failure::usage("get needs SRC and DST")) };
    if to == "-" {
        return cat_all(cloud, from, None).await;
    }
    let mut downloads = Vec::new();
    let into_folder = Path::new(to).is_dir() || to.ends_with('/') || from.len() > 1;
    for source in from {
        downloads.extend(plan_download(cloud, source, Path::new(to), into_folder, get.recursive).await?);
    }
    if !into_folder && downloads.len() > 1 && !get.recursive {
        return Err(Failure::usage(format!("several files cannot all become `{to}`; name a folder")));
    }
    let going = |download: &Download| PathMapping { from: download.path.as_str().into(), to: download.file.clone() };
    let downloads = resolve_targets(downloads, going, false)?;
    let total = downloads.iter().map(|download| download.content.bytes).sum();
    let meter = Arc::new(Meter::start("get", total, global).of(cloud));
    let options = GetOptions { overwrite: get.force, ..GetOptions::default() };
    let mut flight = InFlightWindow::new();
    for Download { path, file, content } in downloads {
        let bytes = content.bytes;
        let (session, meter) = (cloud.clone(), Arc::clone(&meter));
        let work = async move {
            let cloud = session;
            if let Some(folder) = file.parent() {
                std::fs::create_dir_all(folder).map_err(|error| Failure::local("make the folder", folder, &error))?;
            }
            if !options.overwrite && is_same(&file, &content).await? {
                meter.add(content.bytes);
                return Ok(());
            }
            let result = cloud.get_file(&path, &file, options, &|bytes| meter.add(bytes)).await;
            result.map(|_| ()).map_err(|error| match error.reason() {
                Reason::Exists => {
                    Failure::new(Reason::Exists, format!("`{}` exists already; --force replaces it", file.display()))
                }
                _ => error.into(),
            })
        };
        flight.start(bytes, || cloud.round_trip(), work).await;
    }
    let landed = flight.finish().await;
    meter.finish();
    landed
}

/// `sector cat`.
pub(crate) async fn cat(cloud: &Client, cat: Cat) -> Result<(), Failure> {
    cat_all(cloud, &cat.paths, cat.range.as_deref()).await
}

async fn cat_all(cloud: &Client, patterns: &[String], range: Option<&str>) -> Result<(), Failure> {
    for pattern in patterns {
        for entry in cloud.expand(pattern).await? {
            let EntryKind::File(content) = &entry.kind else { continue };
            let range = range.map(|range| parse_range(range, content.bytes)).transpose()?;
            match cloud.read(&entry.path, range, io::stdout(), &|_| ()).await {
                // The reader of the pipe has read enough.
                Err(client::ClientError::Stream { source, .. }) if source.kind() == io::ErrorKind::BrokenPipe => {
                    return Ok(());
                }
                result => result?,
            };
        }
    }
    Ok(())
}

/// Where uploads go.
enum Destination {
    /// Below this folder, under their own names. If it was written without a `/`, a folder of the same name is that
    /// folder itself. So an interrupted `put -r` resumes when it is typed again.
    Into { folder: SectorPath, is_plain: bool },
    /// To exactly this path.
    Exactly(SectorPath),
}

impl Destination {
    /// The path for a source of that name.
    fn file_for(&self, name: Option<&str>) -> Result<SectorPath, Failure> {
        match (self, name) {
            (Self::Exactly(path), _) => Ok(path.clone()),
            (Self::Into { folder, .. }, Some(name)) => Ok(folder.join(name)?),
            (Self::Into { folder, .. }, None) => {
                Err(Failure::usage(format!("`{folder}` is a folder; name a file in it")))
            }
        }
    }
}

/// Into a folder if it exists, if it is written with `/`, or if there are several sources; otherwise exactly that
/// path.
async fn destination(cloud: &Client, to: &str, sources: usize) -> Result<Destination, Failure> {
    let path = SectorPath::parse(to)?;
    let is_folder = path.is_root()
        || to.ends_with('/')
        || sources > 1
        || cloud.find(&path).await?.is_some_and(|entry| client::namespace::is_folder(&entry));
    let is_plain = sources == 1 && !to.ends_with('/');
    Ok(if is_folder { Destination::Into { folder: path, is_plain } } else { Destination::Exactly(path) })
}

/// The uploads for one source.
fn plan_upload(source: &Path, into: &Destination, recursive: bool) -> Result<Vec<Upload>, Failure> {
    let metadata = source.metadata().map_err(|error| Failure::local("read", source, &error))?;
    let name =
        source.canonicalize().ok().and_then(|full| full.file_name().map(|name| name.to_string_lossy().into_owned()));
    if metadata.is_file() {
        let to = into.file_for(name.as_deref())?;
        return Ok(vec![Upload { file: source.into(), to, bytes: metadata.len() }]);
    }
    if !metadata.is_dir() {
        return Err(Failure::usage(format!("`{}` is neither a file nor a folder", source.display())));
    }
    if !recursive {
        return Err(Failure::usage(format!("`{}` is a folder; use -r for all that it holds", source.display())));
    }
    match into {
        Destination::Into { folder, is_plain: true } if folder.name() == name.as_deref() => {
            uploads_below(source, folder)
        }
        _ => uploads_below(source, &into.file_for(name.as_deref())?),
    }
}

/// All files below a local folder, with their paths below `to`.
pub(crate) fn uploads_below(folder: &Path, to: &SectorPath) -> Result<Vec<Upload>, Failure> {
    let mut uploads = Vec::new();
    for item in walkdir::WalkDir::new(folder).sort_by_file_name() {
        let item = item.map_err(|error| Failure::failed(format!("cannot read `{}`: {error}", folder.display())))?;
        if item.file_type().is_dir() {
            continue;
        }
        if !item.file_type().is_file() {
            crate::show::say!("sector: `{}` is left out: it is no ordinary file", item.path().display());
            continue;
        }
        let relative = item.path().strip_prefix(folder).unwrap_or(item.path());
        let text = relative
            .to_str()
            .ok_or_else(|| Failure::usage(format!("the name of `{}` is not UTF-8", item.path().display())))?;
        let base = if to.is_root() { "" } else { to.as_str() };
        let to = SectorPath::parse(&format!("{base}/{text}"))?;
        let bytes = item.metadata().map(|metadata| metadata.len()).unwrap_or_default();
        uploads.push(Upload { file: item.path().into(), to, bytes });
    }
    Ok(uploads)
}

/// Whether the file is in the cloud with the same length and digest.
async fn is_there_already(cloud: &Client, upload: &Upload) -> Result<bool, Failure> {
    let Some(entry) = cloud.find(&upload.to).await? else { return Ok(false) };
    let EntryKind::File(content) = entry.kind else { return Ok(false) };
    is_same(&upload.file, &content).await
}

/// Whether a local file has these bytes already.
async fn is_same(file: &Path, content: &FileContent) -> Result<bool, Failure> {
    if !file.metadata().is_ok_and(|metadata| metadata.is_file() && metadata.len() == content.bytes) {
        return Ok(false);
    }
    let local = file.to_path_buf();
    let digest = tokio::task::spawn_blocking(move || client::file::get::digest_of(&local)).await;
    let digest = digest.map_err(|error| Failure::failed(error.to_string()))?;
    let digest = digest.map_err(|error| Failure::local("read", file, &error))?;
    Ok(digest == content.digest.0)
}

/// A file in the cloud and where it goes.
struct Download {
    path: SectorPath,
    file: PathBuf,
    content: FileContent,
}

/// The downloads for one source.
async fn plan_download(
    cloud: &Client,
    source: &str,
    to: &Path,
    into_folder: bool,
    recursive: bool,
) -> Result<Vec<Download>, Failure> {
    let is_glob = source.contains(['*', '?', '[', '{']);
    let folder = if is_glob { None } else { Some(SectorPath::parse(source)?) };
    if let (Some(path), false) = (&folder, recursive)
        && client::namespace::is_folder(&cloud.stat(path).await?.entry)
    {
        return Err(Failure::usage(format!("`{path}` is a folder; use -r for all that it holds")));
    }
    let mut downloads = Vec::new();
    for entry in cloud.expand(source).await? {
        let EntryKind::File(content) = entry.kind else { continue };
        let below = match &folder {
            // A folder keeps its inner structure; everything else keeps only its name.
            Some(folder) if entry.path != *folder => {
                entry.path.as_str()[folder.as_str().trim_end_matches('/').len()..].trim_start_matches('/')
            }
            _ => "",
        };
        let own_name = folder.as_ref().unwrap_or(&entry.path).name().unwrap_or_default();
        let mut file = if into_folder { to.join(own_name) } else { to.to_path_buf() };
        if !below.is_empty() {
            file.push(below);
        }
        downloads.push(Download { path: entry.path, file, content });
    }
    Ok(downloads)
}

/// Reads `A-B` (first and last byte), `A-`, or `-N` (the last N bytes), as HTTP and curl do.
fn parse_range(text: &str, bytes: u64) -> Result<Range<u64>, Failure> {
    let wrong = || Failure::usage(format!("`{text}` is not a range; write FIRST-LAST, FIRST- or -COUNT, in bytes"));
    let number = |text: &str| text.parse::<u64>().map_err(|_| wrong());
    match text.split_once('-').ok_or_else(wrong)? {
        ("", count) => Ok(bytes.saturating_sub(number(count)?)..bytes),
        (first, "") => Ok(number(first)?..bytes.max(number(first)?)),
        (first, last) => {
            let (first, last) = (number(first)?, number(last)?);
            if last < first {
                return Err(wrong());
            }
            Ok(first..last.saturating_add(1))
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use protocol::Status;

    use super::*;

    #[test]
    fn ranges_are_those_of_http() {
        assert_eq!(parse_range("0-99", 1000).unwrap(), 0..100);
        assert_eq!(parse_range("5-5", 1000).unwrap(), 5..6);
        assert_eq!(parse_range("990-", 1000).unwrap(), 990..1000);
        assert_eq!(parse_range("-10", 1000).unwrap(), 990..1000);
        assert_eq!(parse_range("-10", 3).unwrap(), 0..3);
        for text in ["", "-", "5", "9-5", "a-b", "--1"] {
            assert_eq!(parse_range(text, 10).unwrap_err().reason.status(), Status::Usage, "{text}");
        }
    }

    #[test]
    fn a_folder_is_uploaded_with_its_inner_shape_and_only_with_r() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir(folder.path().join("sub")).unwrap();
        std::fs::write(folder.path().join("sub/x"), "abc").unwrap();
        let to = Destination::Exactly(SectorPath::parse("/to").unwrap());
        assert_eq!(plan_upload(folder.path(), &to, false).err().unwrap().reason.status(), Status::Usage);
        let uploads = plan_upload(folder.path(), &to, true).unwrap();
        assert_eq!(uploads.len(), 1);
        assert_eq!((uploads[0].to.as_str(), uploads[0].bytes), ("/to/sub/x", 3));
    }

    #[test]
    fn a_folder_put_onto_one_of_its_own_name_goes_on_there() {
        let folder = tempfile::tempdir().unwrap();
        let source = folder.path().join("many");
        std::fs::create_dir(&source).unwrap();
        std::fs::write(source.join("x"), "abc").unwrap();
        for (there, is_plain, expected) in
            [("/many", true, "/many/x"), ("/many", false, "/many/many/x"), ("/other", true, "/other/many/x")]
        {
            let to = Destination::Into { folder: SectorPath::parse(there).unwrap(), is_plain };
            assert_eq!(plan_upload(&source, &to, true).unwrap()[0].to.as_str(), expected);
        }
    }

    #[test]
    fn a_missing_local_file_is_named_and_not_found() {
        let to = Destination::Exactly(SectorPath::root());
        let failure = plan_upload(Path::new("/nonexistent/file"), &to, false).err().unwrap();
        assert_eq!(failure.reason.status(), Status::NotFound);
        assert!(failure.message.contains("/nonexistent/file"));
    }
}
