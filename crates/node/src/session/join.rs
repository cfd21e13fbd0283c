//! Opens the session with the master (door 4; Sector/Sphere paper, 2.3). It tries again and again, ever more slowly,
//! until the master lets the node in; meanwhile the node serves its bytes without a master. It never gives up.

use std::{sync::Arc, time::Duration};

use net::{
    datagram::as_seen_from,
    identity::random,
    messenger::{Messenger, SessionKeys, SessionRole},
    transfer::{TcpCarrier, connect_to_host},
};
use protocol::{
    Reason, SessionId,
    message::join::{JoinReply, JoinRequest, KEY_LABEL},
    ticket::TicketKeys,
};
use tokio::time::{sleep, timeout};

use crate::{NodeError, session::master_location::MasterLocation};

/// What the node sends when it joins, and to whom.
pub(crate) struct JoinClient {
    pub(crate) carrier: TcpCarrier,
    pub(crate) master: Arc<MasterLocation>,
    pub(crate) request: JoinRequest,
    pub(crate) messenger: Messenger,
}

/// A session that has begun.
#[derive(Clone, Copy, Debug)]
pub(crate) struct JoinedSession {
    pub(crate) session: SessionId,
    /// The master's public keys for tickets.
    pub(crate) ticket_keys: TicketKeys,
}

impl JoinClient {
    /// Joins, however long it takes. The session's keys are with the messenger on return.
    pub(crate) async fn join(&self) -> JoinedSession {
        let mut pause = PAUSE_MIN;
        loop {
            match timeout(JOIN_TIME_MAX, self.try_join()).await {
                Ok(Ok(joined)) => return joined,
                Ok(Err(error)) => {
                    tracing::warn!(master = %self.master.host(), %error, "the node could not join; it tries again");
                }
                Err(_) => tracing::warn!(master = %self.master.host(), "the master took too long to let the node in"),
            }
            // Spreads the nodes when a master comes back: the pause is anything from half its length to all of it.
            let half_millis = pause.as_millis() as u64 / 2;
            let [jitter] = random::<1>();
            sleep(Duration::from_millis(half_millis + half_millis * u64::from(jitter) / 255)).await;
            pause = (pause * 2).min(PAUSE_MAX);
        }
    }

    async fn try_join(&self) -> Result<JoinedSession, NodeError> {
        let mut stream = connect_to_host(&self.carrier, self.master.host(), "master").await?;
        stream.send(&self.request).await?;
        match stream.receive::<JoinReply>().await? {
            JoinReply::Refused(refusal) => Err(NodeError::Refused(refusal)),
            JoinReply::Accepted { session, ticket_keys, reset_token: gone_token } => {
                let key = stream.export_key(KEY_LABEL, &session.0.to_be_bytes())?;
                self.master.found(stream.peer());
                let peer = Some(as_seen_from(self.messenger.local_address(), stream.peer()));
                let keys = SessionKeys { session, key, role: SessionRole::Initiator, peer };
                self.messenger.add_session(keys);
                self.messenger.expect_reset_token(session, gone_token);
                stream.close().await;
                Ok(JoinedSession { session, ticket_keys })
            }
            JoinReply::Admission(_) | JoinReply::LoggedIn(_) | JoinReply::Device(_) => {
                Err(NodeError::refused(Reason::Failed, UNEXPECTED_REPLY))
            }
        }
    }
}

/// The message about a master that answers something else.
pub(crate) const UNEXPECTED_REPLY: &str =
    "the master answered another question than was asked; use the same version as it";
/// Pause after the first failure to join; it doubles with each further one.
const PAUSE_MIN: Duration = Duration::from_millis(200);
/// Longest pause: a master that comes back has its nodes again within seconds.
const PAUSE_MAX: Duration = Duration::from_secs(5);
/// Time limit of one try: the master asks the security server meanwhile.
const JOIN_TIME_MAX: Duration = Duration::from_secs(30);
