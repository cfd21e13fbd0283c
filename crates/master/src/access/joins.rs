//! Joining: the TLS conversation with which every session begins (doors 2 and 4). (Paper, 2.3: "a client logs onto the
//! master server via an SSL connection".) Serves login and the start of nodes. Never lets anyone in without the
//! security server's word, and never sends a session's key.

use std::{
    net::{IpAddr, SocketAddr},
    sync::Arc,
    time::Duration,
};

use daemon::shutdown::ShutdownToken;
use net::{
    identity::random,
    messenger::StatelessResetKey,
    transfer::{Incoming, Listener, TransferStream},
};
use protocol::{
    JobId, Reason, Refusal, SessionId, UserName, limits,
    message::{
        admission::{AdmissionReply, AdmissionRequest, Enrolment},
        client_master::DriverKey,
        join::{JoinReply, JoinRequest, KEY_LABEL, Secret},
        login::DeviceRequest,
        master_security::{HeldSession, SecurityReply, SecurityRequest},
    },
    ticket::TicketKeys,
};
use tokio::{
    sync::{mpsc, oneshot},
    task::JoinSet,
    time::timeout,
};

use crate::{
    access::security_client::SecurityClient,
    actions::{ClientJoin, NodeJoin},
};

/// The shared parts that every join uses.
pub(crate) struct JoinAcceptor {
    pub(crate) security: Arc<SecurityClient>,
    /// Proves that it is this master that no longer knows a session.
    pub(crate) reset_key: StatelessResetKey,
    /// Where admitted peers are sent.
    pub(crate) admitted: mpsc::Sender<PendingSession>,
    /// Where to ask which key drives which job.
    pub(crate) driver_questions: mpsc::Sender<DriverQuestion>,
}

/// Asks for which user the holder of this key drives this job.
pub(crate) struct DriverQuestion {
    pub(crate) job: JobId,
    pub(crate) key: DriverKey,
    pub(crate) answer: oneshot::Sender<Result<HeldSession, Refusal>>,
}

/// A peer that was admitted, and waits until its session is set up.
pub(crate) struct PendingSession {
    pub(crate) session: SessionId,
    pub(crate) key: [u8; 32],
    pub(crate) who: Joiner,
    /// Answered once messages of the session will be understood.
    pub(crate) opened: oneshot::Sender<Result<TicketKeys, Refusal>>,
}

/// The admitted peer.
pub(crate) enum Joiner {
    /// A client.
    Client(ClientJoin),
    /// A node.
    Node(NodeJoin),
}

impl JoinAcceptor {
    /// Takes connections until it is stopped.
    pub(crate) async fn accept_joins(self: Arc<Self>, listener: Listener, stopping: ShutdownToken) {
        let mut joining = JoinSet::new();
        // Every connection is accepted at once, and has a place among strangers until its proof is found good. So
        // nobody waits behind it, and there are never more joins than such places.
        while let Some(incoming) = stopping.run_until_cancelled(listener.accept()).await {
            while joining.try_join_next().is_some() {}
            match incoming {
                Ok(incoming) => drop(joining.spawn(Arc::clone(&self).admit(incoming))),
                Err(error) => tracing::warn!(%error, "cannot take a connection"),
            }
        }
        // Joins in progress are cut off: the master they would join is gone.
        joining.shutdown().await;
    }

