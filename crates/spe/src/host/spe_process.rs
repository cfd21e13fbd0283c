//! The node's side of an SPE: starts the process, gives it a function and then tasks, and learns how each ended. Serves
//! the path *job*, door 7. A function may have taken the process over. So it never maps a slice or runs user code, and
//! believes nothing that the process says beyond its own task.

use std::{
    borrow::Cow,
    env,
    ffi::OsString,
    fs::File,
    io::{self, Write},
    os::{fd::OwnedFd, unix::net::UnixStream as StdUnixStream},
    path::PathBuf,
    process::Stdio,
    time::Duration,
};

use protocol::{
    Reason, Refusal, SideFileName, limits,
    message::spe::{AttemptId, FunctionCode, FunctionSpec, PrintedOutput, PythonFunction},
    sandbox::SandboxLayer,
};
use rustix::{
    fs::{MemfdFlags, SealFlags, fcntl_add_seals, memfd_create},
    process::{Pid, Signal, kill_process_group},
};
use tokio::{
    process::{Child, Command},
    time::timeout,
};

use super::{
    captured_output::CapturedOutput,
    cgroup_limits::OomFault,
    host_link::{self, HostLink},
    interpreter::Interpreter,
    runtime_kind::RuntimeKind,
    sandbox_pool::SandboxAllocation,
    segment_queue::SegmentQueue,
    task_run::{CLEARED_BYTES, SpeOutcome, TaskOutput, TaskRun},
};
use crate::{
    error::SpeError,
    exit_cause::{ExitCause, OomEvidence, ProcessKind, oom_kills},
    messages::{ChildCode, FinishedMessage, FromChild, PythonSpec, ToChild},
};

/// How an SPE is started: an executable that calls [`child::run`](crate::child::run) when it gets these arguments.
#[derive(Clone, Debug)]
pub struct SpeProgram {
    /// The executable.
    pub executable: PathBuf,
    /// Its arguments.
    pub arguments: Vec<OsString>,
}

impl SpeProgram {
    /// This very executable with the hidden command `spe`.
    pub fn this_executable() -> io::Result<Self> {
        Ok(Self { executable: env::current_exe()?, arguments: vec!["spe".into()] })
    }
}

/// A running SPE. Dropping it kills the process and its children.
pub struct SpeProcess {
    process: Child,
    link: HostLink,
    captured: CapturedOutput,
    /// How many marks it must have written between what it printed.
    marks: u64,
    /// What the function printed during the last load or task.
    printed: PrintedOutput,
    /// The kind of code it runs.
    runtime: RuntimeKind,
    /// The name of the function that it was given last.
    function: String,
    /// The missing layers of its sandbox; `None` until it reported them, which is before it loads anything.
    missing: Option<Vec<SandboxLayer>>,
    /// Dropped after the process: its user and its folder are free again when it is gone.
    place: SandboxAllocation,
    /// Whether a user's library was ever loaded into it: then it may still hold whatever it was given.
    has_library: bool,
    /// How often the machine had ended a process for lack of memory when its task began.
    oom_kills: u64,
    /// Whether it is between conversations. Stays false when a call was dropped halfway or the process failed.
    ready: bool,
}

