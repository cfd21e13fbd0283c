//! `sector images cutout`: one part of one image, or of each of several. Only the bytes of that part are read. It never
//! writes a file for an image that does not have the part.

use std::{
    fs,
    os::unix::ffi::OsStrExt,
    path::{Path, PathBuf},
};

use client::{Client, Entry, EntryKind};
use fits::{
    ByteSource, Cutout as Cut, ImageError, ImageFile, LocalFile, Provenance, Selection,
    preview::{self, PictureFormat},
};
use protocol::Reason;
use serde::Serialize;
use terminal::{Failure, Failures, Global, cloud_path, show};
use tokio::task::spawn_blocking;

use crate::{
    arguments::{Cutout, Format},
    cloud_source::CloudSource,
};

/// `sector images cutout` in the cloud.
pub(crate) async fn run(cloud: &Client, arguments: &Cutout, global: &Global) -> Result<(), Failure> {
    let mut entries: Vec<Entry> = Vec::new();
    for pattern in &arguments.images {
        entries.extend(cloud.expand(&cloud_path(pattern).map_err(Failure::usage)?).await?);
    }
    let work = Work::new(arguments, entries.len())?;
    let mut made = Vec::new();
    let mut failures = Failures::default();
    for entry in entries {
        let content = match &entry.kind {
            EntryKind::File(content) => content.digest.to_string(),
            EntryKind::Folder => String::new(),
        };
        let path = entry.path.to_string();
        let cut = match cloud.open(&entry.path).await {
            Ok(file) => work.cut(CloudSource::new(file), path, content).await,
            Err(error) => Err(error.into()),
        };
        keep(cut, &mut made, &mut failures);
    }
    report(&made, failures, &work, global)
}

/// `sector images cutout --local`.
pub(crate) async fn local(arguments: &Cutout, global: &Global) -> Result<(), Failure> {
    let work = Work::new(arguments, arguments.images.len())?;
    let mut made = Vec::new();
    let mut failures = Failures::default();
    for name in &arguments.images {
        let cut = match LocalFile::open(name) {
            Ok(file) => work.cut(file, name.clone(), String::new()).await,
            Err(error) => Err(Failure::local("open", Path::new(name), &error)),
        };
        keep(cut, &mut made, &mut failures);
    }
    report(&made, failures, &work, global)
}

/// What is done to each image.
#[derive(Clone)]
struct Work {
    selection: Selection,
    arguments: Cutout,
    images: usize,
    /// Whether each cutout is a file in a folder.
    is_folder: bool,
}

/// A cutout that was written (contract: `--json`).
#[derive(Serialize)]
struct Made {
    image: String,
    file: PathBuf,
    bytes: u64,
    parts: Vec<MadePart>,
}

#[derive(Serialize)]
struct MadePart {
    hdu: usize,
    section: String,
}

/// What became of an image: no part of it is no failure where there are several.
enum Cutting {
    Made(Made),
    NoOverlap(Failure),
}

impl Work {
    fn new(arguments: &Cutout, images: usize) -> Result<Self, Failure> {
        let is_stream = arguments.to == Path::new("-");
        if images > 1 && is_stream {
            return Err(Failure::usage(format!(
                "{images} images do not go to standard output: give a folder with --to"
            )));
        }
        let is_folder = images > 1 || arguments.to.is_dir() || arguments.to.as_os_str().as_bytes().ends_with(b"/");
        if is_folder {
            fs::create_dir_all(&arguments.to)
                .map_err(|error| Failure::local("make the folder", &arguments.to, &error))?;
        }
        Ok(Self { selection: arguments.selection()?, arguments: arguments.clone(), images, is_folder })
    }

    async fn cut(&self, source: impl ByteSource + 'static, path: String, content: String) -> Result<Cutting, Failure> {
        let work = self.clone();
        let cutting = spawn_blocking(move || work.cut_waiting(source, path, content));
        cutting.await.map_err(|error| Failure::failed(format!("the cutting thread ended: {error}")))?
    }