    async fn admit(self: Arc<Self>, incoming: Incoming) {
        let peer = incoming.peer();
        match timeout(JOIN_MAX, self.converse(incoming)).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => tracing::info!(%peer, %error, "a join broke off"),
            Err(_) => tracing::info!(%peer, "a join took too long and was cut off"),
        }
    }

    async fn converse(&self, incoming: Incoming) -> Result<(), net::NetError> {
        let mut stream = incoming.handshake().await?;
        let request = stream.receive_at_most(limits::JOIN_BYTES_MAX).await?;
        let Some(place) = stream.slot() else {
            let reply = self.judge(&mut stream, request).await;
            return say(stream, &reply).await;
        };
        // The waits from here on are the master's own; the peer's ten seconds were enough. No address's questions hold
        // up those of another. If its address needs the place for another join, this one is dropped.
        let peer = stream.peer();
        let answered = place.run_until_evicted(async {
            let turn = place.proof_permit().await;
            let reply = self.judge(&mut stream, request).await;
            // A peer that is slow to read the answer keeps nobody waiting.
            drop(turn);
            say(stream, &reply).await
        });
        answered.await.map_err(|over| net::NetError::Unauthenticated { peer, over })?
    }

    /// Judges one join.
    async fn judge(&self, stream: &mut TransferStream, request: JoinRequest) -> JoinReply {
        let address = stream.peer().ip().to_canonical();
        let decided = match request {
            JoinRequest::Enrol(enrolment) => {
                let shown = stream.peer_fingerprint();
                self.enrol(address, shown, enrolment).await.map(JoinReply::Admission)
            }
            JoinRequest::Login { user, secret, machine } => self.log_in(address, user, secret, machine).await,
            JoinRequest::Device(request) => self.log_in_with_browser(address, request).await,
            request => self.decide(stream, request).await.map(|(session, ticket_keys)| JoinReply::Accepted {
                session,
                ticket_keys,
                reset_token: self.reset_key.token(session),
            }),
        };
        decided.unwrap_or_else(|refusal| {
            tracing::info!(peer = %stream.peer(), %refusal, "a join was refused");
            JoinReply::Refused(refusal)
        })
    }

    /// Passes on a machine's request about its certificate, with the certificate it has shown.
    async fn enrol(
        &self,
        address: IpAddr,
        fingerprint: Option<[u8; 32]>,
        enrolment: Enrolment,
    ) -> Result<AdmissionReply, Refusal> {
        let question = AdmissionRequest::Enrol { address, fingerprint, enrolment };
        match self.security.ask(&SecurityRequest::Admission(question)).await? {
            SecurityReply::Admission(reply) => Ok(reply),
            other => Err(refused(other)),
        }
    }

    /// Has the joiner checked and its session opened.
    async fn decide(
        &self,
        stream: &mut TransferStream,
        request: JoinRequest,
    ) -> Result<(SessionId, TicketKeys), Refusal> {
        let who = self.check(stream, request).await?;
        let session = SessionId(u64::from_be_bytes(random()));
        let key = stream.export_key(KEY_LABEL, &session.0.to_be_bytes()).map_err(|error| error.refusal())?;
        let (opened, is_open) = oneshot::channel();
        let admission = PendingSession { session, key, who, opened };
        self.admitted.send(admission).await.map_err(|_| stopped())?;
        let ticket_keys = is_open.await.unwrap_or_else(|_| Err(stopped()))?;
        Ok((session, ticket_keys))
    }

    /// The user for whom a driver with this key joins.
    async fn driver_session(&self, job: JobId, key: DriverKey) -> Result<HeldSession, Refusal> {
        let (answer, answered) = oneshot::channel();
        let asked = self.driver_questions.send(DriverQuestion { job, key, answer }).await;
        asked.map_err(|_| stopped())?;
        answered.await.unwrap_or_else(|_| Err(stopped()))
    }

    /// Has a login session begun, whose token the client keeps.
    async fn log_in(
        &self,
        address: IpAddr,
        user: UserName,
        secret: Secret,
        machine: String,
    ) -> Result<JoinReply, Refusal> {
        match self.security.ask(&SecurityRequest::Login { user, secret, address, machine }).await? {
            SecurityReply::Session(session) => Ok(JoinReply::LoggedIn(session)),
            other => Err(refused(other)),
        }
    }

    /// Passes on a browser login message from someone without a session. The security server limits these.
    async fn log_in_with_browser(&self, address: IpAddr, request: DeviceRequest) -> Result<JoinReply, Refusal> {
        match self.security.ask(&SecurityRequest::Device { request, address }).await? {
            SecurityReply::Device(reply) => Ok(JoinReply::Device(reply)),
            other => Err(refused(other)),
        }
    }

    async fn check(&self, stream: &mut TransferStream, request: JoinRequest) -> Result<Joiner, Refusal> {
        let address = stream.peer().ip().to_canonical();
        match request {
            JoinRequest::Client { user, secret, holder } => {
                let question = SecurityRequest::CheckUser { user, secret, address };
                match self.security.ask(&question).await? {
                    SecurityReply::User(user) => {
                        Ok(Joiner::Client(ClientJoin { user, address, holder, proved_from: address, drives: None }))
                    }
                    other => Err(refused(other)),
                }
            }
            JoinRequest::Driver { job, key, holder } => {
                let held = self.driver_session(job, key).await?;
                let proved_from = held.address;
                // The proof that the user gave when the job was detached must still be valid, and grants what it grants
                // now.
                match self.security.ask(&SecurityRequest::Recheck(vec![held])).await? {
                    SecurityReply::Rechecked(known) => match known.into_iter().next().flatten() {
                        Some(user) => {
                            let drives = Some(job);
                            Ok(Joiner::Client(ClientJoin { user, address, holder, proved_from, drives }))
                        }
                        None => Err(Refusal::new(
                            Reason::NotAuthenticated,
                            format!("the login with which the job {job} was detached has ended"),
                        )),
                    },
                    other => Err(refused(other)),
                }
            }
            // Answered before this point: no session with the master begins with them.
            JoinRequest::Login { .. } | JoinRequest::Device(_) => {
                Err(Refusal::new(Reason::Failed, "a login opens no session with the master"))
            }
            JoinRequest::Node { node, place, transfer, spe_slots, pid, folder, local } => {
                let fingerprint = stream.peer_fingerprint().ok_or_else(|| {
                    let message = format!("node {node} showed no certificate; give it the one issued for it");
                    Refusal::new(Reason::NotAuthenticated, message)
                })?;
                let question = SecurityRequest::CheckNode { node: node.clone(), fingerprint, address };
                match self.security.ask(&question).await? {
                    SecurityReply::NodeAllowed => {}
                    other => return Err(refused(other)),
                }
                let transfer = reachable(transfer, address);
                Ok(Joiner::Node(NodeJoin { node, place, transfer, spe_slots, pid, folder, local, address }))
            }
            // Handled before this point: no session begins with it.
            JoinRequest::Enrol(_) => {
                Err(Refusal::new(Reason::Invalid, "a certificate is no reason to begin a session"))
            }
        }
    }
}

