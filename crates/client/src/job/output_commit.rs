//! Carries out the last step of a job by its rules ([`sphere::OutputCommit`]). The output of one run is moved to its
//! place (path of a job, 18). It never decides what belongs to the output, or what a lost answer means.

use std::sync::Arc;

use net::clock::Clock;
use sphere::{CommitAction, Outcome, OutputCommit, OutputFolder};
use tokio::time::sleep_until;

use super::{context::Context, error_slice, output, refusals::refusal};
use crate::ClientError;

/// Moves the output of `outcome` to its place.
pub(super) async fn commit_output(
    context: Arc<Context>,
    folder: OutputFolder,
    clock: Clock,
    outcome: Outcome,
) -> Result<(), ClientError> {
    let (client, job, run) = (&context.client, context.job, outcome.epoch);
    let errors = (!outcome.skipped_segments.is_empty()).then(|| error_slice::ERROR_SLICE.to_owned());
    let mut rules = OutputCommit::new(clock.now(), &outcome, errors, folder.may_remove_target());
    loop {
        let Some(action) = rules.poll_action() else {
            if let Some(due) = rules.next_timeout().map(|at| clock.instant(at)) {
                sleep_until(due).await;
            }
            rules.handle_timeout(clock.now());
            continue;
        };
        let answer = match &action {
            CommitAction::Finished(result) => return Ok(result.clone()?),
            CommitAction::Inspect => match output::inspect_output(client, &folder, job, run).await {
                Ok(seen) => {
                    rules.handle_inspected(&seen);
                    continue;
                }
                Err(error) => Err(error),
            },
            // Boxed: a put is far larger than all else that the driver waits for, and its frames are on one stack.
            CommitAction::WriteErrors => {
                Box::pin(error_slice::write(&context, &folder, run, &outcome.skipped_segments)).await
            }
            action => output::perform(client, &folder, job, run, action).await,
        };
        match answer {
            Ok(()) => rules.done(),
            Err(error) => {
                tracing::info!(%job, ?action, %error, "a step of a job's output to its place was not answered well");
                rules.refused(clock.now(), refusal(error));
            }
        }
    }
}
