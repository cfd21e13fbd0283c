//! Terasort beside other engines, over the same records. Each output is checked for count, order and sum.

use std::{cell::Cell, path::Path};

use crate::{
    cloud::Cloud,
    compare::{
        Plan,
        engines::{Engines, all_missing},
        hadoop::Hadoop,
        install::Tools,
        report::{Missing, Peer, Report, Table, Unit},
        sorted_check::Contents,
        turns::{Contender, take_turns},
    },
    input::remove,
    sort, terasort,
};

/// Measures.
pub(crate) fn compare(plan: &Plan, tools: &Tools) -> Result<Report, String> {
    let (folder, megabytes) = (plan.folder.as_path(), plan.megabytes);
    let cloud = Cloud::start(folder)?;
    let input = folder.join("input");
    terasort::generate(&cloud, megabytes, "/gen", &input)?;
    let contents = Contents::of(&input)?;
    let engines = Engines::install(tools, folder);
    let hadoop = if plan.wants("Hadoop") { Some(Hadoop::start(tools, folder)) } else { None };
    let round = Cell::new(0);
    let mut entrants = Entrants { plan, contents, contenders: Vec::new(), peers: Vec::new(), missing: Vec::new() };
    let ours = || {
        round.set(round.get() + 1);
        cloud.sector(&["oct", "terasort", "sort", "-q", "/gen", &format!("/sorted-{}", round.get())]).map(drop)
    };
    let ours_checked = || {
        let (sorted, fetched) = (format!("/sorted-{}", round.get()), folder.join("fetched"));
        cloud.sector(&["get", "-q", "-r", &sorted, &fetched.to_string_lossy()])?;
        contents.check_sorted(&fetched)?;
        remove(&fetched)?;
        cloud.sector(&["rm", "-r", "--now", &sorted]).map(drop)
    };
    entrants.contenders.push(Contender { name: OURS, work: Box::new(ours), check: Box::new(ours_checked) });
    entrants.peers.push(Peer { name: OURS, version: cloud.version(), note: OUR_NOTE });
    let yardstick = Peer { name: "two-thread radix sort", version: "of `bench/src/sort.rs`".into(), note: SORT_NOTE };
    entrants.add(yardstick, sort::sort_file);

    match &engines {
        Ok(engines) => entrants.add_engines(engines, tools),
        Err(why) => entrants.missing.extend(all_missing(ENGINES, why)),
    }
    match &hadoop {
        Some(Ok(hadoop)) => match hadoop.files(&["-put", &input.to_string_lossy(), "/input"]) {
            Ok(()) => entrants.add_hadoop(hadoop),
            Err(why) => entrants.missing.extend(all_missing(&["Hadoop"], &why)),
        },
        Some(Err(why)) => entrants.missing.extend(all_missing(&["Hadoop"], why)),
        None => {}
    }

    let Entrants { contenders, peers, missing, .. } = entrants;
    let (rows, failed) = take_turns(&contenders, plan.rounds, || plan.prepare())?;
    let paragraph = format!(
        "{} records of 100 bytes ({megabytes} MB) with keys of 10 bytes, made by `sector oct terasort gen`, are sorted.\n\
         Each system is given the same bytes, and writes all of them. Process starts count, those of daemons that stay do not.\n\
         After each turn the output is checked: as many records, in order, and the same sum over all.\n\
         The input has just been written or read, so it is in the system's cache (warm).",
        contents.records
    );
    let unit = Unit::Seconds(megabytes as f64, "MB/s");
    Ok(Report {
        what: "terasort",
        title: "Terasort, side by side",
        paragraphs: vec![paragraph],
        tables: vec![Table { title: format!("Sort of {megabytes} MB"), unit, rows }],
        peers,
        missing: [missing, failed].concat(),
        ..Report::default()
    })
}

/// Who takes part.
struct Entrants<'a> {
    plan: &'a Plan,
    contents: Contents,
    contenders: Vec<Contender<'a>>,
    peers: Vec<Peer>,
    missing: Vec<Missing>,
}