impl SpeProcess {
    /// Starts a process for `tenant`, confined as `place` says. Must be called within a Tokio runtime.
    pub fn start(program: &SpeProgram, place: SandboxAllocation, tenant: RuntimeKind) -> Result<Self, SpeError> {
        let (ours, theirs) = StdUnixStream::pair().map_err(SpeError::Connect)?;
        let mut link = HostLink::new(ours).map_err(SpeError::Connect)?;
        let (reader, writer) = io::pipe().map_err(SpeError::Connect)?;
        let prints = CapturedOutput::read(reader).map_err(SpeError::Connect)?;
        let mut command = Command::new(&program.executable);
        command
            .args(&program.arguments)
            .current_dir(place.folder())
            .env_clear()
            .envs(PASSED_ENVIRONMENT.iter().filter_map(|name| Some((name, env::var_os(name)?))))
            .stdin(Stdio::from(OwnedFd::from(theirs)))
            .stdout(Stdio::from(writer.try_clone().map_err(SpeError::Connect)?))
            .stderr(Stdio::from(writer))
            // It makes its own session and group: Ctrl-C then stops the node in order instead of everything at once.
            .kill_on_drop(true);
        let process = command
            .spawn()
            .map_err(|source| SpeError::Start { program: program.executable.display().to_string(), source })?;
        // `command` holds the other ends until here; only when they are closed does the end of the process show.
        drop(command);
        if let (Some(group), Some(id)) = (place.cgroup(), process.id()) {
            // It does nothing before it is told how it is confined.
            group
                .add_process(id)
                .map_err(|error| SpeError::Allocate(format!("the control group of an SPE: {error}")))?;
        }
        let mut limits = place.limits().clone();
        limits.starts_programs = tenant.is_spawned();
        limits.read_paths.extend(tenant.read_paths());
        link.send(&ToChild::Confine(limits), None);
        let function = String::new();
        let (has_library, memory_kills) = (false, oom_kills());
        Ok(Self {
            process,
            link,
            captured: prints,
            marks: 0,
            printed: PrintedOutput::default(),
            runtime: tenant,
            function,
            missing: None,
            place,
            has_library,
            oom_kills: memory_kills,
            ready: true,
        })
    }

    /// The process id, while it runs.
    pub fn id(&self) -> Option<u32> {
        self.process.id()
    }

    /// Whether a function of this kind can be loaded into it: an SPE is made for libraries, for programs or for Python.
    pub fn may_load(&self, code: &FunctionCode) -> bool {
        self.runtime.may_load(code)
    }

    /// Whether it can take a function or a task.
    pub fn is_ready(&self) -> bool {
        self.ready
    }

    /// Whether it may still hold a writable descriptor of results that it has handed over, because user code has run in
    /// the process itself. Others then rely only on a copy of such a file, or on the file after the [end](Self::end).
    pub fn may_hold_results(&self) -> bool {
        self.has_library
    }

    /// Gives away what the function printed during the last load or task.
    pub fn take_printed(&mut self) -> PrintedOutput {
        std::mem::take(&mut self.printed)
    }

    /// Ends the process in order; returns whether nothing is left that could hold a descriptor.
    pub async fn end(mut self) -> bool {
        self.ready = false;
        let (may_start, is_apart) = (self.place.limits().fork, self.missing.as_deref());
        let is_apart = is_apart.is_some_and(|missing| !missing.contains(&SandboxLayer::Processes));
        let Self { process, link, .. } = &mut self;
        // The supervisor ends all others before itself when the socket is closed.
        link.close();
        timeout(EXIT_TIME_MAX, process.wait()).await.is_ok_and(|ended| ended.is_ok()) && (is_apart || !may_start)
    }

