//! The conversation of a job's driver with this node (door 6; Sector/Sphere paper, 3.3). It loads a function into an
//! SPE, runs tasks one after the other, and seals, fetches and publishes buckets. It serves the path of a job. The
//! driver decides what runs where and how to handle an error. This file never runs a function in this process, and
//! never reports a task as finished before every piece of it is with its bucket.

mod deliver;
pub(crate) mod driver_process;
mod driver_session;
mod environment_making;
pub(crate) mod environments;
pub(crate) mod fair_scheduler;
mod input;
pub(crate) mod sandbox_check;
mod side_files;
pub(crate) mod spes;

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
    JobId, Reason, UserName,
    message::spe::{SpeReply, SpeRequest},
};
use tokio::time::{MissedTickBehavior, interval, timeout};

use crate::{NodeError, node_context::NodeContext};
use driver_session::DriverSession;

/// The identity of a driver that asks for SPEs.
pub(crate) struct DriverIdentity {
    /// The bearer of its tickets.
    pub(crate) bearer: Bearer,
    /// The user on whose behalf it acts.
    pub(crate) user: UserName,
    /// The job.
    pub(crate) job: JobId,
}

/// Answers a driver until it closes, disappears or the node stops; its SPE ends with the conversation.
pub(crate) async fn serve_driver(
    context: Arc<NodeContext>,
    mut stream: TransferStream,
    asker: DriverIdentity,
    stopping: &ShutdownToken,
) -> Result<(), NodeError> {
    let job = asker.job;
    tracing::debug!(user = %asker.user, "a driver of the job speaks");
    let mut engine = DriverSession::new(Arc::clone(&context), asker);
    loop {
        let next = stopping.run_until_cancelled(timeout(DRIVER_IDLE_MAX, stream.receive_or_end::<SpeRequest>()));
        let Some(Ok(received)) = next.await else { break };
        let Some(request) = received? else { break };
        let bytes = AtomicU64::new(0);
        // Boxed: a running task's state is much larger than an idle conversation.
        let work = Box::pin(engine.answer(request, &bytes));
        let Some(answer) =
            stopping.run_until_cancelled(Box::pin(alive(&context, &mut stream, job, &bytes, work))).await
        else {
            break;
        };
        engine.drop_unusable_spe();
        let reply = answer?.unwrap_or_else(|error| {
            context.storage.note_disk_error(&error);
            SpeReply::Refused(error.refusal())
        });
        if let Some(printed) = engine.take_printed() {
            stream.send(&SpeReply::Printed(printed)).await?;
        }
        stream.send(&reply).await?;
    }
    stream.close().await;
    Ok(())
}

/// Runs `work` while sending the driver signs of life. If one cannot be sent, the driver is gone: then the work is
/// dropped, and with it the SPE.
async fn alive(
    context: &NodeContext,
    stream: &mut TransferStream,
    job: JobId,
    bytes: &AtomicU64,
    mut work: impl Future<Output = Result<SpeReply, NodeError>> + Unpin,
) -> Result<Result<SpeReply, NodeError>, NodeError> {
    let mut beat = interval(PROGRESS_INTERVAL);
    beat.set_missed_tick_behavior(MissedTickBehavior::Delay);
    // The first tick fires at once; most requests are answered before the second.
    beat.tick().await;
    loop {
        tokio::select! {
            biased;
            answer = &mut work => return Ok(answer),
            _ = beat.tick() => {
                if context.storage.buckets.is_forgotten(job) {
                    let message = format!("job {job} has ended; admit it again");
                    return Ok(Err(NodeError::refused(Reason::JobEnded, message)));
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

/// Time between two signs of life; a driver takes an SPE for dead after it misses many of these.
const PROGRESS_INTERVAL: Duration = Duration::from_millis(500);
/// How long a driver may leave a conversation idle, while it waits for the other tasks of a stage. The paper (3.3) has
/// "the SPE may also timeout if the client is interrupted".
const DRIVER_IDLE_MAX: Duration = Duration::from_secs(60 * 60);
/// How long a driver may accept no message.
const DRIVER_STALL_MAX: Duration = Duration::from_secs(60);
