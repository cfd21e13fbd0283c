//! The commands: each a process of its own, a few at a time, on paths that no other works on. What came of each goes
//! into the ledger.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    io::Write,
    path::{Path, PathBuf},
    process::Stdio,
    sync::mpsc::{Receiver, SyncSender, sync_channel},
    thread,
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

use cluster::{Cloud, Ended, ended};
use fastrand::Rng;

use crate::ledger::{Content, Ledger};

/// See the module.
pub(crate) struct Clients {
    under_way: BTreeMap<u64, Begun>,
    count: u64,
    sender: SyncSender<(u64, Ended)>,
    receiver: Receiver<(u64, Ended)>,
    /// How often each command ended with each exit code.
    codes: BTreeMap<(&'static str, i32), u64>,
    /// How often each was refused with which sentence, whatever the numbers and names in it.
    messages: BTreeMap<String, u64>,
    /// Who was refused tries again a little later, as people and programs do: else most that is done is to be refused.
    rests_until: Option<Instant>,
    /// What was done, for whoever looks for a cause.
    record: Option<fs::File>,
}

/// A command that has not ended.
struct Begun {
    work: Work,
    at: SystemTime,
    /// What counted for the ledger when it began.
    epoch: Option<u64>,
}

/// What a command is to do.
#[derive(Debug)]
enum Work {
    Put { path: String, content: Content, file: PathBuf },
    Get { path: String },
    Move { from: String, to: String },
    Remove { path: String },
    Restore { path: String },
    Empty,
}

impl Default for Clients {
    fn default() -> Self {
        let (sender, receiver) = sync_channel(ENDED_MAX);
        Self {
            under_way: BTreeMap::new(),
            count: 0,
            sender,
            receiver,
            codes: BTreeMap::new(),
            messages: BTreeMap::new(),
            rests_until: None,
            record: None,
        }
    }
}

impl Clients {
    /// Writes down what is done.
    pub(crate) fn record(&mut self, file: &Path) {
        self.record = fs::File::options().append(true).create(true).open(file).ok();
    }

    /// How many commands have not ended.
    pub(crate) fn at_work(&self) -> usize {
        self.under_way.len()
    }

    /// Whether one more may begin.
    pub(crate) fn may_begin(&self) -> bool {
        self.at_work() < CLIENTS && self.rests_until.is_none_or(|until| Instant::now() >= until)
    }

    /// Begins one more.
    pub(crate) fn begin(&mut self, rng: &mut Rng, cloud: &Cloud, ledger: &mut Ledger) {
        self.count += 1;
        let work = if ledger.trash.bytes() > TRASH_BYTES_MAX && !ledger.trash.is_being_emptied() {
            ledger.trash.begin_to_empty();
            Work::Empty
        } else {
            let path = free_path(rng, ledger);
            match rng.u32(..100) {
                0..45 => self.put(rng, cloud, path),
                45..70 => Work::Get { path },
                70..82 => Work::Move { from: path, to: free_path(rng, ledger) },
                82..92 => Work::Remove { path },
                _ => Work::Restore { path },
            }
        };
        let arguments: Vec<String> = match &work {
            Work::Put { path, file, .. } => {
                let copies = rng.u8(2..4).to_string();
                vec!["put".into(), "--copies".into(), copies, file.to_str().unwrap().into(), path.clone()]
            }
            Work::Get { path } => vec!["cat".into(), path.clone()],
            Work::Move { from, to } => vec!["mv".into(), from.clone(), to.clone()],
            Work::Remove { path } => vec!["rm".into(), path.clone()],
            Work::Restore { path } => vec!["trash".into(), "restore".into(), path.clone()],
            Work::Empty => vec!["trash".into(), "empty".into()],
        };
        let mut command = cloud.command(&arguments);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let child = command.spawn().unwrap();
        let (number, sender) = (self.count, self.sender.clone());
        thread::spawn(move || sender.send((number, ended(child.wait_with_output().unwrap()))));
        self.under_way.insert(number, Begun { work, at: SystemTime::now(), epoch: ledger.epoch() });
    }

