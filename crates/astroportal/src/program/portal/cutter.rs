//! Cuts what an order asks for: the image is opened with the caller's rights, and only the bytes that are needed are read.
//! It never cuts more at once than it has turns and memory for.

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

use astroportal::{
    obscore::{FileFacts, ImageRow, describe},
    tuples::StorageLevel,
};
use client::{Client, EntryKind, FileReader, SectorPath};
use dali::of_client;
use fits::{
    Cutout, ImageError, ImageFile, PixelBox, Provenance, polarisation_planes,
    preview::{self, PictureFormat},
    spectral_planes,
};
use serde::Serialize;
use tokio::{
    runtime::Handle,
    sync::{OwnedSemaphorePermit, Semaphore, SemaphorePermit},
    task::spawn_blocking,
};
use vo::{Fault, Interval};

use super::{
    answers::of_image,
    cut_order::{CutFormat, CutOrder},
    hot_images::{HotImages, HotStatus},
    image_source::ImageSource,
    open_images::{OpenImage, OpenImages},
};

/// A cutout.
pub(super) struct Cut {
    pub(super) bytes: Vec<u8>,
    /// A name to save it under.
    pub(super) name: String,
    /// Where it was read from.
    pub(super) level: StorageLevel,
}

/// Cuts.
pub(super) struct Cutter {
    turns: Semaphore,
    turns_max: usize,
    memory: Memory,
    hot: Option<HotImages>,
    opened: OpenImages,
    served: [AtomicU64; StorageLevel::ALL.len()],
}

/// What a portal has done since it was started, and has to do (contract: `/portal/status`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub(super) struct CutterStatus {
    /// Cutouts by the level that they were read from, the nearest first.
    pub(super) cutouts_by_level: [u64; StorageLevel::ALL.len()],
    /// Cutouts that are being made.
    pub(super) under_way: usize,
    /// As many are made at once.
    pub(super) turns: usize,
    /// What is kept of images that are asked for often.
    pub(super) hot: HotStatus,
}

/// Memory for cutouts, in mebibytes. Clones are the same.
#[derive(Clone)]
struct Memory {
    free: Arc<Semaphore>,
    runtime: Handle,
}

impl Memory {
    /// Waits in this thread until there is room for so many bytes, until it is given back.
    fn take(&self, bytes: u64) -> Option<OwnedSemaphorePermit> {
        let mebibytes = u32::try_from(bytes >> 20).unwrap_or(u32::MAX).saturating_add(1).min(MEMORY_MEBIBYTES);
        // The semaphore is never closed.
        self.runtime.block_on(Arc::clone(&self.free).acquire_many_owned(mebibytes)).ok()
    }
}

impl Cutter {
    /// Keeps images that are asked for often in `hot`.
    pub(super) fn new(hot: Option<HotImages>) -> Self {
        let processors = std::thread::available_parallelism().map_or(2, std::num::NonZero::get);
        // Those that wait for bytes of other nodes use no processor.
        let turns_max = processors * 32;
        let free = Arc::new(Semaphore::new(MEMORY_MEBIBYTES as usize));
        let memory = Memory { free, runtime: Handle::current() };
        Self {
            turns: Semaphore::new(turns_max),
            turns_max,
            memory,
            hot,
            opened: OpenImages::default(),
            served: Default::default(),
        }
    }

    /// What it has done, and has to do.
    pub(super) fn status(&self) -> CutterStatus {
        CutterStatus {
            cutouts_by_level: StorageLevel::ALL.map(|level| self.served_from(level).load(Ordering::Relaxed)),
            under_way: self.turns_max.saturating_sub(self.turns.available_permits()),
            turns: self.turns_max,
            hot: self.hot.as_ref().map(HotImages::status).unwrap_or_default(),
        }
    }

    /// A cutout was made of this.
    pub(super) fn count(&self, level: StorageLevel) {
        self.served_from(level).fetch_add(1, Ordering::Relaxed);
    }

    fn served_from(&self, level: StorageLevel) -> &AtomicU64 {
        &self.served[usize::from(level.number()) - 1]
    }

