//! The job's nodes: where each is, the ticket for it, and a few kept connections for orders about its buckets. Tickets
//! live a minute and are only checked when a connection opens; the master gives fresh ones with each report. It never
//! decides which order is given: the rules do.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};

use net::{
    identity::HolderKeyPair,
    transfer::{Carriers, Locality, TransferStream},
};
use protocol::{
    NodeId, Reason, Refusal,
    message::{
        client_master::{Source, SpeNode},
        spe::{BucketTarget, SpeReply, SpeRequest},
        transfer::{TransferReply, TransferRequest},
    },
    ticket::SignedTicket,
    topology::{self, Distance},
};
use sphere::BucketLocation;

use super::refusals::unavailable;
use crate::cloud::connections::prove;

/// See the module.
pub(super) struct NodeConnections {
    carriers: Carriers,
    holder: Arc<HolderKeyPair>,
    sources: Mutex<BTreeMap<NodeId, Source>>,
    /// Tickets delegated to a node for its pieces at another: sender first.
    delegated: Mutex<BTreeMap<(NodeId, NodeId), DelegatedTicket>>,
    /// Connections for orders about buckets on which nothing is under way.
    idle: Mutex<BTreeMap<NodeId, Vec<TransferStream>>>,
}

impl NodeConnections {
    pub(super) fn new(carriers: Carriers, holder: Arc<HolderKeyPair>, nodes: &[SpeNode]) -> Self {
        let doors =
            Self { carriers, holder, sources: Mutex::default(), delegated: Mutex::default(), idle: Mutex::default() };
        doors.refresh(nodes);
        doors
    }

    /// Takes fresh tickets. A node that is not among them keeps its old one: what runs there may still end well.
    pub(super) fn refresh(&self, nodes: &[SpeNode]) {
        let mut sources = self.sources.lock().unwrap_or_else(PoisonError::into_inner);
        sources.extend(nodes.iter().map(|node| (node.source.node.clone(), node.source.clone())));
    }

    /// How the node `sender` reaches a bucket, which may need no piece of it.
    pub(super) fn bucket_place(
        &self,
        sender: &NodeId,
        home: &BucketLocation,
        is_wanted: bool,
    ) -> Result<BucketTarget, Refusal> {
        let source = self.source(&home.node)?;
        let distance = self.distance(sender, &source);
        let ticket = self.delegate_to(sender, &source);
        Ok(BucketTarget {
            node: source.node,
            address: source.address,
            distance,
            ticket,
            site: source.place.site,
            generation: home.generation,
            is_wanted,
        })
    }

    /// The ticket of `source` for `sender` to use in this client's place, and for no other node.
    fn delegate_to(&self, sender: &NodeId, source: &Source) -> SignedTicket {
        let mut handed = self.delegated.lock().unwrap_or_else(PoisonError::into_inner);
        let between = (sender.clone(), source.node.clone());
        if let Some(DelegatedTicket { since, ticket }) = handed.get(&between)
            && since.elapsed() < DELEGATION_RENEW_AFTER
        {
            return ticket.clone();
        }
        let ticket = self.holder.delegate(&source.ticket, sender);
        handed.insert(between, DelegatedTicket { since: Instant::now(), ticket: ticket.clone() });
        ticket
    }

    /// How far a node is from the node `from`, if that one is among the job's.
    pub(super) fn distance(&self, from: &NodeId, to: &Source) -> Option<Distance> {
        let from = self.source(from).ok()?;
        Some(topology::distance((&from.node, &from.place), (&to.node, &to.place)))
    }

    /// A new connection with an SPE of `node`.
    pub(super) async fn open(&self, node: &NodeId) -> Result<TransferStream, Refusal> {
        let source = self.source(node)?;
        let opening = async {
            let mut stream =
                self.carriers.connect(source.address, node.as_str(), Locality::of(source.distance)).await?;
            prove(&mut stream, &self.holder).await?;
            stream.send(&TransferRequest::Spe { ticket: source.ticket }).await?;
            let reply = stream.receive().await?;
            Ok::<_, net::NetError>((stream, reply))
        };
        match tokio::time::timeout(OPEN_DEADLINE, opening).await {
            Ok(Ok((stream, TransferReply::Ready))) => Ok(stream),
            Ok(Ok((_, TransferReply::Refused(refusal)))) => Err(refusal),
            Ok(Ok(_)) => Err(unavailable(node, "it answered with something else than was asked")),
            Ok(Err(error)) => Err(unavailable(node, error)),
            Err(_) => Err(unavailable(node, "it did not answer in time")),
        }
    }

