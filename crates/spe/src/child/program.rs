//! A program as a function: started anew for each segment, which it reads on standard input. Its standard output is the
//! results, as in the first Sector and in Hadoop streaming. Serves the path *job*, door 7; in the SPE process alone,
//! which is locked in, and the program even more (`sandbox`). A program may read nothing, print before it reads, or
//! never end (the node notices that). One thread serves all three pipes, so the two ends never wait for each other.

use std::{
    collections::VecDeque,
    fs::{self, File},
    io::{self, Read, Write},
    os::fd::{AsFd, BorrowedFd},
    path::{Path, PathBuf},
    process::{Child, Command, ExitStatus, Stdio},
    time::Duration,
};

use protocol::{Reason, Refusal};
use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    fs::{OFlags, fcntl_getfl, fcntl_setfl},
};
use udf::{FunctionError, Input, Output, RecordFormat, Stopped};

use super::{
    call_error::CallError,
    reporter::{Reporter, is_report},
    side_file_maps::{self, NamedFile},
};
use crate::{
    exit_cause::{ExitCause, OomEvidence, ProcessKind},
    sandbox::ProgramLauncher,
};

/// A program with its arguments, found to be there.
pub(super) struct Program {
    words: Vec<String>,
    /// Exit codes that are not errors.
    good_codes: Vec<i32>,
    /// The name of each side file, and its file in the scratch folder.
    side: Vec<(String, String)>,
    folder: PathBuf,
    launcher: ProgramLauncher,
}

impl Program {
    /// Checks that the program exists; it is not run.
    pub(super) fn find(
        words: Vec<String>,
        parameters: &[(String, String)],
        folder: PathBuf,
        started: ProgramLauncher,
    ) -> Result<Self, Refusal> {
        let usage = |message: String| Refusal::new(Reason::Invalid, message);
        let name = words.first().ok_or_else(|| usage("a program was asked for without its name".into()))?;
        let is_there = if name.contains('/') {
            folder.join(name).is_file()
        } else {
            FOLDERS.split(':').any(|place| Path::new(place).join(name).is_file())
        };
        if !is_there {
            let message = format!(
                "there is no program `{name}` on this node, or functions may not see it: install it in one of \
                 {FOLDERS}, or give its whole path and name its folder in `spe_read_paths`"
            );
            return Err(Refusal::new(Reason::NotFound, message));
        }
        let given = parameters.iter().rev().find(|(name, _)| name == GOOD_CODES);
        let good_codes = given.map_or(Ok(vec![0]), |(_, codes)| {
            let codes: Result<Vec<i32>, _> = codes.split(',').map(|code| code.trim().parse()).collect();
            codes.map_err(|_| usage(format!("the parameter `{GOOD_CODES}` is a list of numbers, such as `0,1`")))
        })?;
        Ok(Self { words, good_codes, side: Vec::new(), folder, launcher: started })
    }

    /// The same program with these side files, which it finds by their names in its environment.
    pub(super) fn with_side_files(self, files: &[NamedFile]) -> Result<Self, Refusal> {
        let side = side_file_maps::write_copies(files, &self.folder)?;
        Ok(Self { side, ..self })
    }

