//! One connection with one SPE (Sector/Sphere paper, 3.3): the function goes there, then segments, one task at a time;
//! progress and results come back. It ends with the first error. It never starts another connection: the rules do.

use std::sync::Arc;

use net::transfer::TransferStream;
use protocol::{
    NodeId, Reason, Refusal, Status,
    message::spe::{PrintedOutput, SpeReply, SpeRequest},
};
use sphere::{Assignment, Event, OrderRefusal, SpeId};
use tokio::sync::mpsc;

use super::{
    context::{Context, DriverEvent},
    printed_logs::PrintedBefore,
    refusals::unavailable,
    task_orders::{load_order, task_order},
};

/// A connection with an SPE, run by [`run`](Self::run).
pub(super) struct SpeConversation {
    pub(super) context: Arc<Context>,
    pub(super) spe: SpeId,
    pub(super) node: NodeId,
    pub(super) event_sender: mpsc::Sender<DriverEvent>,
}

impl SpeConversation {
    /// Runs until the SPE, the connection or `tasks` ends.
    pub(super) async fn run(self, mut tasks: mpsc::Receiver<Assignment>) {
        let mut stream = match self.context.connections.open(&self.node).await {
            Ok(stream) => stream,
            Err(refusal) => return self.send_event(Event::SpeLost { spe: self.spe, refusal }).await,
        };
        self.send_event(Event::SpeReady(self.spe)).await;
        let mut loaded = None;
        loop {
            let task = tokio::select! {
                task = tasks.recv() => task,
                // An idle SPE owes no reply: anything that comes is its end. Cancelling this loses no byte of a reply,
                // since none is on its way.
                end = stream.receive_or_end::<SpeReply>() => {
                    let why = end.err().map_or_else(|| "the conversation ended".into(), |error| error.to_string());
                    let refusal = unavailable(&self.node, why);
                    return self.send_event(Event::SpeLost { spe: self.spe, refusal }).await;
                }
            };
            let Some(task) = task else {
                return stream.close().await;
            };
            if let Err(event) = self.work(&mut stream, &mut loaded, &task).await {
                // The SPE was not asked for anything then, and can do another task.
                let goes_on = matches!(event, Event::InputUnavailable { .. });
                self.send_event(event).await;
                if !goes_on {
                    return;
                }
            }
        }
    }

    /// Has one task done. An error is the event that ends the connection, or says that the task could not be begun.
    async fn work(
        &self,
        stream: &mut TransferStream,
        loaded: &mut Option<u32>,
        task: &Assignment,
    ) -> Result<(), Event> {
        let attempt = task.attempt;
        let failed = |refusal| Event::TaskFailed { attempt, refusal };
        let broken = |error: net::NetError| failed(unavailable(&self.node, error));
        let not_ordered = |refused: OrderRefusal| refused.event(attempt);
        if *loaded != Some(attempt.stage) {
            let Some((function, side)) = self.context.functions.get(attempt.stage as usize) else {
                return Err(Event::JobRefused(Refusal::new(Reason::Failed, "the job has no such stage")));
            };
            let (client, doors) = (&self.context.client, &self.context.connections);
            let load = load_order(client, doors, &self.node, attempt.job, function, side).await.map_err(not_ordered)?;
            stream.send(&SpeRequest::Load(load)).await.map_err(broken)?;
            let (reply, printed) = self.answer(stream, task).await?;
            let end = if reply == SpeReply::Loaded { PrintedBefore::Success } else { PrintedBefore::RefusedLoad };
            self.send_printed(task, end, printed).await;
            match reply {
                SpeReply::Loaded => *loaded = Some(attempt.stage),
                SpeReply::FunctionFailed(error) => return Err(Event::FunctionFailed { attempt, error }),
                SpeReply::Refused(refusal) if is_final(&refusal) => return Err(Event::JobRefused(refusal)),
                SpeReply::Refused(refusal) => return Err(failed(refusal)),
                _ => return Err(failed(unavailable(&self.node, "it answered a function with something else"))),
            }
        }
        let order = task_order(&self.context.client, &self.context.connections, &self.node, task).await;
        stream.send(&SpeRequest::Run(order.map_err(not_ordered)?)).await.map_err(broken)?;
        let (reply, printed) = self.answer(stream, task).await?;
        let end = match &reply {
            SpeReply::FunctionFailed(error) | SpeReply::OutOfMemory(error) => PrintedBefore::Failure(error.segment),
            _ => PrintedBefore::Success,
        };
        self.send_printed(task, end, printed).await;
        match reply {
            SpeReply::Finished(result) => {
                self.send_event(Event::TaskFinished { attempt, result }).await;
                Ok(())
            }
            SpeReply::FunctionFailed(error) => Err(Event::FunctionFailed { attempt, error }),
            SpeReply::OutOfMemory(error) => Err(Event::OutOfMemory { attempt, error }),
            SpeReply::Refused(refusal) => Err(failed(refusal)),
            _ => Err(failed(unavailable(&self.node, "it answered a task with something else"))),
        }
    }

    /// The last reply to a request, and what the function printed meanwhile. The earlier ones report progress, which
    /// the rules wait for.
    async fn answer(
        &self,
        stream: &mut TransferStream,
        task: &Assignment,
    ) -> Result<(SpeReply, Option<PrintedOutput>), Event> {
        let (attempt, mut printed) = (task.attempt, None);
        loop {
            match stream.receive().await {
                Ok(SpeReply::Progress { bytes }) => self.send_event(Event::Progress { attempt, bytes }).await,
                Ok(SpeReply::Printed(output)) => printed = Some(output),
                Ok(reply) => return Ok((reply, printed)),
                Err(error) => return Err(Event::TaskFailed { attempt, refusal: unavailable(&self.node, error) }),
            }
        }
    }

    async fn send_printed(&self, task: &Assignment, end: PrintedBefore, printed: Option<PrintedOutput>) {
        if let Some(printed) = printed {
            let event = DriverEvent::Printed(task.attempt, self.node.clone(), end, printed);
            let _ = self.event_sender.send(event).await;
        }
    }

    async fn send_event(&self, event: Event) {
        // The driver is gone only when the job is: the event is of no use then.
        let _ = self.event_sender.send(DriverEvent::Event(event)).await;
    }
}

/// Whether every other SPE would refuse to load the function too.
fn is_final(refusal: &Refusal) -> bool {
    match refusal.status() {
        Status::Usage | Status::NotFound | Status::Refused | Status::Exists | Status::Corrupt => true,
        Status::Failed | Status::Unavailable => false,
    }
}