    /// Waits until the process has locked itself in, and returns the missing layers.
    ///
    /// # Errors
    /// When it could not, or when a layer that the settings require is missing.
    pub async fn await_confinement(&mut self) -> Result<&[SandboxLayer], Refusal> {
        if self.missing.is_none() {
            let missing = match timeout(CONFINE_TIME_MAX, self.link.next()).await {
                Ok(Ok(FromChild::Confined(missing))) => missing,
                Ok(Ok(_)) => return Err(Refusal::new(Reason::Unavailable, "the SPE answered out of turn")),
                Ok(Err(_)) => {
                    // No function was loaded yet: whatever the process said, this node is responsible.
                    let has_ended = timeout(EXIT_TIME_MAX, self.process.wait()).await.is_ok_and(|ended| ended.is_ok());
                    let said = if has_ended { self.captured.last_line().await } else { None };
                    let said = said.unwrap_or_else(|| "it said nothing".into());
                    let sentence = format!("the SPE could not be confined at this node: {said}");
                    return Err(Refusal::new(Reason::Unavailable, sentence));
                }
                Err(_) => {
                    let seconds = CONFINE_TIME_MAX.as_secs();
                    let sentence = format!("the SPE was not confined within {seconds} s");
                    return Err(Refusal::new(Reason::Unavailable, sentence));
                }
            };
            self.place.sandbox().note_missing(&missing);
            self.missing = Some(missing);
        }
        let missing = self.missing.as_deref().unwrap_or_default();
        if self.place.sandbox().is_required() && !missing.is_empty() {
            let layers = SandboxLayer::list(missing);
            let sentence =
                format!("this node runs no functions, since its sandbox lacks what `spe_sandbox` requires: {layers}");
            return Err(Refusal::new(Reason::Unavailable, sentence));
        }
        Ok(missing)
    }

    /// Loads a function with its side files, open for reading. After a refusal the process is usable only if it
    /// [is ready](Self::is_ready).
    pub async fn load(&mut self, function: &FunctionSpec, side: Vec<(SideFileName, File)>) -> Result<(), Refusal> {
        self.take_turn().map_err(|sentence| Refusal::new(Reason::Unavailable, sentence))?;
        self.await_confinement().await?;
        function.code.name().clone_into(&mut self.function);
        self.oom_kills = oom_kills();
        let (code, file) = match (&function.code, &self.runtime) {
            (FunctionCode::BuiltIn(name), _) => (ChildCode::BuiltIn(name.clone()), None),
            (FunctionCode::Native { library, symbol }, _) => {
                self.has_library = true;
                (ChildCode::Native { symbol: symbol.clone() }, Some(self.pass_code(library)?))
            }
            (FunctionCode::Python(function), RuntimeKind::Python(interpreter)) => {
                let word = python_spec(function, interpreter);
                (ChildCode::Python(word), Some(self.pass_code(&code_of(function))?))
            }
            (FunctionCode::Program { words }, _) => (ChildCode::Program(words.clone()), None),
            (FunctionCode::Python(_), _) => {
                self.ready = true;
                return Err(Refusal::new(Reason::Unavailable, "this SPE was not started for functions in Python"));
            }
        };
        let (side, files): (Vec<_>, Vec<_>) =
            side.into_iter().map(|(name, file)| (name.into(), OwnedFd::from(file))).unzip();
        let load = ToChild::Load { code, parameters: function.parameters.clone(), side };
        self.link.send(&load, file.into_iter().chain(files));
        let loaded = self.await_loaded().await;
        self.printed = self.captured.take_printed(self.marks, None).await;
        loaded
    }

    async fn await_loaded(&mut self) -> Result<(), Refusal> {
        match timeout(LOAD_TIME_MAX, self.link.next()).await {
            Ok(Ok(FromChild::Loaded)) => {
                (self.ready, self.marks) = (true, self.marks + 1);
                Ok(())
            }
            Ok(Ok(FromChild::Refused(refusal))) => {
                (self.ready, self.marks) = (true, self.marks + 1);
                Err(refusal)
            }
            Ok(Ok(_)) => Err(Refusal::new(Reason::Failed, "the SPE answered out of turn")),
            Ok(Err(_)) => Err(match self.exit_cause().await {
                ExitCause::Function(sentence) => {
                    // A function that is too large for this SPE is too large everywhere, so no other node needs to try
                    // it.
                    let is_too_large = self.group_fault() == Some(OomFault::Own);
                    let reason = if is_too_large { Reason::Invalid } else { Reason::Failed };
                    Refusal::new(reason, format!("while it was loaded, {sentence}"))
                }
                ExitCause::Process(sentence) | ExitCause::OutOfMemory(sentence) => {
                    Refusal::new(Reason::Unavailable, sentence)
                }
            }),
            Err(_) => {
                let seconds = LOAD_TIME_MAX.as_secs();
                Err(Refusal::new(Reason::Failed, format!("the function was not loaded within {seconds} s")))
            }
        }
    }

