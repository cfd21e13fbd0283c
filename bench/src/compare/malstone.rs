//! MalStone-A and -B beside other engines, over the same log. Each answer is compared line by line.

use std::{cell::Cell, fs, path::Path};

use crate::{
    cloud::Cloud,
    compare::{
        Plan,
        engines::{Engines, all_missing},
        hadoop::Hadoop,
        install::Tools,
        report::{Peer, Report, Table, Unit},
        sorted_check::parts,
        turns::{Contender, take_turns},
    },
    input::remove,
    malstone, ratios,
};

/// Measures.
pub(crate) fn compare(plan: &Plan, tools: &Tools) -> Result<Report, String> {
    let folder = plan.folder.as_path();
    let records = plan.megabytes * 10_000;
    let cloud = Cloud::start(folder)?;
    let input = folder.join("log");
    cloud.sector(&["oct", "malgen", "--records", &records.to_string(), "/log"])?;
    cloud.join("/log", &input)?;
    let mut report = Report { what: "malstone", title: "MalStone, side by side", ..Report::default() };
    report.paragraphs = vec![format!(
        "{records} records of 101 bytes, made by `sector oct malgen`, as one text file for all but Sector and Hadoop.\n\
         A is one line for each site, B one for each site and week ([definition](../paths/malstone.md)).\n\
         Each system writes the lines, which are compared with the expected ones after each turn. Process starts count, \
         those of daemons that stay do not.\n\
         The log has just been written or read, so it is in the system's cache (warm)."
    )];
    let engines = Engines::install(tools, folder);
    if let Err(why) = &engines {
        report.missing.extend(all_missing(&["DuckDB", "Polars", "Dask", "Spark"], why));
    }
    let hadoop = if plan.wants("Hadoop") { Some(Hadoop::start(tools, folder)) } else { None };
    let hadoop = match hadoop.transpose().and_then(|hadoop| {
        if let Some(hadoop) = &hadoop {
            hadoop.files(&["-put", &input.to_string_lossy(), "/log"])?;
        }
        Ok(hadoop)
    }) {
        Ok(hadoop) => hadoop,
        Err(why) => {
            report.missing.extend(all_missing(&["Hadoop"], &why));
            None
        }
    };
    report.peers = peers(plan, tools, &cloud, engines.as_ref().ok(), hadoop.as_ref());
    for variant in ["a", "b"] {
        let expected = folder.join(format!("expected-{variant}"));
        ratios::count_file(&input, &expected, variant == "b")?;
        let answers = Answers { plan, variant, expected: &expected };
        let round = Cell::new(0);
        let mut contenders = vec![answers.ours(&cloud, &round), answers.yardstick()];
        contenders.extend(engines.iter().flat_map(|engines| answers.engines(engines)));
        contenders.extend(hadoop.iter().map(|hadoop| answers.hadoop(hadoop)));
        let (rows, failed) = take_turns(&contenders, plan.rounds, || plan.prepare())?;
        let title = format!("MalStone-{}, {} million records", variant.to_uppercase(), records as f64 / 1e6);
        report.missing.extend(failed.into_iter().map(|peer| peer.at(&title)));
        report.tables.push(Table { title, unit: Unit::Seconds(records as f64 / 1e6, "million records/s"), rows });
    }
    Ok(report)
}

/// One of the two questions, and its answer.
struct Answers<'a> {
    plan: &'a Plan,
    variant: &'static str,
    expected: &'a Path,
}

