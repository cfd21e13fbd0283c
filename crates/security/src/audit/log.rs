//! Writes the audit record: lines are appended and synced before anyone is told that they are there. A full file is
//! followed by a new one that begins where the old one ended. Only the security server's own user can read the files. A
//! line that was acknowledged is never changed.

use std::{
    collections::BTreeMap,
    fs::{self, DirBuilder, File, OpenOptions},
    io::{self, Write},
    os::unix::fs::{DirBuilderExt, OpenOptionsExt},
    path::{Path, PathBuf},
};

use protocol::message::audit::{AuditBatch, AuditEvent, AuditHead, AuditKind, AuditOutcome};
use store::read_file_uncached;

use super::{
    check::files_of,
    line::{self, Content, EventOrigin, hex},
};
use crate::SecurityError;

/// The record, open for writing. One process has it at a time: the accounts' lock ensures that.
#[derive(Debug)]
pub struct AuditLog {
    folder: PathBuf,
    /// The current file, with its length; none before the first line.
    file: Option<(File, u64)>,
    /// Up to which byte room is kept on the disk for the current file.
    room_bytes: u64,
    head: AuditHead,
    file_bytes_max: u64,
    /// Bytes of all its files.
    bytes: u64,
    /// The next event expected of each writer: events recorded before are not recorded again.
    expected: BTreeMap<u64, u64>,
}

impl AuditLog {
    /// Opens the record in `folder`, which is made if it is missing. `kept` is the head that is stored elsewhere. If
    /// the files end before it, they were cut. The record then goes on after the gap, which stays visible for ever.
    ///
    /// A last line that was not written whole was never acknowledged, and is cut off.
    ///
    /// # Errors
    /// When a file cannot be read or written, or its last line is not a valid one.
    pub fn open(folder: &Path, kept: Option<AuditHead>, now_unix_millis: u64) -> Result<Self, SecurityError> {
        Self::open_with(folder, kept, now_unix_millis, FILE_BYTES_MAX)
    }

    fn open_with(
        folder: &Path,
        kept: Option<AuditHead>,
        now_unix_millis: u64,
        file_bytes_max: u64,
    ) -> Result<Self, SecurityError> {
        let made = DirBuilder::new().recursive(true).mode(0o700).create(folder);
        made.map_err(|source| failed("make the folder of the audit record", folder, source))?;
        let mut log = Self {
            folder: folder.to_owned(),
            file: None,
            room_bytes: 0,
            head: AuditHead::EMPTY,
            file_bytes_max,
            bytes: 0,
            expected: BTreeMap::new(),
        };
        let files = files_of(folder)?;
        // A file that cannot be examined now is reported when it is read.
        log.bytes = files.iter().filter_map(|(_, path)| fs::metadata(path).ok()).map(|found| found.len()).sum();
        if let Some((_, path)) = files.last() {
            log.take_up(path)?;
        }
        if let Some(kept) = kept.filter(|kept| kept.number > log.head.number) {
            let found = log.head.number;
            tracing::error!(found, kept = kept.number, "the audit record was cut");
            log.head = kept;
            let note = format!("the files ended with line {found}, and line {} was written", kept.number);
            log.append(vec![own(now_unix_millis, "find the record cut", note, AuditOutcome::Failed)])?;
        }
        log.keep_room();
        Ok(log)
    }

    /// The end of the record.
    pub fn head(&self) -> AuditHead {
        self.head
    }

    /// Where its files lie.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Bytes that the record takes; too high if files were moved away since it was opened.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Appends the security server's own events, and syncs them.
    ///
    /// # Errors
    /// When they cannot be written. The record may then hold a part of them, and must be opened again.
    pub fn append(&mut self, events: Vec<AuditEvent>) -> Result<AuditHead, SecurityError> {
        let own = EventOrigin { writer: 0, sequence: 0 };
        self.write(events.into_iter().map(|event| (event, own)).collect())
    }

    /// Appends those of a writer's events that are not recorded yet, and syncs them.
    ///
    /// # Errors
    /// As [`append`](Self::append).
    pub fn append_batch(&mut self, batch: AuditBatch) -> Result<AuditHead, SecurityError> {
        let AuditBatch { writer, first, events } = batch;
        let expected = self.expected.get(&writer).copied().unwrap_or(0);
        let events = (first..).zip(events).filter(|(sequence, _)| *sequence >= expected);
        self.write(events.map(|(sequence, event)| (event, EventOrigin { writer, sequence })).collect())
    }

