//! How machines join a cloud: an administrator's requests about them in a session (door 2), and the requests of a
//! newcomer without a certificate ([`Newcomer`]). It serves `sector node ticket|requests|approve|reject|allow` and
//! `sector node|master join`. It never writes a file, and never sends a private key.

use std::time::Duration;

use net::{
    NetError,
    identity::{Credentials, NewKey, TlsIdentity, fingerprint, random, ticket_digest},
    transfer::{TcpCarrier, TransferStream, connect_to_host},
};
use protocol::{
    AddressRange, HostAddress, JoinTicket, KeyDigest, MachineKind, NodeId, Reason, Refusal, TicketSecret,
    message::{
        admission::{
            AdmissionReply, AdmissionRequest, AdmissionVerb, CertificateRequest, Enrolment, MachinePage, MachineStatus,
            WaitingMachine,
        },
        join::{JoinReply, JoinRequest},
        master_security::{SecurityReply, SecurityRequest},
        request::{
            AddTicketRequest, AllowRequest, ApproveRequest, MachinesRequest, RejectRequest, StrikeRequest,
            WaitingMachinesRequest,
        },
    },
};
use tokio::time::timeout;

use crate::{Client, ClientError, session::joining::ask_to_join};

impl Client {
    /// Makes a ticket for a node that is to find the master at `master`. Its secret is made here and sent to nobody:
    /// the cloud gets only its digest.
    ///
    /// # Errors
    /// [`Reason::NoRight`] for anyone but administrators.
    pub async fn node_ticket(
        &self,
        master: HostAddress,
        authority_pem: &str,
        name: Option<NodeId>,
        life: Duration,
    ) -> Result<JoinTicket, ClientError> {
        let (ticket, request) = new_ticket(MachineKind::Node, master, authority_pem, name, life)?;
        self.ask(request).await.map(|()| ticket)
    }

    /// The machines that wait for a certificate.
    ///
    /// # Errors
    /// [`Reason::NoRight`] for anyone but administrators.
    pub async fn waiting_machines(&self) -> Result<Vec<WaitingMachine>, ClientError> {
        self.ask(WaitingMachinesRequest).await
    }

    /// Approves a waiting machine; with `key` only the one that has it.
    ///
    /// # Errors
    /// [`Reason::NotFound`] if none waits under that name. [`Reason::NoRight`] if it has another key, or several wait
    /// and none is named.
    pub async fn approve_machine(&self, name: &NodeId, key: Option<KeyDigest>) -> Result<(), ClientError> {
        self.ask(ApproveRequest { name: name.clone(), key }).await
    }

    /// Rejects the machines that wait under this name.
    ///
    /// # Errors
    /// [`Reason::NotFound`] if there is none.
    pub async fn reject_machine(&self, name: &NodeId) -> Result<(), ClientError> {
        self.ask(RejectRequest { name: name.clone() }).await
    }

    /// Sets the addresses from which a node may join; no ranges means any address.
    ///
    /// # Errors
    /// [`Reason::NotFound`] if there is no such node.
    pub async fn allow_node(&self, name: &NodeId, addresses: Vec<AddressRange>) -> Result<(), ClientError> {
        self.ask(AllowRequest { name: name.clone(), addresses }).await
    }

    /// Refuses a node's certificate from now on; with `undo`, accepts it again.
    ///
    /// # Errors
    /// [`Reason::NotFound`] if there is no such node.
    pub async fn revoke_node(&self, name: &NodeId, undo: bool) -> Result<(), ClientError> {
        self.ask(StrikeRequest { name: name.clone(), undo }).await
    }

