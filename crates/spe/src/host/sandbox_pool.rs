//! Assigns each SPE of this node a user number and a folder while it runs. Serves the path *job*. It never starts a
//! process; the numbers are used in [`sandbox`](crate::sandbox).

use std::{
    collections::BTreeSet,
    fs,
    ops::RangeInclusive,
    os::unix::fs::{DirBuilderExt, chown},
    path::{Path, PathBuf},
    sync::{Arc, Mutex, OnceLock, PoisonError},
    time::Duration,
};

use protocol::sandbox::SandboxLayer;
use rustix::{
    fs::statvfs,
    process::geteuid,
    system::sysinfo,
    thread::{CapabilitySet, capabilities},
};

use super::{
    cgroup_limits::{Cgroup, Cgroups},
    interpreter::NodePython,
    sandbox_settings::SandboxSettings,
};
use crate::{error::SpeError, sandbox::confinement::Confinement};

/// How SPEs of this node are confined.
#[derive(Debug)]
pub struct Sandbox {
    limits: Confinement,
    /// What bounds the memory of all processes of an SPE together, or why nothing does.
    cgroups: Result<Arc<Cgroups>, String>,
    /// Bytes of the disk that results must leave free.
    reserve_bytes: u64,
    /// Whether functions are refused if a layer is missing.
    required: bool,
    /// The Python for functions in Python.
    pub(super) python: NodePython,
    /// How long a function may show no sign of life.
    silence_max: Option<Duration>,
    /// How long one task may take.
    task_max: Option<Duration>,
    /// The user numbers for SPEs, if this process may choose.
    users: Option<RangeInclusive<u32>>,
    /// Where in the range this node begins, so that several nodes of a machine seldom use the same number.
    first: u32,
    lent: Mutex<AllocatedIds>,
    /// The layers that a process of this node found missing.
    missing: OnceLock<Vec<SandboxLayer>>,
}

/// What bounds the memory of an SPE.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MemoryBound {
    /// A control group: it counts all of its processes together, with the kernel memory they use.
    Group,
    /// The separate limits of each process; with a sentence on why there are no control groups.
    Process(String),
}

impl MemoryBound {
    /// What this process has without changing anything.
    pub fn detect(settings: &SandboxSettings) -> Self {
        Cgroups::probe(settings.cgroup.as_deref()).map_or_else(Self::Process, |_| Self::Group)
    }

    /// How an operator can get the better bound.
    pub const ADVICE: &str = "`Delegate=yes` in the unit of the node's service, or name a control group of version 2 that is \
                              the node's alone as `spe_cgroup`";
}

#[derive(Debug, Default)]
struct AllocatedIds {
    users: BTreeSet<u32>,
    folders: u64,
}

impl Sandbox {
    /// As the settings say, with this process's rights and the machine's memory.
    pub fn new(settings: &SandboxSettings) -> Self {
        let map = fs::read_to_string("/proc/self/uid_map").unwrap_or_default();
        let users = may_change_users().then(|| settings.users.clone()).filter(|users| is_mapped(users, &map));
        let memory_bytes = match settings.memory_bytes {
            0 => memory_share(machine_bytes(), settings.slots),
            bytes => bytes,
        };
        let limits = Confinement {
            user: None,
            read_paths: settings.read_paths.clone(),
            memory_bytes,
            scratch_bytes: settings.scratch_bytes,
            file_bytes: settings.file_bytes,
            threads: settings.threads_max,
            open_files: settings.open_files_max,
            fork: settings.fork,
            starts_programs: false,
        };
        let name = format!("{} {}", settings.node, std::process::id());
        // FNV-1a: similar names are far apart.
        let first = name.bytes().fold(0x811c_9dc5_u32, |sum, byte| (sum ^ u32::from(byte)).wrapping_mul(0x0100_0193));
        Self {
            limits,
            cgroups: Cgroups::find(settings.cgroup.as_deref()).map(Arc::new),
            reserve_bytes: settings.reserve_bytes,
            required: settings.is_required,
            python: NodePython::new(settings.python.clone(), settings.hidden_folders.clone()),
            silence_max: settings.silence_max,
            task_max: settings.task_max,
            users,
            first,
            lent: Mutex::default(),
            missing: OnceLock::new(),
        }
    }

    /// Whether a missing layer refuses a function.
    pub fn is_required(&self) -> bool {
        self.required
    }