    /// The record as it is now, to [go back](Self::roll_back) to.
    pub(crate) fn mark(&self) -> AuditMark {
        let file_bytes = self.file.as_ref().map_or(0, |(_, bytes)| *bytes);
        AuditMark { head: self.head, file_bytes, bytes: self.bytes, expected: self.expected.clone() }
    }

    /// Takes back what was appended since: nobody was told that it is there. So a line that is torn, because the disk
    /// had no room for all of it, never stays.
    ///
    /// # Errors
    /// When the files cannot be cut.
    pub(crate) fn roll_back(&mut self, mark: AuditMark) -> Result<(), SecurityError> {
        let AuditMark { head, file_bytes, bytes, expected } = mark;
        (self.head, self.bytes, self.expected) = (head, bytes, expected);
        (self.file, self.room_bytes) = (None, 0);
        let mut last = None;
        for (number, path) in files_of(&self.folder)? {
            if number <= head.number {
                last = Some(path);
                continue;
            }
            fs::remove_file(&path).map_err(|source| failed("remove", &path, source))?;
        }
        if let Some(path) = last {
            let file = OpenOptions::new().append(true).open(&path).map_err(|source| failed("open", &path, source))?;
            let cut = file.set_len(file_bytes).and_then(|()| file.sync_all());
            cut.map_err(|source| failed("cut", &path, source))?;
            self.file = Some((file, file_bytes));
        }
        self.keep_room();
        Ok(())
    }

    /// Keeps room for thousands of lines ahead, so that logins go on where others have filled the disk. Best effort.
    fn keep_room(&mut self) {
        let Some((file, bytes)) = &self.file else { return };
        if self.room_bytes < bytes + ROOM_BYTES / 2 && store::keep_room(file, bytes + ROOM_BYTES).is_ok() {
            self.room_bytes = bytes + ROOM_BYTES;
        }
    }

    fn write(&mut self, events: Vec<(AuditEvent, EventOrigin)>) -> Result<AuditHead, SecurityError> {
        if events.is_empty() {
            return Ok(self.head);
        }
        let mut text = String::new();
        if self.file.as_ref().is_none_or(|(_, bytes)| *bytes >= self.file_bytes_max) {
            let begun = self.begin_file(events[0].0.unix_millis, &mut text);
            // On a full disk the record goes on in the file that has room of its own.
            begun.or_else(|error| if error.is_full() && self.file.is_some() { Ok(()) } else { Err(error) })?;
        }
        for (event, origin) in events {
            self.seal(event, origin, &mut text)?;
        }
        let Some((file, bytes)) = &mut self.file else { return Ok(self.head) };
        let written = file.write_all(text.as_bytes()).and_then(|()| file.sync_data());
        written.map_err(|source| failed("write the audit record in", &self.folder, source))?;
        *bytes += text.len() as u64;
        self.bytes += text.len() as u64;
        self.keep_room();
        Ok(self.head)
    }

    fn seal(&mut self, event: AuditEvent, origin: EventOrigin, text: &mut String) -> Result<(), SecurityError> {
        let content = Content::of(self.head.number + 1, event.clipped(), origin);
        let (line, head) = content
            .seal(self.head)
            .map_err(|error| failed("write a line of the audit record in", &self.folder, error.into()))?;
        text.push_str(&line);
        text.push('\n');
        self.head = head;
        self.expect_after(origin);
        Ok(())
    }

    /// Begins a file. Its first line says how the one before ended, so that the file can be checked alone.
    fn begin_file(&mut self, unix_millis: u64, text: &mut String) -> Result<(), SecurityError> {
        let path = self.folder.join(file_name(self.head.number + 1));
        let made = OpenOptions::new().append(true).create_new(true).mode(0o600).open(&path);
        let file = made.map_err(|source| failed("begin", &path, source))?;
        // The file's name must be as durable as the lines that will be acknowledged.
        let synced = File::open(&self.folder).and_then(|folder| folder.sync_all());
        synced.map_err(|source| {
            // Otherwise the next attempt would find it, and could not begin it.
            let _ = fs::remove_file(&path);
            failed("sync", &self.folder, source)
        })?;
        (self.file, self.room_bytes) = (Some((file, 0)), 0);
        let mut begin = own(unix_millis, BEGIN_FILE, String::new(), AuditOutcome::Done);
        begin.object = hex(&self.head.hash);
        self.seal(begin, EventOrigin { writer: 0, sequence: 0 }, text)
    }

