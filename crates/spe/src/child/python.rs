//! The Python of an SPE, seen from the process that starts it: one interpreter per stage, kept between segments. It
//! gets a segment as an open file and returns its results in batches over one socket. It runs `python/runner.py`.
//! Serves the path *job*, door 7; in the SPE process alone, which is locked in, and the interpreter even more
//! ([`sandbox`](crate::sandbox)). What the interpreter says is never believed beyond its own task.

use std::{
    io::{self, BufReader, Read},
    os::{
        fd::{AsFd, BorrowedFd, OwnedFd},
        unix::net::UnixStream,
    },
    path::PathBuf,
    process::{Child, Command, Stdio},
};

use protocol::{Reason, RecordFraming, Refusal};
use udf::{FunctionError, Input, Output, Stopped, key_hash};

use super::{call_error::CallError, parts::SegmentPart, program::environment, side_file_maps::NamedFile};
use crate::{
    descriptor_passing,
    messages::{GuideSpec, PythonSpec},
    sandbox::{self, ProgramLauncher},
};

/// A function in Python, loaded into an interpreter of its own.
pub(super) struct LoadedPython {
    spec: PythonSpec,
    code: Vec<u8>,
    parameters: Vec<(String, String)>,
    /// Kept for the next interpreter.
    side: Vec<NamedFile>,
    folder: PathBuf,
    launcher: ProgramLauncher,
    /// `None` after it was ended in the middle of a segment: the next segment starts another.
    interpreter: Option<InterpreterProcess>,
}

impl LoadedPython {
    /// Starts the interpreter and has it load the function. If the interpreter dies of it, this process ends in the
    /// same way.
    pub(super) fn load(
        word: PythonSpec,
        code: Vec<u8>,
        parameters: Vec<(String, String)>,
        side: Vec<NamedFile>,
        folder: PathBuf,
        started: ProgramLauncher,
    ) -> Result<Self, Refusal> {
        let mut python = Self { spec: word, code, parameters, side, folder, launcher: started, interpreter: None };
        python.interpreter = Some(python.start()?);
        Ok(python)
    }