impl<'a> Entrants<'a> {
    /// A peer that sorts a file into a file or a folder of parts.
    fn add(&mut self, peer: Peer, sort: impl Fn(&Path, &Path) -> Result<(), String> + 'a) {
        let (folder, contents) = (&self.plan.folder, self.contents);
        let output = folder.join("sorted");
        let to = output.clone();
        let work = move || {
            remove(&to)?;
            sort(&folder.join("input"), &to)
        };
        let check = move || contents.check_sorted(&output).and_then(|()| remove(&output));
        self.contenders.push(Contender { name: peer.name, work: Box::new(work), check: Box::new(check) });
        self.peers.push(peer);
    }

    fn add_engines(&mut self, engines: &'a Engines, tools: &'a Tools) {
        for (name, package, script, note) in SCRIPTS {
            if self.plan.wants(name) {
                self.add(engines.peer(tools, name, package, note), move |input, output| {
                    engines.python(script, &[&input.to_string_lossy(), &output.to_string_lossy()])
                });
            }
        }
        if !self.plan.wants("Spark") {
            return;
        }
        match engines.spark_jar(tools, "SparkSort.java") {
            Ok(jar) => self.add(engines.peer(tools, "Spark", "pyspark", SPARK_NOTE), move |input, output| {
                let words = [jar.as_path(), input, output].map(Path::to_string_lossy);
                engines.spark(&["--class", "SparkSort", &words[0], &words[1], &words[2]])
            }),
            Err(reason) => self.missing.push(Missing { name: "Spark".into(), reason }),
        }
    }

    fn add_hadoop(&mut self, hadoop: &'a Hadoop) {
        let (folder, contents) = (&self.plan.folder, self.contents);
        let reduces = format!("mapreduce.job.reduces={}", (self.plan.megabytes / 500).clamp(2, 8));
        let work =
            move || hadoop.run("org.apache.hadoop.examples.terasort.TeraSort", &[&reduces], &["/input", "/sorted"]);
        let check = move || {
            let fetched = folder.join("fetched-hadoop");
            hadoop.files(&["-get", "/sorted", &fetched.to_string_lossy()])?;
            contents.check_sorted(&fetched)?;
            remove(&fetched)?;
            hadoop.files(&["-rm", "-r", "-skipTrash", "/sorted"])
        };
        self.contenders.push(Contender { name: "Hadoop", work: Box::new(work), check: Box::new(check) });
        self.peers.push(Peer { name: "Hadoop", version: hadoop.version(), note: HADOOP_NOTE });
    }
}

const OURS: &str = "Sector";
const OUR_NOTE: &str = "Four nodes, a process each. Records move between them over TLS, messages are sealed, and blocks are \
    checked when read. The output has one copy, and is synced.";
const SORT_NOTE: &str = "One process over one mapped file. It has no checksums, no network, no copies, and does not sync: \
    what the machine can do.";
const ENGINES: &[&str] = &["DuckDB", "Polars", "Dask", "Ray", "Spark"];
/// Name, package, script, note.
const SCRIPTS: &[(&str, &str, &str, &str)] = &[
    (
        "DuckDB",
        "duckdb",
        "duckdb_sort.py",
        "One process with two threads: `order by` over Arrow batches. It is no cluster, encrypts nothing, and does not sync.",
    ),
    (
        "Polars",
        "polars",
        "polars_sort.py",
        "One process with two threads, all in memory. It is no cluster, encrypts nothing, and does not sync.",
    ),
    (
        "Dask",
        "dask",
        "dask_sort.py",
        "Two processes: `sort_values` of a data frame. Parts move between processes in plain text. It does not sync, and \
         has no copies.",
    ),
    (
        "Ray",
        "ray",
        "ray_sort.py",
        "Two stages of tasks with NumPy, over the store in shared memory. It does not encrypt, sync or copy. Its start \
         takes some seconds.",
    ),
];
const SPARK_NOTE: &str = "One process with two threads (`local[*]`): a Dataset of binary records. It does not encrypt, sync or \
    copy. The JVM's start counts.";
const HADOOP_NOTE: &str = "TeraSort of its examples on YARN and HDFS, with three DataNodes and one copy. Nothing is encrypted \
    or synced. The JVM's start counts.";
