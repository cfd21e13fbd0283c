//! Makes the Python environment of a job at this node (path *job*). An SPE installs the wheels that came as a side file,
//! in the sandbox and so without any network. The result is kept by what it was made of. It never runs anything of the
//! user's outside an SPE.

use std::{
    fs::File,
    io::{self, Read},
    os::unix::fs::FileExt,
    sync::Arc,
};

use protocol::{
    JobId, Reason, RecordFraming, SectorPath, SideFileName, SliceId, UserName,
    message::spe::{AttemptId, FunctionCode, FunctionSpec, PartOrder, SegmentOrder, SegmentSource, WHEELS_SIDE_FILE},
};
use spe::{FAULT_BUCKET, MAKER_BUCKETS, SpeOutcome, SpeProcess, TaskOutput, TaskRun, environment_maker};

use super::{
    environments::{Environment, EnvironmentKey},
    side_files::LoadedSideFiles,
};
use crate::{NodeError, blocking, bucket::Scratch, node_context::NodeContext};

/// For whom an environment is made.
pub(super) struct EnvironmentOwner<'a> {
    pub(super) context: &'a Arc<NodeContext>,
    pub(super) job: JobId,
    /// The user whose share of the node's slots it takes.
    pub(super) user: &'a UserName,
}

impl EnvironmentOwner<'_> {
    /// The environment that a function asks for, if it does. Its wheels are taken out of the side files.
    ///
    /// # Errors
    /// `Invalid` where what it requires cannot be installed from the wheels; the sentence has what pip said.
    pub(super) async fn environment_of(
        &self,
        function: &FunctionSpec,
        side: &mut LoadedSideFiles,
    ) -> Result<Option<Arc<Environment>>, NodeError> {
        let FunctionCode::Python(python) = &function.code else { return Ok(None) };
        let Some(requirements) = python.code.requirements() else { return Ok(None) };
        let wheels = SideFileName::new(WHEELS_SIDE_FILE).ok().and_then(|name| side.take(&name)).transpose()?;
        let Some(wheels) = wheels else {
            return Err(NodeError::refused(Reason::Invalid, "a function with requirements came without its wheels"));
        };
        let read = AtOffset { file: wheels.try_clone().map_err(unreadable)?, at: 0 };
        let digest = blocking("reading the wheels of a job", move || digest_of(read).map_err(unreadable)).await?;
        let interpreter = self.context.spes.sandbox.interpreter_name().await.map_err(NodeError::Refused)?;
        let key = EnvironmentKey::of(requirements, &digest, &interpreter);
        let environments = &self.context.spes.environments;
        // Boxed: it is much larger than an idle conversation.
        let made = Box::pin(environments.get_or_make(key, self.make(requirements, wheels))).await?;
        Ok(Some(made))
    }

    /// Has the wheels installed, and gives the archive of what came of it.
    async fn make(&self, requirements: &str, wheels: File) -> Result<Box<dyn Read + Send>, NodeError> {
        let Self { context, job, user } = *self;
        let maker = environment_maker(requirements);
        let bytes = wheels.metadata().map_err(unreadable)?.len();
        let buckets = Arc::clone(&context.storage.buckets);
        let scratch = blocking("creating a scratch file", move || buckets.scratch(job)).await?;
        let stopping = || NodeError::refused(Reason::Unavailable, "the node is stopping; use another node");
        let _slot = context.spes.slots.acquire(user).await.ok_or_else(stopping)?;
        let _running = context.spes.running.count();
        let (mut process, _place) = start_process(context, job, &maker.code, None).await?;
        process.load(&maker, Vec::new()).await.map_err(NodeError::Refused)?;
        let path = SectorPath::parse("/wheels").map_err(|_| NodeError::Spe("has no name for wheels".into()))?;
        let part = PartOrder::plain(SegmentSource::Local(SliceId(0)), path, 0, bytes, RecordFraming::File);
        let task = TaskRun {
            attempt: AttemptId { job, stage: 0, epoch: 0, task: 0, attempt: 0 },
            segments: vec![(SegmentOrder::single(0, part), vec![wheels.into()])],
            output: scratch.share()?,
            buckets: MAKER_BUCKETS,
        };
        tracing::info!(%job, bytes, "a Python environment is made");
        let refused = |reason, why: &str| {
            let node = &context.node;
            Err(NodeError::refused(reason, format!("node {node} cannot install the job's Python packages: {why}")))
        };
        match process.run(task, &mut |_| ()).await {
            SpeOutcome::Finished(output) if has_fault(&output) => {
                let said = ArchiveReader { scratch, at: 0 };
                let said = blocking("reading why", move || io::read_to_string(said).map_err(unreadable)).await?;
                refused(Reason::Invalid, &format!("{said}; nodes ask no index, so all must be among the wheels"))
            }
            SpeOutcome::Finished(_) => Ok(Box::new(ArchiveReader { scratch, at: 0 })),
            SpeOutcome::FunctionFailed(error) => refused(
                Reason::Invalid,
                &format!("{}; wheels and packages must fit into `spe_scratch_bytes` together", error.message),
            ),
            SpeOutcome::OutOfMemory(error) => refused(Reason::Unavailable, &error.message),
            SpeOutcome::Refused(refusal) => Err(NodeError::Refused(refusal)),
            SpeOutcome::Died(why) => Err(NodeError::Spe(format!("died: {why}"))),
        }
    }
}

