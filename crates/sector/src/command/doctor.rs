//! `doctor`: what on this machine will hurt a node, a master or a client, and how to fix it. It only looks, except
//! that it writes a few small files in the given folders and removes them. It never changes a setting of the machine.

mod network;
mod scratch_folder;

use std::{
    env, fs,
    path::{Path, PathBuf},
    process::Command,
    sync::Arc,
    time::{Duration, Instant},
};

use protocol::sandbox::SandboxLayer;
use rustix::{
    fs::{StatVfsMountFlags, stat, statvfs},
    process::{Resource, getrlimit},
};
use serde::Serialize;
use spe::{MemoryBound, Sandbox, SandboxSettings, SpeProgram, probe};
use terminal::{failure::Failure, show};

use self::scratch_folder::{ScratchFolder, sync_once};
use crate::{
    arguments::{Doctor, Global},
    cloud::RunningCloud,
};

/// `sector doctor`.
pub(crate) async fn doctor(doctor: &Doctor, global: &Global) -> Result<(), Failure> {
    let folders = if doctor.folders.is_empty() { vec![RunningCloud::data_folder()?] } else { doctor.folders.clone() };
    let mut findings = network::findings();
    findings.extend([
        open_files(getrlimit(Resource::Nofile).maximum),
        memory(available_memory(&fs::read_to_string("/proc/meminfo").unwrap_or_default())),
        clock(clock_is_synchronised()),
    ]);
    // The folder of `sector up` is made when it is first needed. One that was named should be there.
    let (absent, folders): (Vec<_>, Vec<_>) =
        folders.into_iter().partition(|folder| !doctor.folders.is_empty() && !folder.exists());
    findings.extend(absent.iter().map(|folder| missing(folder)));
    findings.extend(folders.iter().flat_map(|folder| disk(folder)));
    findings.extend(shared_file_systems(&folders));
    findings.push(sandbox(probe_sandbox().await));
    findings.push(function_memory(MemoryBound::detect(&SandboxSettings::default())));
    if global.json {
        return show::json(&findings);
    }
    for finding in &findings {
        show::line(format!("{:8} {:18} {}", finding.state, finding.check, finding.found));
        if !finding.advice.is_empty() {
            show::line(format!("{:27} {}", "", finding.advice));
        }
    }
    Ok(())
}

/// The result of one check.
#[derive(Debug, Serialize)]
struct Finding {
    check: &'static str,
    /// `ok`, `warning`, or `unknown` if this machine does not tell.
    state: &'static str,
    found: String,
    /// What to do; empty if all is well.
    advice: String,
}

impl Finding {
    fn ok(check: &'static str, found: String) -> Self {
        Self { check, state: "ok", found, advice: String::new() }
    }

    fn warning(check: &'static str, found: String, advice: String) -> Self {
        Self { check, state: "warning", found, advice }
    }

    fn unknown(check: &'static str, found: impl Into<String>) -> Self {
        Self { check, state: "unknown", found: found.into(), advice: String::new() }
    }
}

fn open_files(maximum: Option<u64>) -> Finding {
    let found = maximum.map_or("without limit".to_owned(), |maximum| format!("at most {maximum} in a process"));
    if maximum.is_none_or(|maximum| maximum >= OPEN_FILES) {
        return Finding::ok("open files", found);
    }
    let advice = format!("LimitNOFILE={OPEN_FILES} in the service's unit, or `ulimit -Hn {OPEN_FILES}` as root");
    Finding::warning("open files", found, advice)
}

fn memory(bytes: Option<u64>) -> Finding {
    let Some(bytes) = bytes else { return Finding::unknown("memory", "this system does not say") };
    let found = format!("{} available", show::size(bytes));
    if bytes >= MEMORY_BYTES {
        return Finding::ok("memory", found);
    }
    let advice = "end other programs, or lower `transfers_max` (2 MiB each) and `spe_slots` of the nodes here".into();
    Finding::warning("memory", found, advice)
}

/// Starts an SPE as a node here would, and asks which layers of its sandbox are missing.
async fn probe_sandbox() -> Result<Vec<SandboxLayer>, String> {
    let program = SpeProgram::this_executable().map_err(|error| error.to_string())?;
    let folder = ScratchFolder::create(&env::temp_dir()).map_err(|error| error.to_string())?;
    probe(&program, &Arc::new(Sandbox::new(&SandboxSettings::default())), &folder.0).await
}

