//! Measures how fast slices are written here, compared with the disk itself. Run it with `cargo run --release -p
//! sector-store --example write_throughput FOLDER [MB]`. First one large slice in 1 MiB writes is compared with a plain
//! write with the same sync. Then many small slices from 16 threads are compared with as many plain files with one sync
//! each.

use std::{
    collections::BTreeMap,
    error::Error,
    fs::{self, File},
    io::Write,
    path::{Path, PathBuf},
    sync::Arc,
    thread,
    time::Instant,
};

use protocol::{RecordFraming, SectorPath, SliceHeader, SliceId, UserName, Version};
use store::{OsDisk, SliceHasher, SliceStore};

type Outcome<T> = Result<T, Box<dyn Error + Send + Sync>>;

fn main() -> Outcome<()> {
    let mut arguments = std::env::args().skip(1);
    let folder = PathBuf::from(arguments.next().ok_or("name a folder on the disk to measure")?);
    let megabytes: u64 = arguments.next().map_or(Ok(1000), |text| text.parse())?;
    fs::create_dir_all(&folder)?;
    let data_folder = folder.join("data");
    let (store, _) = SliceStore::open(Arc::new(OsDisk), &data_folder)?;
    let chunk: Vec<u8> = std::iter::repeat_with({
        let mut rng = fastrand::Rng::with_seed(1);
        move || rng.u8(..)
    })
    .take(1 << 20)
    .collect();
    let begun = Instant::now();
    let mut hasher = SliceHasher::new();
    (0..megabytes).for_each(|_| hasher.update(&chunk));
    hasher.finish();
    report("hashing alone", megabytes, begun);
    for round in 0..3 {
        let plain = folder.join("plain");
        let begun = Instant::now();
        let mut file = File::create(&plain)?;
        (0..megabytes).try_for_each(|_| file.write_all(&chunk))?;
        file.sync_data()?;
        report("plain file, synced", megabytes, begun);
        fs::remove_file(&plain)?;
        let begun = Instant::now();
        let mut writer = store.begin(header(round)?)?;
        for _ in 0..megabytes {
            writer.write(&chunk)?;
        }
        let arrived = begun.elapsed();
        writer.finish(None)?;
        report("slice, staged", megabytes, begun);
        println!("  of which the last sync took {:.2} s", (begun.elapsed() - arrived).as_secs_f64());
        let begun = Instant::now();
        store.open_slice(SliceId(round))?.verify(0, u64::MAX)?;
        report("slice, verified from the cache", megabytes, begun);
        store.remove(SliceId(round))?;
    }
    small(&store, &folder, &chunk[..10_000])?;
    drop(store);
    fs::remove_dir_all(&data_folder)?;
    Ok(())
}

fn small(store: &Arc<SliceStore>, folder: &Path, content: &[u8]) -> Outcome<()> {
    let plain = folder.join("plain");
    fs::create_dir_all(&plain)?;
    let begun = Instant::now();
    on_threads(|number| {
        let mut file = File::create(plain.join(number.to_string()))?;
        file.write_all(content)?;
        Ok(file.sync_all()?)
    })?;
    println!("{SMALL_FILES} plain files of 10 kB, each synced: {:.0} a second", per_second(begun));
    let begun = Instant::now();
    on_threads(|number| {
        let mut writer = store.begin(header(1000 + u128::from(number))?)?;
        writer.write(content)?;
        writer.finish(None)?;
        Ok(())
    })?;
    println!("{SMALL_FILES} slices of 10 kB, each staged: {:.0} a second", per_second(begun));
    let begun = Instant::now();
    on_threads(|number| {
        let path = SectorPath::parse(&format!("/small/{number}"))?;
        Ok(store.place(&SliceHeader { path, ..header(1000 + u128::from(number))? })?)
    })?;
    println!("{SMALL_FILES} slices given another path: {:.0} a second", per_second(begun));
    fs::remove_dir_all(&plain)?;
    Ok(())
}

fn on_threads(one: impl Fn(u64) -> Outcome<()> + Sync) -> Outcome<()> {
    thread::scope(|scope| {
        let run = |thread| (0..SMALL_FILES).skip(thread).step_by(THREADS).try_for_each(&one);
        let threads: Vec<_> = (0..THREADS).map(|thread| scope.spawn(move || run(thread))).collect();
        threads.into_iter().try_for_each(|thread| thread.join().map_err(|_| "a thread panicked")?)
    })
}

fn header(slice: u128) -> Outcome<SliceHeader> {
    Ok(SliceHeader {
        slice: SliceId(slice),
        path: SectorPath::parse("/measured")?,
        version: Version(1),
        owner: UserName::new("bench")?,
        modified_unix_millis: 0,
        copies: 1,
        records: RecordFraming::File,
        user: BTreeMap::new(),
        journal: protocol::JournalId(1),
        acl: None,
    })
}

fn report(what: &str, megabytes: u64, begun: Instant) {
    let seconds = begun.elapsed().as_secs_f64();
    println!("{what}: {seconds:.2} s, {:.0} MiB/s", megabytes as f64 / seconds);
}

fn per_second(begun: Instant) -> f64 {
    SMALL_FILES as f64 / begun.elapsed().as_secs_f64()
}

const THREADS: usize = 16;
const SMALL_FILES: u64 = 2000;