    /// Waits for the next that ends, but not long.
    pub(crate) fn wait(&mut self, patience: Duration, ledger: &mut Ledger) {
        let Ok((number, ended)) = self.receiver.recv_timeout(patience) else { return };
        let Some(Begun { work, at, epoch }) = self.under_way.remove(&number) else { return };
        let expected: &[i32] = if matches!(work, Work::Restore { .. }) { &[0, 3, 4, 5, 7] } else { &[0, 3, 4, 5] };
        if ended.errors.contains("panicked") || !expected.contains(&ended.code) {
            ledger.wrong.push(format!("{} ended with {}: {}", work.name(), ended.code, ended.errors.trim()));
        }
        *self.codes.entry((work.name(), ended.code)).or_default() += 1;
        if ended.code != 0 {
            *self.messages.entry(shape(&ended)).or_default() += 1;
        }
        if let Some(record) = &mut self.record {
            let span =
                [at, SystemTime::now()].map(|at| at.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs_f64());
            let is_clean = ledger.is_clean(epoch);
            let _ =
                writeln!(record, "{:.3} {:.3} {} {} {is_clean} {work:?}", span[0], span[1], work.name(), ended.code);
        }
        if [5, 8].contains(&ended.code) {
            self.rests_until = Some(Instant::now() + REST);
        }
        let wrong = ledger.wrong.len();
        if ledger.is_clean(epoch) {
            note(ledger, &work, &ended);
        } else {
            note_unclean(ledger, &work, &ended);
        }
        if ledger.wrong.len() > wrong {
            ledger.wrong.push(format!("that was `{} {:?}`: {}", work.name(), work.paths(), ended.errors.trim()));
        }
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

    /// The sentences that came most often, one a line.
    pub(crate) fn messages(&self) -> String {
        let mut all: Vec<_> = self.messages.iter().collect();
        all.sort_by_key(|(_, count)| std::cmp::Reverse(**count));
        let lines: Vec<_> =
            all.iter().take(MESSAGES_MAX).map(|(text, count)| format!("  {count} times: {text}")).collect();
        lines.join("\n")
    }

    fn put(&self, rng: &mut Rng, cloud: &Cloud, path: String) -> Work {
        let bytes = match rng.u32(..20) {
            0 => 0,
            1 => rng.usize(..20_000_000),
            2..7 => rng.usize(..2_000_000),
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
            Self::Restore { .. } => "trash restore",
            Self::Empty => "trash empty",
        }
    }

    fn paths(&self) -> Vec<&str> {
        match self {
            Self::Put { path, .. } | Self::Get { path } | Self::Remove { path } | Self::Restore { path } => vec![path],
            Self::Empty => Vec::new(),
            Self::Move { from, to } => vec![from, to],
        }
    }
}

/// Takes what a command said into the ledger.
fn note(ledger: &mut Ledger, work: &Work, ended: &Ended) {
    match (work, ended.code) {
        (Work::Put { path, content, .. }, 0) => ledger.put(path, *content),
        (Work::Put { path, content, .. }, _) => ledger.put_unanswered(path, *content),
        (Work::Get { path }, 0) => ledger.check(path, Some(&ended.out)),
        (Work::Get { path } | Work::Remove { path }, 3) => ledger.check(path, None),
        (Work::Get { .. }, _) => {}
        (Work::Remove { path }, 0) => {
            let files = ledger.files(path);
            ledger.trash.add(path, files, !ledger.may_have_ghost(path));
            ledger.set_allowed(path, [None].into());
            ledger.clear_ghost(path);
        }
        (Work::Remove { path }, _) => {
            let files = ledger.files(path);
            ledger.trash.add(path, files, false);
            ledger.allow_also(path, [None].into());
        }
        (Work::Move { from, to }, 0) => {
            let moved = ledger.files(from).into_iter().map(Some).collect();
            if ledger.may_have_ghost(from) {
                ledger.allow_ghost(to);
            } else {
                ledger.clear_ghost(to);
            }
            ledger.set_allowed(to, moved);
            ledger.set_allowed(from, [None].into());
            ledger.clear_ghost(from);
        }
        (Work::Move { from, .. }, 3) => ledger.check(from, None),
        (Work::Move { from, to }, _) => {
            let moved = ledger.files(from).into_iter().map(Some).collect();
            if ledger.may_have_ghost(from) {
                ledger.allow_ghost(to);
            }
            ledger.allow_also(to, moved);
            ledger.allow_also(from, [None].into());
        }
        (Work::Restore { path }, code) => note_restored(ledger, path, code),
        (Work::Empty, code) => ledger.trash.end_to_empty(code == 0),
    }
}

/// What was restored, or could not be.
fn note_restored(ledger: &mut Ledger, path: &str, code: i32) {
    let (files, is_sure) = ledger.trash.candidates(path);
    match code {
        3 if is_sure => ledger.wrong.push(format!("{path} is not in the trash, which must have {files:?}")),
        0 => {
            // What was removed for good before a roll-back may be back in the trash, and be the newest by a wrong date.
            let any = ledger.was_rolled_back() && (!is_sure || ledger.trash.dates_are_wrong());
            let was = if any { ledger.past(path) } else { [].into() };
            let files = files.into_iter().chain(was).collect::<BTreeSet<_>>();
            if any {
                ledger.allow_ghost(path);
            } else {
                ledger.clear_ghost(path);
            }
            ledger.trash.take(path, true);
            ledger.set_allowed(path, files.into_iter().map(Some).collect());
        }
        // Nothing was done.
        3 | 4 | 7 => {}
        _ => {
            let any = ledger.was_rolled_back() && (!is_sure || ledger.trash.dates_are_wrong());
            let was = if any { ledger.past(path) } else { [].into() };
            ledger.trash.take(path, false);
            ledger.allow_also(path, files.into_iter().chain(was).map(Some).collect());
        }
    }
}

/// A refusal without what differs from one to the next: what is in quotes, and numbers.
fn shape(ended: &Ended) -> String {
    let text = ended.errors.trim();
    let unquoted = text.split('`').enumerate().map(|(at, part)| if at % 2 == 0 { part } else { "…" });
    let plain: String =
        unquoted.collect::<String>().chars().map(|char| if char.is_ascii_digit() { '0' } else { char }).collect();
    format!("({}) {}", ended.code, plain.replace("00", "0").replace("00", "0").lines().last().unwrap_or_default())
}

/// The same of a command that met a journal which was taken back and not yet put together with what the nodes know.
/// What was written stands all the same. A name may have been changed as it was in the old journal.
fn note_unclean(ledger: &mut Ledger, work: &Work, ended: &Ended) {
    match (work, ended.code) {
        (Work::Put { .. }, _) => note(ledger, work, ended),
        (Work::Get { .. }, _) => {}
        (Work::Empty, _) => ledger.trash.end_to_empty(false),
        // Refused, or nothing was there as far as that journal knew.
        (_, 3 | 4 | 7) => {}
        (Work::Remove { path } | Work::Restore { path }, _) => {
            let was = ledger.past(path);
            ledger.trash.take(path, false);
            ledger.trash.add(path, was.clone(), false);
            ledger.allow_also(path, was.into_iter().map(Some).chain([None]).collect());
            ledger.allow_ghost(path);
        }
        (Work::Move { from, to }, _) => {
            let was = ledger.past(from);
            ledger.allow_also(to, was.iter().copied().map(Some).collect());
            ledger.allow_also(from, was.into_iter().map(Some).chain([None]).collect());
            ledger.allow_ghost(to);
            ledger.allow_ghost(from);
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
/// Commands at work at once.
const CLIENTS: usize = 4;
/// How long nothing begins after a command that found nobody.
const REST: Duration = Duration::from_millis(500);
/// Sentences that are shown.
const MESSAGES_MAX: usize = 12;
/// Bytes in the trash from which on it is emptied: all lies in memory.
const TRASH_BYTES_MAX: usize = 150 << 20;
/// The folders that must be there: what is missing for `mv` is then its source.
pub(crate) fn folders() -> impl Iterator<Item = &'static str> {
    FOLDERS.iter().filter_map(|folder| folder.strip_suffix('/'))
}

/// What paths begin with.
const FOLDERS: [&str; 5] = ["/plain/", "/with blanks and ; in it/", "/über/文/", "/deep/a/b/c/d/", "/plain-"];
