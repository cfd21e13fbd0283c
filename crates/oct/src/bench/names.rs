//! `sector oct bench names`: how many names per second the running cloud makes, finds, lists, renames and removes, and
//! how long each takes. It works in a folder of its own, which it removes when it ends or is interrupted. It never
//! touches other names.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use client::{Client, PutOptions, SectorPath};
use serde::Serialize;
use terminal::{Failure, Global, show};
use tokio::task::JoinSet;

use crate::arguments::BenchNames;

/// `sector oct bench`.
pub(crate) async fn names(cloud: &Client, names: &BenchNames, global: &Global) -> Result<(), Failure> {
    let folder = SectorPath::parse(&format!("/.bench-names-{}", std::process::id()))?;
    cloud.make_folder(&folder, false).await?;
    let measured = tokio::select! {
        measured = measure(cloud, &folder, names) => measured,
        // The command as a whole listens for it too; here the folder must be removed first.
        signal = terminal::interrupted() => Err(signal.failure("interrupted")),
    };
    let removed = cloud.remove_now(&folder, true).await;
    let figures = measured?;
    removed?;
    print(&figures, global)
}

/// Prints what was measured.
pub(super) fn print(figures: &[OperationFigure], global: &Global) -> Result<(), Failure> {
    if global.json {
        return show::json(&figures);
    }
    let row = |figure: &OperationFigure| {
        let rate = format!("{:.0}", figure.per_s);
        let (median, slow) = (show_us(figure.p50_us), show_us(figure.p99_us));
        vec![figure.operation.to_owned(), figure.count.to_string(), figure.tasks.to_string(), rate, median, slow]
    };
    let rows: Vec<_> = figures.iter().map(row).collect();
    show::table(&["operation", " count", " tasks", " per second", " median", " 99 %"], &rows);
    Ok(())
}

/// One operation's figures.
#[derive(Debug, Serialize)]
pub(super) struct OperationFigure {
    operation: &'static str,
    count: usize,
    tasks: usize,
    per_s: f64,
    p50_us: u64,
    p99_us: u64,
}

async fn measure(cloud: &Client, folder: &SectorPath, names: &BenchNames) -> Result<Vec<OperationFigure>, Failure> {
    let (files, tasks) = (names.files as usize, names.tasks as usize);
    let at = |kind: &str, number: usize| SectorPath::parse(&format!("{folder}/{kind}/{number:07}"));
    let paths = |kind: &str, count| (0..count).map(|number| at(kind, number)).collect::<Result<Vec<_>, _>>();
    let (listed, made, moved) = (folder.join("listed")?, folder.join("made")?, folder.join("moved")?);
    for folder in [&listed, &made, &moved] {
        cloud.make_folder(folder, false).await?;
    }
    let mut figures = Vec::new();

    // Real files, small ones: what is found and listed has everything that a file has.
    let real = paths("listed", LISTED_FILES)?;
    let put = |cloud: Client, path: SectorPath| async move {
        let options =
            PutOptions { bytes_expected: Some(1), copies: Some(1), sync_copies: Some(1), ..Default::default() };
        Ok(cloud.put(&b"x"[..], &path, &options, &|_| {}).await.map(drop)?)
    };
    figures.push(measure_each("put", cloud, tasks, &real, put).await?);

    let many: Vec<_> = real.iter().cycle().take(STATS_PER_NAME * files).cloned().collect();
    let stat = |cloud: Client, path: SectorPath| async move { Ok(cloud.stat(&path).await.map(drop)?) };
    figures.push(measure_each("stat", cloud, tasks, &many, stat).await?);

    let list = |cloud: Client, path: SectorPath| async move {
        let entries = cloud.list(&path).await?;
        if entries.len() == LISTED_FILES { Ok(()) } else { Err(Failure::failed("a listing lacks names")) }
    };
    figures.push(measure_each("list of 2,000", cloud, 1, &vec![listed; LISTINGS], list).await?);

    // A file's name appears only with its bytes; a folder is only a name, and just as durable.
    let new = paths("made", files)?;
    let make = |cloud: Client, path: SectorPath| async move { Ok(cloud.make_folder(&path, false).await?) };
    let changing = tasks * CHANGING_TASKS_FACTOR;
    figures.push(measure_each("create", cloud, changing, &new, make).await?);
    let rename = {
        let moved = moved.clone();
        move |cloud: Client, path: SectorPath| {
            let to = path.name().map_or_else(|| Ok(moved.clone()), |name| moved.join(name));
            async move { Ok(cloud.rename(&path, &to?).await?) }
        }
    };
    figures.push(measure_each("rename", cloud, changing, &new, rename).await?);
    let remove = |cloud: Client, path: SectorPath| async move { Ok(cloud.remove(&path, false).await?) };
    figures.push(measure_each("remove", cloud, changing, &paths("moved", files)?, remove).await?);
    Ok(figures)
}

/// Applies an operation to each item, mostly a path, with `of` (the cloud, or a file). It runs this many at a time
/// and measures each.
pub(super) async fn measure_each<Of, Item, Done>(
    operation: &'static str,
    of: &Of,
    tasks: usize,
    items: &[Item],
    what: impl Fn(Of, Item) -> Done + Clone + Send + 'static,
) -> Result<OperationFigure, Failure>
where
    Of: Clone + Send + 'static,
    Item: Clone + Send + Sync + 'static,
    Done: Future<Output = Result<(), Failure>> + Send + 'static,
{
    let (items, next): (Arc<[Item]>, _) = (items.into(), Arc::new(AtomicUsize::new(0)));
    let begun = Instant::now();
    let mut working = JoinSet::new();
    for _ in 0..tasks {
        let (of, items, next, what) = (of.clone(), Arc::clone(&items), Arc::clone(&next), what.clone());
        working.spawn(async move {
            let mut times = Vec::with_capacity(items.len() / tasks + 1);
            while let Some(item) = items.get(next.fetch_add(1, Ordering::Relaxed)) {
                let begun = Instant::now();
                what(of.clone(), item.clone()).await?;
                times.push(begun.elapsed());
            }
            Ok::<_, Failure>(times)
        });
    }
    let mut times: Vec<Duration> = Vec::with_capacity(items.len());
    while let Some(done) = working.join_next().await {
        let done = done.map_err(|error| Failure::failed(format!("a task of the measurement ended: {error}")))?;
        times.extend(done?);
    }
    let seconds = begun.elapsed().as_secs_f64();
    times.sort_unstable();
    let at = |share: f64| times.get((times.len() as f64 * share) as usize).map_or(0, |time| time.as_micros() as u64);
    let per_s = times.len() as f64 / seconds;
    Ok(OperationFigure { operation, count: times.len(), tasks, per_s, p50_us: at(0.5), p99_us: at(0.99) })
}

fn show_us(us: u64) -> String {
    format!("{:.2} ms", us as f64 / 1e3)
}

/// Files that are put, found and listed.
const LISTED_FILES: usize = 2_000;
/// A lookup is so fast that measuring it takes more of them.
const STATS_PER_NAME: usize = 10;
const LISTINGS: usize = 50;
/// Changes of names wait for the disk, and all that are in flight wait for the same sync. So more are in flight.
const CHANGING_TASKS_FACTOR: usize = 16;