    /// Runs it over one segment.
    pub(super) fn call(
        &self,
        input: &Input<'_>,
        parameters: &[(String, String)],
        output: &mut Output<'_>,
    ) -> Result<(), CallError> {
        let name = &self.words[0];
        let broken =
            |what: &str, error: &io::Error| CallError::Broken(format!("`{name}` could not be {what}: {error}"));
        let beside = self.lay_beside(input).map_err(|error| broken("given its further streams", &error))?;
        let mut command = Command::new(name);
        command.args(&self.words[1..]).current_dir(&self.folder).env_clear();
        command.envs(environment(&self.folder)).envs(segment_environment(input, parameters)).envs(beside);
        command.envs(self.side.iter().map(|(name, path)| (format!("SECTOR_SIDE_{name}"), path)));
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let child = self.launcher.spawn(&mut command).map_err(|error| match error.kind() {
            // The file was found, but this machine cannot run it. That is the same at every node.
            io::ErrorKind::NotFound | io::ErrorKind::PermissionDenied => {
                CallError::Function(FunctionError::new(format!("`{name}` could not be started: {error}")))
            }
            _ if error.raw_os_error() == Some(libc::ENOEXEC) => {
                CallError::Function(FunctionError::new(format!("`{name}` is no program this machine can run")))
            }
            _ => broken("started", &error),
        })?;
        let mut running = Running::new(child, &self.launcher).map_err(|error| broken("started", &error))?;
        let mut results = Results::new(input.buckets());
        let pumped = running.run_io(input.bytes(), &mut results, output);
        let status = match pumped {
            Ok(status) => status,
            // The disk is full, and the caller knows. The running program is ended.
            Err(ProgramIoError::Stopped) => return Err(CallError::Function(Stopped.into())),
            Err(ProgramIoError::Io(error)) => return Err(broken("fed", &error)),
        };
        let said = running.said.last_lines();
        if !status.code().is_some_and(|code| self.good_codes.contains(&code)) {
            return Err(
                match ExitCause::from_status(status, ProcessKind::Program(name), OomEvidence::Unknown, said.as_deref())
                {
                    ExitCause::Function(message) => {
                        let hint = fork_hint(self.launcher.allows_fork(), said.as_deref());
                        CallError::Function(FunctionError::new(message + hint + shell_hint(&self.words)))
                    }
                    // The SPE does not know about the machine's memory: the node does.
                    ExitCause::Process(message) | ExitCause::OutOfMemory(message) => CallError::Broken(message),
                },
            );
        }
        std::mem::take(&mut running.reporter)
            .finish(input.bytes().len() as u64, output)
            .map_err(CallError::Function)?;
        results.finish(output).map_err(|stopped| CallError::Function(stopped.into()))
    }
}

impl Program {
    /// Writes the segment's data of further input streams into files of the scratch folder, which the program finds by
    /// their names in its environment. They are copies, because a program may want to read a file by name, and more
    /// than once.
    fn lay_beside(&self, input: &Input<'_>) -> io::Result<Vec<(String, String)>> {
        let mut names = Vec::new();
        for (stream, part) in (2..).zip(input.beside()) {
            let name = format!("stream-{stream}");
            let place = self.folder.join(&name);
            match fs::remove_file(&place) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                _ => {}
            }
            File::options().write(true).create_new(true).open(&place)?.write_all(part.bytes)?;
            names.push((format!("SECTOR_STREAM_{stream}"), name));
            names.push((format!("SECTOR_STREAM_{stream}_PATH"), part.path.to_owned()));
        }
        Ok(names)
    }
}

/// A running program. Dropping it ends it, and all that it started.
struct Running<'a> {
    process: Child,
    said: StderrTail,
    reporter: Reporter,
    launcher: &'a ProgramLauncher,
}

enum ProgramIoError {
    Stopped,
    Io(io::Error),
}

impl From<io::Error> for ProgramIoError {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

impl From<rustix::io::Errno> for ProgramIoError {
    fn from(error: rustix::io::Errno) -> Self {
        Self::Io(error.into())
    }
}

impl<'a> Running<'a> {
    fn new(process: Child, started: &'a ProgramLauncher) -> io::Result<Self> {
        let running = Self { process, said: StderrTail::default(), reporter: Reporter::default(), launcher: started };
        let pipes = [
            running.process.stdin.as_ref().map(AsFd::as_fd),
            running.process.stdout.as_ref().map(AsFd::as_fd),
            running.process.stderr.as_ref().map(AsFd::as_fd),
        ];
        for pipe in pipes.into_iter().flatten() {
            fcntl_setfl(pipe, fcntl_getfl(pipe)? | OFlags::NONBLOCK)?;
        }
        Ok(running)
    }

