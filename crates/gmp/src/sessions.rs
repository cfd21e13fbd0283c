//! Which sessions an instance has: those that it opened, by the name it used, and those that others opened. It never
//! opens one.

use std::{collections::HashMap, net::SocketAddr, sync::Arc};

use protocol::{SessionId, host_address::HostAddress};
use tokio::{sync::OnceCell, time::Instant};

/// The place for a session with one host. Whoever needs it while it is being opened waits for it.
pub(crate) type SessionCell = Arc<OnceCell<SessionId>>;

/// All sessions of an instance.
#[derive(Default)]
pub(crate) struct Sessions {
    opened: HashMap<HostAddress, SessionCell>,
    accepted: HashMap<SessionId, Accepted>,
}

struct Accepted {
    /// Where the other end listens.
    from: SocketAddr,
    last_used: Instant,
}

impl Sessions {
    /// The place for the session with `host`.
    pub(crate) fn cell(&mut self, host: &HostAddress) -> SessionCell {
        Arc::clone(self.opened.entry(host.clone()).or_default())
    }

    /// The session with `host`, if one is open.
    pub(crate) fn opened(&self, host: &HostAddress) -> Option<SessionId> {
        self.opened.get(host)?.get().copied()
    }

    /// Adds a session that another member opened. Where there are too many, returns the one that was silent for
    /// longest, which is to be ended.
    pub(crate) fn accept(&mut self, session: SessionId, from: SocketAddr, now: Instant) -> Option<SessionId> {
        let full = self.accepted.len() >= ACCEPTED_MAX;
        let oldest = self.accepted.iter().min_by_key(|(_, accepted)| accepted.last_used).map(|(id, _)| *id);
        let evicted = oldest.filter(|_| full);
        if let Some(evicted) = evicted {
            self.accepted.remove(&evicted);
        }
        self.accepted.insert(session, Accepted { from, last_used: now });
        evicted
    }

    /// Where the member listens that opened this session, which is in use.
    pub(crate) fn sender(&mut self, session: SessionId, now: Instant) -> Option<SocketAddr> {
        let accepted = self.accepted.get_mut(&session)?;
        accepted.last_used = now;
        Some(accepted.from)
    }

    /// Forgets a session that has ended.
    pub(crate) fn forget(&mut self, session: SessionId) {
        self.accepted.remove(&session);
        self.opened.retain(|_, cell| cell.get() != Some(&session));
    }

    /// Forgets a host with which no session could be opened, unless another call is at it.
    pub(crate) fn forget_unopened(&mut self, host: &HostAddress) {
        // One is in the map, and one with the caller.
        if self.opened.get(host).is_some_and(|cell| !cell.initialized() && Arc::strong_count(cell) <= 2) {
            self.opened.remove(host);
        }
    }
}

/// Sessions that others opened; each has some kilobytes.
const ACCEPTED_MAX: usize = 4_096;

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::time::Duration;

    use super::*;

    #[test]
    fn the_session_that_was_silent_for_longest_makes_way() {
        let (mut sessions, begun) = (Sessions::default(), Instant::now());
        let from = SocketAddr::from(([127, 0, 0, 1], 9000));
        for number in 0..ACCEPTED_MAX as u64 {
            assert_eq!(sessions.accept(SessionId(number), from, begun + Duration::from_millis(number)), None);
        }
        let later = begun + Duration::from_secs(60);
        assert_eq!(sessions.sender(SessionId(0), later), Some(from));
        assert_eq!(sessions.accept(SessionId(u64::MAX), from, later), Some(SessionId(1)));
        assert_eq!((sessions.sender(SessionId(1), later), sessions.accepted.len()), (None, ACCEPTED_MAX));
    }

    #[test]
    fn a_lost_session_and_a_host_in_vain_are_forgotten() {
        let mut sessions = Sessions::default();
        let host: HostAddress = "127.0.0.1:9000".parse().unwrap();
        let cell = sessions.cell(&host);
        sessions.forget_unopened(&host);
        assert!(sessions.opened.is_empty());
        drop(cell);
        let (first, second) = (sessions.cell(&host), sessions.cell(&host));
        sessions.forget_unopened(&host);
        assert_eq!(sessions.opened.len(), 1, "another waits for it");
        first.set(SessionId(7)).unwrap();
        assert_eq!(second.get(), Some(&SessionId(7)));
        sessions.forget(SessionId(8));
        assert_eq!(sessions.opened.len(), 1);
        sessions.forget(SessionId(7));
        assert!(sessions.opened.is_empty());
    }
}
