//! The conversation of a job's driver with this node (door 6; Sector/Sphere paper, 3.3): a function is loaded into an
//! SPE, tasks are run one after the other, buckets are sealed, fetched and published. It serves the path of a job.
//!
//! It decides nothing about the job: what to run where, and what to do about an error, is the driver's. It never runs a
//! function in this process, and never says that a task is finished before every piece of it is with its bucket.

mod deliver;
mod driver_session;
pub(crate) mod fair_scheduler;
mod input;
mod side_files;

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use daemon::shutdown::ShutdownToken;
use net::{identity::Bearer, transfer::TransferStream};
use protocol::{
    JobId, Status, UserName,
    message::spe::{SpeReply, SpeRequest},
};
use tokio::time::{MissedTickBehavior, interval, timeout};

use crate::{NodeError, node_context::NodeContext};
use driver_session::DriverSession;

/// Who asks for SPEs.
pub(crate) struct DriverIdentity {
    /// Who shows the tickets.
    pub(crate) bearer: Bearer,
    /// On whose behalf.
    pub(crate) user: UserName,
    /// For which job.
    pub(crate) job: JobId,
}

/// Answers a driver until it closes, goes away or the node stops; its SPE ends with the conversation.
pub(crate) async fn serve_driver(
    context: Arc<NodeContext>,
    mut stream: TransferStream,
    asker: DriverIdentity,
    stopping: &ShutdownToken,
) -> Result<(), NodeError> {
    let job = asker.job;
    let mut engine = DriverSession::new(Arc::clone(&context), asker);
    loop {
        let next = stopping.run_until_cancelled(timeout(DRIVER_IDLE_MAX, stream.receive_or_end::<SpeRequest>()));
        let Some(Ok(received)) = next.await else { break };
        let Some(request) = received? else { break };
        let bytes = AtomicU64::new(0);
        // Boxed: what a task goes through is much larger than a conversation at rest.
        let work = Box::pin(engine.answer(request, &bytes));
        let Some(answer) =
            stopping.run_until_cancelled(Box::pin(alive(&context, &mut stream, job, &bytes, work))).await
        else {
            break;
        };
        engine.drop_unusable_spe();
        let reply = answer?.unwrap_or_else(|error| {
            context.note_disk_error(&error);
            SpeReply::Refused(error.refusal())
        });
        stream.send(&reply).await?;
    }
    stream.close().await;
    Ok(())
}

/// Drives `work` while telling the driver that it lives. A driver that is gone shows by this word that cannot be sent:
/// then the work is dropped, and with it the SPE.
async fn alive(
    context: &NodeContext,
    stream: &mut TransferStream,
    job: JobId,
    bytes: &AtomicU64,
    mut work: impl Future<Output = Result<SpeReply, NodeError>> + Unpin,
) -> Result<Result<SpeReply, NodeError>, NodeError> {
    let mut beat = interval(PROGRESS_INTERVAL);
    beat.set_missed_tick_behavior(MissedTickBehavior::Delay);
    // The first tick comes at once; most words are answered before the second.
    beat.tick().await;
    loop {
        tokio::select! {
            biased;
            answer = &mut work => return Ok(answer),
            _ = beat.tick() => {
                if context.buckets.is_forgotten(job) {
                    let message = format!("job {job} has ended; admit it again");
                    return Ok(Err(NodeError::refused(Status::Refused, message)));
                }
                let word = SpeReply::Progress { bytes: bytes.load(Ordering::Relaxed) };
                match timeout(DRIVER_STALL_MAX, stream.send(&word)).await {
                    Ok(sent) => sent?,
                    Err(_) => return Err(NodeError::Stalled { operation: "telling a driver", after: DRIVER_STALL_MAX }),
                }
            }
        }
    }
}

/// Time between two signs of life; a driver takes an SPE for dead after many of these.
const PROGRESS_INTERVAL: Duration = Duration::from_millis(500);
/// How long a driver may leave a conversation idle: it waits for the other tasks of a stage (paper, 3.3: "the SPE may
/// also timeout if the client is interrupted").
const DRIVER_IDLE_MAX: Duration = Duration::from_secs(60 * 60);
/// How long a driver may take no word.
const DRIVER_STALL_MAX: Duration = Duration::from_secs(60);