    /// Feeds `bytes` and takes the output, until the program has ended and its pipes are empty.
    fn run_io(
        &mut self,
        mut bytes: &[u8],
        results: &mut Results,
        output: &mut Output<'_>,
    ) -> Result<ExitStatus, ProgramIoError> {
        let total = bytes.len();
        let (mut stdin, mut stdout, mut stderr) =
            (self.process.stdin.take(), self.process.stdout.take(), self.process.stderr.take());
        let mut buffer = vec![0; READ_BYTES];
        let mut ended = None;
        loop {
            if bytes.is_empty() {
                // End of its input.
                stdin = None;
            }
            let mut came = false;
            if stdin.is_some() || stdout.is_some() || stderr.is_some() {
                came = wait(
                    [
                        stdin.as_ref().map(|pipe| (pipe.as_fd(), PollFlags::OUT)),
                        stdout.as_ref().map(|pipe| (pipe.as_fd(), PollFlags::IN)),
                        stderr.as_ref().map(|pipe| (pipe.as_fd(), PollFlags::IN)),
                    ],
                    // Once it has ended, only what is left in the pipes is read.
                    if ended.is_some() { Duration::ZERO } else { LOOK_INTERVAL },
                )?;
            } else if ended.is_none() {
                // It may close its pipes and go on; the node notices if it never ends.
                ended = Some(self.process.wait()?);
            }
            if let Some(pipe) = &mut stdin {
                match pipe.write(&bytes[..bytes.len().min(WRITE_BYTES)]) {
                    Ok(written) => {
                        bytes = &bytes[written..];
                        // Reading is a sign of life.
                        output.progress((total - bytes.len()) as u64);
                    }
                    Err(error) if is_later(&error) => {}
                    // It wants no more input, which is allowed.
                    Err(_) => stdin = None,
                }
            }
            let fed = (total - bytes.len()) as u64;
            read_some(&mut stdout, &mut buffer, &mut |bytes| results.take(bytes, output))?;
            read_some(&mut stderr, &mut buffer, &mut |bytes| {
                self.said.take(bytes);
                self.reporter.take(bytes, fed, output);
                Ok(())
            })?;
            match ended {
                // A pipe that somebody else holds open is not waited for.
                Some(status) if !came => return Ok(status),
                None if !came => ended = self.process.try_wait()?,
                _ => {}
            }
        }
    }
}

impl Drop for Running<'_> {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
        self.launcher.kill_leftovers();
    }
}

/// Waits until one of these is ready; returns whether one is.
fn wait(pipes: [Option<(BorrowedFd<'_>, PollFlags)>; 3], most: Duration) -> io::Result<bool> {
    let mut watched: Vec<_> =
        pipes.into_iter().flatten().map(|(pipe, flags)| PollFd::from_borrowed_fd(pipe, flags)).collect();
    let most = Timespec { tv_sec: 0, tv_nsec: i64::from(most.subsec_nanos()) };
    match poll(&mut watched, Some(&most)) {
        Ok(ready) => Ok(ready > 0),
        Err(rustix::io::Errno::INTR) => Ok(true),
        Err(error) => Err(error.into()),
    }
}

/// Reads what a pipe holds, up to one buffer; the pipe is closed at its end.
fn read_some(
    pipe: &mut Option<impl Read>,
    buffer: &mut [u8],
    take: &mut dyn FnMut(&[u8]) -> Result<(), Stopped>,
) -> Result<(), ProgramIoError> {
    let Some(open) = pipe else { return Ok(()) };
    match open.read(buffer) {
        Ok(0) => *pipe = None,
        Ok(read) => take(&buffer[..read]).map_err(|Stopped| ProgramIoError::Stopped)?,
        Err(error) if is_later(&error) => {}
        Err(error) => return Err(error.into()),
    }
    Ok(())
}

fn is_later(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted)
}

/// Sends the program's output to buckets. A single bucket gets it unchanged; with several, each line goes to the bucket
/// of the text before its first tab.
struct Results {
    by_line: bool,
    /// The beginning of a line whose end has not arrived.
    rest: Vec<u8>,
}

impl Results {
    fn new(buckets: u32) -> Self {
        Self { by_line: buckets > 1, rest: Vec::new() }
    }

    fn take(&mut self, bytes: &[u8], output: &mut Output<'_>) -> Result<(), Stopped> {
        if !self.by_line {
            let lines = bytes.iter().filter(|byte| **byte == b'\n').count();
            return output.emit_records(0, bytes, lines as u64);
        }
        let mut bytes = bytes;
        while let Some(end) = bytes.iter().position(|byte| *byte == b'\n') {
            let (line, after) = bytes.split_at(end + 1);
            bytes = after;
            if self.rest.is_empty() {
                emit_line(line, output)?;
            } else {
                self.rest.extend_from_slice(line);
                emit_line(&self.rest, output)?;
                self.rest.clear();
            }
        }
        self.rest.extend_from_slice(bytes);
        Ok(())
    }

    fn finish(mut self, output: &mut Output<'_>) -> Result<(), Stopped> {
        if self.rest.is_empty() {
            return Ok(());
        }
        // Another task's line follows it in the bucket.
        self.rest.push(b'\n');
        emit_line(&self.rest, output)
    }
}

fn emit_line(line: &[u8], output: &mut Output<'_>) -> Result<(), Stopped> {
    let end = line.iter().position(|byte| *byte == b'\t').unwrap_or(line.len() - 1);
    output.emit_key(&line[..end], line)
}

/// The end of what a program wrote to standard error. The node's log has all of it.
#[derive(Default)]
struct StderrTail(VecDeque<u8>);

impl StderrTail {
    fn take(&mut self, bytes: &[u8]) {
        // A log that is no longer read is no reason to end.
        let _ = io::stderr().write_all(bytes);
        self.0.extend(bytes);
        let surplus = self.0.len().saturating_sub(SAID_BYTES_MAX);
        self.0.drain(..surplus);
    }

    fn last_lines(&self) -> Option<String> {
        let bytes: Vec<u8> = self.0.iter().copied().collect();
        let text = String::from_utf8_lossy(&bytes);
        let lines: Vec<_> =
            text.lines().map(str::trim_end).filter(|line| !line.is_empty() && !is_report(line)).collect();
        let last = lines[lines.len().saturating_sub(SAID_LINES_MAX)..].join(" / ");
        let last: String = last.chars().filter(|character| !character.is_control()).collect();
        (!last.is_empty()).then_some(last)
    }
}

/// What to do where a program may have failed because it may start no process. Each program has words of its own for
/// that: these are said by shells (`Cannot fork`), by Python (`_fork_exec`), by `posix_spawn` and by `clone`.
fn fork_hint(allows_fork: bool, said: Option<&str>) -> &'static str {
    let said = said.unwrap_or_default().to_lowercase();
    let is_about_processes = ["fork", "spawn", "clone"].iter().any(|word| said.contains(word));
    if allows_fork || !is_about_processes {
        return "";
    }
    "; a function may start no further process, as for a pipe in a shell, unless the node's setting `spe_fork` is true"
}