/// Sends the outcome of a join. Whatever it is, the answer may use all of the join's time.
async fn say(mut stream: TransferStream, reply: &JoinReply) -> Result<(), net::NetError> {
    stream.admit();
    stream.send(reply).await?;
    stream.close().await;
    Ok(())
}

fn stopped() -> Refusal {
    Refusal::new(Reason::Unavailable, "the master is being stopped; try again in a moment")
}

/// A node that listens on all its addresses is reached at the one it came from.
fn reachable(transfer: SocketAddr, from: IpAddr) -> SocketAddr {
    if transfer.ip().is_unspecified() { SocketAddr::new(from, transfer.port()) } else { transfer }
}

fn refused(reply: SecurityReply) -> Refusal {
    match reply {
        SecurityReply::Refused(refusal) => refusal,
        _ => Refusal::new(Reason::Failed, "the security server answered another question than was asked; see its log"),
    }
}

/// How long one join may take, including the security server's answer.
const JOIN_MAX: Duration = Duration::from_secs(20);

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use protocol::Status;

    #[test]
    fn a_node_that_listens_everywhere_is_reached_where_it_came_from() {
        let from: IpAddr = "192.0.2.7".parse().unwrap();
        let everywhere = "0.0.0.0:7410".parse().unwrap();
        assert_eq!(reachable(everywhere, from), "192.0.2.7:7410".parse().unwrap());
        let advertised = "198.51.100.1:7410".parse().unwrap();
        assert_eq!(reachable(advertised, from), advertised);
    }

    #[test]
    fn an_answer_to_another_question_lets_nobody_in() {
        assert_eq!(refused(SecurityReply::NodeAllowed).status(), Status::Failed);
        let no = Refusal::new(Reason::NoRight, "no");
        assert_eq!(refused(SecurityReply::Refused(no.clone())), no);
    }
}