    /// Runs the loaded function over a task. `progress` is told of bytes processed. A caller that hears nothing for
    /// long drops the call and the process.
    pub async fn run(&mut self, task: TaskRun, progress: &mut (dyn FnMut(u64) + Send)) -> SpeOutcome {
        if let Err(sentence) = self.take_turn() {
            return SpeOutcome::Died(sentence);
        }
        let TaskRun { attempt, segments, output, buckets } = task;
        self.oom_kills = oom_kills();
        let output_file = match output.try_clone() {
            Ok(file) => file,
            Err(error) => {
                self.ready = true;
                let sentence = format!("the scratch file of a task cannot be passed on: {error}");
                return SpeOutcome::Refused(Refusal::new(Reason::Unavailable, sentence));
            }
        };
        self.link.send(&ToChild::Begin { attempt, buckets }, Some(output.into()));
        let mut progression = SegmentQueue::new(self.function.clone(), segments);
        let task_max = self.place.sandbox().task_max();
        // Boxed, because it lives across every await of the node's conversation.
        let conversation = Box::pin(self.converse(attempt, &mut progression, progress));
        let outcome = match task_max {
            Some(most) => timeout(most, conversation).await.map_err(|_| most),
            None => Ok(conversation.await),
        };
        // A function that reports progress and never ends holds its SPE no longer than a silent one.
        let outcome = outcome.unwrap_or_else(|most| progression.failure(None, None, too_long(most), vec![]));
        let failed_on = match &outcome {
            SpeOutcome::FunctionFailed(error) | SpeOutcome::OutOfMemory(error) => Some(error.segment),
            _ => progression.current(),
        };
        self.printed = self.captured.take_printed(self.marks, failed_on).await;
        match outcome {
            SpeOutcome::Finished(result) => match check(&result, &output_file, buckets) {
                Ok(()) => SpeOutcome::Finished(result),
                Err(sentence) => {
                    self.ready = false;
                    SpeOutcome::Died(sentence)
                }
            },
            other => other,
        }
    }

    async fn converse(
        &mut self,
        attempt: AttemptId,
        segments: &mut SegmentQueue,
        progress: &mut (dyn FnMut(u64) + Send),
    ) -> SpeOutcome {
        loop {
            if let Err(refusal) = segments.send(&mut self.link) {
                // The next `Begin` makes the process discard what it has of this task.
                self.ready = true;
                return SpeOutcome::Refused(refusal);
            }
            let message = match self.sign_of_life().await {
                Ok(Ok(message)) => message,
                Ok(Err(_)) => return self.outcome_of_exit(segments).await,
                Err(sentence) => return segments.failure(None, None, sentence, vec![]),
            };
            match message {
                FromChild::Progress { attempt: of, bytes } if of == attempt => progress(bytes),
                FromChild::Done { attempt: of } if of == attempt => {
                    self.marks += 1;
                    segments.done();
                }
                FromChild::Finished(word) if word.attempt == attempt => {
                    self.ready = true;
                    return SpeOutcome::Finished(word.into());
                }
                FromChild::FunctionFailed { attempt: of, segment, record, message, record_start } if of == attempt => {
                    (self.ready, self.marks) = (true, self.marks + 1);
                    return segments.failure(Some(segment), record, message, record_start);
                }
                FromChild::Broken { attempt: of, message: sentence } if of == attempt => {
                    self.ready = true;
                    // A program that it started may have been the process that was ended.
                    if self.runtime.is_spawned() && self.machine_ran_out() {
                        return segments.failure(None, None, sentence, vec![]).for_want_of_memory();
                    }
                    return SpeOutcome::Refused(Refusal::new(Reason::Unavailable, sentence));
                }
                // Belongs to an earlier task that was refused or had failed.
                FromChild::Done { .. } | FromChild::FunctionFailed { .. } => self.marks += 1,
                FromChild::Progress { .. } | FromChild::Finished(_) | FromChild::Broken { .. } => {}
                FromChild::Confined(_) | FromChild::Loaded | FromChild::Refused(_) => {
                    return SpeOutcome::Died("the SPE answered out of turn".into());
                }
            }
        }
    }