    /// Runs the function over one segment of these parts.
    pub(super) fn call(
        &mut self,
        input: &Input<'_>,
        parts: &[SegmentPart<'_>],
        output: &mut Output<'_>,
    ) -> Result<(), CallError> {
        let mut interpreter = match self.interpreter.take() {
            Some(interpreter) => interpreter,
            None => self.start().map_err(|refusal| CallError::Broken(refusal.message))?,
        };
        let lost = |error: io::Error| CallError::Broken(format!("the interpreter cannot be reached: {error}"));
        let files: Vec<_> = parts.iter().flat_map(|part| std::iter::once(part.file).chain(part.index)).collect();
        let files: Vec<_> = files.into_iter().map(AsFd::as_fd).collect();
        interpreter.send(SEGMENT, &segment_json(input, parts), &[], &files).map_err(lost)?;
        let ended = interpreter.take_results(output);
        if !matches!(ended, Err(SegmentEnd::Stopped | SegmentEnd::ProtocolError(_))) {
            // It waits for the next segment; otherwise it is dropped, which ends it.
            self.interpreter = Some(interpreter);
        }
        match ended {
            Ok(()) => Ok(()),
            Err(SegmentEnd::Failed(error)) => Err(CallError::Function(error)),
            Err(SegmentEnd::Stopped) => Err(CallError::Function(Stopped.into())),
            Err(SegmentEnd::ProtocolError(what)) => {
                Err(CallError::Function(FunctionError::new(format!("the function broke its interpreter: {what}"))))
            }
        }
    }

    fn start(&self) -> Result<InterpreterProcess, Refusal> {
        let failed = |error: io::Error| {
            let message = format!("`{}` could not be started: {error}", self.spec.interpreter.display());
            Refusal::new(Reason::Unavailable, message)
        };
        let (ours, theirs) = UnixStream::pair().map_err(failed)?;
        let mut command = Command::new(&self.spec.interpreter);
        command.args(["-I", "-X", "utf8", "-c", RUNNER]).current_dir(&self.folder);
        command.env_clear().envs(environment(&self.folder)).envs(LIBRARY_THREADS.iter().copied());
        command.stdin(Stdio::from(OwnedFd::from(theirs)));
        let process = self.launcher.spawn(&mut command).map_err(failed)?;
        // `command` holds the other end of the socket until here.
        drop(command);
        let mut interpreter = InterpreterProcess { process, socket: BufReader::with_capacity(READ_BYTES, ours) };
        let json = load_json(&self.spec, &self.parameters, &self.side).map_err(failed)?;
        let files: Vec<_> = self.side.iter().map(|(_, file)| file.as_fd()).collect();
        interpreter.send(LOAD, &json, &self.code, &files).map_err(failed)?;
        match interpreter.head().map_err(failed)? {
            Head { kind: LOADED, .. } => Ok(interpreter),
            Head { kind: DENIED, c, .. } => {
                let message = interpreter.text(c).map_err(failed)?;
                Err(Refusal::new(Reason::Invalid, message))
            }
            _ => {
                Err(Refusal::new(Reason::Invalid, "the function spoke in its interpreter's place while it was loaded"))
            }
        }
    }
}

/// A running interpreter. Dropping it ends it.
///
/// A message to Python is three numbers of 32 bits, then JSON and further bytes; all numbers are little-endian. The
/// numbers are the kind (1 load, 2 segment), the length of the JSON, and that of the bytes after it. Descriptors come
/// with the first byte. For a function they are its side files. For a segment they are each part's file, followed by
/// that of its index, if it has one.
///
/// A message from Python has a head of 24 bytes: kind, a 32-bit number `a`, two 64-bit ones `b` and `c`. The table says
/// what follows the head.
///
/// | kind | what | after the head |
/// |---|---|---|
/// | `load` | the function is ready | |
/// | `deny` | it is not | `c` bytes: a sentence |
/// | `life` | `b` bytes of the segment are done | |
/// | `numb` | `a` records for numbered buckets | `a` buckets of 64 bits, `a` lengths of 32, `c` bytes of records |
/// | `keys` | `a` records for buckets by key | `a` lengths of keys, `a` of records, `b` bytes of keys, `c` of records |
/// | `one ` | `b` records for one bucket | a key of `a` bytes, or a bucket of 64 bits if `a` is all ones; `c` bytes |
/// | `cntr` | `b` more for the counter of this name | a name of `a` bytes |
/// | `done` | the segment is processed | |
/// | `fail` | the function failed at record `b`, or at none | `c` bytes: what happened |
struct InterpreterProcess {
    process: Child,
    socket: BufReader<UnixStream>,
}

/// How a segment ended other than well.
enum SegmentEnd {
    Failed(FunctionError),
    Stopped,
    /// Its message makes no sense: the function has the socket.
    ProtocolError(String),
}

impl From<io::Error> for SegmentEnd {
    fn from(error: io::Error) -> Self {
        Self::ProtocolError(error.to_string())
    }
}

impl From<Stopped> for SegmentEnd {
    fn from(Stopped: Stopped) -> Self {
        Self::Stopped
    }
}

struct Head {
    kind: [u8; 4],
    a: u32,
    b: u64,
    c: u64,
}

impl InterpreterProcess {
    fn send(&mut self, kind: u32, json: &str, more: &[u8], files: &[BorrowedFd<'_>]) -> io::Result<()> {
        let lengths = [kind, length(json.len())?, length(more.len())?];
        let mut bytes: Vec<u8> = lengths.iter().flat_map(|number| number.to_le_bytes()).collect();
        bytes.extend_from_slice(json.as_bytes());
        bytes.extend_from_slice(more);
        let mut sent = 0;
        while sent < bytes.len() {
            let files = if sent == 0 { files } else { &[] };
            match descriptor_passing::send(self.socket.get_ref(), &bytes[sent..], files) {
                Ok(count) => sent += count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                // It is gone: that shows, with the reason, where its answer is read.
                Err(error) if error.kind() == io::ErrorKind::BrokenPipe => return Ok(()),
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Takes results until the segment has ended.
    fn take_results(&mut self, output: &mut Output<'_>) -> Result<(), SegmentEnd> {
        loop {
            let head = self.head()?;
            match head.kind {
                DONE => return Ok(()),
                FAILED => {
                    let error = FunctionError::new(self.text(head.c)?);
                    let record = (head.b != NO_RECORD).then_some(head.b);
                    return Err(SegmentEnd::Failed(record.map_or(error.clone(), |record| error.at_record(record))));
                }
                LIFE => output.progress(head.b),
                NUMBERED => self.take_numbered(&head, output)?,
                KEYED => self.take_keyed(&head, output)?,
                ONE => self.take_one(&head, output)?,
                COUNT => {
                    let name = self.text(head.a.into())?;
                    output.count(&name, head.b);
                }
                other => {
                    return Err(SegmentEnd::ProtocolError(format!("it said {:?}", String::from_utf8_lossy(&other))));
                }
            }
        }
    }

    fn take_numbered(&mut self, head: &Head, output: &mut Output<'_>) -> Result<(), SegmentEnd> {
        let count = records(head.a)?;
        let (buckets, lengths) = (self.bytes(count * 8)?, self.lengths(count)?);
        let records = self.batch(head.c, &lengths)?;
        let buckets = buckets.chunks_exact(8).map(|bytes| u64::from_le_bytes(bytes.try_into().unwrap_or_default()));
        for (bucket, record) in buckets.zip(SplitByLengths { rest: &records, lengths: &lengths }) {
            output.emit(bucket, record)?;
        }
        Ok(())
    }

    fn take_keyed(&mut self, head: &Head, output: &mut Output<'_>) -> Result<(), SegmentEnd> {
        let count = records(head.a)?;
        let (key_lengths, lengths) = (self.lengths(count)?, self.lengths(count)?);
        let keys = self.batch(head.b, &key_lengths)?;
        let records = self.batch(head.c, &lengths)?;
        let keys = SplitByLengths { rest: &keys, lengths: &key_lengths };
        for (key, record) in keys.zip(SplitByLengths { rest: &records, lengths: &lengths }) {
            output.emit_key(key, record)?;
        }
        Ok(())
    }

    /// Takes bytes for one bucket: as many as there are, some at a time.
    fn take_one(&mut self, head: &Head, output: &mut Output<'_>) -> Result<(), SegmentEnd> {
        let bucket = if head.a == NO_KEY {
            u64::from_le_bytes(self.bytes(8)?.try_into().unwrap_or_default())
        } else {
            key_hash(&self.bytes(bounded(head.a.into(), KEY_BYTES_MAX)?)?)
        };
        let (mut left, mut records) = (head.c, head.b);
        let mut buffer = vec![0; usize::try_from(left).map_or(READ_BYTES, |left| left.min(READ_BYTES))];
        loop {
            let part = usize::try_from(left).map_or(buffer.len(), |left| left.min(buffer.len()));
            self.fill(&mut buffer[..part])?;
            output.emit_records(bucket, &buffer[..part], records)?;
            records = 0;
            left -= part as u64;
            if left == 0 {
                return Ok(());
            }
        }
    }

    fn head(&mut self) -> io::Result<Head> {
        let mut bytes = [0; HEAD_BYTES];
        self.fill(&mut bytes)?;
        let [k0, k1, k2, k3, a0, a1, a2, a3, rest @ ..] = bytes;
        let (b, c) = rest.split_at(8);
        let number = |bytes: &[u8]| u64::from_le_bytes(bytes.try_into().unwrap_or_default());
        Ok(Head { kind: [k0, k1, k2, k3], a: u32::from_le_bytes([a0, a1, a2, a3]), b: number(b), c: number(c) })
    }

    fn lengths(&mut self, count: usize) -> io::Result<Vec<u32>> {
        let bytes = self.bytes(count * 4)?;
        Ok(bytes.chunks_exact(4).map(|bytes| u32::from_le_bytes(bytes.try_into().unwrap_or_default())).collect())
    }

    /// Bytes that consist of parts of these lengths.
    fn batch(&mut self, bytes: u64, lengths: &[u32]) -> io::Result<Vec<u8>> {
        let bytes = bounded(bytes, BATCH_BYTES_MAX)?;
        if lengths.iter().map(|length| u64::from(*length)).sum::<u64>() != bytes as u64 {
            return Err(io::Error::other("a batch has not the length of its records"));
        }
        self.bytes(bytes)
    }

    fn text(&mut self, bytes: u64) -> io::Result<String> {
        let bytes = self.bytes(bounded(bytes, TEXT_BYTES_MAX)?)?;
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    }

    fn bytes(&mut self, count: usize) -> io::Result<Vec<u8>> {
        let mut bytes = vec![0; count];
        self.fill(&mut bytes)?;
        Ok(bytes)
    }

    /// Fills `bytes`. If the interpreter has ended, this process ends in the same way, so that the node sees the cause.
    fn fill(&mut self, bytes: &mut [u8]) -> io::Result<()> {
        match self.socket.read_exact(bytes) {
            Err(error) if matches!(error.kind(), io::ErrorKind::UnexpectedEof | io::ErrorKind::ConnectionReset) => {
                sandbox::exit_as(self.process.wait()?)
            }
            other => other,
        }
    }
}

impl Drop for InterpreterProcess {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Bytes cut into parts of these lengths, which add up to them.
struct SplitByLengths<'a> {
    rest: &'a [u8],
    lengths: &'a [u32],
}

impl<'a> Iterator for SplitByLengths<'a> {
    type Item = &'a [u8];

    fn next(&mut self) -> Option<&'a [u8]> {
        let (length, lengths) = self.lengths.split_first()?;
        let (part, rest) = self.rest.split_at_checked(*length as usize)?;
        (self.rest, self.lengths) = (rest, lengths);
        Some(part)
    }
}

fn records(count: u32) -> io::Result<usize> {
    bounded(count.into(), BATCH_RECORDS_MAX)
}

fn bounded(count: u64, most: usize) -> io::Result<usize> {
    let count = usize::try_from(count).ok().filter(|count| *count <= most);
    count.ok_or_else(|| io::Error::other("a batch is too long"))
}

fn length(bytes: usize) -> io::Result<u32> {
    u32::try_from(bytes).map_err(|_| io::Error::other("it is too long"))
}

fn load_json(word: &PythonSpec, parameters: &[(String, String)], side: &[NamedFile]) -> io::Result<String> {
    // As on a command line, the last value of a name wins.
    let parameters: serde_json::Map<_, _> =
        parameters.iter().map(|(name, value)| (name.clone(), value.clone().into())).collect();
    let python = word.python.map(|(major, minor)| format!("{major}.{minor}"));
    let PythonSpec { name, file, requires, modules, environment, .. } = word;
    let side = side.iter().map(|(name, file)| Ok((name, file.metadata()?.len()))).collect::<io::Result<Vec<_>>>()?;
    let json = serde_json::json!({
        "name": name, "file": file, "python": python, "requires": requires, "parameters": parameters, "side": side,
        "modules": modules, "environment": environment,
    });
    Ok(json.to_string())
}

fn segment_json(input: &Input<'_>, parts: &[SegmentPart<'_>]) -> String {
    let parts: Vec<_> = parts.iter().map(part_json).collect();
    serde_json::json!({ "segment": input.segment(), "buckets": input.buckets(), "parts": parts }).to_string()
}

/// The part's place in its file, and its guide: a range of its index, or its row group.
fn part_json(part: &SegmentPart<'_>) -> serde_json::Value {
    let (format, record_bytes) = match part.spec.records {
        RecordFraming::File => ("file", 0),
        RecordFraming::Lines => ("lines", 0),
        RecordFraming::Fixed(bytes) => ("fixed", bytes),
        RecordFraming::Index => ("index", 0),
        RecordFraming::Parquet => ("parquet", 0),
    };
    let (index, row_group) = match part.spec.guide {
        Some(GuideSpec::Offsets { from, until }) => (Some([from, until]), None),
        Some(GuideSpec::Footer { until, row_group, rows }) => (None, Some([u64::from(row_group), rows, until])),
        None => (None, None),
    };
    serde_json::json!({
        "path": part.spec.path, "from": part.map.from(), "until": part.map.from() + part.bytes(),
        "format": format, "record_bytes": record_bytes, "index": index, "row_group": row_group,
    })
}

/// The code that runs in the interpreter.
const RUNNER: &str = include_str!("python/runner.py");
/// A node has as many SPEs as processors: a library with a thread for each processor would slow all of them.
const LIBRARY_THREADS: &[(&str, &str)] = &[("OMP_NUM_THREADS", "1"), ("OPENBLAS_NUM_THREADS", "1")];
const LOAD: u32 = 1;
const SEGMENT: u32 = 2;
const LOADED: [u8; 4] = *b"load";
const DENIED: [u8; 4] = *b"deny";
const LIFE: [u8; 4] = *b"life";
const COUNT: [u8; 4] = *b"cntr";
const NUMBERED: [u8; 4] = *b"numb";
const KEYED: [u8; 4] = *b"keys";
const ONE: [u8; 4] = *b"one ";
const DONE: [u8; 4] = *b"done";
const FAILED: [u8; 4] = *b"fail";
/// Stands in place of a key's length: a number follows.
const NO_KEY: u32 = u32::MAX;
/// Stands in place of a record's number: none is known.
const NO_RECORD: u64 = u64::MAX;
const HEAD_BYTES: usize = 24;
/// Bytes read from the socket at once.
const READ_BYTES: usize = 256 * 1024;
/// Most records of a batch: the runner sends 8,192.
const BATCH_RECORDS_MAX: usize = 1 << 16;
/// Most bytes of a batch's keys, and of its records. The runner sends half a MiB, plus one long key.
const BATCH_BYTES_MAX: usize = 64 << 20;
/// Most bytes of the key of one long record.
const KEY_BYTES_MAX: usize = 64 << 20;
/// Most bytes of an exception's text; it is clipped further before it is passed on.
const TEXT_BYTES_MAX: usize = 1 << 20;
