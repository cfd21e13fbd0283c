//! Sphere jobs: the driver (path: `docs/paths/job.md`). "The client is responsible for orchestrating the complete
//! running of each Sphere process" (Sector/Sphere paper, 3.4). The rules are those of [`sphere::Job`]; here they are
//! carried out with requests to master and nodes. A job's output is gathered in a folder beside its place, which is
//! renamed when everything is there. So it never appears in part.

mod alignment;
mod bucket_orders;
mod context;
mod detached;
mod driver;
mod error_slice;
mod index;
mod journal;
mod layout;
mod node_connections;
mod output;
mod output_commit;
mod parameters;
mod printed_logs;
mod python_environment;
mod python_modules;
mod refusals;
mod request;
mod side_files;
mod spe;
mod spec;
mod task_orders;
mod whole_keys;

use driver::Driver;
pub use error_slice::{ErrorLine, alike};
pub use index::IndexedRecords;
pub use parameters::{Parameter, distribute};
pub use protocol::{
    JobId, SideFileName, built_in,
    message::spe::{FunctionCode, FunctionSpec, PythonCode, PythonFunction},
};
use protocol::{SectorPath, message::request::AdmitJobRequest};
pub use python_environment::PythonEnvironment;
pub use python_modules::{give_modules, read_modules};
pub use request::{
    NamedFunction, check_file_bytes, function_in_file, job_title, named_function, segment_bytes, stages,
};
pub use side_files::SideFileSpec;
pub use spec::{JobOutcome, JobOutput, JobProgress, JobSpec, StageSpec};
pub use sphere::SkippedSegment;
use tracing::Instrument;

use crate::{Client, ClientError};

impl Client {
    /// Checks that a job's output can have this place, as each job does before any work is done.
    ///
    /// # Errors
    /// `Usage` for a folder that is not for jobs alone; `Exists` for a file and for a folder that is not empty.
    pub async fn check_job_output(&self, target: &SectorPath) -> Result<(), ClientError> {
        output::claim(self, target).await.map(drop)
    }

    /// Runs a job to its end; `progress` is called some times a second and once at the end.
    ///
    /// When the future is dropped, all connections end, the nodes discard the job's work, and the master counts the job
    /// as lost after a while. A hidden folder `.sphere-JOB-RUN` may stay behind. [`cancel_job`](Client::cancel_job)
    /// ends a job in order, and leaves nothing.
    ///
    /// A job whose only function is `reduce` or `group` gets a stage before it, which brings equal keys together. The
    /// job's record then has two stages.
    ///
    /// # Errors
    /// - `Usage` for a plan that cannot work.
    /// - `NotFound` without input or a side file.
    /// - `Exists` if the output folder is not empty.
    /// - `Failed` if a function errs more often than [the job allows](JobSpec::errors_max), or the job was cancelled.
    ///   For an error, the message names file, segment and record.
    /// - `Unavailable` if too many nodes were lost.
    ///
    /// In each case there is no output, and the job's record at the master holds the reason.
    pub async fn run_job(
        &self,
        spec: JobSpec,
        progress: impl FnMut(&JobProgress) + Send,
    ) -> Result<JobOutcome, ClientError> {
        spec.check_functions()?;
        spec.check_errors()?;
        let inputs = layout::read(self, &spec).await?;
        spec.check_rows(&inputs)?;
        let spec = whole_keys::spread(self, spec, &inputs).await?;
        let side = side_files::pin_side_files(self, &spec).await?;
        let folder = match &spec.output {
            JobOutput::Folder(target) => Some(output::claim(self, target).await?),
            JobOutput::Return => None,
        };
        let output = match &spec.output {
            JobOutput::Folder(target) => Some(target.clone()),
            JobOutput::Return => None,
        };
        let admitted = self.ask(AdmitJobRequest { title: spec.title.clone(), output }).await?;
        let span = tracing::info_span!("job", job = %admitted.job);
        span.in_scope(|| tracing::debug!(title = spec.title, "a job begins"));
        let driver = Driver::new(self.clone(), spec, side, folder, admitted, progress);
        // A driver's future is large; it is not moved around.
        Box::pin(driver.run(inputs)).instrument(span).await
    }
}
