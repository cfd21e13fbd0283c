//! Control groups (cgroup v2) around SPEs, if the system has delegated a tree of them to this node. Each SPE has its
//! own group, so the kernel counts the memory of all its processes together. Serves the path *job*. Without a tree only
//! the limits of each process hold, and [`Cgroups::find`] says why. It never changes a group that other processes live
//! in, and never gives a group more than its own group has.

use std::{
    collections::BTreeMap,
    fs::{self, File, TryLockError},
    io,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
    process,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
};

use crate::sandbox::confinement::Confinement;

/// A delegated tree, in which the node makes groups for its SPEs.
#[derive(Debug)]
pub(super) struct Cgroups {
    folder: PathBuf,
    /// Groups whose processes were killed but are not gone yet, including those of an earlier node.
    ended: Mutex<Vec<PathBuf>>,
    /// Keeps out nodes of other processes, which would take the groups here for those of an earlier node.
    _hold: TreeLock,
}

impl Cgroups {
    /// The folder where this process could make groups: the one named in the settings, or its own.
    ///
    /// # Errors
    /// A sentence on why there is none.
    pub(super) fn probe(named: Option<&Path>) -> Result<PathBuf, String> {
        let folder = match named {
            Some(folder) => folder.to_owned(),
            None => own_group()?,
        };
        let read = |name: &str| fs::read_to_string(folder.join(name)).map_err(|error| unusable(&folder, &error));
        let controllers = read("cgroup.controllers")?;
        if !CONTROLLERS.iter().all(|name| controllers.split_whitespace().any(|found| found == *name)) {
            return Err(format!(
                "the control group {} does not have the controllers `memory` and `pids`",
                folder.display()
            ));
        }
        let own = process::id().to_string();
        if read("cgroup.procs")?.split_whitespace().any(|id| id != own) {
            return Err(format!("the control group {} has other processes in it", folder.display()));
        }
        let made = folder.join(format!("probe-{own}"));
        match fs::create_dir(&made) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(unusable(&folder, &error)),
            _ => fs::remove_dir(&made).map_err(|error| unusable(&folder, &error))?,
        }
        may_be_entered(&folder)?;
        Ok(folder)
    }

    /// Prepares the tree. If this process is in its root, it moves into a group of its own, since only groups without
    /// processes can divide their resources. Groups that an earlier node left there are removed.
    ///
    /// # Errors
    /// A sentence on why there is none.
    pub(super) fn find(named: Option<&Path>) -> Result<Self, String> {
        // Several nodes of one process would otherwise inspect what another is about to change.
        static FINDING: Mutex<()> = Mutex::new(());
        let _turn = FINDING.lock().unwrap_or_else(PoisonError::into_inner);
        let folder = Self::probe(named)?;
        let hold = TreeLock::take(&folder)?;
        let ended = Self::prepare(&folder).map_err(|error| unusable(&folder, &error))?;
        Ok(Self { folder, ended: Mutex::new(ended), _hold: hold })
    }

    /// Returns the groups of an earlier node that are not gone yet.
    fn prepare(folder: &Path) -> io::Result<Vec<PathBuf>> {
        let own = process::id().to_string();
        let entries = fs::read_dir(folder)?.flatten();
        let left = entries.filter(|entry| is_left(&entry.file_name().to_string_lossy()));
        let left = left.map(|entry| entry.path()).filter(|group| !end(group)).collect();
        if fs::read_to_string(folder.join("cgroup.procs"))?.split_whitespace().any(|id| id == own) {
            let node = folder.join(NODE);
            match fs::create_dir(&node) {
                Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
                _ => fs::write(node.join("cgroup.procs"), &own)?,
            }
        }
        let wanted = CONTROLLERS.map(|name| format!("+{name}")).join(" ");
        fs::write(folder.join("cgroup.subtree_control"), wanted)?;
        Ok(left)
    }

    /// A group for an SPE with these limits.
    pub(super) fn make(self: &Arc<Self>, limits: &Confinement) -> io::Result<Cgroup> {
        self.remove_ended();
        let folder = loop {
            let number = MADE.fetch_add(1, Ordering::Relaxed);
            let folder = self.folder.join(format!("{PREFIX}{}-{number}", process::id()));
            match fs::create_dir(&folder) {
                Ok(()) => break folder,
                // The group of an earlier process with this number, as in containers: it is not gone yet.
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err(error),
            }
        };
        let group = Cgroup { folder, cgroups: Arc::clone(self) };
        let memory = limits.memory_bytes.saturating_add(limits.scratch_bytes).saturating_add(OWN_BYTES);
        group.set("memory.max", &memory.to_string())?;
        // All of it is memory of one function: a surviving half would go on in an undefined state.
        group.set("memory.oom.group", "1")?;
        group.set("pids.max", &limits.threads.saturating_add(OWN_PROCESSES).to_string())?;
        // Kernels without swap have no such file. Where there is swap, it must not double the limit.
        let swap = group.folder.join("memory.swap.max");
        if swap.exists() {
            fs::write(swap, "0")?;
        }
        Ok(group)
    }

    fn remove_ended(&self) {
        let mut ended = self.ended.lock().unwrap_or_else(PoisonError::into_inner);
        ended.retain(|folder| fs::remove_dir(folder).is_err_and(|error| error.kind() != io::ErrorKind::NotFound));
    }
}