    /// Every machine that has a certificate, by name.
    ///
    /// # Errors
    /// [`Reason::NoRight`] for anyone but administrators.
    pub async fn machines(&self) -> Result<Vec<MachineStatus>, ClientError> {
        let mut all: Vec<MachineStatus> = Vec::new();
        loop {
            let after = all.last().map(|machine| machine.name.clone());
            let MachinePage { machines, more } = self.ask(MachinesRequest { after }).await?;
            // An empty page would otherwise be requested again and again.
            let is_last = !more || machines.is_empty();
            all.extend(machines);
            if is_last {
                return Ok(all);
            }
        }
    }
}

/// A new ticket, and what the security server must be told before it is valid.
///
/// # Errors
/// When the authority's certificate is invalid.
pub fn new_ticket(
    kind: MachineKind,
    address: HostAddress,
    authority_pem: &str,
    name: Option<NodeId>,
    life: Duration,
) -> Result<(JoinTicket, AddTicketRequest), ClientError> {
    let secret = TicketSecret(random());
    let request = AddTicketRequest { kind, digest: ticket_digest(&secret), name, life_seconds: life.as_secs() };
    Ok((JoinTicket { kind, address, authority: fingerprint(authority_pem).map_err(net)?, secret }, request))
}

/// Has the security server at `address` do what the holder of its own credentials asks for.
///
/// # Errors
/// When it cannot be reached, or refuses.
pub async fn at_security_server(
    address: HostAddress,
    authority_pem: &str,
    own: &Credentials,
    verb: AdmissionVerb,
) -> Result<AdmissionReply, ClientError> {
    let carrier = TcpCarrier::new(TlsIdentity::role(authority_pem, own).map_err(net)?);
    let stream = connect_to_host(&carrier, &address, "security").await.map_err(net)?;
    ask_security(stream, AdmissionRequest::Own(verb)).await
}

/// How a newcomer knows that it speaks with the intended cloud.
#[derive(Clone, Debug)]
pub enum TrustAnchor {
    /// The authority's certificate has this SHA-256.
    Digest([u8; 32]),
    /// This is the authority's certificate, PEM.
    Authority(String),
    /// Accepts whichever comes first, and keeps to that.
    FirstUse,
}

/// A machine that wants its first certificate.
pub struct Newcomer {
    /// The address it asks.
    pub address: HostAddress,
    /// What it trusts there.
    pub trust: TrustAnchor,
    /// The key it has made.
    pub key: NewKey,
}

/// A certificate for a newcomer.
#[derive(Clone, Debug)]
pub struct AdmittedMachine {
    /// The name in it.
    pub name: NodeId,
    /// The certificate, PEM.
    pub certificate_pem: String,
    /// The certificate of the cloud's authority, PEM: the one that was trusted.
    pub authority_pem: String,
}

/// The answer to a newcomer without a ticket.
#[derive(Clone, Debug)]
pub enum Decision {
    /// It is admitted.
    Admitted(AdmittedMachine),
    /// An administrator must decide; this is the digest to compare.
    Waiting(KeyDigest),
}

impl Newcomer {
    /// A newcomer with a ticket.
    pub fn with_ticket(ticket: &JoinTicket, key: NewKey) -> Self {
        Self { address: ticket.address.clone(), trust: TrustAnchor::Digest(ticket.authority), key }
    }

    /// Uses a ticket. The secret is sent only to a server that has proved to be of the ticket's cloud.
    ///
    /// # Errors
    /// When the other end belongs to another cloud, or the ticket is not accepted.
    pub async fn use_ticket(
        &mut self,
        ticket: &JoinTicket,
        name: Option<NodeId>,
    ) -> Result<AdmittedMachine, ClientError> {
        let key = self.request(name.as_ref())?;
        let enrolment = Enrolment::WithTicket { kind: ticket.kind, secret: ticket.secret.clone(), name, key };
        match self.enrol(ticket.kind, enrolment).await? {
            Decision::Admitted(admitted) => Ok(admitted),
            Decision::Waiting(_) => Err(unexpected("join")),
        }
    }

