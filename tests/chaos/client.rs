//! The commands: each a process of its own, a few at a time, on paths that no other works on. What came of each goes into
//! the ledger.

use std::{
    collections::BTreeMap,
    fs,
    path::PathBuf,
    process::Stdio,
    sync::mpsc::{Receiver, SyncSender, sync_channel},
    thread,
    time::Duration,
};

use cluster::{Cloud, Ended, ended};
use fastrand::Rng;

use crate::ledger::{Content, Ledger};

/// See the module.
pub(crate) struct Clients {
    under_way: BTreeMap<u64, Work>,
    count: u64,
    sender: SyncSender<(u64, Ended)>,
    receiver: Receiver<(u64, Ended)>,
    /// How often each command ended with each exit code.
    codes: BTreeMap<(&'static str, i32), u64>,
}

/// What a command is to do.
enum Work {
    Put { path: String, content: Content, file: PathBuf },
    Get { path: String },
    Move { from: String, to: String },
    Remove { path: String },
}

impl Default for Clients {
    fn default() -> Self {
        let (sender, receiver) = sync_channel(ENDED_MAX);
        Self { under_way: BTreeMap::new(), count: 0, sender, receiver, codes: BTreeMap::new() }
    }
}

impl Clients {
    /// How many commands have not ended.
    pub(crate) fn at_work(&self) -> usize {
        self.under_way.len()
    }

    /// Begins one more.
    pub(crate) fn begin(&mut self, rng: &mut Rng, cloud: &Cloud, ledger: &mut Ledger) {
        self.count += 1;
        let path = free_path(rng, ledger);
        let work = match rng.u32(..100) {
            0..50 => self.put(rng, cloud, path),
            50..80 => Work::Get { path },
            80..92 => Work::Move { from: path, to: free_path(rng, ledger) },
            _ => Work::Remove { path },
        };
        let arguments: Vec<String> = match &work {
            Work::Put { path, file, .. } => {
                let copies = rng.u8(2..4).to_string();
                vec!["put".into(), "--copies".into(), copies, file.to_str().unwrap().into(), path.clone()]
            }
            Work::Get { path } => vec!["cat".into(), path.clone()],
            Work::Move { from, to } => vec!["mv".into(), from.clone(), to.clone()],
            Work::Remove { path } => vec!["rm".into(), path.clone()],
        };
        let mut command = cloud.command(&arguments);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let child = command.spawn().unwrap();
        let (number, sender) = (self.count, self.sender.clone());
        thread::spawn(move || sender.send((number, ended(child.wait_with_output().unwrap()))));
        self.under_way.insert(number, work);
    }

    /// Waits for the next that ends, but not long.
    pub(crate) fn wait(&mut self, patience: Duration, ledger: &mut Ledger) {
        let Ok((number, ended)) = self.receiver.recv_timeout(patience) else { return };
        let Some(work) = self.under_way.remove(&number) else { return };
        if ended.errors.contains("panicked") || !matches!(ended.code, 0 | 3 | 4 | 5) {
            ledger.wrong.push(format!("{} ended with {}: {}", work.name(), ended.code, ended.errors.trim()));
        }
        *self.codes.entry((work.name(), ended.code)).or_default() += 1;
        note(ledger, &work, &ended);
        for path in work.paths() {
            ledger.release(path);
        }
        if let Work::Put { file, .. } = work {
            // The disk has enough to do.
            let _ = fs::remove_file(file);
        }
    }

    /// How all ended.
    pub(crate) fn summary(&self) -> String {
        let parts: Vec<_> =
            self.codes.iter().map(|((name, code), count)| format!("{count} {name} with exit code {code}")).collect();
        format!("commands: {}", parts.join(", "))
    }

    fn put(&self, rng: &mut Rng, cloud: &Cloud, path: String) -> Work {
        let bytes = match rng.u32(..20) {
            0 => 0,
            1 | 2 => rng.usize(..20_000_000),
            3..8 => rng.usize(..2_000_000),
            _ => rng.usize(1..100_000),
        };
        let content = Content { seed: rng.u64(..), bytes };
        let file = cloud.file(&format!("put-{}", self.count), content.make());
        Work::Put { path, content, file }
    }
}

impl Work {
    fn name(&self) -> &'static str {
        match self {
            Self::Put { .. } => "put",
            Self::Get { .. } => "cat",
            Self::Move { .. } => "mv",
            Self::Remove { .. } => "rm",
        }
    }

    fn paths(&self) -> Vec<&str> {
        match self {
            Self::Put { path, .. } | Self::Get { path } | Self::Remove { path } => vec![path],
            Self::Move { from, to } => vec![from, to],
        }
    }
}

/// Takes what a command said into the ledger.
fn note(ledger: &mut Ledger, work: &Work, ended: &Ended) {
    match (work, ended.code) {
        (Work::Put { path, content, .. }, 0) => ledger.settle(path, [Some(*content)].into()),
        (Work::Put { path, content, .. }, _) => ledger.doubt(path, [Some(*content)].into()),
        (Work::Get { path }, 0) => ledger.check(path, Some(&ended.out)),
        (Work::Get { path } | Work::Remove { path }, 3) => ledger.check(path, None),
        (Work::Get { .. }, _) => {}
        (Work::Remove { path }, 0) => ledger.settle(path, [None].into()),
        (Work::Remove { path }, _) => ledger.doubt(path, [None].into()),
        (Work::Move { from, to }, 0) => {
            let moved = ledger.allowed(from).into_iter().filter(Option::is_some).collect();
            ledger.settle(to, moved);
            ledger.settle(from, [None].into());
        }
        (Work::Move { from, .. }, 3) => ledger.check(from, None),
        (Work::Move { from, to }, _) => {
            let moved = ledger.allowed(from).into_iter().filter(Option::is_some).collect();
            ledger.doubt(to, moved);
            ledger.doubt(from, [None].into());
        }
    }
}

/// A path on which nobody works: few, so that they meet, and with names that others stumbled over.
fn free_path(rng: &mut Rng, ledger: &mut Ledger) -> String {
    loop {
        let path = format!("{}{}", FOLDERS[rng.usize(..FOLDERS.len())], rng.u32(..8));
        if ledger.claim(&path) {
            return path;
        }
    }
}

/// Ended commands that nobody has asked for yet: more than ever are at work.
const ENDED_MAX: usize = 16;
/// The folders that must be there: what is missing for `mv` is then its source.
pub(crate) fn folders() -> impl Iterator<Item = &'static str> {
    FOLDERS.iter().filter_map(|folder| folder.strip_suffix('/'))
}

/// What paths begin with.
const FOLDERS: [&str; 5] = ["/plain/", "/with blanks and ; in it/", "/über/文/", "/deep/a/b/c/d/", "/plain-"];
