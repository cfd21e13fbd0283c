//! The master's journal, rolled back to an earlier state or lost. The master is stopped, in order or not. Its folder
//! becomes what it was some time ago: a plain copy, or what `sector backup` took. It starts on that, while nodes are
//! killed too. `docs/semantics.md` 17 says what must hold.

use std::{
    fs,
    path::PathBuf,
    time::{Duration, Instant},
};

use cluster::Roles;
use fastrand::Rng;

use crate::{ask, disk::copy_folder, ledger::Ledger};

/// See the module.
pub(crate) struct RollBacks {
    stage: Stage,
    copies: Vec<Copy>,
    /// When the next backup is taken.
    next_backup: Instant,
    taken: u64,
    pub(crate) copied: u64,
    pub(crate) restored: u64,
    pub(crate) lost: u64,
    /// Role faults that may still come before the names are complete again.
    pub(crate) faults_left: u32,
    /// When the names first seemed complete.
    stood: Option<Instant>,
    asked: Instant,
}

/// How far it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stage {
    /// The next roll-back comes at this moment.
    Idle(Instant),
    /// Since this moment nothing else is done, so that everything that was answered reaches the nodes.
    Waiting(Instant),
    /// The names are being rebuilt, since this moment.
    Unsettled(Instant),
}

struct Copy {
    taken: Instant,
    folder: PathBuf,
    is_backup: bool,
}

impl RollBacks {
    /// The first roll-back comes soon.
    pub(crate) fn new(rng: &mut Rng) -> Self {
        let now = Instant::now();
        Self {
            stage: Stage::Idle(now + Duration::from_secs(rng.u64(30..60))),
            copies: Vec::new(),
            next_backup: now + BACKUPS_EVERY / 3,
            taken: 0,
            copied: 0,
            restored: 0,
            lost: 0,
            faults_left: 0,
            stood: None,
            asked: now,
        }
    }

    /// How far it is.
    pub(crate) fn stage(&self) -> Stage {
        self.stage
    }

    /// Whether the next is due; then other faults must wait.
    pub(crate) fn prepare(&mut self) -> bool {
        if let Stage::Idle(at) = self.stage
            && Instant::now() >= at
            && !self.copies.is_empty()
        {
            self.stage = Stage::Waiting(Instant::now());
        }
        matches!(self.stage, Stage::Waiting(_))
    }

    /// Defers the next one, since the run comes to its end.
    pub(crate) fn defer(&mut self) {
        if !matches!(self.stage, Stage::Unsettled(_)) {
            self.stage = Stage::Idle(Instant::now() + NEVER);
        }
    }

    /// Takes a plain copy of the master's folder, while it does not run.
    pub(crate) fn copy(&mut self, rng: &mut Rng, cloud: &Roles) {
        let folder = self.place(cloud);
        fs::create_dir_all(&folder).unwrap();
        copy_folder(&cloud.role_folder("master"), &folder);
        self.keep(rng, Copy { taken: Instant::now(), folder, is_backup: false });
    }

    /// Takes a backup now and then, while the master serves.
    pub(crate) fn back_up(&mut self, rng: &mut Rng, cloud: &Roles) {
        if Instant::now() < self.next_backup || !matches!(self.stage, Stage::Idle(_)) {
            return;
        }
        self.next_backup = Instant::now() + BACKUPS_EVERY;
        let (folder, master) = (self.place(cloud), cloud.role_folder("master"));
        let taken = Instant::now();
        let words = ["backup", folder.to_str().unwrap(), "--folder", master.to_str().unwrap()];
        if ask(cloud, &words).is_some_and(|ended| ended.code == 0) {
            self.keep(rng, Copy { taken, folder, is_backup: true });
        }
    }

    /// Rolls the journal back. The cloud had no fault for a while.
    pub(crate) fn fire(&mut self, rng: &mut Rng, cloud: &mut Roles, ledger: &mut Ledger) {
        match rng.bool() {
            true => cloud.kill("master"),
            false => cloud.stop("master"),
        }
        ledger.roll_back();
        let old: Vec<_> = self.copies.iter().filter(|copy| copy.taken.elapsed() > OLD).collect();
        let master = cloud.role_folder("master");
        let lot = rng.u8(..10);
        let of_kind: Vec<_> = old.iter().filter(|copy| copy.is_backup == (lot >= 5)).copied().collect();
        match rng.choice(of_kind).or_else(|| rng.choice(old)) {
            Some(copy) if lot < 8 => {
                println!(
                    "rolled back by {:.0} s, by {}",
                    copy.taken.elapsed().as_secs_f64(),
                    match copy.is_backup {
                        true => "a backup",
                        false => "a copy",
                    }
                );
                if copy.is_backup {
                    restore(cloud, copy);
                    self.restored += 1;
                } else {
                    clear(&master);
                    copy_folder(&copy.folder, &master);
                    self.copied += 1;
                }
            }
            _ => {
                println!("the journal is lost");
                fs::remove_file(master.join("journal.redb")).unwrap();
                self.lost += 1;
            }
        }
        (self.stage, self.faults_left, self.stood) = (Stage::Unsettled(Instant::now()), FAULTS_MAX, None);
    }