    /// The cutout; `None` if the image and what is asked for have nothing in common. An image that is open is cut at once.
    /// Meanwhile the master is asked whether it is still what the path has, and whether the caller may read it.
    pub(super) async fn cut(&self, client: &Client, order: CutOrder) -> Result<Option<Cut>, Fault> {
        let path = path_of(&order.path)?;
        let known = self.opened.find(client.user(), &path);
        let cut = match known {
            None => self.cut_open(self.open_new(client, &path).await?, order).await,
            Some(known) => {
                let cutting = self.cut_open(known.clone(), order.clone());
                let (checked, cut) = tokio::join!(client.reopen(&known.file), cutting);
                match checked.map_err(|error| of_client(&error))? {
                    None => cut,
                    Some(file) => self.cut_open(self.opened.add(client.user(), &path, file), order).await,
                }
            }
        };
        if let Ok(Some(cut)) = &cut {
            self.count(cut.level);
        }
        cut
    }

    async fn cut_open(&self, image: OpenImage, order: CutOrder) -> Result<Option<Cut>, Fault> {
        let (source, facts) = self.source_of(image);
        let (memory, read) = (self.memory.clone(), source.clone());
        let cut = self.in_turn(move || match cut_waiting(source, &facts, &order, &memory) {
            Ok(cut) => Ok(Some(cut)),
            Err(ImageError::NoOverlap(_)) => Ok(None),
            Err(error) => Err(of_image(&order.path, &error)),
        });
        let cut = cut.await;
        read.end();
        cut
    }

    /// The rows of a file, as an index would have them.
    pub(super) async fn describe(&self, client: &Client, path: &str) -> Result<Vec<ImageRow>, Fault> {
        let (source, facts) = self.open(client, path).await?;
        let path = path.to_owned();
        self.in_turn(move || {
            let opened = ImageFile::open(source);
            Ok(describe(&mut opened.map_err(|error| of_image(&path, &error))?, &facts))
        })
        .await
    }

    /// The image with the caller's rights, and what the cloud knows of it.
    pub(super) async fn open(&self, client: &Client, path: &str) -> Result<(ImageSource, FileFacts), Fault> {
        let path = path_of(path)?;
        let image = match self.opened.find(client.user(), &path) {
            None => self.open_new(client, &path).await?,
            Some(known) => match client.reopen(&known.file).await.map_err(|error| of_client(&error))? {
                None => known,
                Some(file) => self.opened.add(client.user(), &path, file),
            },
        };
        Ok(self.source_of(image))
    }

    async fn open_new(&self, client: &Client, path: &SectorPath) -> Result<OpenImage, Fault> {
        let file = client.open(path).await.map_err(|error| of_client(&error))?;
        Ok(self.opened.add(client.user(), path, file))
    }

    fn source_of(&self, image: OpenImage) -> (ImageSource, FileFacts) {
        let facts = facts(&image.file);
        (ImageSource::new(image, &facts.content, self.hot.as_ref()), facts)
    }

    /// A turn to cut, until it is dropped.
    pub(super) async fn turn(&self) -> Option<SemaphorePermit<'_>> {
        // The semaphore is never closed.
        self.turns.acquire().await.ok()
    }

    async fn in_turn<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> Result<T, Fault> + Send + 'static,
    ) -> Result<T, Fault> {
        let _turn = self.turn().await;
        spawn_blocking(work).await.map_err(|error| Fault::Failed(format!("the cutting thread ended: {error}")))?
    }
}

fn path_of(text: &str) -> Result<SectorPath, Fault> {
    SectorPath::parse(text).map_err(|error| Fault::NotFound(error.to_string()))
}

fn facts(file: &FileReader) -> FileFacts {
    let entry = file.entry();
    let content = match &entry.kind {
        EntryKind::File(content) => content.digest.to_string(),
        EntryKind::Folder => String::new(),
    };
    FileFacts { path: entry.path.to_string(), content, bytes: file.bytes() }
}

