//! What each path may hold: from the commands that succeeded, and from those of which nobody knows. One command at a time
//! works on a path, so what succeeded last is there, unless something that was given up before came late.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    time::{Duration, Instant},
};

use cluster::{Cloud, Roles};
use fastrand::Rng;

use crate::fault::Faults;

/// Bytes that were made from a seed of their own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Content {
    pub(crate) seed: u64,
    pub(crate) bytes: usize,
}

/// What a path may hold; `None` is no file.
#[derive(Clone, Debug)]
struct Line {
    sure: BTreeSet<Option<Content>>,
    /// What may still come, and when its command gave up.
    late: Vec<(Option<Content>, Instant)>,
}

/// See the module.
#[derive(Default)]
pub(crate) struct Ledger {
    lines: BTreeMap<String, Line>,
    busy: BTreeSet<String>,
    /// Promises that were broken.
    pub(crate) wrong: Vec<String>,
}

impl Content {
    /// The bytes.
    pub(crate) fn make(self) -> Vec<u8> {
        let mut bytes = vec![0; self.bytes];
        Rng::with_seed(self.seed).fill(&mut bytes);
        bytes
    }
}

impl Ledger {
    /// All paths there ever were.
    pub(crate) fn paths(&self) -> Vec<String> {
        self.lines.keys().cloned().collect()
    }

    /// Claims a path for a command.
    pub(crate) fn claim(&mut self, path: &str) -> bool {
        self.busy.insert(path.into())
    }

    /// The command on a path has ended.
    pub(crate) fn release(&mut self, path: &str) {
        self.busy.remove(path);
    }

    /// The paths on which nobody works.
    pub(crate) fn idle_paths(&self) -> Vec<String> {
        self.lines.keys().filter(|path| !self.busy.contains(*path)).cloned().collect()
    }

    /// What a path may hold.
    pub(crate) fn allowed(&self, path: &str) -> BTreeSet<Option<Content>> {
        match self.lines.get(path) {
            Some(line) => line.sure.iter().copied().chain(line.late.iter().map(|(content, _)| *content)).collect(),
            None => [None].into(),
        }
    }

    /// A command succeeded: the path has one of these.
    pub(crate) fn settle(&mut self, path: &str, contents: BTreeSet<Option<Content>>) {
        let line = self.line(path);
        line.sure = contents;
        // What was given up long ago can come no more: its lease has ended.
        line.late.retain(|(_, gave_up)| gave_up.elapsed() < LATE_MAX);
    }

    /// Nobody knows whether a command ran: the path may have one of these too, now or a little later.
    pub(crate) fn doubt(&mut self, path: &str, contents: BTreeSet<Option<Content>>) {
        let now = Instant::now();
        self.line(path).late.extend(contents.into_iter().map(|content| (content, now)));
    }

    /// Someone read a path.
    pub(crate) fn check(&mut self, path: &str, read: Option<&[u8]>) {
        let allowed = self.allowed(path);
        let fits = allowed.iter().any(|content| match (content, read) {
            (None, None) => true,
            (Some(content), Some(read)) => content.bytes == read.len() && content.make() == read,
            _ => false,
        });
        if !fits {
            let read = read.map_or_else(|| "no file".into(), |read| format!("{} bytes of something else", read.len()));
            self.wrong.push(format!("{path} may hold {allowed:?} and holds {read}"));
        }
    }

    /// Once all is healed: every path is read, and every copy on the nodes' disks is compared.
    pub(crate) fn verify(&mut self, cloud: &Roles, faults: &Faults) {
        for path in self.paths() {
            let ended = cloud.run(&["cat", &path]);
            match ended.code {
                0 => {
                    self.check(&path, Some(&ended.out));
                    self.verify_copies(cloud, &path, &ended.out, faults.has_flipped(&ended.out));
                }
                3 => self.check(&path, None),
                code => self.wrong.push(format!("{path} cannot be read: exit code {code}: {}", ended.errors.trim())),
            }
        }
        self.check_by_command(cloud);
    }

    fn verify_copies(&mut self, cloud: &Roles, path: &str, bytes: &[u8], is_flipped: bool) {
        let native = |node: &String| cloud.role_folder(node).join(format!("slices{path}"));
        let nodes = cloud.good_copies(path);
        // A bit that was turned over is found when that copy is read; until then one copy may be bad.
        let wanted = nodes.len().saturating_sub(usize::from(is_flipped)).max(1);
        let good = || nodes.iter().filter(|node| fs::read(native(node)).is_ok_and(|found| found == bytes)).count();
        // They may still be on their way there; commands take the time that this needs.
        if !(0..LOOKS_MAX).any(|_| good() >= wanted || (cloud.run(&["nodes"]).code != 0 && good() >= wanted)) {
            self.wrong.push(format!("only {} of {nodes:?} have the bytes of {path} on their disks", good()));
        }
    }

    /// `sector check`, where this build has it.
    fn check_by_command(&mut self, cloud: &Cloud) {
        let ended = cloud.run(&["check", "-r", "--json", "/"]);
        let is_unknown = ended.code == 2 && ended.errors.contains("unrecognized");
        if ended.code != 0 && !is_unknown {
            self.wrong.push(format!("sector check: exit code {}: {}{}", ended.code, ended.text(), ended.errors));
        }
        println!("sector check: {}", if is_unknown { "not in this build" } else { "asked" });
    }

    fn line(&mut self, path: &str) -> &mut Line {
        let empty = || Line { sure: [None].into(), late: Vec::new() };
        self.lines.entry(path.into()).or_insert_with(empty)
    }
}

/// A commit that nobody waits for may take effect until its lease ends (60 s), at a master that is late itself.
const LATE_MAX: Duration = Duration::from_secs(150);
/// Looks at a copy until it must be there.
const LOOKS_MAX: u32 = 300;