    async fn outcome_of_exit(&mut self, segments: &mut SegmentQueue) -> SpeOutcome {
        match self.exit_cause().await {
            ExitCause::Function(message) => segments.failure(None, None, message, vec![]),
            ExitCause::Process(sentence) => SpeOutcome::Died(sentence),
            ExitCause::OutOfMemory(sentence) => segments.failure(None, None, sentence, vec![]).for_want_of_memory(),
        }
    }

    /// Whether the machine has ended some process for lack of memory since the task began.
    fn machine_ran_out(&self) -> bool {
        oom_kills() > self.oom_kills
    }

    /// Who is to blame for an end for lack of memory, if its group can tell.
    fn group_fault(&self) -> Option<OomFault> {
        self.place.cgroup()?.fault()
    }

    /// Why the connection was lost.
    async fn exit_cause(&mut self) -> ExitCause {
        let Ok(Ok(status)) = timeout(EXIT_TIME_MAX, self.process.wait()).await else {
            return ExitCause::Process("the SPE closed its connection".into());
        };
        let said = self.captured.last_line().await;
        let memory = match self.group_fault() {
            Some(OomFault::Own) => OomEvidence::OwnRanOut,
            Some(OomFault::OfOthers) => OomEvidence::MachineRanOut,
            None if self.machine_ran_out() => OomEvidence::MachineRanOut,
            None => OomEvidence::Unknown,
        };
        ExitCause::from_status(status, ProcessKind::Spe, memory, said.as_deref())
    }

    fn take_turn(&mut self) -> Result<(), String> {
        if !std::mem::replace(&mut self.ready, false) {
            return Err("the SPE was left in the middle of a task and cannot be used again".into());
        }
        Ok(())
    }

    /// The next message; after too long a silence, a sentence about the function, whose process is then unusable.
    async fn sign_of_life(&mut self) -> Result<Result<FromChild, host_link::Closed>, String> {
        let Some(silence_max) = self.place.sandbox().silence_max() else { return Ok(self.link.next().await) };
        timeout(silence_max, self.link.next()).await.map_err(|_| {
            let seconds = silence_max.as_secs_f64();
            format!(
                "the function gave no sign of life for {seconds} s: let it tell its progress, or raise \
                 `spe_silence_seconds` of the node"
            )
        })
    }

    /// Puts a library or other code into an unnamed file, which the process copies to where it can load it. Nothing is
    /// written where user code could have put something in the way.
    fn pass_code(&mut self, code: &[u8]) -> Result<OwnedFd, Refusal> {
        if code.len() > limits::LIBRARY_BYTES_MAX {
            self.ready = true;
            let sentence = format!("the function's code is longer than {} bytes: strip it", limits::LIBRARY_BYTES_MAX);
            return Err(Refusal::new(Reason::Invalid, sentence));
        }
        let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
        let written = memfd_create("function", flags).map_err(io::Error::from).and_then(|file| {
            let mut file = File::from(file);
            file.write_all(code)?;
            // The file lies in memory that is charged to nobody: code loaded earlier must not make it longer.
            let seals = SealFlags::SEAL | SealFlags::SHRINK | SealFlags::GROW | SealFlags::WRITE;
            fcntl_add_seals(&file, seals)?;
            Ok(file)
        });
        written.map(OwnedFd::from).map_err(|error| {
            self.ready = true;
            let sentence = format!("the function's code cannot be passed on at this node: {error}");
            Refusal::new(Reason::Unavailable, sentence)
        })
    }
}

