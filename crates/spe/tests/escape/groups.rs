//! A control group of version 2 for a test, in a tree that only the tests use. Without one it changes nothing.

use std::{
    env, fs,
    path::{Path, PathBuf},
    sync::atomic::{AtomicU32, Ordering},
};

/// A control group of version 2 that only one test uses: in [`TREE`], or below that of this process.
pub(super) struct TestGroup(pub(super) PathBuf);

impl TestGroup {
    pub(super) fn make() -> Result<Self, String> {
        static MADE: AtomicU32 = AtomicU32::new(0);
        let parent = env::var_os(TREE).map_or_else(Self::own, |named| Ok(named.into()))?;
        // Before anything is made: a group without these controllers is not ours to touch.
        let controllers = fs::read_to_string(parent.join("cgroup.subtree_control")).unwrap_or_default();
        if !["memory", "pids"].iter().all(|name| controllers.split_whitespace().any(|found| found == *name)) {
            return Err(format!(
                "control groups in {} would not count memory (they would have `{}`)",
                parent.display(),
                controllers.trim()
            ));
        }
        let number = MADE.fetch_add(1, Ordering::Relaxed);
        let folder = parent.join(format!("sector-escape-{}-{number}", std::process::id()));
        fs::create_dir(&folder).map_err(|error| format!("{} cannot be made: {error}", folder.display()))?;
        Ok(Self(folder))
    }

    fn own() -> Result<PathBuf, String> {
        let groups = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
        let mounts = fs::read_to_string("/proc/self/mounts").unwrap_or_default();
        let mount = mounts.lines().find(|line| line.split(' ').nth(2) == Some("cgroup2"));
        let mount = mount.and_then(|line| line.split(' ').nth(1)).ok_or("there is no cgroup2 here")?;
        let group = groups.lines().find_map(|line| line.strip_prefix("0::/")).unwrap_or_default();
        Ok(Path::new(mount).join(group))
    }

    /// The number in a file of the only group in it.
    pub(super) fn spes(&self, name: &str) -> u64 {
        let mut entries = fs::read_dir(&self.0).unwrap().flatten().map(|entry| entry.path());
        let group = entries.find(|path| path.is_dir()).unwrap();
        fs::read_to_string(group.join(name)).unwrap().trim().parse().unwrap()
    }
}

impl Drop for TestGroup {
    fn drop(&mut self) {
        for entry in fs::read_dir(&self.0).into_iter().flatten().flatten() {
            let _ = fs::remove_dir(entry.path());
        }
        let _ = fs::remove_dir(&self.0);
    }
}

/// A control group of version 2 that only these tests use, whose groups have the controllers `memory` and `pids`. Each
/// SPE is then in one (`cargo xtask cgroups`).
pub(super) const TREE: &str = "SECTOR_TEST_CGROUP";