    /// What bounds the memory of SPEs.
    pub fn memory_bound(&self) -> MemoryBound {
        match &self.cgroups {
            Ok(_) => MemoryBound::Group,
            Err(why) => MemoryBound::Process(why.clone()),
        }
    }

    /// How long a function may show no sign of life; `None`: for ever.
    pub fn silence_max(&self) -> Option<Duration> {
        self.silence_max
    }

    /// How long a function may work on one task; `None`: for ever.
    pub fn task_max(&self) -> Option<Duration> {
        self.task_max
    }

    /// The layers that are missing here; `None` until a process has tried.
    pub fn missing(&self) -> Option<&[SandboxLayer]> {
        self.missing.get().map(Vec::as_slice)
    }

    /// Records what a process found. The first report stands: the kernel does not change.
    pub(super) fn note_missing(&self, missing: &[SandboxLayer]) {
        let _ = self.missing.set(missing.to_vec());
    }

    /// A user number and a new folder in `parent` for an SPE.
    ///
    /// # Errors
    /// When all numbers are in use, or the folder cannot be made.
    pub fn allocate(self: &Arc<Self>, parent: &Path) -> Result<SandboxAllocation, SpeError> {
        let (user, number) = self.lend_numbers()?;
        let user = AllocatedUser { sandbox: Arc::clone(self), user };
        let folder = parent.join(format!("spe-{number}"));
        let made = fs::DirBuilder::new().mode(0o700).create(&folder);
        made.map_err(|error| SpeError::Allocate(format!("the folder {}: {error}", folder.display())))?;
        let mut limits = Confinement { user: user.user, ..self.limits.clone() };
        if limits.file_bytes == 0 {
            let room = statvfs(&folder).map(|found| found.f_bavail.saturating_mul(found.f_frsize));
            limits.file_bytes = file_share(room.unwrap_or(u64::MAX), self.reserve_bytes);
        }
        let group = self.cgroups.as_ref().ok().map(|groups| groups.make(&limits)).transpose();
        let group = group.map_err(|error| SpeError::Allocate(format!("a control group for an SPE: {error}")))?;
        let place = SandboxAllocation { group, user, folder, limits };
        let owned = chown(&place.folder, place.user.user, place.user.user);
        owned.map_err(|error| SpeError::Allocate(format!("the folder {}: {error}", place.folder.display())))?;
        Ok(place)
    }

    /// The next free user number, and a number for a folder.
    fn lend_numbers(&self) -> Result<(Option<u32>, u64), SpeError> {
        let mut lent = self.lent.lock().unwrap_or_else(PoisonError::into_inner);
        lent.folders += 1;
        let number = lent.folders;
        let Some(users) = &self.users else { return Ok((None, number)) };
        let count = u64::from(users.end() - users.start()) + 1;
        // Round robin, so that the processes of a number's last user are long gone.
        let user = (0..count).find_map(|step| {
            let place = (u64::from(self.first) + number + step) % count;
            let user = users.start() + u32::try_from(place).unwrap_or_default();
            (!lent.users.contains(&user)).then_some(user)
        });
        let user = user.ok_or_else(|| SpeError::Allocate("all numbers of `spe_users` are lent; widen it".into()))?;
        lent.users.insert(user);
        Ok((Some(user), number))
    }
}

/// What an SPE has while it runs. Dropping it takes everything back, and removes the folder with its content.
#[derive(Debug)]
pub struct SandboxAllocation {
    /// Dropped first: it ends what is left of the processes.
    group: Option<Cgroup>,
    user: AllocatedUser,
    folder: PathBuf,
    limits: Confinement,
}

impl SandboxAllocation {
    /// Its folder: the process starts there.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// What it may have and use.
    pub fn limits(&self) -> &Confinement {
        &self.limits
    }

    /// Its control group, where there are some.
    pub(super) fn cgroup(&self) -> Option<&Cgroup> {
        self.group.as_ref()
    }

    /// The sandbox that it belongs to.
    pub fn sandbox(&self) -> &Sandbox {
        &self.user.sandbox
    }
}

impl Drop for SandboxAllocation {
    fn drop(&mut self) {
        // What cannot be removed goes with its job. Symbolic links in it are removed, not followed.
        let _ = fs::remove_dir_all(&self.folder);
    }
}

#[derive(Debug)]
struct AllocatedUser {
    sandbox: Arc<Sandbox>,
    user: Option<u32>,
}

impl Drop for AllocatedUser {
    fn drop(&mut self) {
        if let Some(user) = self.user {
            self.sandbox.lent.lock().unwrap_or_else(PoisonError::into_inner).users.remove(&user);
        }
    }
}