impl Drop for SpeProcess {
    fn drop(&mut self) {
        // `id` is `None` once the process has been waited for: its number may be another's by now.
        let group = self.process.id().and_then(|id| Pid::from_raw(i32::try_from(id).ok()?));
        if let Some(group) = group {
            let _ = kill_process_group(group, Signal::KILL);
        }
    }
}

impl SpeOutcome {
    /// An error of the function that may be tried once more, since the function may not be at fault.
    fn for_want_of_memory(self) -> Self {
        match self {
            Self::FunctionFailed(error) => Self::OutOfMemory(error),
            other => other,
        }
    }
}

impl TaskOutput {
    /// The length of its results.
    pub fn bytes(&self) -> u64 {
        self.chunks.iter().map(|chunk| chunk.bytes).sum()
    }
}

impl From<FinishedMessage> for TaskOutput {
    fn from(word: FinishedMessage) -> Self {
        let FinishedMessage { records_in, bytes_in, records_out, chunks, counters, .. } = word;
        Self { records_in, bytes_in, records_out, chunks, counters }
    }
}

/// The function's code, and behind it the files of its modules.
fn code_of(function: &PythonFunction) -> Cow<'_, [u8]> {
    let (code, modules) = (function.code.bytes(), function.code.modules());
    if modules.is_empty() {
        return Cow::Borrowed(code);
    }
    let files = modules.iter().map(|file| &file.bytes[..]);
    Cow::Owned([code].into_iter().chain(files).collect::<Vec<_>>().concat())
}

fn python_spec(function: &PythonFunction, interpreter: &Interpreter) -> PythonSpec {
    let PythonFunction { name, code, requires } = function;
    PythonSpec {
        interpreter: interpreter.executable.clone(),
        environment: interpreter.environment.clone(),
        name: name.clone(),
        file: code.file().unwrap_or_default().to_owned(),
        python: code.python(),
        requires: requires.clone(),
        modules: code.modules().iter().map(|file| (file.path.clone(), file.bytes.len() as u64)).collect(),
    }
}

/// A message about a task that exceeded its time.
fn too_long(most: Duration) -> String {
    format!(
        "the function had not ended after {} s: give it smaller segments (`--segment-bytes`), or raise `spe_task_seconds` of \
         the node",
        most.as_secs_f64()
    )
}

/// Whether what the process says about its results agrees with the scratch file.
fn check(result: &TaskOutput, file: &File, buckets: u32) -> Result<(), String> {
    let file_bytes =
        file.metadata().map_err(|error| format!("the scratch file of a task cannot be read: {error}"))?.len();
    let mut end = 0u64;
    for chunk in &result.chunks {
        if chunk.bucket >= buckets.max(1) || chunk.offset != end || chunk.bytes == 0 {
            return Err("the SPE gave a wrong account of its results".into());
        }
        end = end.saturating_add(chunk.bytes);
    }
    // A file reused from another task may still have one of its bytes, if nothing was written over it.
    let is_whole = end == file_bytes || end == 0 && file_bytes <= CLEARED_BYTES;
    if !is_whole {
        return Err("the SPE gave a wrong account of the length of its results".into());
    }
    Ok(())
}

/// The environment variables of the node that a function may see.
const PASSED_ENVIRONMENT: &[&str] = &["LANG", "LC_ALL", "TZ"];
/// How long a process may take to lock itself in: some milliseconds, unless the machine is very busy.
const CONFINE_TIME_MAX: Duration = Duration::from_secs(60);
/// How long a library may take to load; its initialisers are user code.
const LOAD_TIME_MAX: Duration = Duration::from_secs(60);
/// How long a process may take to end after its connection has ended.
const EXIT_TIME_MAX: Duration = Duration::from_secs(2);
