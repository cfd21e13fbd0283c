//! Peers that compute on this machine: the commands that run one of their programs once, with files below a folder.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use crate::compare::{
    hadoop::java_version,
    install::{Tools, jar_of, peers, run},
    report::{Missing, Peer},
};

/// The engines that could be installed.
pub(crate) struct Engines {
    programs: PathBuf,
    folder: PathBuf,
}

impl Engines {
    /// Installs them; they work below `folder`.
    pub(crate) fn install(tools: &Tools, folder: &Path) -> Result<Self, String> {
        let folder = folder.canonicalize().map_err(|error| format!("{}: {error}", folder.display()))?;
        Ok(Self { programs: tools.python("engines")?, folder })
    }

    /// Runs a script of `bench/peers` with these words, in an empty folder for what it keeps meanwhile.
    pub(crate) fn python(&self, script: &str, words: &[&str]) -> Result<(), String> {
        let temporary = self.temporary()?;
        let mut command = Command::new("timeout");
        command.arg(LONGEST_S).arg(self.programs.join("python")).arg(peers().join(script)).args(words);
        if TEMPORARY.iter().any(|peer| script.starts_with(peer)) {
            command.arg(&temporary);
        }
        // Ray says nothing to its makers.
        run(command.env("RAY_USAGE_STATS_ENABLED", "0").env("TMPDIR", &temporary))
    }

    /// Runs what Spark is given: a script, or a class and its jar.
    pub(crate) fn spark(&self, words: &[&str]) -> Result<(), String> {
        let temporary = self.temporary()?;
        let mut command = Command::new("timeout");
        command.arg(LONGEST_S).arg(self.programs.join("spark-submit")).args(["--master", "local[*]"]);
        command.args(["--driver-memory", "8g", "--conf", "spark.ui.enabled=false", "--conf"]);
        command.arg(format!("spark.local.dir={}", temporary.display())).args(words);
        command.env("PYSPARK_PYTHON", self.programs.join("python")).current_dir(&temporary);
        run(&mut command)
    }

    /// Compiles a source for Spark, and returns the jar.
    pub(crate) fn spark_jar(&self, tools: &Tools, source: &str) -> Result<PathBuf, String> {
        let library = self.programs.join("../lib");
        let versions = fs::read_dir(&library).map_err(|error| format!("{}: {error}", library.display()))?;
        let jars = versions.flatten().map(|item| item.path().join("site-packages/pyspark/jars"));
        let jars = jars.into_iter().find(|jars| jars.exists()).ok_or("pyspark has no jars")?;
        tools.java(&[source], &jars.join("*"), "spark-classes").map(|classes| jar_of(&classes))
    }

    /// What the page says of one.
    pub(crate) fn peer(&self, tools: &Tools, name: &'static str, package: &str, note: &'static str) -> Peer {
        let mut version = tools.python_version(&self.programs, package);
        if package == "pyspark" {
            version = format!("{version}, {}", java_version());
        }
        Peer { name, version, note }
    }

    /// An empty folder.
    fn temporary(&self) -> Result<PathBuf, String> {
        let folder = self.folder.join("t");
        if folder.exists() {
            fs::remove_dir_all(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
        }
        fs::create_dir_all(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
        Ok(folder)
    }
}

/// All of these peers are missing for the same reason.
pub(crate) fn all_missing(names: &[&str], reason: &str) -> Vec<Missing> {
    names.iter().map(|name| Missing { name: (*name).to_owned(), reason: reason.to_owned() }).collect()
}

/// Seconds after which a peer is given up.
const LONGEST_S: &str = "1800";
/// Scripts that want a folder as their last word.
const TEMPORARY: &[&str] = &["duckdb", "dask"];