    /// Checks whether the names are complete again.
    pub(crate) fn look(&mut self, rng: &mut Rng, cloud: &Roles, ledger: &mut Ledger, nodes: usize) {
        let Stage::Unsettled(since) = self.stage else { return };
        if self.asked.elapsed() < ASK_EVERY {
            return;
        }
        self.asked = Instant::now();
        if !stands(cloud, nodes) {
            self.stood = None;
            if since.elapsed() > SETTLED_AFTER_MAX {
                let said = ask(cloud, &["rebuild", "status"]).map(|ended| ended.text()).unwrap_or_default();
                ledger.wrong.push(format!("the names do not stand {SETTLED_AFTER_MAX:?} after a roll-back: {said}"));
            }
            return;
        }
        if self.stood.get_or_insert_with(Instant::now).elapsed() >= STANDS_FOR {
            println!("the names stood again after {:.0} s", since.elapsed().as_secs_f64());
            ledger.end_roll_back();
            self.stage = Stage::Idle(Instant::now() + Duration::from_secs(rng.u64(30..120)));
        }
    }

    /// How many roll-backs there were.
    pub(crate) fn fired(&self) -> u64 {
        self.copied + self.restored + self.lost
    }

    fn place(&mut self, cloud: &Roles) -> PathBuf {
        self.taken += 1;
        cloud.folder().join(format!("copies/{}", self.taken))
    }

    /// Keeps a few copies, of all ages.
    fn keep(&mut self, rng: &mut Rng, copy: Copy) {
        self.copies.push(copy);
        if self.copies.len() > COPIES_MAX {
            let copy = self.copies.remove(rng.usize(..COPIES_MAX));
            let _ = fs::remove_dir_all(copy.folder);
        }
    }
}

/// Whether all nodes are up and nothing is waited for.
fn stands(cloud: &Roles, nodes: usize) -> bool {
    let status = ask(cloud, &["rebuild", "status", "--json"]).filter(|ended| ended.code == 0);
    let status: Option<serde_json::Value> = status.and_then(|ended| serde_json::from_str(&ended.text()).ok());
    let up = || ask(cloud, &["nodes", "--json"]).map_or(0, |ended| ended.text().matches("\"up\"").count());
    status.is_some_and(|status| status["state"] == "settled") && up() == nodes
}

/// Restores a backup, and removes what it archived.
fn restore(cloud: &Roles, copy: &Copy) {
    let master = cloud.role_folder("master");
    let words = ["restore", copy.folder.to_str().unwrap(), "--role", "master", "--folder", master.to_str().unwrap()];
    let ended = cloud.run(&words);
    assert_eq!(ended.code, 0, "sector restore: {}", ended.errors);
    for item in fs::read_dir(&master).unwrap().flatten() {
        if item.file_name().to_string_lossy().contains(".aside-") {
            let _ = fs::remove_file(item.path()).or_else(|_| fs::remove_dir_all(item.path()));
        }
    }
}

/// Empties a folder that is the root of a disk.
fn clear(folder: &std::path::Path) {
    for item in fs::read_dir(folder).unwrap().flatten() {
        let path = item.path();
        let is_folder = item.file_type().unwrap().is_dir();
        if is_folder { fs::remove_dir_all(path) } else { fs::remove_file(path) }.unwrap();
    }
}

/// Newer copies are not restored: a roll-back within the last half second cannot be noticed (decision 32).
const OLD: Duration = Duration::from_secs(5);
/// Copies that are kept.
const COPIES_MAX: usize = 6;
/// Time from one backup to the next.
const BACKUPS_EVERY: Duration = Duration::from_secs(40);
/// Role faults between a roll-back and complete names.
const FAULTS_MAX: u32 = 3;
/// Time from one question to the next.
const ASK_EVERY: Duration = Duration::from_millis(700);
/// How long the names must seem complete: nodes that have just joined may know more.
const STANDS_FOR: Duration = Duration::from_secs(3);
/// All known nodes come within a minute, so nothing must be waited for any longer.
const SETTLED_AFTER_MAX: Duration = Duration::from_secs(240);
/// Longer than any run.
const NEVER: Duration = Duration::from_secs(1 << 30);
