//! A job as its journal tells it: what the drivers before were told is told again to a job that begins in the same way, and
//! what it asks for is let go by, since it was asked for then (path of a job, "The driver that survives").

use protocol::{Now, SectorPath};
use sphere::{Action, History, Job, Outcome, SpeNodePlan, SphereError};

use super::{
    JobSpec,
    clock::JobClock,
    journal::{Head, Journal, Told},
    output::OutputFolder,
    side::PinnedFile,
};
use crate::{Client, ClientError};

/// See the module.
pub(super) struct Replay {
    pub(super) spec: JobSpec,
    pub(super) side: Vec<Vec<PinnedFile>>,
    pub(super) folder: OutputFolder,
    pub(super) nodes: Vec<SpeNodePlan>,
    /// The journal, which goes on behind what was read.
    pub(super) journal: Journal,
    pub(super) clock: JobClock,
    pub(super) job: Job,
    pub(super) history: History,
    /// The job's present run.
    pub(super) run: u32,
    /// Its end, if it had come to that.
    pub(super) ended: Option<Result<Outcome, SphereError>>,
}

impl Replay {
    /// Reads a job's journal and lets the job hear all of it. Others get their turn meanwhile, however long it is.
    pub(super) async fn read(client: &Client, journal: &SectorPath) -> Result<Self, ClientError> {
        let (journal, Head { spec, plan, inputs, nodes, folder, side }, told) = Journal::read(client, journal).await?;
        let begun = Now::default();
        let job = Job::new(begun, plan, inputs, &nodes).map_err(|error| error.refusal())?;
        let clock = JobClock::start_from(told.last().map_or(begun.monotonic, |told| told.at));
        let history = History::new(begun);
        let mut replay = Self { spec, side, folder, nodes, journal, clock, job, history, run: 0, ended: None };
        replay.let_go_by(begun);
        for (number, Told { at, event }) in told.into_iter().enumerate() {
            if number % TOLD_A_TURN == 0 {
                tokio::task::yield_now().await;
            }
            let now = Now { monotonic: at, ..begun };
            match event {
                Some(event) => {
                    replay.history.handle_event(now, &event);
                    replay.job.handle_event(now, event);
                }
                None => replay.job.handle_timeout(now),
            }
            replay.let_go_by(now);
        }
        Ok(replay)
    }

    fn let_go_by(&mut self, now: Now) {
        while let Some(action) = self.job.poll_action() {
            self.history.handle_action(now, &action);
            match action {
                Action::BeginRun { run } => self.run = run,
                Action::Finished(result) => {
                    self.ended.get_or_insert(result);
                }
                _ => {}
            }
        }
    }
}

/// News told at a stretch: some microseconds each.
const TOLD_A_TURN: usize = 1_024;