/// Whether this process may become any user: root may, but not in every container.
fn may_change_users() -> bool {
    let needed = CapabilitySet::SETUID | CapabilitySet::SETGID | CapabilitySet::CHOWN;
    geteuid().is_root() && capabilities(None).is_ok_and(|sets| sets.effective.contains(needed))
}

/// Whether these numbers exist in this process's user namespace. `map` is its `uid_map`: lines of first number inside,
/// first number outside, count.
fn is_mapped(users: &RangeInclusive<u32>, map: &str) -> bool {
    map.lines().any(|line| {
        let mut numbers = line.split_whitespace().filter_map(|word| word.parse::<u64>().ok());
        let (Some(first), Some(_), Some(count)) = (numbers.next(), numbers.next(), numbers.next()) else {
            return false;
        };
        first <= u64::from(*users.start()) && u64::from(*users.end()) < first.saturating_add(count)
    })
}

fn machine_bytes() -> u64 {
    let machine = sysinfo();
    machine.totalram.saturating_mul(u64::from(machine.mem_unit))
}

/// The memory of one SPE if the settings do not say: each slot gets its share of the machine.
fn memory_share(machine_bytes: u64, slots: u32) -> u64 {
    (machine_bytes / u64::from(slots.max(1))).max(MEMORY_BYTES_MIN)
}

/// The longest file if the settings do not say: the free space minus the node's reserve. On a nearly full disk it is
/// half of the free space.
fn file_share(free_bytes: u64, reserve_bytes: u64) -> u64 {
    free_bytes.saturating_sub(reserve_bytes).max(free_bytes / 2).max(FILE_BYTES_MIN)
}

/// Least memory of an SPE whose share is not set: its own buffers take 32 MiB, and libraries some more.
const MEMORY_BYTES_MIN: u64 = 512 << 20;
/// Least file length when the disk is already full: the disk's own error is then clearer.
const FILE_BYTES_MIN: u64 = 1 << 20;

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn sandbox(users: Option<RangeInclusive<u32>>) -> Arc<Sandbox> {
        let settings = SandboxSettings { slots: 4, ..SandboxSettings::default() };
        Arc::new(Sandbox { users, ..Sandbox::new(&settings) })
    }

    #[test]
    fn no_two_spes_are_the_same_user_and_a_number_comes_back() {
        let own = geteuid().as_raw();
        let sandbox = sandbox(Some(own..=own));
        let parent = tempfile::tempdir().unwrap();
        let place = sandbox.allocate(parent.path()).unwrap();
        assert_eq!(place.limits().user, Some(own));
        let error = sandbox.allocate(parent.path()).unwrap_err();
        assert!(error.to_string().contains("spe_users"), "{error}");
        let folder = place.folder().to_owned();
        fs::write(folder.join("left"), "behind").unwrap();
        drop(place);
        assert!(!folder.exists());
        assert!(sandbox.allocate(parent.path()).is_ok());
    }

    #[test]
    fn each_of_a_nodes_numbers_is_lent_before_one_comes_again() {
        let sandbox = sandbox(Some(1_000..=1_002));
        let mut lent: Vec<_> = (0..3).map(|_| sandbox.lend_numbers().unwrap().0.unwrap()).collect();
        lent.sort_unstable();
        assert_eq!(lent, [1_000, 1_001, 1_002]);
    }

    #[test]
    fn numbers_that_a_container_does_not_have_are_not_lent() {
        assert!(is_mapped(&(200..=300), "0 0 4294967295\n"));
        assert!(!is_mapped(&(200..=70_000), "0 100000 65536\n"));
        assert!(is_mapped(&(200..=300), "0 100000 100\n200 300000 101\n"));
        assert!(!is_mapped(&(200..=300), "nonsense"));
    }

    #[test]
    fn the_memory_of_a_machine_is_shared_by_its_slots() {
        assert_eq!(memory_share(64 << 30, 16), 4 << 30);
        assert_eq!(memory_share(1 << 30, 16), MEMORY_BYTES_MIN);
        assert_eq!(sandbox(None).lend_numbers().unwrap().0, None);
    }

    #[test]
    fn a_file_leaves_free_what_the_node_keeps_free() {
        assert_eq!(file_share(10 << 30, 1 << 30), 9 << 30);
        assert_eq!(file_share(1 << 30, 1 << 30), 1 << 29);
        assert_eq!(file_share(0, 1 << 30), FILE_BYTES_MIN);
    }
}