fn sandbox(missing: Result<Vec<SandboxLayer>, String>) -> Finding {
    match missing {
        Ok(missing) if missing.is_empty() => Finding::ok("sandbox", "user functions run in the whole of it".into()),
        Ok(missing) => {
            let found = format!("user functions run without: {}", SandboxLayer::list(&missing));
            let mut advice: Vec<_> = missing.iter().map(|layer| layer.advice()).collect();
            advice.dedup();
            Finding::warning("sandbox", found, advice.join("; "))
        }
        Err(error) => {
            let advice = "functions would be refused by a node here; mend what the sentence names".into();
            Finding::warning("sandbox", format!("no user function can run: {error}"), advice)
        }
    }
}

/// What limits the memory of functions at a node that is started as this process was.
fn function_memory(bound: MemoryBound) -> Finding {
    match bound {
        MemoryBound::Group => {
            let found = "a control group bounds each SPE with all of its processes".into();
            Finding::ok("function memory", found)
        }
        MemoryBound::Process(why) => {
            let found = format!("bounded for each process alone, where a node is started as this was: {why}");
            Finding::warning("function memory", found, MemoryBound::ADVICE.into())
        }
    }
}

fn clock(synchronised: Option<bool>) -> Finding {
    match synchronised {
        Some(true) => Finding::ok("clock", "kept by a time service".into()),
        Some(false) => Finding::warning(
            "clock",
            "no time service keeps it".into(),
            "start chrony or systemd-timesyncd: tickets live a minute, so clocks must agree to a few seconds".into(),
        ),
        None => Finding::unknown("clock", "this system does not say whether a time service keeps it"),
    }
}

/// Free space, whether the folder is writable, and how long a sync takes.
fn missing(folder: &Path) -> Finding {
    let advice = "mount its disk, make the folder, or look at how the name is written".into();
    Finding::warning("disk", format!("{}: it is not there", folder.display()), advice)
}

fn disk(folder: &Path) -> Vec<Finding> {
    let there = existing(folder);
    let shown = folder.display();
    let Ok(counts) = statvfs(there) else {
        let advice = "mount its disk, or name another folder".into();
        return vec![Finding::warning("disk", format!("{shown}: it cannot be looked at"), advice)];
    };
    if counts.f_flag.contains(StatVfsMountFlags::RDONLY) {
        let advice = "look in the system's log for the error that made it so, and replace the disk".into();
        return vec![Finding::warning("disk", format!("{shown}: it is mounted read-only"), advice)];
    }
    let free = counts.f_bavail.saturating_mul(counts.f_frsize);
    let all = counts.f_blocks.saturating_mul(counts.f_frsize);
    vec![free_space(folder, free, all), sync_time(folder, median_sync(there))]
}

fn free_space(folder: &Path, free_bytes: u64, all_bytes: u64) -> Finding {
    let found = format!("{}: {} of {} free", folder.display(), show::size(free_bytes), show::size(all_bytes));
    if free_bytes >= FREE_BYTES {
        return Finding::ok("disk room", found);
    }
    let advice = "free some, or give the node a further disk (`folders` in its settings); it takes nothing below \
                  `reserve_bytes`";
    Finding::warning("disk room", found, advice.into())
}

fn sync_time(folder: &Path, median: Option<Duration>) -> Finding {
    let shown = folder.display();
    let Some(median) = median else {
        let advice = "let the user of the node own the folder".into();
        return Finding::warning("disk sync", format!("{shown}: nothing could be written"), advice);
    };
    let found = format!("{shown}: a small file is safe after {:.1} ms", median.as_secs_f64() * 1_000.0);
    if median <= SYNC_TIME_MAX {
        return Finding::ok("disk sync", found);
    }
    let advice = "every upload waits for this: use a disk with a protected write cache, or an SSD".into();
    Finding::warning("disk sync", found, advice)
}

/// Folders that should be on disks of their own and are not.
fn shared_file_systems(folders: &[PathBuf]) -> Vec<Finding> {
    let device = |folder: &PathBuf| stat(existing(folder)).ok().map(|found| found.st_dev);
    let mut findings = Vec::new();
    for (at, folder) in folders.iter().enumerate() {
        let Some(other) = folders[..at].iter().find(|other| device(other).is_some() && device(other) == device(folder))
        else {
            continue;
        };
        let found = format!("{} and {} lie on one file system", other.display(), folder.display());
        let advice = "as `folders` of a node they fail together and share one room: name one of them".into();
        findings.push(Finding::warning("disks", found, advice));
    }
    findings
}

/// The folder, or its nearest ancestor that exists: where it will be made.
fn existing(folder: &Path) -> &Path {
    folder.ancestors().find(|folder| folder.exists()).unwrap_or(Path::new("/"))
}