    /// Continues the last file.
    fn take_up(&mut self, path: &Path) -> Result<(), SecurityError> {
        // From the disk: after a failed sync, the system may show lines that never got there.
        let bytes = read_file_uncached(path).map_err(|source| failed("read", path, source))?;
        let whole = bytes.iter().rposition(|byte| *byte == b'\n').map_or(0, |end| end + 1);
        let text = String::from_utf8_lossy(&bytes[..whole]).into_owned();
        for line in text.lines() {
            // Faults before the last line are left to the check; only the end matters here.
            if let Ok((content, head)) = line::open(line) {
                self.head = head;
                content.origin().into_iter().for_each(|origin| self.expect_after(origin));
            }
        }
        if let Some(last) = text.lines().last() {
            line::open(last).map_err(|why| damaged(path, &why))?;
        } else {
            // The file was begun, and nothing in it acknowledged: its name says where the one before ended.
            self.head.number = number_of(path).unwrap_or(1) - 1;
            return self.drop_empty(path);
        }
        let file = OpenOptions::new().append(true).open(path).map_err(|source| failed("open", path, source))?;
        if whole < bytes.len() {
            tracing::warn!(file = %path.display(), "a line of the audit record that was not written whole is cut off");
            let cut = file.set_len(whole as u64).and_then(|()| file.sync_all());
            cut.map_err(|source| failed("cut", path, source))?;
        }
        self.file = Some((file, whole as u64));
        Ok(())
    }

    fn drop_empty(&mut self, path: &Path) -> Result<(), SecurityError> {
        fs::remove_file(path).map_err(|source| failed("remove", path, source))?;
        self.head = AuditHead::EMPTY;
        match files_of(&self.folder)?.pop() {
            Some((_, before)) => self.take_up(&before),
            None => Ok(()),
        }
    }

    fn expect_after(&mut self, origin: EventOrigin) {
        if origin.writer == 0 {
            return;
        }
        if !self.expected.contains_key(&origin.writer) && self.expected.len() >= WRITERS_MAX {
            // A writer is one incarnation of a master: one that is not among the newest few is over.
            self.expected.pop_first();
        }
        self.expected.insert(origin.writer, origin.sequence + 1);
    }
}

/// What [`AuditLog::roll_back`] goes back to.
#[derive(Debug)]
pub(crate) struct AuditMark {
    head: AuditHead,
    file_bytes: u64,
    bytes: u64,
    expected: BTreeMap<u64, u64>,
}

/// An event of the record itself.
fn own(unix_millis: u64, what: &str, note: String, outcome: AuditOutcome) -> AuditEvent {
    AuditEvent {
        unix_millis,
        kind: AuditKind::Record,
        who: "security".into(),
        from: String::new(),
        what: what.into(),
        object: String::new(),
        outcome,
        note,
    }
}

/// The file whose first line has this number.
fn file_name(number: u64) -> String {
    format!("{FILE_PREFIX}{number:012}{FILE_SUFFIX}")
}

/// The number in a file's name; `None` if it is not a file of the record.
pub(super) fn number_of(path: &Path) -> Option<u64> {
    let name = path.file_name()?.to_str()?;
    name.strip_prefix(FILE_PREFIX)?.strip_suffix(FILE_SUFFIX)?.parse().ok()
}

pub(super) fn failed(operation: &'static str, file: &Path, source: io::Error) -> SecurityError {
    SecurityError::File { operation, file: file.to_owned(), source }
}

fn damaged(file: &Path, why: &str) -> SecurityError {
    let why = format!("its last line is damaged ({why}); set the file aside for the check, and start again");
    failed("go on with the audit record in", file, io::Error::new(io::ErrorKind::InvalidData, why))
}

