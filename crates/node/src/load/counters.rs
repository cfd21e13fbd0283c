//! What the system has counted since it was started: processors, memory, disks, network, processes. It is read from
//! `/proc` by the crate `procfs`. It never computes a rate.

use std::{
    collections::BTreeMap,
    fs, io,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
    time::Instant,
};

use procfs::{
    Current, CurrentSI, KernelStats, Meminfo, ProcError,
    net::dev_status,
    process::{Process, Stat},
};
use rustix::fs::{major, minor};

/// All counters at one moment.
#[derive(Clone, Debug)]
pub(crate) struct Counters {
    pub(super) at: Instant,
    pub(super) processors: u32,
    /// Ticks of all processors: used, and all.
    pub(super) processor_ticks: (u64, u64),
    pub(super) ticks_per_second: u64,
    pub(super) memory_bytes: u64,
    pub(super) memory_used_bytes: u64,
    /// In the order of the node's settings; `None` where the system does not count.
    pub(crate) disks: Vec<Option<DiskCounters>>,
    /// Bytes received and sent.
    pub(crate) network_bytes: (u64, u64),
    pub(super) node: ProcessCounters,
    /// What the node has started, by process id, each with all that it has started itself.
    pub(super) children: BTreeMap<u32, ProcessCounters>,
}

/// Of one disk.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct DiskCounters {
    pub(super) device: (u32, u32),
    pub(super) operations: u64,
    pub(crate) read_bytes: u64,
    pub(crate) written_bytes: u64,
    /// Milliseconds that operations took, waiting included.
    pub(super) operation_millis: u64,
    /// Milliseconds with at least one operation.
    pub(super) busy_millis: u64,
}

/// Of a process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct ProcessCounters {
    pub(super) ticks: u64,
    pub(super) memory_bytes: u64,
}

/// Reads the counters of one machine, for a node whose slices are in these folders.
#[derive(Debug)]
pub(super) struct CountersReader {
    folders: Vec<PathBuf>,
}

impl CountersReader {
    pub(super) fn new(folders: Vec<PathBuf>) -> Self {
        Self { folders }
    }

    /// # Errors
    /// When the system does not show them, as in some containers.
    pub(super) fn read(&mut self) -> Result<Counters, ProcError> {
        let kernel = KernelStats::current()?;
        let memory = Meminfo::current()?;
        let process = Process::myself()?;
        let node = process_counters(&process.stat()?);
        let total = &kernel.total;
        let idle = total.idle + total.iowait.unwrap_or(0);
        let used = total.user
            + total.nice
            + total.system
            + total.irq.unwrap_or(0)
            + total.softirq.unwrap_or(0)
            + total.steal.unwrap_or(0);
        Ok(Counters {
            at: Instant::now(),
            processors: u32::try_from(kernel.cpu_time.len()).unwrap_or(u32::MAX),
            processor_ticks: (used, used + idle),
            ticks_per_second: procfs::ticks_per_second(),
            memory_bytes: memory.mem_total,
            memory_used_bytes: memory.mem_total.saturating_sub(memory.mem_available.unwrap_or(memory.mem_free)),
            disks: self.disks()?,
            network_bytes: network_bytes()?,
            node,
            children: children(&process),
        })
    }

    fn disks(&self) -> Result<Vec<Option<DiskCounters>>, ProcError> {
        let counted = procfs::diskstats()?;
        let of_folder = |folder: &PathBuf| {
            // A folder that is away, as on a disk that failed, has no counters.
            let device = fs::metadata(folder).ok()?.dev();
            let device = (major(device), minor(device));
            let stat = counted.iter().find(|stat| (stat.major, stat.minor) == (device.0 as i32, device.1 as i32))?;
            Some(DiskCounters {
                device,
                operations: stat.reads + stat.writes,
                read_bytes: stat.sectors_read * SECTOR_BYTES,
                written_bytes: stat.sectors_written * SECTOR_BYTES,
                operation_millis: stat.time_reading + stat.time_writing,
                busy_millis: stat.time_in_progress,
            })
        };
        Ok(self.folders.iter().map(of_folder).collect())
    }
}

/// Bytes that all real interfaces have received and sent. Where there are none, as in a container, those of all but the
/// loopback count. Bridges and tunnels would count what passes a real one twice.
fn network_bytes() -> Result<(u64, u64), ProcError> {
    let interfaces = dev_status()?;
    let is_real = |name: &str| Path::new(INTERFACES).join(name).join("device").exists();
    let has_real = interfaces.keys().any(|name| is_real(name));
    let counted = interfaces.values().filter(|it| if has_real { is_real(&it.name) } else { it.name != "lo" });
    Ok(counted.fold((0, 0), |(received, sent), it| (received + it.recv_bytes, sent + it.sent_bytes)))
}

/// Whatever ends while it is looked at is left out: it has nothing to tell any more.
fn children(node: &Process) -> BTreeMap<u32, ProcessCounters> {
    let with_descendants = |pid| {
        let mut sum = ProcessCounters::default();
        let mut open = vec![pid];
        let mut seen = 0;
        while let Some(pid) = open.pop().filter(|_| seen < DESCENDANTS_MAX) {
            seen += 1;
            let Ok((process, stat)) = process_of(pid) else { continue };
            let own = process_counters(&stat);
            sum.ticks += own.ticks;
            sum.memory_bytes += own.memory_bytes;
            open.extend(children_of(&process));
        }
        sum
    };
    children_of(node).into_iter().map(|pid| (pid, with_descendants(pid))).collect()
}

fn process_of(pid: u32) -> Result<(Process, Stat), ProcError> {
    let pid = i32::try_from(pid).map_err(|_| io::Error::from(io::ErrorKind::NotFound))?;
    let process = Process::new(pid)?;
    let stat = process.stat()?;
    Ok((process, stat))
}

fn children_of(process: &Process) -> Vec<u32> {
    // Each thread has the children that it has started.
    let tasks = process.tasks().into_iter().flatten().flatten();
    tasks.filter_map(|task| task.children().ok()).flatten().collect()
}

fn process_counters(stat: &Stat) -> ProcessCounters {
    ProcessCounters { ticks: stat.utime + stat.stime, memory_bytes: stat.rss * procfs::page_size() }
}

/// The unit of the system's disk counters, whatever the disk's own blocks are.
const SECTOR_BYTES: u64 = 512;
/// Most processes below one SPE that are looked at: a user's program that starts thousands must not cost more.
const DESCENDANTS_MAX: usize = 64;
/// Where the system lists its network interfaces.
const INTERFACES: &str = "/sys/class/net";

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::process::{Command, Stdio};

    use super::*;

    #[test]
    fn the_counters_of_this_machine_are_plausible() {
        let folders = vec![std::env::temp_dir(), PathBuf::from("/proc"), PathBuf::from("/nowhere")];
        let mut child = Command::new("cat").stdin(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap();
        let counters = CountersReader::new(folders).read().unwrap();
        assert!(counters.processors > 0);
        assert!(counters.processor_ticks.0 > 0 && counters.processor_ticks.0 <= counters.processor_ticks.1);
        assert!(counters.memory_used_bytes > 0 && counters.memory_used_bytes < counters.memory_bytes);
        assert!(counters.node.memory_bytes > 0);
        assert!(counters.children.contains_key(&child.id()), "{:?}", counters.children);
        assert_eq!(counters.disks.len(), 3, "one a folder");
        assert_eq!(counters.disks[1..], [None, None]);
        drop(child.stdin.take());
        child.wait().unwrap();
    }
}