/// The group of one SPE. Dropping it ends the processes in it.
#[derive(Debug)]
pub(super) struct Cgroup {
    folder: PathBuf,
    cgroups: Arc<Cgroups>,
}

impl Cgroup {
    /// Adds a process, and with it all that it will start.
    pub(super) fn add_process(&self, process: u32) -> io::Result<()> {
        self.set("cgroup.procs", &process.to_string())
    }

    /// Who is to blame if the kernel has killed processes of the group for lack of memory; `None` if it has not.
    pub(super) fn fault(&self) -> Option<OomFault> {
        let events = fs::read_to_string(self.folder.join("memory.events")).unwrap_or_default();
        let happened = |name: &str| {
            let count = events.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
            count.is_some_and(|count| count.trim() != "0")
        };
        // The kernel counts a kill in the process's group, but the shortage in the group whose limit was reached.
        happened("oom_kill").then(|| if happened("oom") { OomFault::Own } else { OomFault::OfOthers })
    }

    fn set(&self, name: &str, value: &str) -> io::Result<()> {
        fs::write(self.folder.join(name), value)
    }
}

/// Whose lack of memory killed processes of a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum OomFault {
    /// The group's own: its processes took more than it has.
    Own,
    /// Everyone's: a group above it, or the machine, had no more.
    OfOthers,
}

impl Drop for Cgroup {
    fn drop(&mut self) {
        if !end(&self.folder) {
            self.cgroups.ended.lock().unwrap_or_else(PoisonError::into_inner).push(std::mem::take(&mut self.folder));
        }
    }
}

/// A tree belongs to this process, for all of its nodes together, until the last of them releases it or the process
/// ends.
#[derive(Debug)]
struct TreeLock {
    /// The device and the inode number of the tree's folder.
    folder: (u64, u64),
}

impl TreeLock {
    /// # Errors
    /// A sentence where another process has the tree.
    fn take(folder: &Path) -> Result<Self, String> {
        let file = File::open(folder).map_err(|error| unusable(folder, &error))?;
        let about = file.metadata().map_err(|error| unusable(folder, &error))?;
        let number = (about.dev(), about.ino());
        let mut held = HELD.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, nodes)) = held.get_mut(&number) {
            *nodes += 1;
            return Ok(Self { folder: number });
        }
        file.try_lock().map_err(|error| match error {
            TryLockError::WouldBlock => format!(
                "the control group {} is in use by another node of this machine; give each node a `spe_cgroup` of its own",
                folder.display()
            ),
            TryLockError::Error(error) => unusable(folder, &error),
        })?;
        held.insert(number, (file, 1));
        Ok(Self { folder: number })
    }
}

impl Drop for TreeLock {
    fn drop(&mut self) {
        let mut held = HELD.lock().unwrap_or_else(PoisonError::into_inner);
        let Some((file, nodes)) = held.get_mut(&self.folder) else { return };
        *nodes -= 1;
        if *nodes == 0 {
            // Unlocked explicitly, since a process that is being started may have the same open file for a moment.
            let _ = file.unlock();
            held.remove(&self.folder);
        }
    }
}

/// Ends the processes in a group and removes it; returns whether it is gone. Killed processes take a moment to go.
fn end(folder: &Path) -> bool {
    // Kernels before 5.14 have no such file; there, whatever ends an SPE ends all of it too.
    if folder.join("cgroup.kill").exists() {
        let _ = fs::write(folder.join("cgroup.kill"), "1");
    }
    match fs::remove_dir(folder) {
        Ok(()) => true,
        Err(error) => error.kind() == io::ErrorKind::NotFound,
    }
}

