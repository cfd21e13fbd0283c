//! Small disks for tests of what happens when one fills or goes away. Need root.

use std::{
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

/// A small disk in memory, unmounted at the end, also when the test fails.
pub struct SmallDisk(PathBuf);

impl SmallDisk {
    /// Mounts one of this size (`200m`) at a folder; `None`, with a line that says so, where that is not permitted.
    pub fn mount(at: &Path, size: &str) -> Option<Self> {
        let options = format!("size={size}");
        let status =
            Command::new("mount").args(["-t", "tmpfs", "-o", &options, "tmpfs"]).arg(at).stderr(Stdio::null()).status();
        let mounted = status.is_ok_and(|status| status.success()).then(|| Self(at.into()));
        if mounted.is_none() {
            println!("SKIPPED: this test mounts a tmpfs, which is not permitted here");
        }
        mounted
    }

    /// Where it is mounted.
    pub fn folder(&self) -> &Path {
        &self.0
    }

    /// Gives it another size, as `mount` has it. Not less than what is on it.
    pub fn resize(&self, size: &str) -> bool {
        let options = format!("remount,size={size}");
        let status = Command::new("mount").args(["-o", &options]).arg(&self.0).stderr(Stdio::null()).status();
        status.is_ok_and(|status| status.success())
    }

    /// The bytes on it.
    pub fn used_bytes(&self) -> u64 {
        let output = Command::new("df").args(["--output=used", "-B1"]).arg(&self.0).output().unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        text.lines().last().unwrap().trim().parse().unwrap()
    }

    /// Its free room, in MiB.
    pub fn free_mib(&self) -> usize {
        let output = Command::new("df").args(["--output=avail", "-BM"]).arg(&self.0).output().unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        text.lines().last().unwrap().trim().trim_end_matches('M').parse().unwrap()
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(&self.0).status();
    }
}