    fn cut_waiting(&self, source: impl ByteSource, path: String, content: String) -> Result<Cutting, Failure> {
        let cut = || -> Result<(Cut, Vec<u8>), ImageError> {
            let mut file = ImageFile::open(source)?;
            let cut = Cut::find(&mut file, &self.selection)?;
            let bytes = match self.arguments.format {
                Format::Fits => {
                    let selection = self.selection.to_string();
                    cut.fits(&mut file, &Provenance { path: path.clone(), content, selection })?
                }
                Format::Png => self.picture(&mut file, &cut, PictureFormat::Png)?,
                Format::Jpeg => self.picture(&mut file, &cut, PictureFormat::Jpeg)?,
            };
            Ok((cut, bytes))
        };
        match cut() {
            Ok((cut, bytes)) => {
                let file = self.write(&path, &bytes)?;
                let part = |(hdu, part): &(usize, fits::PixelBox)| MadePart { hdu: *hdu, section: part.to_string() };
                let parts = cut.parts.iter().map(part).collect();
                Ok(Cutting::Made(Made { image: path, file, bytes: bytes.len() as u64, parts }))
            }
            Err(error @ ImageError::NoOverlap(_)) => Ok(Cutting::NoOverlap(failure(&path, &error))),
            Err(error) => Err(failure(&path, &error)),
        }
    }

    /// The first part, the first plane of it where it is a cube.
    fn picture(&self, file: &mut ImageFile<'_>, cut: &Cut, format: PictureFormat) -> Result<Vec<u8>, ImageError> {
        let Some((hdu, part)) = cut.parts.first() else { return Err(ImageError::NoImage("at all".into())) };
        let mut axes = part.axes().to_vec();
        axes.iter_mut().skip(2).for_each(|(first, last)| *last = *first);
        let part = fits::PixelBox::new(axes)?;
        let values = file.values(*hdu, &part)?;
        let shape = part.shape();
        let side = |axis: usize| shape.get(axis).copied().unwrap_or(1);
        preview::picture(&values, (side(0), side(1)), self.arguments.rendering(), format)
    }

    fn write(&self, image: &str, bytes: &[u8]) -> Result<PathBuf, Failure> {
        let to = &self.arguments.to;
        if to == Path::new("-") {
            show::bytes(bytes);
            return Ok(to.clone());
        }
        let file = if self.is_folder { to.join(self.name_of(image)) } else { to.clone() };
        fs::write(&file, bytes).map_err(|error| Failure::local("write", &file, &error))?;
        Ok(file)
    }

    /// The image's name with the ending of what is written.
    fn name_of(&self, image: &str) -> String {
        let name = image.rsplit('/').next().unwrap_or(image);
        let stem = [".gz", ".fz", ".fits", ".fit", ".fts"]
            .iter()
            .fold(name, |name, end| name.strip_suffix(end).unwrap_or(name));
        let ending = match self.arguments.format {
            Format::Fits => "fits",
            Format::Png => "png",
            Format::Jpeg => "jpg",
        };
        format!("{stem}.{ending}")
    }
}

fn keep(cut: Result<Cutting, Failure>, made: &mut Vec<Result<Made, Failure>>, failures: &mut Failures) {
    match cut {
        Ok(Cutting::Made(one)) => made.push(Ok(one)),
        Ok(Cutting::NoOverlap(failure)) => made.push(Err(failure)),
        Err(failure) => failures.note(Err(failure)),
    }
}

fn report(made: &[Result<Made, Failure>], failures: Failures, work: &Work, global: &Global) -> Result<(), Failure> {
    let files: Vec<_> = made.iter().flatten().collect();
    if global.json && work.arguments.to != Path::new("-") && !files.is_empty() {
        show::json(&files)?;
    } else if !global.quiet && work.arguments.to != Path::new("-") {
        for Made { image, file, bytes, parts } in &files {
            let parts: Vec<_> = parts.iter().map(|part| format!("[{}]{}", part.hdu, part.section)).collect();
            show::line(format!("{} ({}) from {image}{}", file.display(), show::size(*bytes), parts.join(" and ")));
        }
        if work.images > 1 && files.len() < made.len() {
            show::line(format!("{} of {} images have no part of it", made.len() - files.len(), work.images));
        }
    }
    failures.into_result()?;
    match made.iter().find_map(|one| one.as_ref().err()) {
        Some(failure) if files.is_empty() => Err(Failure::new(failure.reason, failure.message.clone())),
        _ => Ok(()),
    }
}

/// What is wrong with an image, as a command says it.
pub(crate) fn failure(path: &str, error: &ImageError) -> Failure {
    let reason = match error {
        ImageError::Usage(_) | ImageError::TooLarge { .. } => Reason::Invalid,
        ImageError::NoImage(_) | ImageError::NoOverlap(_) => Reason::NotFound,
        ImageError::Damaged { .. } | ImageError::NoSky(_) | ImageError::Read(_) => Reason::Failed,
    };
    Failure::new(reason, format!("`{path}`: {error}")).about(path)
}