/// What to do where a program failed that was given words which only a shell understands.
fn shell_hint(words: &[String]) -> &'static str {
    let is_for_shell = |word: &String| matches!(word.as_str(), "|" | "||" | "&&" | ";" | ">" | ">>" | "<" | "2>&1");
    // A shell understands them, and `cut -d '|'` means one.
    if words.iter().skip(1).zip(words).any(|(word, before)| is_for_shell(word) && !before.starts_with('-')) {
        "; no shell reads these words: `sh -c '…'` starts one"
    } else {
        ""
    }
}

/// The environment of any process that an SPE starts.
pub(super) fn environment(folder: &Path) -> Vec<(&'static str, std::ffi::OsString)> {
    let kept = ["LANG", "LC_ALL", "TZ"].into_iter().filter_map(|name| Some((name, std::env::var_os(name)?)));
    [("PATH", FOLDERS.into()), ("HOME", folder.into()), ("TMPDIR", folder.into())].into_iter().chain(kept).collect()
}

/// The variables that describe its segment to a program.
fn segment_environment(input: &Input<'_>, parameters: &[(String, String)]) -> Vec<(String, String)> {
    let records = match input.format() {
        RecordFormat::File => "file".into(),
        RecordFormat::Lines => "lines".into(),
        RecordFormat::Fixed(bytes) => format!("fixed:{bytes}"),
        RecordFormat::Index => "index".into(),
    };
    let facts = [
        ("SECTOR_PATH", input.path().to_owned()),
        ("SECTOR_SEGMENT", input.segment().to_string()),
        ("SECTOR_OFFSET", input.from().to_string()),
        ("SECTOR_BUCKETS", input.buckets().to_string()),
        ("SECTOR_RECORDS", records),
    ];
    let given = parameters.iter().filter(|(_, value)| !value.contains('\0')).map(|(name, value)| {
        let name: String =
            name.chars().map(|letter| if letter.is_ascii_alphanumeric() { letter } else { '_' }).collect();
        (format!("SECTOR_PARAM_{name}"), value.clone())
    });
    facts.into_iter().map(|(name, value)| (name.to_owned(), value)).chain(given).collect()
}