fn median_sync(folder: &Path) -> Option<Duration> {
    let scratch = ScratchFolder::create(folder).ok()?;
    let mut times = Vec::new();
    for number in 0..SYNCS {
        let begun = Instant::now();
        sync_once(&scratch.0, number).ok()?;
        times.push(begun.elapsed());
    }
    times.sort();
    times.get(times.len() / 2).copied()
}

/// Asks every service that may know; `None` if none does.
fn clock_is_synchronised() -> Option<bool> {
    let asked = Command::new("timedatectl").args(["show", "--property=NTPSynchronized", "--value"]).output();
    if let Ok(output) = asked
        && output.status.success()
    {
        match output.stdout.trim_ascii() {
            b"yes" => return Some(true),
            b"no" => return Some(false),
            _ => {}
        }
    }
    if Path::new("/run/systemd/timesync/synchronized").exists() {
        return Some(true);
    }
    let running = fs::read_dir("/proc").ok()?.flatten().any(|process| {
        let name = fs::read_to_string(process.path().join("comm")).unwrap_or_default();
        TIME_SERVICES.contains(&name.trim())
    });
    // Without such a program, the clock may still be kept from outside, as in a container.
    running.then_some(true)
}

/// `MemAvailable` of `/proc/meminfo`, which is in KiB, in bytes.
fn available_memory(meminfo: &str) -> Option<u64> {
    let line = meminfo.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    line.split_whitespace().next()?.parse::<u64>().ok().map(|kib| kib * 1024)
}

/// A node with its usual settings has 256 transfers, 4 connections each, and the files of SPEs.
const OPEN_FILES: u64 = 65_536;
/// A node's 256 transfers take 512 MiB, and functions the same amount again.
const MEMORY_BYTES: u64 = 1 << 30;
/// Ten times what a node keeps free.
const FREE_BYTES: u64 = 10 << 30;
/// A rotating disk needs about this; a longer time means that something else is in the way.
const SYNC_TIME_MAX: Duration = Duration::from_millis(25);
/// How many small files are synced to find the usual time.
const SYNCS: u64 = 11;
/// Programs that synchronise a clock.
const TIME_SERVICES: [&str; 5] = ["chronyd", "ntpd", "openntpd", "systemd-timesyn", "ptp4l"];

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn what_will_hurt_comes_with_what_to_do_and_what_is_well_does_not() {
        let pairs = [
            (open_files(Some(1_024)), open_files(None)),
            (memory(Some(1 << 20)), memory(Some(8 << 30))),
            (clock(Some(false)), clock(Some(true))),
            (sandbox(Ok(vec![SandboxLayer::Network])), sandbox(Ok(vec![]))),
            (sandbox(Err("no room".into())), sandbox(Ok(vec![]))),
            (function_memory(MemoryBound::Process("none".into())), function_memory(MemoryBound::Group)),
            (free_space(Path::new("/x"), 1 << 30, 1 << 40), free_space(Path::new("/x"), 1 << 39, 1 << 40)),
            (
                sync_time(Path::new("/x"), Some(Duration::from_millis(80))),
                sync_time(Path::new("/x"), Some(Duration::from_millis(2))),
            ),
        ];
        for (bad, good) in pairs {
            assert_eq!((bad.state, good.state), ("warning", "ok"), "{bad:?} {good:?}");
            assert!(!bad.advice.is_empty() && good.advice.is_empty(), "{bad:?} {good:?}");
        }
    }

    #[test]
    fn what_a_machine_does_not_say_is_unknown_and_no_warning() {
        for finding in [memory(available_memory("nonsense")), clock(None)] {
            assert_eq!(finding.state, "unknown", "{finding:?}");
        }
        assert_eq!(available_memory("MemTotal: 9 kB\nMemAvailable:   2048 kB\n"), Some(2 << 20));
    }

    #[test]
    fn two_folders_of_one_file_system_are_said_to_be_one_disk() {
        let folder = tempfile::tempdir().unwrap();
        let folders = ["a", "b/not/there/yet"].map(|name| folder.path().join(name));
        let findings = shared_file_systems(&folders);
        assert_eq!(findings.len(), 1);
        assert!(findings[0].found.contains("lie on one file system"));
        assert!(shared_file_systems(&[folders[0].clone(), "/proc".into()]).is_empty());
        assert_eq!(disk(&folders[1]).len(), 2, "a folder that is not there yet is judged by where it will be");
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0, "nothing is left behind");
    }
}
