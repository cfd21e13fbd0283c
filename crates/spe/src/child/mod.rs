//! Runs in the SPE process: the hidden command `sector spe` (paper, 3.3). It receives segments from its node over the
//! socket at descriptor 0, runs the function over each, and reports its progress. Serves the path *job*, door 7. Before
//! it loads a function it locks itself in (`sandbox`) and goes on in a child of the process that the node started.
//! That process ends it when the node's end of the socket closes, whatever the function does. It never knows a network,
//! a ticket or another process, and gets its files from the node already open.

mod call_error;
mod function;
mod mapped_part;
mod output;
mod owned_lines;
mod parts;
mod program;
mod python;
mod reporter;
mod side_file_maps;

use std::{
    fs::{self, File},
    io::{self, Read, Seek, Write},
    os::{
        fd::{AsFd, OwnedFd},
        unix::net::UnixStream,
    },
    path::PathBuf,
    process::ExitCode,
    time::{Duration, Instant},
};

use protocol::{CounterError, Counters, Refusal, limits, message::spe::AttemptId};
use rustix::{
    net::{SocketType, sockopt::socket_type},
    stdio::dup2_stdin,
};
use udf::{Output, Sink, Stopped};

use crate::{
    descriptor_passing,
    messages::{self, ChildCode, FinishedMessage, FromChild, SegmentSpec, ToChild, clip},
    sandbox::{self, ProgramLauncher},
    segment_mark,
};
use call_error::CallError;
use function::LoadedFunction;
use mapped_part::MapError;
use output::BucketWriter;
use parts::SegmentPart;
use program::Program;
use python::LoadedPython;
use side_file_maps::{MappedSideFiles, NamedFile};

pub use function::FindBuiltIn;
pub(crate) use reporter::is_report;

/// Serves the node at the other end of descriptor 0 until the node closes it. `find_built_in` finds the functions that
/// need no library of a user. The kernel's parent-death signal would not do to end it: that signal fires when the
/// *thread* that started the process ends.
pub fn run(find_built_in: FindBuiltIn) -> ExitCode {
    match Child::new(find_built_in).and_then(|mut child| child.serve()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            // Standard error is the node's log.
            let _ = writeln!(io::stderr(), "sector spe: {error}");
            ExitCode::FAILURE
        }
    }
}

/// The process, between two messages.
struct Child {
    link: ChildLink,
    folder: PathBuf,
    launcher: ProgramLauncher,
    find_built_in: FindBuiltIn,
    /// Libraries written so far: each gets its own file name, since the loader identifies files by name.
    libraries: u32,
    function: Option<LoadedFunction>,
    task: Option<Task>,
}

/// A task that has begun and not failed.
struct Task {
    attempt: AttemptId,
    writer: BucketWriter,
    records_in: u64,
    bytes_in: u64,
    counters: Counters,
}

/// Why a task cannot go on.
enum Failure {
    Function { segment: u64, record: Option<u64>, message: String, record_start: Vec<u8> },
    Broken(String),
}

impl Child {
    fn new(find_built_in: FindBuiltIn) -> io::Result<Self> {
        let stdin = io::stdin();
        if socket_type(&stdin) != Ok(SocketType::STREAM) {
            return Err(io::Error::other("this command is started by a node, not by hand"));
        }
        let socket = UnixStream::from(stdin.as_fd().try_clone_to_owned()?);
        // A function that reads its standard input must not get the node's messages.
        dup2_stdin(File::open("/dev/null")?)?;
        let mut link = ChildLink { socket, told: Instant::now() };
        let Some((ToChild::Confine(confinement), _)) = link.receive()? else {
            return Err(io::Error::other("the node did not say how this process is to be confined"));
        };
        let confined = sandbox::enter(&confinement, &link.socket)
            .map_err(|error| io::Error::new(error.kind(), format!("this process cannot be confined: {error}")))?;
        link.send(&FromChild::Confined(confined.missing))?;
        let (folder, started) = (confined.scratch, confined.launcher);
        Ok(Self { link, folder, launcher: started, find_built_in, libraries: 0, function: None, task: None })
    }

    fn serve(&mut self) -> io::Result<()> {
        while let Some((message, descriptors)) = self.link.receive()? {
            self.handle_message(message, descriptors.into_iter().map(File::from).collect())?;
        }
        Ok(())
    }

    fn handle_message(&mut self, message: ToChild, files: Vec<File>) -> io::Result<()> {
        if let ToChild::Segment(word) = message {
            return self.process(&word, &files);
        }
        if let ToChild::Load { code, parameters, side } = message {
            self.function = None;
            let mut files = files.into_iter();
            let file = if code.has_file() { files.next() } else { None };
            if side.len() != files.len() {
                return Err(io::Error::other("a function came without its side files"));
            }
            let side: Vec<_> = side.into_iter().zip(files).collect();
            let loaded = self.load(code, parameters, file, side)?;
            write_mark(None);
            return match loaded {
                Ok(function) => {
                    self.function = Some(function);
                    self.link.send(&FromChild::Loaded)
                }
                Err(refusal) => self.link.send(&FromChild::Refused(refusal)),
            };
        }
        let file = files.into_iter().next();
        match message {
            ToChild::Confine(_) => Err(io::Error::other("this process is confined already")),
            ToChild::Begin { attempt, buckets } => {
                let file = file.ok_or_else(|| io::Error::other("a task came without its scratch file"))?;
                self.link.told = Instant::now();
                let writer = BucketWriter::new(file, buckets);
                self.task = Some(Task { attempt, writer, records_in: 0, bytes_in: 0, counters: Counters::new() });
                Ok(())
            }
            ToChild::Load { .. } | ToChild::Segment(_) => Ok(()),
            ToChild::End => self.finish(),
        }
    }

