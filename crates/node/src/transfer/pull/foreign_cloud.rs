//! Reads from the nodes of another cloud for a copy ordered by a client of both (path
//! `docs/paths/third-party-copy.md`). This node has no standing there: it connects as a client, with a key made for
//! this copy, to which its client assigned its tickets. A peer must first prove, by a certificate of the authority the
//! client trusts, to be the named node. If that fails, the client gets one sentence after one fixed time; an unproven
//! peer never gets a message or a ticket.

use std::{ops::Range, time::Duration};

use daemon::settings::ThirdPartyFrom;
use net::{
    NetError,
    identity::{HolderKeyPair, TlsIdentity},
    transfer::{CarrierSettings, Carriers, Locality, QuicSettings, TransferStream},
};
use protocol::{
    NodeId, Reason, SliceId, TransferQos,
    message::{
        client_master::Source,
        transfer::{AUTHORITY_BYTES_MAX, TransferReply, TransferRequest},
    },
    ticket::HolderKey,
};
use tokio::time::{Instant, sleep_until, timeout_at};

use super::{address_policy::AddressPolicy, foreign_cloud_policy::ForeignCloudPolicy};
use crate::{
    NodeError,
    transfer::{
        connection_pool::Peer,
        fetch::{exchange_paced, unexpected_reply},
    },
};

/// A client of another cloud, for one copy.
pub(crate) struct ForeignCloudClient {
    carriers: Carriers,
    holder: HolderKeyPair,
    addresses: AddressPolicy,
    /// The connection that was used last, if everything on it was read.
    idle: Option<(Source, TransferStream)>,
}

impl ForeignCloudClient {
    /// A client into the cloud of this authority, for one copy.
    pub(crate) fn open(policy: ForeignCloudPolicy, node: &NodeId, authority: &str) -> Result<Self, NodeError> {
        if policy.from == ThirdPartyFrom::OwnCloud {
            let message = format!(
                "node {node} copies nothing from other clouds, as its setting `third_party_from` says; fetch the file with \
                 `sector get` and store it with `sector put`"
            );
            return Err(NodeError::refused(Reason::NotPermitted, message));
        }
        if authority.len() > AUTHORITY_BYTES_MAX {
            let message = format!("the other cloud's authority has more than {AUTHORITY_BYTES_MAX} bytes");
            return Err(NodeError::refused(Reason::Invalid, message));
        }
        let identity = TlsIdentity::client(authority)?;
        let quic = QuicSettings { controller: policy.controller, ..QuicSettings::default() };
        let carriers =
            Carriers::new(identity, CarrierSettings { choice: policy.carrier, quic, cached_peers: Vec::new() });
        Ok(Self { carriers, holder: HolderKeyPair::generate(), addresses: policy.addresses, idle: None })
    }

    /// The key to which tickets are assigned.
    pub(crate) fn key(&self) -> HolderKey {
        self.holder.public()
    }

    /// Requests a range from a node; its frames are the next on the connection.
    pub(crate) async fn begin_reading(
        &mut self,
        source: &Source,
        slice: SliceId,
        range: Range<u64>,
        pace: TransferQos,
    ) -> Result<TransferStream, NodeError> {
        let request =
            TransferRequest::Read { ticket: source.ticket.clone(), slice, from: range.start, until: range.end };
        if let Some((of, mut stream)) = self.idle.take()
            && (&of.node, of.address) == (&source.node, source.address)
            && let Ok(reply) = exchange_paced(&mut stream, pace, &request).await
        {
            return reading(source, stream, reply);
        }
        let mut stream = self.connect(source).await?;
        let reply = exchange_paced(&mut stream, pace, &request).await?;
        reading(source, stream, reply)
    }

    /// Keeps a connection on which everything was read, for the next range.
    pub(crate) fn release(&mut self, source: Source, stream: TransferStream) {
        self.idle = Some((source, stream));
    }

    /// Closes the connections, so that no peer waits for this copy.
    pub(crate) async fn close(self) {
        if let Some((_, stream)) = self.idle {
            stream.close().await;
        }
        self.carriers.close().await;
    }

    async fn connect(&mut self, source: &Source) -> Result<TransferStream, NodeError> {
        if !self.addresses.may_connect_to(source.address) {
            let message =
                format!("this node is not to be sent to {}: that is no place of another cloud", source.address);
            return Err(NodeError::refused(Reason::NotPermitted, message));
        }
        let due = Instant::now() + REACH_TIME;
        let connecting = async {
            let mut stream = self.carriers.connect(source.address, source.node.as_str(), Locality::Unknown).await?;
            let proof = self.holder.prove(&stream)?;
            stream.queue(&TransferRequest::ProveKey { key: self.holder.public(), proof }).await?;
            Ok::<_, NetError>(stream)
        };
        let why = match timeout_at(due, connecting).await {
            Ok(Ok(stream)) => return Ok(stream),
            Ok(Err(error)) => error.to_string(),
            Err(_) => "no answer".to_owned(),
        };
        // For the operator only. Nobody else may learn from words or timing what is there.
        tracing::info!(node = %source.node, address = %source.address, why, "a node of another cloud was not reached");
        sleep_until(due).await;
        let message = format!("node {} of the other cloud could not be reached, or did not prove itself", source.node);
        Err(NodeError::refused(Reason::Unavailable, message))
    }
}

fn reading(source: &Source, stream: TransferStream, reply: TransferReply) -> Result<TransferStream, NodeError> {
    match reply {
        TransferReply::Reading { .. } => Ok(stream),
        TransferReply::Refused(refusal) => Err(NodeError::Refused(refusal)),
        other => {
            let peer = Peer {
                node: source.node.clone(),
                address: source.address,
                is_plain: false,
                locality: Locality::Unknown,
            };
            Err(unexpected_reply(peer, "read a slice", &other))
        }
    }
}

/// The fixed time after which an unreachable node is reported. It suffices to reach a node on the other side of the
/// planet over a lossy path with UDP blocked.
const REACH_TIME: Duration = Duration::from_secs(5);

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use net::identity::Authority;
    use protocol::{CarrierChoice, ControllerKind, Place, Status, ticket::SignedTicket};

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn that_a_node_was_not_reached_is_told_after_one_time_however_soon_it_is_known() {
        let here = ([127, 0, 0, 1], 9).into();
        let (carrier, controller) = (CarrierChoice::Tcp, ControllerKind::Udt);
        let borders =
            ForeignCloudPolicy { from: ThirdPartyFrom::Any, addresses: AddressPolicy::of(here), carrier, controller };
        let authority = Authority::create("other").unwrap();
        let node = NodeId::new("here").unwrap();
        let mut abroad = ForeignCloudClient::open(borders, &node, authority.certificate_pem()).unwrap();
        // Nobody listens there any more, which the system reports at once.
        let address = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let source = Source {
            node,
            place: Place::new("s", "r"),
            address,
            distance: None,
            local: None,
            ticket: SignedTicket { ticket: vec![], signature: vec![], delegation: None },
        };
        let begun = Instant::now();
        let reading = abroad.begin_reading(&source, SliceId(1), 0..1, TransferQos::default()).await;
        assert_eq!(reading.err().unwrap().refusal().status(), Status::Unavailable);
        assert!(begun.elapsed() >= REACH_TIME, "{:?}", begun.elapsed());
    }
}
