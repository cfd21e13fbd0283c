//! `sector images bench`: cutouts of 100 x 100 pixels from images as those of the AstroPortal report (3.1). They are
//! measured one after another, many at once over one connection pool, and in a job. Images and results are its own, and
//! go when it ends. It never reads a user's image.

use std::{
    path::Path,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use astroportal::tuples::{Tuple, TupleGroup};
use client::{Client, Entry, SectorPath};
use fits::{Cutout, ImageError, ImageFile, Provenance, Selection};
use serde::Serialize;
use terminal::{Failure, Global, show};
use tokio::task::{JoinSet, spawn_blocking};

use crate::{
    archive::Archive,
    arguments::Bench,
    cloud_source::CloudSource,
    job_library::JobLibrary,
    made_images::{self, HEIGHT, WIDTH},
    node_cutter::NodeCutter,
};

/// `sector images bench`.
pub(crate) async fn run(cloud: &Client, arguments: &Bench, global: &Global) -> Result<(), Failure> {
    let folder = SectorPath::parse(&format!("/.images-bench-{}", std::process::id()))?;
    let archive = std::env::temp_dir().join(format!("sector-images-bench-{}.tar", std::process::id()));
    let measured = tokio::select! {
        measured = measure(cloud, &folder, &archive, arguments, global) => measured,
        // The command as a whole listens for it too; here the images must be removed first.
        signal = terminal::interrupted() => Err(signal.failure("interrupted")),
    };
    let removed = match cloud.find(&folder).await {
        Ok(Some(_)) => cloud.remove_now(&folder, true).await,
        _ => Ok(()),
    };
    // If it was not made, there is nothing to remove.
    let _ = std::fs::remove_file(&archive);
    let figures = measured?;
    removed?;
    print(&figures, global)
}

/// What was measured (contract: `--json`).
#[derive(Debug, Serialize)]
struct Figure {
    what: &'static str,
    cutouts: u64,
    at_once: u32,
    per_s: f64,
    p50_ms: Option<f64>,
    p99_ms: Option<f64>,
}

fn print(figures: &[Figure], global: &Global) -> Result<(), Failure> {
    if global.json {
        return show::json(&figures);
    }
    let ms = |ms: Option<f64>| ms.map_or("-".into(), |ms| format!("{ms:.3} ms"));
    let row = |figure: &Figure| {
        let Figure { what, cutouts, at_once, per_s, p50_ms, p99_ms } = figure;
        vec![
            (*what).to_owned(),
            cutouts.to_string(),
            at_once.to_string(),
            format!("{per_s:.0}"),
            ms(*p50_ms),
            ms(*p99_ms),
        ]
    };
    let head = ["cutouts of 100 x 100 pixels", " number", " at once", " per second", " median", " 99 %"];
    show::table(&head, &figures.iter().map(row).collect::<Vec<_>>());
    Ok(())
}

async fn measure(
    cloud: &Client,
    folder: &SectorPath,
    archive: &Path,
    arguments: &Bench,
    global: &Global,
) -> Result<Vec<Figure>, Failure> {
    let Bench { images, cutouts, tasks } = *arguments;
    let mut figures = Vec::new();
    for (is_rice, alone, together) in [
        (false, "plain, one after another", "plain, many at once"),
        (true, "RICE_1, one after another", "RICE_1, many at once"),
    ] {
        let paths = made_images::make(cloud, folder, images, is_rice).await?;
        let files = Arc::new(Files::open(cloud, &paths).await?);
        // The first reads are of the disk; what is measured is a client at work.
        files.cut_many("warm", u64::from(images) * WARM_CUTOUTS, tasks).await?;
        figures.push(files.cut_many(alone, (cutouts / 10).max(1), 1).await?);
        figures.push(files.cut_many(together, cutouts, tasks).await?);
    }
    let inputs = cloud.expand(&format!("{folder}/plain-*")).await?;
    figures.push(by_job(cloud, inputs, archive, cutouts, global).await?);
    Ok(figures)
}

/// Open images, and places to cut that follow from a number alone.
struct Files {
    files: Vec<Mutex<ImageFile<'static>>>,
}

impl Files {
    async fn open(cloud: &Client, paths: &[SectorPath]) -> Result<Self, Failure> {
        let mut files = Vec::new();
        for path in paths {
            let source = CloudSource::new(cloud.open(path).await?);
            let opened = spawn_blocking(move || ImageFile::open(source));
            let opened = opened.await.map_err(|error| Failure::failed(error.to_string()))?;
            files.push(Mutex::new(opened.map_err(|error| Failure::failed(format!("`{path}`: {error}")))?));
        }
        Ok(Self { files })
    }

    /// Makes cutouts in so many threads, and measures each.
    async fn cut_many(self: &Arc<Self>, what: &'static str, cutouts: u64, tasks: u32) -> Result<Figure, Failure> {
        let next = Arc::new(AtomicU64::new(0));
        let begun = Instant::now();
        let mut cutting = JoinSet::new();
        for _ in 0..tasks {
            let (files, next) = (Arc::clone(self), Arc::clone(&next));
            cutting.spawn_blocking(move || {
                let mut times = Vec::new();
                loop {
                    let number = next.fetch_add(1, Ordering::Relaxed);
                    if number >= cutouts {
                        return Ok(times);
                    }
                    let begun = Instant::now();
                    files.cut(number)?;
                    times.push(begun.elapsed());
                }
            });
        }
        let mut times: Vec<Duration> = Vec::new();
        while let Some(cut) = cutting.join_next().await {
            let cut: Result<Vec<Duration>, ImageError> = cut.map_err(|error| Failure::failed(error.to_string()))?;
            times.extend(cut.map_err(|error| Failure::failed(error.to_string()))?);
        }
        let seconds = begun.elapsed().as_secs_f64();
        times.sort();
        let at = |share: f64| times.get((times.len() as f64 * share) as usize).map(|time| time.as_secs_f64() * 1_000.0);
        Ok(Figure { what, cutouts, at_once: tasks, per_s: cutouts as f64 / seconds, p50_ms: at(0.5), p99_ms: at(0.99) })
    }

    fn cut(&self, number: u64) -> Result<(), ImageError> {
        let file = &self.files[(number % self.files.len() as u64) as usize];
        let mut file = file.lock().unwrap_or_else(PoisonError::into_inner);
        let provenance = Provenance { path: "/bench".into(), ..Provenance::default() };
        let content = Cutout::find(&mut file, &place(number))?.fits(&mut file, &provenance)?;
        if content.len() < PIXELS as usize * PIXELS as usize * 2 {
            return Err(ImageError::Usage("a cutout came short".into()));
        }
        Ok(())
    }
}

/// The place of a cutout: the numbers spread over the image.
fn place(number: u64) -> Selection {
    let x = number.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
    let y = number.wrapping_mul(0xbf58_476d_1ce4_e5b9) >> 32;
    let within = |value: u64, pixels: u32| PIXELS / 2 + 1 + value % (u64::from(pixels) - PIXELS - 1);
    let centre = (within(x, WIDTH) as f64, within(y, HEIGHT) as f64);
    Selection::Pixels { extension: None, centre, size: (PIXELS, PIXELS) }
}

/// One job over all images, into an archive on this machine.
async fn by_job(
    cloud: &Client,
    inputs: Vec<Entry>,
    archive: &Path,
    cutouts: u64,
    global: &Global,
) -> Result<Figure, Failure> {
    let cutter = NodeCutter { cloud, library: JobLibrary::load()?, folder: SectorPath::root(), global };
    let images = inputs.len() as u64;
    let group = |(at, entry): (u64, &Entry)| {
        let tuple = |number: u64| Tuple {
            number: number + 1,
            path: entry.path.to_string(),
            selection: place(number),
            name: format!("{number:07}.fits"),
        };
        TupleGroup { content: String::new(), tuples: (at..cutouts).step_by(images as usize).map(tuple).collect() }
    };
    let groups: Vec<_> = (0..).zip(&inputs).map(group).collect();
    let begun = Instant::now();
    let open = Archive::open(archive, "bench", 0)?;
    let made = cutter.cut(inputs, groups, open, "bench").await?;
    if made.counts() != (cutouts, 0) {
        return Err(Failure::failed("the job made fewer cutouts than it was asked for"));
    }
    made.finish()?;
    let per_s = cutouts as f64 / begun.elapsed().as_secs_f64();
    Ok(Figure { what: "plain, one job, into an archive", cutouts, at_once: 1, per_s, p50_ms: None, p99_ms: None })
}

/// Sides of a cutout, as in the AstroPortal report (3.1).
const PIXELS: u64 = 100;
/// Cutouts of each image before it is measured.
const WARM_CUTOUTS: u64 = 20;