    fn load(
        &mut self,
        code: ChildCode,
        parameters: Vec<(String, String)>,
        file: Option<File>,
        side: Vec<NamedFile>,
    ) -> io::Result<Result<LoadedFunction, Refusal>> {
        let file = file.ok_or_else(|| io::Error::other("a function came without its code"));
        let with_side =
            |function: LoadedFunction, side: &[NamedFile]| Ok(function.with_side_files(MappedSideFiles::of(side)?));
        Ok(match code {
            ChildCode::BuiltIn(name) => LoadedFunction::built_in(self.find_built_in, &name, parameters)
                .and_then(|function| with_side(function, &side)),
            ChildCode::Native { symbol } => {
                let library = self.write_library(file?)?;
                let loaded = LoadedFunction::native(&symbol, parameters, &library);
                // A loaded library stays loaded without its name.
                let _ = fs::remove_file(library);
                loaded.and_then(|function| with_side(function, &side))
            }
            ChildCode::Python(word) => {
                let mut code = Vec::new();
                let mut file = file?;
                file.rewind()?;
                file.read_to_end(&mut code)?;
                LoadedPython::load(word, code, parameters, side, self.folder.clone(), self.launcher)
                    .map(LoadedFunction::python)
            }
            ChildCode::Program(words) => Program::find(words, &parameters, self.folder.clone(), self.launcher)
                .and_then(|program| program.with_side_files(&side))
                .map(|program| LoadedFunction::program(program, parameters)),
        })
    }

    /// A copy of the library with a name: the loader opens nothing without one, and no descriptor has a name in here.
    fn write_library(&mut self, mut library: File) -> io::Result<PathBuf> {
        self.libraries += 1;
        let path = self.folder.join(format!("function-{}.so", self.libraries));
        let mut copy = File::options().write(true).create_new(true).open(&path)?;
        library.rewind()?;
        io::copy(&mut library, &mut copy)?;
        Ok(path)
    }

    fn process(&mut self, word: &SegmentSpec, files: &[File]) -> io::Result<()> {
        // Segments of a task that has failed meanwhile were already sent: nobody waits for them.
        let Some(mut task) = self.task.take() else { return Ok(()) };
        let attempt = task.attempt;
        match task.process(word, files, self.function.as_mut(), &mut self.link) {
            Ok(()) => {
                write_mark(Some(word.segment));
                self.link.send(&FromChild::Done { attempt })?;
                self.link.tell_progress(attempt, task.bytes_in)?;
                self.task = Some(task);
                Ok(())
            }
            Err(Failure::Function { segment, record, message, record_start }) => {
                write_mark(Some(word.segment));
                let message = clip(message, limits::FUNCTION_MESSAGE_BYTES_MAX);
                self.link.send(&FromChild::FunctionFailed { attempt, segment, record, message, record_start })
            }
            Err(Failure::Broken(sentence)) => self.link.send(&FromChild::Broken { attempt, message: sentence }),
        }
    }

    fn finish(&mut self) -> io::Result<()> {
        let Some(task) = self.task.take() else { return Ok(()) };
        let Task { attempt, writer, records_in, bytes_in, counters } = task;
        let message = match writer.finish() {
            Ok(written) => FromChild::Finished(FinishedMessage {
                attempt,
                records_in,
                bytes_in,
                records_out: written.records,
                chunks: written.chunks,
                counters,
            }),
            Err(error) => FromChild::Broken { attempt, message: unwritable(&error) },
        };
        self.link.send(&message)
    }
}

