//! Disks that fill: each role's folder is a small disk in memory, which is made as small as what is on it for some
//! seconds. A role that ends because of that is started again when there is room, as a supervisor does.

use std::{
    collections::BTreeMap,
    fs, io,
    path::Path,
    process::Command,
    time::{Duration, Instant},
};

use cluster::{Roles, SmallDisk};
use fastrand::Rng;

use crate::record;

/// See the module.
#[derive(Default)]
pub(crate) struct Disks {
    disks: BTreeMap<String, SmallDisk>,
    /// Those without room, and until when.
    full: BTreeMap<String, Instant>,
    /// When each had room again.
    last: BTreeMap<String, Instant>,
    pub(crate) fired_at_nodes: u64,
    pub(crate) fired_at_servers: u64,
    /// Roles that ended for want of room.
    pub(crate) ended: u64,
}

impl Disks {
    /// Gives each role, none of which runs, a disk of its own below its folder.
    pub(crate) fn mount(&mut self, cloud: &Roles) {
        for role in cloud.names() {
            let folder = cloud.role_folder(&role);
            let aside = folder.with_extension("aside");
            fs::rename(&folder, &aside).unwrap();
            fs::create_dir(&folder).unwrap();
            let disk = SmallDisk::mount(&folder, SIZE).expect("a mount namespace of our own");
            copy_folder(&aside, &folder);
            fs::remove_dir_all(&aside).unwrap();
            if role.starts_with("node-") {
                cloud.change(&role, "reserve_bytes", "33554432");
            }
            self.disks.insert(role, disk);
        }
    }

    /// Fills one; whether that was possible.
    pub(crate) fn fire(&mut self, rng: &mut Rng, cloud: &Roles) -> bool {
        let names: Vec<_> = self.disks.keys().cloned().collect();
        let role = match rng.u8(..10) {
            0..3 => "master".to_owned(),
            3 => "security".to_owned(),
            _ => names[rng.usize(..names.len())].clone(),
        };
        let span = Duration::from_millis(rng.u64(2_000..12_000));
        if self.full.len() >= FULL_MAX || self.full.contains_key(&role) || !fill(&self.disks[&role], rng.u64(..4) << 14)
        {
            return false;
        }
        record(cloud, &format!("the disk of {role} is full for {span:?}"));
        match role.starts_with("node-") {
            true => self.fired_at_nodes += 1,
            false => self.fired_at_servers += 1,
        }
        self.full.insert(role, Instant::now() + span);
        true
    }

    /// Gives room again to those whose time has come.
    pub(crate) fn recover(&mut self) {
        let now = Instant::now();
        let due: Vec<_> = self.full.iter().filter(|(_, until)| **until <= now).map(|(role, _)| role.clone()).collect();
        due.iter().for_each(|role| self.empty(role));
    }

    /// Gives room to all.
    pub(crate) fn heal(&mut self) {
        let all: Vec<_> = self.full.keys().cloned().collect();
        all.iter().for_each(|role| self.empty(role));
    }

    /// Whether there is no room.
    pub(crate) fn is_full(&self, role: &str) -> bool {
        self.full.contains_key(role)
    }

    /// Whether there is none, or was none a moment ago: reason enough for a role to have ended.
    pub(crate) fn was_full(&self, role: &str) -> bool {
        self.is_full(role) || self.last.get(role).is_some_and(|last| last.elapsed() < JUST)
    }

    /// The roles whose disks are full.
    pub(crate) fn roles(&self) -> impl Iterator<Item = &String> {
        self.full.keys()
    }

    fn empty(&mut self, role: &str) {
        self.full.remove(role);
        self.last.insert(role.into(), Instant::now());
        assert!(self.disks[role].resize(SIZE), "there is room again for {role}");
    }
}

/// Makes a disk as small as what is on it and a little more; whether it is full then.
fn fill(disk: &SmallDisk, spare: u64) -> bool {
    // Whoever writes meanwhile makes it larger than was asked for.
    let is_small = || disk.resize(&(disk.used_bytes() + spare).to_string());
    if !(0..FILLS_MAX).any(|_| is_small()) {
        return false;
    }
    let probe = disk.folder().join("probe");
    let refused = fs::write(&probe, vec![7; 1 << 20]);
    let _ = fs::remove_file(&probe);
    refused.is_err_and(|error| error.kind() == io::ErrorKind::StorageFull)
}

/// Copies all that is in a folder into another, with its rights.
pub(crate) fn copy_folder(from: &Path, to: &Path) {
    let status = Command::new("cp").arg("-a").arg(from.join(".")).arg(to).status().unwrap();
    assert!(status.success(), "{} is copied", from.display());
}

/// How much fits on a disk: what a run ever needs, several times.
const SIZE: &str = "2g";
/// Full at once.
const FULL_MAX: usize = 1;
/// How often it is tried to make a disk small on which others write.
const FILLS_MAX: u32 = 20;
/// How long after a full disk a role may end because of it.
const JUST: Duration = Duration::from_secs(15);