    /// Gives an order about a bucket to `node` and waits for the outcome. Every order may be given twice: if a kept
    /// connection turns out to be broken, the order is given again on a new one.
    pub(super) async fn ask(&self, node: &NodeId, order: &SpeRequest) -> Result<SpeReply, Refusal> {
        if let Some(stream) = self.take_idle(node)
            && let Ok(reply) = self.ask_on(stream, node, order).await
        {
            return reply;
        }
        let stream = self.open(node).await?;
        self.ask_on(stream, node, order).await.unwrap_or_else(|error| Err(unavailable(node, error)))
    }

    async fn ask_on(
        &self,
        mut stream: TransferStream,
        node: &NodeId,
        order: &SpeRequest,
    ) -> Result<Result<SpeReply, Refusal>, StepError> {
        stream.send(order).await?;
        let reply = loop {
            match tokio::time::timeout(SILENCE_MAX, stream.receive()).await {
                // A long step, such as syncing a large bucket, is accompanied by progress messages.
                Ok(Ok(SpeReply::Progress { .. })) => {}
                Ok(Ok(reply)) => break reply,
                Ok(Err(error)) => return Err(StepError::Net(error)),
                Err(_) => return Err(StepError::Silent),
            }
        };
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        let kept = idle.entry(node.clone()).or_default();
        if kept.len() < IDLE_PER_NODE_MAX {
            kept.push(stream);
        }
        Ok(match reply {
            SpeReply::Refused(refusal) => Err(refusal),
            reply => Ok(reply),
        })
    }

    fn take_idle(&self, node: &NodeId) -> Option<TransferStream> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner).get_mut(node)?.pop()
    }

    fn source(&self, node: &NodeId) -> Result<Source, Refusal> {
        let sources = self.sources.lock().unwrap_or_else(PoisonError::into_inner);
        let missing = || Refusal::new(Reason::Unavailable, format!("the master gave no ticket for node `{node}`"));
        sources.get(node).cloned().ok_or_else(missing)
    }
}

/// A ticket that was delegated to a node.
struct DelegatedTicket {
    since: Instant,
    ticket: SignedTicket,
}

/// Why an order about a bucket got no answer.
#[derive(Debug, thiserror::Error)]
enum StepError {
    #[error(transparent)]
    Net(#[from] net::NetError),
    #[error("it gave no sign of life for {} s", SILENCE_MAX.as_secs())]
    Silent,
}

/// Longest silence of a node while it carries out an order; it reports about twice a second.
const SILENCE_MAX: Duration = Duration::from_secs(30);
/// Longest wait for a node to accept a connection: a far one needs some round trips, a dead one should not delay the
/// job.
const OPEN_DEADLINE: Duration = Duration::from_secs(10);
/// How long a delegated ticket is given to the node again, even if the master has given a fresh one since. In that time
/// one signature is made for each pair of a job's nodes, not for each bucket of each task.
const DELEGATION_RENEW_AFTER: Duration = Duration::from_secs(5);
/// Most connections kept for one node: as many as the rules have orders under way at one.
const IDLE_PER_NODE_MAX: usize = 4;

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use net::{
        identity::{Authority, TlsIdentity},
        transfer::CarrierSettings,
    };
    use protocol::{
        Place,
        ticket::{Delegate, Delegation},
    };

    use super::*;

    #[tokio::test]
    async fn the_ticket_for_a_bucket_is_in_the_hand_of_the_node_that_delivers_to_it() {
        let authority = Authority::create("cloud").unwrap();
        let identity = TlsIdentity::client(authority.certificate_pem()).unwrap();
        let (sender, other, home) = (node("n1"), node("n2"), node("n3"));
        let source = Source {
            node: home.clone(),
            place: Place::new("s", "r"),
            address: ([127, 0, 0, 1], 1).into(),
            distance: None,
            local: None,
            ticket: SignedTicket { ticket: vec![1], signature: vec![2], delegation: None },
        };
        let nodes = [SpeNode { source, slots: 1, is_marked: false }];
        let carriers = Carriers::new(identity, CarrierSettings::default());
        let doors = NodeConnections::new(carriers, Arc::new(HolderKeyPair::generate()), &nodes);
        let home = BucketLocation { node: home, generation: 0 };
        for sender in [sender, other] {
            let place = doors.bucket_place(&sender, &home, true).unwrap();
            let Some(Delegation { to, .. }) = place.ticket.delegation else { panic!("in nobody's hand") };
            assert_eq!(to, Delegate::Node(sender));
        }
    }

    fn node(name: &str) -> NodeId {
        NodeId::new(name).unwrap()
    }
}
