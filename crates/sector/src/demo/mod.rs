//! `sector demo`: the tour. It starts a cloud, uploads real text, and runs the paper's inverted index (3.6) and its
//! sort (Figure 3). Each is compared with a plain way of doing the same, and a table is printed at the end. A result
//! that does not verify never passes: it ends the tour.

mod input;
mod inverted_index;

use std::{
    path::PathBuf,
    time::{Duration, Instant},
};

use client::{Client, Profile, PutOptions, SectorPath, tree::UploadPlan};
use protocol::Reason;
use terminal::{failure::Failure, show};

use crate::{
    arguments::{Demo, Global},
    cloud::{CloudShape, CloudSpec, Layout, embedded::Embedded, wait_for_nodes},
    command::files,
};

/// `sector demo`.
pub(crate) async fn run(demo: Demo, global: &Global) -> Result<(), Failure> {
    let folder = Profile::home()?.join(format!("demo-{}", std::process::id()));
    let text = SectorPath::parse("/text")?;
    // Errors in the input are reported before anything starts.
    let pages = folder.with_extension("manual");
    let result = match input::uploads(demo.input.as_deref(), &pages, &text) {
        Ok(uploads) => tokio::select! {
            result = tour(&demo, folder.clone(), uploads, global) => result,
            signal = terminal::interrupted() => Err(signal.failure("interrupted")),
        },
        Err(failure) => Err(failure),
    };
    let _ = std::fs::remove_dir_all(&pages);
    if !demo.keep || result.is_err() {
        let _ = std::fs::remove_dir_all(&folder);
    }
    let steps = result?;
    finish(&steps, &demo, &folder, global)
}

/// Brings the cloud up, walks, and takes it down.
async fn tour(demo: &Demo, folder: PathBuf, uploads: UploadPlan, global: &Global) -> Result<Vec<Step>, Failure> {
    check_room(&folder, uploads.bytes(), demo.records)?;
    say(global, "a cloud of 4 nodes in 2 sites, in this process");
    let layout = Layout::prepare(folder, CloudShape::Given(CloudSpec::on_loopback(4, 2)))?;
    let cloud = Embedded::start(&layout).await?;
    let client = Client::connect(&layout.profile(cloud.address())?).await?;
    wait_for_nodes(&client, layout.spec.nodes.len() as u32).await?;
    let result = walk(&client, demo, uploads, global).await;
    client.logout().await;
    cloud.stop().await;
    result
}

/// The steps in order.
async fn walk(cloud: &Client, demo: &Demo, uploads: UploadPlan, global: &Global) -> Result<Vec<Step>, Failure> {
    let mut steps = Vec::new();
    let text = SectorPath::parse("/text")?;
    let local: Vec<_> = uploads.files().iter().map(|upload| (upload.file.clone(), upload.to.clone())).collect();
    let bytes = uploads.bytes();
    let files = uploads.files().len();

    say(global, &format!("{files} files of text go in, two copies each, one in each site"));
    let options = PutOptions { copies: Some(2), sync_copies: Some(1), parents: true, ..PutOptions::default() };
    let begun = Instant::now();
    files::upload_all(cloud, uploads, &options, "put", global).await?;
    let took = begun.elapsed();
    let usage = cloud.usage(&text).await?;
    let same = usage.files == files as u64 && usage.bytes == bytes;
    steps.push(Step::new(format!("put {files} files"), bytes, took, verified(same, "names and lengths agree")?));

    say(global, "an inverted index of them: word to files, in two stages over 8 buckets");
    let index = SectorPath::parse("/index")?;
    let begun = Instant::now();
    let outcome = inverted_index::build(cloud, &text, &index, global).await?;
    let took = begun.elapsed();
    let (in_place, segments) =
        outcome.record.stages.iter().fold((0, 0), |(local, all), stage| (local + stage.local, all + stage.segments));
    say(global, "the same by one thread that reads the local files, to compare");
    let (found, expected) = inverted_index::compare(cloud, &index, local).await?;
    let share = 100 * in_place / segments.max(1);
    let what =
        format!("{} words, {} pairs, as counted; {share} % done where they lie", expected.words, expected.postings);
    steps.push(Step::new("inverted index".into(), bytes, took, verified(found == expected, &what)?));

    say(global, &format!("{} records of 100 bytes are made, sorted and checked", demo.records));
    let (made, sorted) = (SectorPath::parse("/gen")?, SectorPath::parse("/sorted")?);
    let record_bytes = demo.records * functions::terasort::RECORD_BYTES as u64;
    let begun = Instant::now();
    terasort::generate(cloud, demo.records, None, 1, &made, global).await?;
    let took = begun.elapsed();
    let before = terasort::validate(cloud, made.as_str(), global).await?;
    steps.push(Step::new(
        "terasort gen".into(),
        record_bytes,
        took,
        verified(before.records == demo.records, "number of records")?,
    ));

    let begun = Instant::now();
    terasort::sort(cloud, made.as_str(), &sorted, None, global).await?;
    let took = begun.elapsed();
    let begun = Instant::now();
    let after = terasort::validate(cloud, sorted.as_str(), global).await?;
    let validation = begun.elapsed();
    let same = (after.records, after.checksum) == (before.records, before.checksum);
    let what = format!("order, also over files; checksum {:016x}", after.checksum);
    steps.push(Step::new("terasort sort".into(), record_bytes, took, verified(same && after.sorted, &what)?));
    steps.push(Step::new("terasort validate".into(), record_bytes, validation, "-".into()));
    Ok(steps)
}