/// Starts an SPE for code of this kind, with an environment if it needs one, and the permit that it holds.
pub(super) async fn start_process(
    context: &Arc<NodeContext>,
    job: JobId,
    code: &FunctionCode,
    environment: Option<&Environment>,
) -> Result<(SpeProcess, tokio::sync::OwnedSemaphorePermit), NodeError> {
    let kind = context.spes.sandbox.runtime_kind(code).await.map_err(NodeError::Refused)?;
    let kind = match environment {
        Some(environment) => kind.in_environment(environment.folder()),
        None => kind,
    };
    let place = Arc::clone(&context.spes.processes).try_acquire_owned().map_err(|_| {
        let message = format!("node {} has as many SPEs as it may; use another node", context.node);
        NodeError::refused(Reason::Busy, message)
    })?;
    let (buckets, sandbox) = (Arc::clone(&context.storage.buckets), Arc::clone(&context.spes.sandbox));
    let lent = blocking("making an SPE its place", move || {
        let folder = buckets.scratch_folder(job)?;
        sandbox.allocate(&folder).map_err(|error| NodeError::Refused(error.refusal()))
    });
    let process = SpeProcess::start(&context.spes.program, lent.await?, kind);
    Ok((process.map_err(|error| NodeError::Refused(error.refusal()))?, place))
}

fn has_fault(output: &TaskOutput) -> bool {
    output.chunks.iter().any(|chunk| chunk.bucket == FAULT_BUCKET)
}

fn digest_of(mut from: impl Read) -> io::Result<blake3::Hash> {
    let mut hasher = blake3::Hasher::new();
    io::copy(&mut from, &mut hasher)?;
    Ok(hasher.finalize())
}

fn unreadable(error: io::Error) -> NodeError {
    NodeError::Spe(format!("cannot read the wheels of a job: {error}"))
}

/// Reads a file that others have open too: it has a position of its own.
struct AtOffset {
    file: File,
    at: u64,
}

impl Read for AtOffset {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.file.read_at(buffer, self.at)?;
        self.at += read as u64;
        Ok(read)
    }
}

/// The same for a scratch file, which is removed at the end.
struct ArchiveReader {
    scratch: Scratch,
    at: u64,
}

impl Read for ArchiveReader {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.scratch.file().read_at(buffer, self.at)?;
        self.at += read as u64;
        Ok(read)
    }
}
