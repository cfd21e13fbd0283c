//! Door 3: asks the security server who may come in, over mutual TLS (paper, 2.3). Serves joining. It never decides
//! itself, and without an answer nobody is let in.

use std::{sync::Mutex, time::Duration};

use net::transfer::{TcpCarrier, TransferStream, connect_to_host};
use protocol::{
    HostAddress, Reason, Refusal,
    message::master_security::{SecurityReply, SecurityRequest},
};
use tokio::{sync::Semaphore, time::timeout};

/// Connections to the security server, kept for the next question. Each carries one question at a time.
pub(crate) struct SecurityClient {
    carrier: TcpCarrier,
    address: HostAddress,
    /// A connection is taken out while it is in use. So one whose question was given up is not used again: its answer
    /// would be taken for that of the next question.
    idle: Mutex<Vec<TransferStream>>,
    /// For questions on behalf of others,
    places: Semaphore,
    /// and for the master's own, which decide who stays admitted: logins do not hold them up.
    own_places: Semaphore,
}

impl SecurityClient {
    /// A client of the security server at `address`; it connects on the first question.
    pub(crate) fn new(carrier: TcpCarrier, address: HostAddress) -> Self {
        let (places, own_places) = (Semaphore::new(CONNECTIONS_MAX), Semaphore::new(OWN_CONNECTIONS_MAX));
        Self { carrier, address, idle: Mutex::default(), places, own_places }
    }

    /// Asks on behalf of another, and repeats the question on a new connection if a kept one turns out to be broken.
    pub(crate) async fn ask(&self, request: &SecurityRequest) -> Result<SecurityReply, Refusal> {
        self.ask_in(&self.places, request).await
    }

    /// Asks a question of the master's own.
    pub(crate) async fn ask_for_master(&self, request: &SecurityRequest) -> Result<SecurityReply, Refusal> {
        self.ask_in(&self.own_places, request).await
    }

    async fn ask_in(&self, places: &Semaphore, request: &SecurityRequest) -> Result<SecurityReply, Refusal> {
        let answer = timeout(ANSWER_MAX, async {
            let _place = places.acquire().await.ok()?;
            if let Some(kept) = self.take_idle()
                && let Ok(reply) = self.converse(kept, request).await
            {
                return Some(Ok(reply));
            }
            Some(match connect_to_host(&self.carrier, &self.address, "security").await {
                Ok(fresh) => self.converse(fresh, request).await,
                Err(error) => Err(error),
            })
        });
        match answer.await {
            Ok(Some(Ok(reply))) => Ok(reply),
            Ok(Some(Err(error))) => {
                tracing::error!(%error, "the security server cannot be asked");
                Err(self.unavailable())
            }
            Ok(None) | Err(_) => Err(self.unavailable()),
        }
    }

    /// The master's certificate was renewed: connections made with the old one are not used again.
    pub(crate) fn forget_idle(&self) {
        // No panic can happen under this lock; a poisoned one costs a connection that is then refused.
        if let Ok(mut idle) = self.idle.lock() {
            idle.clear();
        }
    }

    async fn converse(
        &self,
        mut stream: TransferStream,
        request: &SecurityRequest,
    ) -> Result<SecurityReply, net::NetError> {
        stream.send(request).await?;
        let reply = stream.receive().await?;
        // No panic can happen under this lock; a poisoned one costs a connection.
        if let Ok(mut idle) = self.idle.lock() {
            idle.push(stream);
        }
        Ok(reply)
    }

    fn take_idle(&self) -> Option<TransferStream> {
        self.idle.lock().ok()?.pop()
    }

    fn unavailable(&self) -> Refusal {
        Refusal::new(
            Reason::Unavailable,
            format!("the master cannot reach the security server at {}; see that it runs", self.address),
        )
    }
}

/// Connections to the security server at once for others' questions; checking a password takes it a good part of a
/// second.
const CONNECTIONS_MAX: usize = 8;
/// The same for the master's own questions: struck-off machines, current rights, events of the audit record.
const OWN_CONNECTIONS_MAX: usize = 4;
/// How long one question may take, including connecting and waiting for a place.
const ANSWER_MAX: Duration = Duration::from_secs(15);

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use net::identity::{Authority, TlsIdentity};
    use protocol::NodeId;
    use protocol::Status;
    use tokio::net::TcpSocket;

    use super::*;

    #[tokio::test]
    async fn what_the_master_asks_for_itself_does_not_wait_for_what_others_ask() {
        let authority = Authority::create("test").unwrap();
        let identity = TlsIdentity::role(authority.certificate_pem(), &authority.issue("master").unwrap()).unwrap();
        // A port with no listener, which nobody else gets meanwhile.
        let taken = TcpSocket::new_v4().unwrap();
        taken.bind(([127, 0, 0, 1], 0).into()).unwrap();
        let door = SecurityClient::new(TcpCarrier::new(identity), taken.local_addr().unwrap().into());
        let request = SecurityRequest::CheckNode {
            node: NodeId::new("n1").unwrap(),
            fingerprint: [1; 32],
            address: [127, 0, 0, 1].into(),
        };
        // As many questions as are admitted at once are outstanding.
        let others = door.places.acquire_many(u32::try_from(CONNECTIONS_MAX).unwrap()).await.unwrap();
        let mut waiting = std::pin::pin!(door.ask(&request));
        let own = tokio::select! {
            biased;
            answer = &mut waiting => panic!("no place is free: {answer:?}"),
            answer = door.ask_for_master(&request) => answer,
        };
        assert_eq!(own.unwrap_err().status(), Status::Unavailable);
        drop(others);
        assert_eq!(waiting.await.unwrap_err().status(), Status::Unavailable, "with a place it is asked");
    }
}