/// Whether a folder of this name is a group that an earlier process made for an SPE.
fn is_left(name: &str) -> bool {
    let Some((process, number)) = name.strip_prefix(PREFIX).and_then(|name| name.split_once('-')) else { return false };
    let is_own = number.parse::<u64>().is_ok_and(|number| number < MADE.load(Ordering::Relaxed));
    !(is_own && process == process::id().to_string())
}

/// Whether the processes that this one starts can be moved into a group. The kernel requires write access to the
/// closest common ancestor of both groups. For a group given to an ordinary user, that ancestor is above it, unless the
/// user's process began in it.
fn may_be_entered(folder: &Path) -> Result<(), String> {
    let Ok(own) = own_group() else { return Ok(()) };
    let Some(both) = folder.ancestors().find(|above| own.starts_with(above)) else { return Ok(()) };
    match fs::OpenOptions::new().write(true).open(both.join("cgroup.procs")) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(format!(
            "the control group {} is of no use to a node outside: processes cannot be moved into it ({}: {error}); start the \
             node in it",
            folder.display(),
            both.join("cgroup.procs").display()
        )),
        _ => Ok(()),
    }
}

/// The group of this process, in the one tree of cgroup v2.
fn own_group() -> Result<PathBuf, String> {
    let read = |path: &str| fs::read_to_string(path).map_err(|error| format!("{path} cannot be read: {error}"));
    group_of(&read("/proc/self/cgroup")?, &read("/proc/self/mounts")?)
        .ok_or_else(|| "this machine has no control groups of version 2".into())
}

fn group_of(groups: &str, mounts: &str) -> Option<PathBuf> {
    let group = groups.lines().find_map(|line| line.strip_prefix("0::/"))?;
    let mount = mounts.lines().find_map(|line| {
        let mut words = line.split_whitespace();
        let (_, place, system) = (words.next()?, words.next()?, words.next()?);
        (system == "cgroup2").then_some(place)
    })?;
    Some(Path::new(mount).join(group))
}

fn unusable(folder: &Path, error: &io::Error) -> String {
    format!("the control group {} is not this process's to divide: {error}", folder.display())
}

/// The trees that nodes of this process share, each with its folder, locked, and the number of nodes. The lock ends
/// with the process, however it ends.
static HELD: Mutex<BTreeMap<(u64, u64), (File, usize)>> = Mutex::new(BTreeMap::new());
/// How many groups this process has made, for all of its nodes.
static MADE: AtomicU64 = AtomicU64::new(0);
/// The controllers that a tree must have.
const CONTROLLERS: [&str; 2] = ["memory", "pids"];
/// The prefix of the names of SPE groups; the node's process number and a counter follow.
const PREFIX: &str = "spe-";
/// The group into which the node itself goes.
const NODE: &str = "node";
/// What an SPE takes besides the function's memory: its supervisor, the first process of its namespace, and the
/// kernel's tables.
const OWN_BYTES: u64 = 32 << 20;
/// Its processes besides the function's: the supervisor and the first of its namespace.
const OWN_PROCESSES: u32 = 2;