impl Task {
    fn process(
        &mut self,
        word: &SegmentSpec,
        files: &[File],
        function: Option<&mut LoadedFunction>,
        link: &mut ChildLink,
    ) -> Result<(), Failure> {
        let failed =
            |record, message, record_start| Failure::Function { segment: word.segment, record, message, record_start };
        let function = function.ok_or_else(|| Failure::Broken("no function is loaded".into()))?;
        let parts = parts::map_parts(word, files).map_err(|error| match error {
            MapError::PartOfRecord { .. } | MapError::Index { .. } => failed(None, error.to_string(), Vec::new()),
            MapError::Unreadable { .. } => Failure::Broken(format!("segment {} of {error}", word.segment)),
        })?;
        let [first, others @ ..] = &parts[..] else {
            return Err(Failure::Broken("a segment came without parts".into()));
        };
        let beside: Vec<_> = others.iter().map(SegmentPart::beside).collect();
        let records = first.records();
        let input = first.input(word.segment).with_buckets(self.writer.bucket_count()).with_beside(&beside);
        let segment_bytes: u64 = parts.iter().map(SegmentPart::bytes).sum();
        let mut sink = SegmentSink {
            task: self.attempt,
            writer: &mut self.writer,
            link,
            before: self.bytes_in,
            done: 0,
            segment_bytes,
            counters: &mut self.counters,
            uncounted: None,
        };
        let result = function.call(input, &parts, &mut Output::new(&mut sink));
        let uncounted = sink.uncounted.take();
        if let Some(error) = self.writer.failure() {
            // The function may have failed for this very reason: then it is not to blame.
            return Err(Failure::Broken(unwritable(error)));
        }
        result.map_err(|error| match error {
            CallError::Function(error) => {
                let start = error.record().map_or(&[][..], |record| first.record_start(record));
                failed(error.record(), error.message().to_owned(), start.to_vec())
            }
            CallError::Broken(sentence) => Failure::Broken(sentence),
        })?;
        if let Some(error) = uncounted {
            return Err(failed(None, error.to_string(), Vec::new()));
        }
        self.records_in += records;
        self.bytes_in += segment_bytes;
        Ok(())
    }
}

/// The destination of the function's results and signs of life during one segment.
struct SegmentSink<'a> {
    task: AttemptId,
    writer: &'a mut BucketWriter,
    link: &'a mut ChildLink,
    /// Bytes of the task's earlier segments.
    before: u64,
    /// Bytes of this one, as the function reports.
    done: u64,
    segment_bytes: u64,
    /// Counts of all segments of the task: when this segment fails, the whole attempt is lost with its counts.
    counters: &'a mut Counters,
    /// Why something could not be counted; it becomes the function's error once it has returned.
    uncounted: Option<CounterError>,
}

impl SegmentSink<'_> {
    fn tell(&mut self) {
        // When the node is gone, the supervisor ends this process, so there is nothing to do here.
        let _ = self.link.tell_progress(self.task, self.before + self.done);
    }
}

impl Sink for SegmentSink<'_> {
    fn emit(&mut self, bucket: u64, bytes: &[u8], records: u64) -> Result<(), Stopped> {
        if self.writer.emit(bucket, bytes, records)? {
            // Results are a sign of life too.
            self.tell();
        }
        Ok(())
    }

    fn progress(&mut self, bytes_done: u64) {
        self.done = bytes_done.min(self.segment_bytes);
        self.tell();
    }

    fn count(&mut self, name: &str, count: u64) {
        if let Err(error) = self.counters.add(name, count) {
            self.uncounted.get_or_insert(error);
        }
    }
}

/// The child's end of the socket.
struct ChildLink {
    socket: UnixStream,
    /// When progress was last reported.
    told: Instant,
}

impl ChildLink {
    /// The next message; `None` when the node has closed its end.
    fn receive(&mut self) -> io::Result<Option<(ToChild, Vec<OwnedFd>)>> {
        let mut descriptors = Vec::new();
        let mut first = [0; messages::LENGTH_BYTES];
        if !self.fill(&mut first, &mut descriptors)? {
            return Ok(None);
        }
        let bytes = messages::body_bytes(first).ok_or_else(|| io::Error::other("the node's message is too long"))?;
        let mut body = vec![0; bytes];
        if !self.fill(&mut body, &mut descriptors)? {
            return Ok(None);
        }
        let message = messages::decode(&body).map_err(io::Error::other)?;
        Ok(Some((message, descriptors)))
    }

    /// Fills `bytes`; `false` when the node closed its end first.
    fn fill(&mut self, bytes: &mut [u8], all: &mut Vec<OwnedFd>) -> io::Result<bool> {
        let mut filled = 0;
        while filled < bytes.len() {
            match descriptor_passing::receive(&self.socket, &mut bytes[filled..]) {
                Ok((0, _)) => return Ok(false),
                Ok((received, came)) => {
                    filled += received;
                    all.extend(came);
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == io::ErrorKind::ConnectionReset => return Ok(false),
                Err(error) => return Err(error),
            }
        }
        Ok(true)
    }

    fn send(&mut self, message: &FromChild) -> io::Result<()> {
        self.socket.write_all(&messages::encode(message))
    }

    /// Reports progress, unless it did so a moment ago.
    fn tell_progress(&mut self, attempt: AttemptId, bytes: u64) -> io::Result<()> {
        if self.told.elapsed() < PROGRESS_INTERVAL {
            return Ok(());
        }
        self.told = Instant::now();
        self.send(&FromChild::Progress { attempt, bytes })
    }
}

/// Marks the end of what the function has printed over a segment, or while it was loaded.
fn write_mark(segment: Option<u64>) {
    function::flush_prints();
    // A function that has closed its standard error prints nothing that could be kept.
    let _ = io::stderr().write_all(segment_mark::mark(segment).as_bytes());
}

fn unwritable(error: &io::Error) -> String {
    format!("the SPE could not write its results to the node's disk: {error}")
}

/// Least time between two progress messages: often enough for a progress bar, seldom enough to cost nothing.
const PROGRESS_INTERVAL: Duration = Duration::from_millis(500);