    /// Asks for a certificate as a node without a ticket; call it again while the node is waiting.
    ///
    /// # Errors
    /// When it was rejected, or may not wait.
    pub async fn ask(&mut self, name: &NodeId) -> Result<Decision, ClientError> {
        let enrolment = Enrolment::Ask { name: name.clone(), key: self.request(Some(name))? };
        self.enrol(MachineKind::Node, enrolment).await
    }

    fn request(&self, name: Option<&NodeId>) -> Result<CertificateRequest, ClientError> {
        self.key.request(name).map_err(net)
    }

    async fn enrol(&mut self, kind: MachineKind, enrolment: Enrolment) -> Result<Decision, ClientError> {
        let address = self.address.clone();
        let late = |_| Refusal::new(Reason::Unavailable, format!("{address} took too long to answer; try again"));
        let (reply, authority) = timeout(ANSWER_MAX, self.converse(kind, enrolment)).await.map_err(late)??;
        match reply {
            AdmissionReply::Waiting { key } => {
                if let Some(authority) = authority {
                    self.trust = TrustAnchor::Digest(authority);
                }
                Ok(Decision::Waiting(key))
            }
            AdmissionReply::Issued { name, certificate_pem, authority_pem } => {
                // The reply is trusted no more than the handshake: the authority must be the same.
                if authority.is_some() && authority != Some(fingerprint(&authority_pem).map_err(net)?) {
                    return Err(unexpected("join"));
                }
                Ok(Decision::Admitted(AdmittedMachine { name, certificate_pem, authority_pem }))
            }
            _ => Err(unexpected("join")),
        }
    }

    /// The answer, and the authority that was shown.
    async fn converse(
        &self,
        kind: MachineKind,
        enrolment: Enrolment,
    ) -> Result<(AdmissionReply, Option<[u8; 32]>), ClientError> {
        let identity = match &self.trust {
            TrustAnchor::Digest(digest) => TlsIdentity::with_pinned_authority(Some(*digest)),
            TrustAnchor::FirstUse => TlsIdentity::with_pinned_authority(None),
            TrustAnchor::Authority(pem) => TlsIdentity::client(pem),
        };
        let identity = identity.map_err(net)?;
        let carrier = TcpCarrier::new(identity);
        if kind == MachineKind::Master {
            let stream = connect_to_host(&carrier, &self.address, "security").await.map_err(net)?;
            let authority = stream.peer_authority();
            let address = stream.peer().ip();
            let request = AdmissionRequest::Enrol { address, fingerprint: None, enrolment };
            return Ok((ask_security(stream, request).await?, authority));
        }
        let request = JoinRequest::Enrol(enrolment);
        let (stream, reply) = ask_to_join(&carrier, &self.address, &request).await.map_err(net)?;
        let authority = stream.peer_authority();
        stream.close().await;
        match reply {
            JoinReply::Admission(reply) => Ok((reply, authority)),
            JoinReply::Refused(refusal) => Err(refusal.into()),
            JoinReply::Accepted { .. } | JoinReply::LoggedIn(_) | JoinReply::Device(_) => Err(unexpected("join")),
        }
    }
}

async fn ask_security(mut stream: TransferStream, request: AdmissionRequest) -> Result<AdmissionReply, ClientError> {
    stream.send(&SecurityRequest::Admission(request)).await.map_err(net)?;
    let reply = stream.receive::<SecurityReply>().await.map_err(net)?;
    stream.close().await;
    match reply {
        SecurityReply::Admission(reply) => Ok(reply),
        SecurityReply::Refused(refusal) => Err(refusal.into()),
        _ => Err(ClientError::Unexpected { who: "security server", request: "machines" }),
    }
}

fn net(source: NetError) -> ClientError {
    ClientError::Net { what: "the cloud could not be asked for a certificate".into(), source }
}

fn unexpected(request: &'static str) -> ClientError {
    ClientError::Unexpected { who: "master", request }
}

/// How long the cloud may take to answer a newcomer.
const ANSWER_MAX: Duration = Duration::from_secs(30);