fn cut_waiting(source: ImageSource, facts: &FileFacts, order: &CutOrder, memory: &Memory) -> Result<Cut, ImageError> {
    // All of such a file is inflated before anything is known of it.
    let is_gzip = facts.path.ends_with(".gz");
    let _inflated = is_gzip.then(|| memory.take(facts.bytes.saturating_mul(GZIP_GROWTH)));
    let mut file = ImageFile::open(source.clone())?;
    let mut cut = Cutout::find(&mut file, &order.selection)?;
    let rows = match (order.band, order.time) {
        (None, None) => Vec::new(),
        _ => describe(&mut file, facts),
    };
    if let Some(band) = order.band {
        cut.take_planes(&file, |keywords, shape| {
            let planes = spectral_planes(keywords, shape, (band.low, band.high))?;
            if planes.is_none() {
                // An image without such an axis has all of its wavelengths or none.
                check_overlap(&rows, "wavelengths", band, |row| row.em_min.zip(row.em_max))?;
            }
            Ok(planes)
        })?;
    }
    if let Some(time) = order.time {
        check_overlap(&rows, "times", time, |row| row.t_min.map(|begin| (begin, row.t_max.unwrap_or(begin))))?;
    }
    if !order.polarisations.is_empty() {
        let wanted: Vec<_> = order.polarisations.iter().map(String::as_str).collect();
        cut.take_planes(&file, |keywords, shape| match polarisation_planes(keywords, shape, &wanted)? {
            Some(planes) => Ok(Some(planes)),
            None => Err(ImageError::Usage("the image says nothing of polarisations".into())),
        })?;
    }
    // The pixels, and what is made of them. Whoever holds memory already never waits for more.
    let _pixels = (!is_gzip).then(|| memory.take(bytes_of(&file, &cut).saturating_mul(2)));
    let bytes = match order.format {
        CutFormat::Fits => {
            let selection = order.selection.to_string();
            cut.fits(&mut file, &Provenance { path: facts.path.clone(), content: facts.content.clone(), selection })?
        }
        CutFormat::Png => picture(&mut file, &cut, PictureFormat::Png)?,
        CutFormat::Jpeg => picture(&mut file, &cut, PictureFormat::Jpeg)?,
    };
    Ok(Cut { bytes, name: name(&facts.path, order.format), level: source.level() })
}

/// Bytes of the pixels of a cutout.
fn bytes_of(file: &ImageFile<'_>, cut: &Cutout) -> u64 {
    let of_part = |(hdu, part): &(usize, PixelBox)| {
        let image = file.images().iter().find(|image| image.hdu == *hdu);
        let bytes = image.map_or(8, |image| image.bitpix.unsigned_abs() / 8);
        part.shape().into_iter().fold(bytes, u64::saturating_mul)
    };
    cut.parts.iter().map(of_part).fold(0, u64::saturating_add)
}

/// Refuses an image that lies elsewhere, or that does not say where it lies.
fn check_overlap(
    rows: &[ImageRow],
    what: &str,
    asked: Interval,
    range: impl Fn(&ImageRow) -> Option<(f64, f64)>,
) -> Result<(), ImageError> {
    let mut known = rows.iter().filter_map(range).peekable();
    if known.peek().is_none() {
        return Err(ImageError::Usage(format!("the image says nothing of its {what}")));
    }
    if known.any(|(low, high)| asked.overlaps(low, high)) {
        return Ok(());
    }
    Err(ImageError::NoOverlap(format!("the {what} {asked}")))
}

/// The first part, the first plane of it where it is a cube.
fn picture(file: &mut ImageFile<'_>, cut: &Cutout, format: PictureFormat) -> Result<Vec<u8>, ImageError> {
    let Some((hdu, part)) = cut.parts.first() else { return Err(ImageError::NoImage("at all".into())) };
    let mut axes = part.axes().to_vec();
    axes.iter_mut().skip(2).for_each(|(first, last)| *last = *first);
    let part = PixelBox::new(axes)?;
    let values = file.values(*hdu, &part)?;
    let shape = part.shape();
    let side = |axis: usize| shape.get(axis).copied().unwrap_or(1);
    preview::picture(&values, (side(0), side(1)), preview::Rendering::default(), format)
}

/// A name for the cutout of a file, without anything that a header of HTTP cannot have.
fn name(path: &str, format: CutFormat) -> String {
    let name = path.rsplit('/').next().unwrap_or(path);
    let stem =
        [".gz", ".fz", ".fits", ".fit", ".fts"].iter().fold(name, |name, end| name.strip_suffix(end).unwrap_or(name));
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
    let stem: String = stem.chars().map(|c| if is_plain(c) { c } else { '_' }).collect();
    format!("{stem}-cutout.{}", format.ending())
}

/// Memory for all cutouts at once.
const MEMORY_MEBIBYTES: u32 = 2_048;
/// What an image that is inflated as a whole takes, with its cutout, beside its file: images rarely shrink more.
const GZIP_GROWTH: u64 = 16;
