//! The sessions of clients (a node's session is a property of the [node](crate::fleet::nodes)). Serves every path a client
//! takes. It never checks an identity: the security server did, before the session was opened.

use std::{collections::BTreeMap, net::IpAddr, time::Duration};

use protocol::{
    CredentialId, JobId, NodeId, Now, SessionId, UserName,
    message::master_security::{HeldSession, KnownUser, UserRights},
    ticket::HolderKey,
};

use crate::{
    access::closed_sessions::ClosedSessions, access::per_user::PerUser, access::session_recheck::has_lost_rights,
    actions::ClientJoin,
};

/// The other end of a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Peer<'a> {
    /// A client, with its user's rights.
    Client(&'a UserRights),
    /// A node.
    Node(&'a NodeId),
}

/// A client's session.
#[derive(Clone, Debug)]
pub(crate) struct ClientSession {
    pub(crate) rights: UserRights,
    /// The proof of the user's identity.
    pub(crate) credential: CredentialId,
    /// The address of the client; shows which nodes are near.
    pub(crate) address: IpAddr,
    /// The key that its tickets name.
    pub(crate) holder: HolderKey,
    /// The address from which the user proved their identity.
    proved_from: IpAddr,
    /// The job that it drives for its user, if it was let in as a driver.
    pub(crate) drives: Option<JobId>,
    /// When it ends unless it is renewed, in milliseconds since the Unix epoch.
    until_unix_millis: Option<u64>,
    last_request: Duration,
}

/// All sessions of clients.
#[derive(Debug, Default)]
pub(crate) struct Sessions {
    clients: BTreeMap<SessionId, ClientSession>,
    /// How many each user has.
    per_user: PerUser,
    /// Those that were closed lately.
    pub(crate) closed: ClosedSessions,
}

impl ClientSession {
    /// The session as the security server knows it.
    pub(crate) fn held(&self) -> HeldSession {
        HeldSession { user: self.rights.user.clone(), credential: self.credential, address: self.proved_from }
    }
}

impl Sessions {
    /// Opens a session. If there are too many, one is given up and returned: the longest idle one of the user with the
    /// most. So no user loses a session because another has many.
    pub(crate) fn open(&mut self, now: Now, session: SessionId, who: ClientJoin) -> Option<SessionId> {
        let evicted = if self.clients.len() >= CLIENT_SESSIONS_MAX { self.longest_idle_of_greediest() } else { None };
        if let Some(evicted) = evicted {
            self.close(now, evicted);
        }
        let ClientJoin { user, address, holder, proved_from, drives } = who;
        let KnownUser { rights, credential, until_unix_millis } = user;
        let last_heard = now.monotonic;
        let client = ClientSession {
            rights,
            credential,
            address,
            holder,
            proved_from,
            drives,
            until_unix_millis,
            last_request: last_heard,
        };
        self.per_user.add(&client.rights.user, 1);
        if let Some(before) = self.clients.insert(session, client) {
            self.per_user.take(&before.rights.user, 1);
        }
        evicted
    }

    /// How many are open.
    pub(crate) fn count(&self) -> usize {
        self.clients.len()
    }

    fn longest_idle_of_greediest(&self) -> Option<SessionId> {
        let greediest = self.per_user.greediest()?;
        let of_greediest = self.clients.iter().filter(|(_, client)| client.rights.user == *greediest);
        of_greediest.min_by_key(|(_, client)| client.last_request).map(|(id, _)| *id)
    }

    fn take(&mut self, session: SessionId) -> Option<ClientSession> {
        let client = self.clients.remove(&session)?;
        self.per_user.take(&client.rights.user, 1);
        Some(client)
    }

    /// Notes that a client lives, and returns its session.
    pub(crate) fn touch(&mut self, now: Now, session: SessionId) -> Option<&ClientSession> {
        let client = self.clients.get_mut(&session)?;
        client.last_request = now.monotonic;
        Some(client)
    }

    pub(crate) fn get(&self, session: SessionId) -> Option<&ClientSession> {
        self.clients.get(&session)
    }

    /// Closes a session. Transfers it began may run for a while, so it is remembered.
    pub(crate) fn close(&mut self, now: Now, session: SessionId) -> bool {
        let Some(client) = self.take(session) else { return false };
        self.closed.add(now, client.held(), client.rights);
        true
    }

    /// Ends a session that is no longer valid.
    pub(crate) fn end(&mut self, session: SessionId) {
        self.take(session);
    }

    /// The sessions whose time has passed.
    pub(crate) fn ended(&self, now: Now) -> Vec<SessionId> {
        self.ending_before(now)
    }

    /// The sessions that end before `then` unless they are renewed.
    pub(crate) fn ending_before(&self, then: Now) -> Vec<SessionId> {
        let ends = |client: &ClientSession| client.until_unix_millis.is_some_and(|until| until <= then.unix_millis);
        self.clients.iter().filter(|(_, client)| ends(client)).map(|(id, _)| *id).collect()
    }

    /// The sessions of drivers of this job.
    pub(crate) fn driving(&self, job: JobId) -> Vec<SessionId> {
        self.clients.iter().filter(|(_, client)| client.drives == Some(job)).map(|(id, _)| *id).collect()
    }

    /// The sessions of these users; all if none are named.
    pub(crate) fn of_users(&self, users: Option<&[UserName]>) -> Vec<SessionId> {
        let is_meant = |client: &ClientSession| users.is_none_or(|users| users.contains(&client.rights.user));
        self.clients.iter().filter(|(_, client)| is_meant(client)).map(|(id, _)| *id).collect()
    }

    /// Takes over the current rights of the user of a session. Returns the user if those are fewer than before.
    pub(crate) fn renew(&mut self, session: SessionId, known: KnownUser) -> Option<UserName> {
        let client = self.clients.get_mut(&session)?;
        let lost = has_lost_rights(&known.rights, &client.rights).then(|| known.rights.user.clone());
        client.rights = known.rights;
        client.until_unix_millis = known.until_unix_millis;
        lost
    }

    /// Closes the sessions that were idle for too long and names them.
    pub(crate) fn close_idle(&mut self, now: Now) -> Vec<SessionId> {
        let is_idle = |client: &ClientSession| now.monotonic.saturating_sub(client.last_request) > CLIENT_IDLE_MAX;
        let idle: Vec<_> = self.clients.iter().filter(|(_, client)| is_idle(client)).map(|(id, _)| *id).collect();
        for session in &idle {
            self.close(now, *session);
        }
        idle
    }
}

/// Most sessions of clients at once, some 300 bytes each with their keys.
const CLIENT_SESSIONS_MAX: usize = 16_384;
/// A client that asked nothing for this long logs in again: a command that was killed leaves its session behind.
const CLIENT_IDLE_MAX: Duration = Duration::from_secs(30 * 60);
