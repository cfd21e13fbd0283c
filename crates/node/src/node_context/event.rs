//! What the tasks of a node tell the task that owns the rules, and the way there. It never handles an event.

use protocol::SessionId;
use tokio::sync::mpsc;

use crate::rules::NodeCompletion;

/// What the tasks of a node tell the task that owns the rules.
#[derive(Debug)]
#[allow(clippy::large_enum_variant)] // few wait at a time: a box would be an allocation for nothing
pub(crate) enum Event {
    /// Something is complete.
    Completion(NodeCompletion),
    /// The master did not answer in this session.
    SessionFailed(SessionId),
}

impl From<NodeCompletion> for Event {
    fn from(completion: NodeCompletion) -> Self {
        Self::Completion(completion)
    }
}

/// The way to the task that owns the rules.
#[derive(Clone, Debug)]
pub(crate) struct EventSender(mpsc::Sender<Event>);

impl EventSender {
    /// A way, and its end.
    pub(crate) fn channel() -> (Self, mpsc::Receiver<Event>) {
        let (sender, events) = mpsc::channel(EVENTS_MAX);
        (Self(sender), events)
    }

    /// Tells the rules. Waits while their queue is full; they never wait for the caller.
    pub(crate) async fn send(&self, event: Event) {
        // The rules are gone only when the node stops.
        let _ = self.0.send(event).await;
    }

    /// The same for what is complete.
    pub(crate) async fn send_completion(&self, completion: NodeCompletion) {
        self.send(completion.into()).await;
    }

    /// The same for code that cannot wait: a full queue loses it.
    pub(crate) fn try_send_completion(&self, completion: NodeCompletion) {
        let _ = self.0.try_send(completion.into());
    }
}

/// Events that wait for the rules, which handle one in microseconds.
const EVENTS_MAX: usize = 1_024;