/// The search path for programs.
const FOLDERS: &str = "/usr/local/bin:/usr/bin:/bin";
/// The parameter with exit codes that are not errors: `grep` ends with 1 if it finds nothing.
const GOOD_CODES: &str = "exit_codes";
/// Bytes read from a pipe at once: as much as it holds.
const READ_BYTES: usize = 64 * 1024;
/// Bytes offered to a pipe at once.
const WRITE_BYTES: usize = 64 * 1024;
/// Interval of checks whether a silent program has ended, whose pipes another process may hold.
const LOOK_INTERVAL: Duration = Duration::from_millis(100);
/// Bytes kept of a program's standard error.
const SAID_BYTES_MAX: usize = 2 * 1024;
/// Lines of it that are attached to an error.
const SAID_LINES_MAX: usize = 5;

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use udf::{Collected, key_hash};

    use super::*;

    fn lines(chunks: &[&str], buckets: u32) -> Collected {
        let mut collected = Collected::with_buckets(buckets.into());
        let mut results = Results::new(buckets);
        for chunk in chunks {
            results.take(chunk.as_bytes(), &mut Output::new(&mut collected)).unwrap();
        }
        results.finish(&mut Output::new(&mut collected)).unwrap();
        collected
    }

    #[test]
    fn however_lines_arrive_each_goes_to_the_bucket_of_what_stands_before_its_tab() {
        let all = "bee\t1\ncow\nbee\t2\nbare";
        for cut in 0..=all.len() {
            let collected = lines(&[&all[..cut], &all[cut..]], 4);
            let bucket =
                |key: &str| String::from_utf8_lossy(collected.bucket(key_hash(key.as_bytes()) % 4)).into_owned();
            assert!(bucket("bee").contains("bee\t1\n") && bucket("bee").contains("bee\t2\n"), "cut at {cut}");
            assert!(bucket("cow").contains("cow\n") && bucket("bare").contains("bare\n"), "cut at {cut}");
            assert_eq!(collected.records, 4);
        }
    }

    #[test]
    fn into_one_bucket_a_programs_bytes_go_as_they_are() {
        let collected = lines(&["a\nb", "c"], 1);
        assert_eq!((collected.bucket(0), collected.records), (&b"a\nbc"[..], 1));
    }

    #[test]
    fn of_what_a_program_says_the_last_lines_are_kept() {
        let mut said = StderrTail::default();
        assert_eq!(said.last_lines(), None);
        for number in 0..1_000 {
            said.take(format!("line {number}\n\n").as_bytes());
        }
        said.take(b"\x1b[2Jend\nreporter:counter:lines,1000\n");
        let expected = "line 996 / line 997 / line 998 / line 999 / [2Jend";
        assert_eq!(said.last_lines().as_deref(), Some(expected));
        assert!(said.0.len() <= SAID_BYTES_MAX);
    }

    #[test]
    fn a_program_that_says_that_it_cannot_start_another_is_told_of_the_setting() {
        for said in ["sh: 1: Cannot fork", "self.pid = _fork_exec(", "posix_spawn: Operation not permitted"] {
            assert!(fork_hint(false, Some(said)).contains("`spe_fork`"), "{said}");
            assert_eq!(fork_hint(true, Some(said)), "", "it may, and failed for another reason");
        }
        assert_eq!((fork_hint(false, Some("no such file")), fork_hint(false, None)), ("", ""));
    }

    #[test]
    fn a_program_that_was_given_the_words_of_a_shell_is_told_that_there_is_none() {
        let hint = |line: &str| shell_hint(&line.split(' ').map(str::to_owned).collect::<Vec<_>>());
        for line in ["sort | uniq", "wc > out", "true && false"] {
            assert!(hint(line).contains("sh -c"), "{line}");
        }
        assert_eq!((hint("cut -d |"), hint("sort -u"), hint("grep a|b")), ("", "", ""));
    }

    #[test]
    fn parameters_have_names_that_a_shell_can_say() {
        let input = Input::new(b"", RecordFormat::Fixed(8)).at("/a", 3, 40).with_buckets(2);
        let found = segment_environment(&input, &[("my-key".into(), "a b".into())]);
        for (name, value) in [("SECTOR_PARAM_my_key", "a b"), ("SECTOR_RECORDS", "fixed:8"), ("SECTOR_OFFSET", "40")] {
            assert!(found.contains(&(name.into(), value.into())), "{name}");
        }
    }
}