#[cfg(test)]
mod real;

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::super::{sandbox_pool::Sandbox, sandbox_settings::SandboxSettings};
    use super::*;

    /// A folder that looks like a delegated group.
    fn tree(controllers: &str, processes: &str) -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("cgroup.controllers"), controllers).unwrap();
        fs::write(folder.path().join("cgroup.procs"), processes).unwrap();
        folder
    }

    fn content(folder: &Path, name: &str) -> String {
        fs::read_to_string(folder.join(name)).unwrap()
    }

    #[test]
    fn a_group_is_divided_only_where_it_is_this_nodes_alone_and_bounds_memory() {
        let own = process::id().to_string();
        let why = |controllers: &str, processes: &str| {
            let folder = tree(controllers, processes);
            Cgroups::find(Some(folder.path())).map(|_| ()).unwrap_err()
        };
        assert!(why("cpu pids", "").contains("`memory`"));
        assert!(why("cpu memory pids", "1\n").contains("other processes"));
        assert!(Cgroups::find(Some(Path::new("/nowhere"))).unwrap_err().contains("/nowhere"));
        let folder = tree("cpu memory pids", &format!("{own}\n"));
        fs::create_dir(folder.path().join("spe-1-1")).unwrap();
        Cgroups::find(Some(folder.path())).unwrap();
        assert_eq!(content(folder.path(), "cgroup.subtree_control"), "+memory +pids");
        assert_eq!(content(&folder.path().join(NODE), "cgroup.procs"), own, "the root of what is divided is empty");
        assert!(!folder.path().join("spe-1-1").exists(), "what an earlier node left is gone");
    }

    #[test]
    fn an_spe_gets_a_group_with_its_limits_that_tells_when_its_memory_ran_out() {
        let folder = tree("memory pids", "");
        let settings = SandboxSettings {
            cgroup: Some(folder.path().to_owned()),
            memory_bytes: 1 << 30,
            scratch_bytes: 1 << 20,
            threads_max: 10,
            ..SandboxSettings::default()
        };
        let place = Arc::new(Sandbox::new(&settings)).allocate(folder.path()).unwrap();
        let group = place.cgroup().unwrap();
        let made = group.folder.clone();
        assert_eq!(content(&made, "memory.max"), ((1u64 << 30) + (1 << 20) + OWN_BYTES).to_string());
        assert_eq!((content(&made, "memory.oom.group"), content(&made, "pids.max")), ("1".into(), "12".into()));
        group.add_process(77).unwrap();
        assert_eq!(content(&made, "cgroup.procs"), "77");
        assert_eq!(group.fault(), None);
        for (events, fault) in [
            ("oom 3\noom_kill 0\n", None),
            ("oom 3\noom_kill 2\n", Some(OomFault::Own)),
            ("oom 0\noom_kill 2\n", Some(OomFault::OfOthers)),
        ] {
            fs::write(made.join("memory.events"), events).unwrap();
            assert_eq!(group.fault(), fault, "{events}");
        }
    }

    #[test]
    fn nodes_of_one_process_leave_each_others_groups_alone_and_skip_lingering_ones() {
        let folder = tree("memory pids", "");
        let limits =
            Arc::new(Sandbox::new(&SandboxSettings::default())).allocate(folder.path()).unwrap().limits().clone();
        let find = || Arc::new(Cgroups::find(Some(folder.path())).unwrap());
        let first = find().make(&limits).unwrap();
        // As in the kernel's tree, where a group without processes can be removed whatever files it shows.
        for entry in fs::read_dir(&first.folder).unwrap() {
            fs::remove_file(entry.unwrap().path()).unwrap();
        }
        let second = find().make(&limits).unwrap();
        assert!(first.folder.exists() && first.folder != second.folder);
        let next = MADE.load(Ordering::Relaxed);
        for number in next..next + 20 {
            fs::create_dir(folder.path().join(format!("{PREFIX}{}-{number}", process::id()))).unwrap();
        }
        find().make(&limits).unwrap();
    }

    #[test]
    fn a_group_that_another_process_divides_is_refused_and_what_runs_in_it_goes_on() {
        let folder = tree("memory pids", "");
        let spe = folder.path().join("spe-1-1");
        fs::create_dir(&spe).unwrap();
        // As a node of another process holds it: locked through another open file.
        let other = File::open(folder.path()).unwrap();
        other.try_lock().unwrap();
        let why = Cgroups::find(Some(folder.path())).unwrap_err();
        assert!(why.contains("in use by another node") && why.contains("`spe_cgroup` of its own"), "{why}");
        assert!(spe.exists(), "it is not ended");
        other.unlock().unwrap();
        let nodes = [(); 2].map(|()| Cgroups::find(Some(folder.path())).unwrap());
        assert!(!spe.exists(), "that one is gone");
        for node in nodes {
            assert!(matches!(other.try_lock(), Err(TryLockError::WouldBlock)), "it is this process's");
            drop(node);
        }
        other.try_lock().unwrap();
    }

    #[test]
    fn the_own_group_is_found_in_the_tree_of_version_2() {
        let mounts = "cgroup /sys/fs/cgroup/memory cgroup rw 0 0\ncgroup2 /sys/fs/cgroup/unified cgroup2 rw 0 0\n";
        let found = group_of("4:memory:/a\n0::/system.slice/sector-node.service\n", mounts);
        assert_eq!(found.unwrap(), Path::new("/sys/fs/cgroup/unified/system.slice/sector-node.service"));
        assert_eq!(group_of("4:memory:/a\n", mounts), None);
        assert_eq!(group_of("0::/a\n", "tmpfs /sys/fs/cgroup tmpfs rw 0 0\n"), None);
    }
}