/// One row of the table.
struct Step {
    what: String,
    bytes: u64,
    took: Duration,
    verified: String,
}

impl Step {
    fn new(what: String, bytes: u64, took: Duration, verified: String) -> Self {
        Self { what, bytes, took, verified }
    }

    fn row(&self) -> Vec<String> {
        let seconds = self.took.as_secs_f64();
        let rate = self.bytes as f64 / 1e6 / seconds.max(1e-9);
        vec![
            self.what.clone(),
            self.bytes.to_string(),
            format!("{seconds:.2}"),
            format!("{rate:.0}"),
            self.verified.clone(),
        ]
    }
}

/// A result that does not verify ends the tour.
fn verified(holds: bool, what: &str) -> Result<String, Failure> {
    if holds {
        return Ok(format!("yes: {what}"));
    }
    Err(Failure::new(Reason::Corrupt, format!("the tour's answer is wrong ({what}); please report this")))
}

/// The table, and what to type next.
fn finish(steps: &[Step], demo: &Demo, folder: &std::path::Path, global: &Global) -> Result<(), Failure> {
    let head = ["what", " bytes", " seconds", " MB/s", "verified"];
    if global.json {
        let rows: Vec<_> = steps
            .iter()
            .map(|step| {
                let (what, bytes, seconds) = (&step.what, step.bytes, step.took.as_secs_f64());
                serde_json::json!({ "what": what, "bytes": bytes, "seconds": seconds, "verified": step.verified })
            })
            .collect();
        return show::json(&rows);
    }
    show::line("");
    show::table(&head, &steps.iter().map(Step::row).collect::<Vec<_>>());
    show::line("");
    if demo.keep {
        show::line(format!("kept; look around with: sector up --detach --data {}", folder.display()));
    } else {
        show::line("next: sector up --detach");
    }
    show::line("then: sector put -r FOLDER /mine; sector ls -l /mine; sector run --help; sector down");
    Ok(())
}

/// Refuses where the disk cannot hold the tour.
fn check_room(folder: &std::path::Path, text_bytes: u64, records: u64) -> Result<(), Failure> {
    // Text twice and its index; records as made, in buckets, and sorted, with scratch space beside each.
    let needed = 3 * text_bytes + 5 * records.saturating_mul(functions::terasort::RECORD_BYTES as u64) + (512 << 20);
    let parent = folder.parent().unwrap_or(folder);
    std::fs::create_dir_all(parent).map_err(|error| Failure::local("make the folder", parent, &error))?;
    let disk =
        rustix::fs::statvfs(parent).map_err(|error| Failure::local("look at the disk of", parent, &error.into()))?;
    let free = disk.f_bavail.saturating_mul(disk.f_frsize);
    if free >= needed {
        return Ok(());
    }
    let message = format!(
        "the tour needs about {} in `{}`, where {} are free; set SECTOR_HOME to a larger disk or ask for fewer --records",
        show::size(needed),
        parent.display(),
        show::size(free)
    );
    Err(Failure::new(Reason::Unavailable, message))
}

fn say(global: &Global, line: &str) {
    if !global.quiet && !global.json {
        terminal::say!("- {line}");
    }
}