impl<'a> Answers<'a> {
    fn ours(&'a self, cloud: &'a Cloud, round: &'a Cell<u32>) -> Contender<'a> {
        let path = move || format!("/ratios-{}-{}", self.variant, round.get());
        let work = move || {
            round.set(round.get() + 1);
            cloud.sector(&["oct", "malstone", self.variant, "-q", "/log", &path()]).map(drop)
        };
        let check = move || {
            malstone::check(cloud, &path(), self.expected)?;
            cloud.sector(&["rm", "-r", "--now", &path()]).map(drop)
        };
        Contender { name: OURS, work: Box::new(work), check: Box::new(check) }
    }

    fn yardstick(&'a self) -> Contender<'a> {
        self.local("two threads over a file", move |log, answer| ratios::count_file(log, answer, self.variant == "b"))
    }

    fn engines(&'a self, engines: &'a Engines) -> Vec<Contender<'a>> {
        let mut contenders = Vec::new();
        for (name, script, _, _) in SCRIPTS.iter().filter(|(name, ..)| self.plan.wants(name)) {
            contenders.push(self.local(name, move |log, answer| {
                let [log, answer] = [log, answer].map(Path::to_string_lossy);
                if *name == "Spark" {
                    let script = crate::compare::install::peers().join(script);
                    return engines.spark(&[&script.to_string_lossy(), self.variant, &log, &answer]);
                }
                engines.python(script, &[self.variant, &log, &answer])
            }));
        }
        contenders
    }

    fn hadoop(&'a self, hadoop: &'a Hadoop) -> Contender<'a> {
        let fetched = self.plan.folder.join("fetched-hadoop");
        let work = move || hadoop.run("MalStone", &["mapreduce.job.reduces=4"], &[self.variant, "/log", "/ratios"]);
        let check = move || {
            hadoop.files(&["-get", "/ratios", &fetched.to_string_lossy()])?;
            self.check(&fetched)?;
            hadoop.files(&["-rm", "-r", "-skipTrash", "/ratios", "/ratios.counts"])
        };
        Contender { name: "Hadoop", work: Box::new(work), check: Box::new(check) }
    }

    /// A system that reads the log from one file, and writes a file or a folder of parts.
    fn local(&'a self, name: &'static str, count: impl Fn(&Path, &Path) -> Result<(), String> + 'a) -> Contender<'a> {
        let (log, answer) = (self.plan.folder.join("log"), self.plan.folder.join("answer"));
        let to = answer.clone();
        let work = move || {
            remove(&to)?;
            count(&log, &to)
        };
        Contender { name, work: Box::new(work), check: Box::new(move || self.check(&answer)) }
    }

    /// Fails unless the lines of these files are the expected ones; removes them.
    fn check(&self, answer: &Path) -> Result<(), String> {
        let read = |path: &Path| fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()));
        let mut found = String::new();
        for part in parts(answer)? {
            found.push_str(&read(&part)?);
        }
        malstone::same_lines("the answer", &found, &read(self.expected)?)?;
        remove(answer)
    }
}

fn peers(plan: &Plan, tools: &Tools, cloud: &Cloud, engines: Option<&Engines>, hadoop: Option<&Hadoop>) -> Vec<Peer> {
    let mut peers = vec![
        Peer { name: OURS, version: cloud.version(), note: OUR_NOTE },
        Peer { name: "two threads over a file", version: "of `bench/src/ratios.rs`".into(), note: PASS_NOTE },
    ];
    for (name, _, package, note) in SCRIPTS.iter().filter(|(name, ..)| plan.wants(name)) {
        peers.extend(engines.map(|engines| engines.peer(tools, name, package, note)));
    }
    peers.extend(hadoop.map(|hadoop| Peer { name: "Hadoop", version: hadoop.version(), note: HADOOP_NOTE }));
    peers
}

const OURS: &str = "Sector";
const OUR_NOTE: &str = "Four nodes, a process each. Visits move between them over TLS, messages are sealed, and blocks are \
    checked when read. The answer is stored with one copy, and synced.";
const PASS_NOTE: &str = "A tuned pass over one mapped file. It checks nothing, takes sites and entities for small numbers, and \
    does not sync.";
/// Name, script, package, note.
const SCRIPTS: &[(&str, &str, &str, &str)] = &[
    (
        "DuckDB",
        "duckdb_malstone.py",
        "duckdb",
        "One process with two threads, in SQL. It is no cluster, encrypts nothing, and does not sync.",
    ),
    (
        "Polars",
        "polars_malstone.py",
        "polars",
        "One process with two threads, lazy data frames. It is no cluster, encrypts nothing, and does not sync.",
    ),
    (
        "Dask",
        "dask_malstone.py",
        "dask",
        "Two processes: a shuffle by entity, then pandas. Parts move between processes in plain text. It does not sync.",
    ),
    (
        "Spark",
        "spark_malstone.py",
        "pyspark",
        "One process with two threads (`local[*]`), in SQL. It does not encrypt, sync or copy. The JVM's start counts.",
    ),
];
const HADOOP_NOTE: &str = "Two jobs of `bench/peers/hadoop/MalStone.java` on YARN and HDFS, with three DataNodes. Nothing is \
    encrypted or synced. The JVM's start counts.";