/// The action that the first line of a file reports.
pub(super) const BEGIN_FILE: &str = "begin a file";
/// Bytes after which the next line begins a file: a day of a busy cloud, and quick to read.
const FILE_BYTES_MAX: u64 = 64 << 20;
/// Room that is kept ahead of the record's end: some 15,000 logins.
const ROOM_BYTES: u64 = 4 << 20;
/// Writers whose next event is remembered: a few masters, and their last few incarnations.
const WRITERS_MAX: usize = 64;
/// How the name of a file begins.
const FILE_PREFIX: &str = "audit-";
/// How it ends.
const FILE_SUFFIX: &str = ".jsonl";

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::os::unix::fs::PermissionsExt;

    use super::{
        super::{check_folder, read_page},
        *,
    };
    use protocol::message::audit::AuditQuery;

    fn event(who: &str, unix_millis: u64) -> AuditEvent {
        AuditEvent {
            who: who.into(),
            kind: AuditKind::Login,
            ..own(unix_millis, "log in", String::new(), AuditOutcome::Done)
        }
    }

    fn log(folder: &Path, file_bytes_max: u64) -> AuditLog {
        AuditLog::open_with(folder, None, 0, file_bytes_max).unwrap()
    }

    fn files(folder: &Path) -> Vec<PathBuf> {
        files_of(folder).unwrap().into_iter().map(|(_, path)| path).collect()
    }

    /// Ten events in files of a few lines each; the head.
    fn ten(folder: &Path) -> AuditHead {
        let mut log = log(folder, 600);
        for number in 0..10 {
            log.append(vec![event(if number % 2 == 0 { "alice" } else { "bob" }, number)]).unwrap();
        }
        log.head()
    }

    #[test]
    fn lines_form_one_chain_over_files_that_only_their_owner_reads() {
        let folder = tempfile::tempdir().unwrap();
        let head = ten(folder.path());
        assert!(files(folder.path()).len() > 2);
        for file in files(folder.path()) {
            assert_eq!(fs::metadata(file).unwrap().permissions().mode() & 0o777, 0o600);
        }
        let check = check_folder(folder.path(), &[head], u64::MAX).unwrap();
        assert_eq!((check.first, check.head, check.fault), (1, head, None));
        // And it continues after a restart.
        let mut again = log(folder.path(), 600);
        assert_eq!(again.head(), head);
        let head = again.append(vec![event("carol", 10)]).unwrap();
        assert_eq!(check_folder(folder.path(), &[head], u64::MAX).unwrap().fault, None);
    }

    // Promise 26b.
    #[test]
    fn whatever_is_changed_removed_swapped_or_added_is_found_with_its_line() {
        let folder = tempfile::tempdir().unwrap();
        let head = ten(folder.path());
        let second = files(folder.path())[1].clone();
        let good = fs::read_to_string(&second).unwrap();
        let lines: Vec<_> = good.lines().collect();
        let swapped = [lines[0], lines[2], lines[1]].join("\n") + "\n" + &lines[3..].join("\n");
        for (bad, line) in [
            (good.replacen("alice", "mallo", 1), None),
            (lines[1..].join("\n") + "\n", Some(1)),
            ([&lines[..1], &lines[2..]].concat().join("\n") + "\n", Some(2)),
            (swapped, Some(2)),
            (good.clone() + lines[1] + "\n", None),
            (good.clone() + "{}\n", None),
        ] {
            fs::write(&second, bad).unwrap();
            let fault = check_folder(folder.path(), &[head], u64::MAX).unwrap().fault.unwrap();
            assert_eq!(fault.file, second.file_name().unwrap().to_str().unwrap());
            assert!(line.is_none_or(|line| fault.line == line), "{fault:?}");
        }
        fs::remove_file(&second).unwrap();
        assert!(check_folder(folder.path(), &[head], u64::MAX).unwrap().fault.is_some(), "a whole file is missing");
    }

    // Promise 26b.
    #[test]
    fn what_is_rolled_back_leaves_no_torn_line_and_no_begun_file() {
        let folder = tempfile::tempdir().unwrap();
        ten(folder.path());
        for (file_bytes_max, torn) in [(u64::MAX, true), (600, false)] {
            let mut log = log(folder.path(), file_bytes_max);
            let (head, mark, bytes) = (log.head(), log.mark(), log.bytes());
            let before = files(folder.path());
            for number in 0..5 {
                log.append(vec![event("mallory", number)]).unwrap();
            }
            if torn {
                // What a write leaves for which the disk had too little room.
                log.file.as_mut().unwrap().0.write_all(b"{\"number\":").unwrap();
            }
            log.roll_back(mark).unwrap();
            assert_eq!((log.head(), log.bytes(), files(folder.path())), (head, bytes, before));
            let head = log.append(vec![event("carol", 11)]).unwrap();
            assert_eq!(check_folder(folder.path(), &[head], u64::MAX).unwrap().fault, None);
        }
    }

    // Promise 26b.
    #[test]
    fn the_oldest_files_may_be_moved_away_and_the_rest_verifies() {
        let folder = tempfile::tempdir().unwrap();
        let head = ten(folder.path());
        let bytes = log(folder.path(), 600).bytes();
        for oldest in files(folder.path()).into_iter().rev().skip(1).collect::<Vec<_>>().into_iter().rev() {
            fs::remove_file(oldest).unwrap();
            let check = check_folder(folder.path(), &[head], u64::MAX).unwrap();
            assert_eq!((check.fault, check.head), (None, head));
            assert_eq!(check.first, number_of(&files(folder.path())[0]).unwrap());
        }
        let mut log = log(folder.path(), 600);
        assert!(log.bytes() < bytes);
        let head = log.append(vec![event("carol", 11)]).unwrap();
        assert_eq!(check_folder(folder.path(), &[head], u64::MAX).unwrap().fault, None);
        let on_disk: u64 = files(folder.path()).iter().map(|file| fs::metadata(file).unwrap().len()).sum();
        assert_eq!(log.bytes(), on_disk);
    }

    // Promise 26b.
    #[test]
    fn a_tail_that_was_cut_off_is_found_by_the_head_that_is_kept_elsewhere() {
        let folder = tempfile::tempdir().unwrap();
        let head = ten(folder.path());
        let last = files(folder.path()).pop().unwrap();
        let text = fs::read_to_string(&last).unwrap();
        let kept: Vec<_> = text.lines().collect();
        fs::write(&last, kept[..kept.len() - 1].join("\n") + "\n").unwrap();
        assert_eq!(check_folder(folder.path(), &[], u64::MAX).unwrap().fault, None, "what is left is whole in itself");
        let fault = check_folder(folder.path(), &[head], u64::MAX).unwrap().fault.unwrap();
        assert!(fault.why.contains("cut off"), "{fault:?}");
        // The server that finds it goes on, and the gap stays visible.
        let mut log = AuditLog::open_with(folder.path(), Some(head), 11, 600).unwrap();
        let head = log.append(vec![event("carol", 12)]).unwrap();
        assert!(check_folder(folder.path(), &[head], u64::MAX).unwrap().fault.is_some());
    }

    #[test]
    fn a_torn_last_line_is_cut_off_at_the_next_start_and_nothing_else_is() {
        let folder = tempfile::tempdir().unwrap();
        let head = ten(folder.path());
        let last = files(folder.path()).pop().unwrap();
        let text = fs::read_to_string(&last).unwrap();
        fs::write(&last, text.clone() + "{\"number\":99,\"ti").unwrap();
        assert_eq!(log(folder.path(), 600).head(), head);
        assert_eq!(fs::read_to_string(&last).unwrap(), text);
        assert_eq!(check_folder(folder.path(), &[head], u64::MAX).unwrap().fault, None);
    }

    #[test]
    fn a_batch_that_comes_again_is_not_recorded_again_also_after_a_restart() {
        let folder = tempfile::tempdir().unwrap();
        let batch = |first, count| AuditBatch { writer: 7, first, events: vec![event("alice", 1); count] };
        let mut first = log(folder.path(), 1 << 20);
        let head = first.append_batch(batch(0, 3)).unwrap();
        assert_eq!(head.number, 4, "three, and the file's own");
        assert_eq!(first.append_batch(batch(0, 3)).unwrap(), head);
        drop(first);
        let mut again = log(folder.path(), 1 << 20);
        assert_eq!(again.append_batch(batch(0, 3)).unwrap(), head);
        assert_eq!(again.append_batch(batch(2, 2)).unwrap().number, 5, "one of them is new");
    }

    #[test]
    fn administrators_read_pages_of_what_they_ask_for() {
        let folder = tempfile::tempdir().unwrap();
        ten(folder.path());
        let of_alice = AuditQuery { user: Some("alice".parse().unwrap()), since_unix_millis: Some(4), after: 0 };
        let page = read_page(folder.path(), &of_alice, u64::MAX).unwrap();
        assert_eq!(page.lines.len(), 3, "{page:?}");
        assert!(!page.more && page.lines.iter().all(|line| line.contains("\"who\":\"alice\"")));
        let rest =
            read_page(folder.path(), &AuditQuery { after: page.last, ..AuditQuery::default() }, u64::MAX).unwrap();
        assert_eq!((rest.lines.len(), rest.more), (0, false));
    }
}
