//! A cloud of one process a role, for the length of a measurement.

use std::{
    env, fs,
    io::Write,
    net::SocketAddr,
    path::{Path, PathBuf},
    process::{Command, Output, Stdio},
};

use serde_json::Value;

/// A running cloud of four nodes in two sites.
pub(crate) struct Cloud {
    program: PathBuf,
    home: PathBuf,
}

impl Cloud {
    /// Starts it on an empty folder `home` below `folder`.
    pub(crate) fn start(folder: &Path) -> Result<Self, String> {
        let program = env::var_os("SECTOR").map_or_else(|| PathBuf::from("target/release/sector"), PathBuf::from);
        let home = folder.join("home");
        if home.exists() {
            fs::remove_dir_all(&home).map_err(|error| format!("{}: {error}", home.display()))?;
        }
        let home = std::path::absolute(&home).map_err(|error| error.to_string())?;
        let cloud = Self { program, home };
        cloud.sector(&["up", "--processes", "--detach", "--port", "0"])?;
        Ok(cloud)
    }

    /// Runs a command of `sector`; its standard output.
    pub(crate) fn sector(&self, arguments: &[&str]) -> Result<String, String> {
        succeeded(arguments, self.run(arguments)?)
    }

    /// Runs a command of `sector` whose bytes travel over TLS, as from another machine.
    pub(crate) fn sector_over_network(&self, arguments: &[&str]) -> Result<String, String> {
        let profile = self.home.join("over-network.toml");
        if !profile.exists() {
            let file = self.home.join("profile.toml");
            let text = fs::read_to_string(&file).map_err(|error| format!("{}: {error}", file.display()))?;
            // In front: what follows a table belongs to it.
            fs::write(&profile, format!("over_network = true\n{text}")).map_err(|error| error.to_string())?;
        }
        let profile = profile.to_string_lossy().into_owned();
        let arguments = [&["--profile", profile.as_str()][..], arguments].concat();
        succeeded(&arguments, self.run(&arguments)?)
    }

    /// Joins the files of a folder in one local file.
    pub(crate) fn join(&self, path: &str, file: &Path) -> Result<(), String> {
        let failed = |error: std::io::Error| format!("{}: {error}", file.display());
        let mut joined = fs::File::create(file).map_err(failed)?;
        let part = file.with_extension("part");
        for path in self.sector(&["find", path])?.lines() {
            self.sector(&["get", "-q", "-f", path, &part.to_string_lossy()])?;
            std::io::copy(&mut fs::File::open(&part).map_err(failed)?, &mut joined).map_err(failed)?;
            fs::remove_file(&part).map_err(failed)?;
        }
        Ok(())
    }

    /// What the program says of itself.
    pub(crate) fn version(&self) -> String {
        let said = self.sector(&["--version"]).unwrap_or_default();
        said.split_whitespace().nth(1).unwrap_or("of unknown version").to_owned()
    }

    /// Runs a command of `sector` with this as its standard input.
    pub(crate) fn sector_with_input(&self, arguments: &[&str], input: &str) -> Result<(), String> {
        let mut command = Command::new(&self.program);
        command.args(arguments).env("SECTOR_HOME", &self.home).env_remove("SECTOR_PROFILE");
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let failed = |error: std::io::Error| format!("cannot run {}: {error}", self.program.display());
        let mut child = command.spawn().map_err(failed)?;
        if let Some(mut stdin) = child.stdin.take() {
            stdin.write_all(input.as_bytes()).map_err(failed)?;
        }
        succeeded(arguments, child.wait_with_output().map_err(failed)?).map(drop)
    }

    /// The master's address, the authority's certificate as a file, and that of the first node with its name.
    pub(crate) fn doors(&self) -> Result<(SocketAddr, PathBuf, (String, SocketAddr)), String> {
        let profile = fs::read_to_string(self.home.join("profile.toml")).map_err(|error| error.to_string())?;
        let master = profile.lines().find_map(|line| line.strip_prefix("address = ")).unwrap_or_default();
        let address = |text: &str| text.trim_matches('"').parse().map_err(|error| format!("`{text}`: {error}"));
        let nodes = self.nodes()?;
        let node = nodes.first().ok_or("the cloud has no nodes")?;
        let of = |key: &str| node[key].as_str().unwrap_or_default().to_owned();
        let authority = self.home.join("data/master/authority.pem");
        Ok((address(master)?, authority, (of("id"), address(&of("address"))?)))
    }

    fn run(&self, arguments: &[&str]) -> Result<Output, String> {
        Command::new(&self.program)
            .args(arguments)
            .env("SECTOR_HOME", &self.home)
            .env_remove("SECTOR_PROFILE")
            .output()
            .map_err(|error| format!("cannot run {}: {error}", self.program.display()))
    }

    /// The node with the most bytes: its name, its process and the bytes.
    pub(crate) fn fullest_node(&self) -> Result<(String, u64, u64), String> {
        let nodes = self.nodes()?;
        let used = |node: &&Value| node["used_bytes"].as_u64().unwrap_or(0);
        let node = nodes.iter().max_by_key(used).ok_or("the cloud has no nodes")?;
        let id = node["id"].as_str().unwrap_or_default().to_owned();
        Ok((id, node["pid"].as_u64().ok_or("a node without a process")?, used(&node)))
    }

    /// Whether the master has found that a node is lost.
    pub(crate) fn is_lost(&self, id: &str) -> Result<bool, String> {
        Ok(self.nodes()?.iter().any(|node| node["id"] == id && node["state"] == "lost"))
    }

    /// Files with fewer copies than wanted.
    pub(crate) fn under_replicated(&self) -> Result<u64, String> {
        // Its exit code says that not all is well, which is what we wait to see the end of.
        let output = self.run(&["health", "--json"])?;
        let health: Value = serde_json::from_slice(&output.stdout).map_err(|error| format!("health: {error}"))?;
        health["under_replicated"].as_u64().ok_or_else(|| "health does not count the files".into())
    }

    fn nodes(&self) -> Result<Vec<Value>, String> {
        serde_json::from_str(&self.sector(&["nodes", "--json"])?).map_err(|error| format!("nodes: {error}"))
    }

    /// The largest memory that any role's process has had so far.
    pub(crate) fn print_peak_memory(&self) {
        let mut peaks = Vec::new();
        for item in fs::read_dir("/proc").into_iter().flatten().flatten() {
            let Ok(line) = fs::read(item.path().join("cmdline")) else { continue };
            let words: Vec<_> = line.split(|byte| *byte == 0).map(String::from_utf8_lossy).collect();
            if !words.first().is_some_and(|program| program.ends_with("sector")) || words.len() < 2 {
                continue;
            }
            let Ok(status) = fs::read_to_string(item.path().join("status")) else { continue };
            let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap_or("").trim().to_owned();
            let anonymous =
                status.lines().find_map(|line| line.strip_prefix("RssAnon:")).unwrap_or("").trim().to_owned();
            peaks.push(format!("  {:10} peak {peak}, now {anonymous} of its own", words[1]));
        }
        peaks.sort();
        println!("memory of each process:\n{}", peaks.join("\n"));
    }
}

fn succeeded(arguments: &[&str], output: Output) -> Result<String, String> {
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    Err(format!("sector {}: {}", arguments.join(" "), String::from_utf8_lossy(&output.stderr)))
}

impl Drop for Cloud {
    fn drop(&mut self) {
        if let Err(error) = self.sector(&["down"]) {
            eprintln!("{error}");
        }
    }
}
