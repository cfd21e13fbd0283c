//! "There is no such session here": the stateless reset (the idea of RFC 9000, 10.3). A restarted process uses it to
//! tell its old peers at once that it does not know their session. Nobody else can forge it. It serves whoever sends
//! into a session that is gone, and never keeps anything about these senders.

use std::time::Duration;

use protocol::{
    SessionId,
    wire::datagram::{RESET_TOKEN_BYTES, StatelessReset},
};
use ring::hmac;

/// The key from which a process derives its tokens. It comes from the role's private key, so it survives a restart.
#[derive(Clone, Debug)]
pub struct StatelessResetKey(hmac::Key);

impl StatelessResetKey {
    /// The key of a role, from the text of its private key file.
    pub fn of_private_key(key_pem: &str) -> Self {
        let derived = hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, LABEL), key_pem.as_bytes());
        Self(hmac::Key::new(hmac::HMAC_SHA256, derived.as_ref()))
    }

    /// Proves, in this session, that a reset comes from this process. The peer gets it when the session begins, where
    /// nobody else hears it.
    pub fn token(&self, session: SessionId) -> [u8; RESET_TOKEN_BYTES] {
        let mut token = [0; RESET_TOKEN_BYTES];
        token.copy_from_slice(&hmac::sign(&self.0, &session.0.to_be_bytes()).as_ref()[..RESET_TOKEN_BYTES]);
        token
    }
}

/// Answers strangers, and limits how many.
#[derive(Default)]
pub(super) struct ResetResponder {
    key: Option<StatelessResetKey>,
    second_began: Duration,
    in_second: u32,
}

impl ResetResponder {
    pub(super) fn set_key(&mut self, key: StatelessResetKey) {
        self.key = Some(key);
    }

    /// The answer to a sealed datagram of an unknown session, if one may be sent now.
    pub(super) fn answer(&mut self, now: Duration, session: SessionId) -> Option<StatelessReset> {
        let key = self.key.as_ref()?;
        if now.saturating_sub(self.second_began) >= Duration::from_secs(1) {
            (self.second_began, self.in_second) = (now, 0);
        }
        if self.in_second >= STATELESS_RESETS_PER_SECOND_MAX {
            return None;
        }
        self.in_second += 1;
        Some(StatelessReset { session, token: key.token(session) })
    }
}

/// Whether two tokens are the same, in a time that does not reveal where they differ.
pub(super) fn is_same(one: &[u8; RESET_TOKEN_BYTES], other: &[u8; RESET_TOKEN_BYTES]) -> bool {
    one.iter().zip(other).fold(0, |differ, (a, b)| differ | (a ^ b)) == 0
}

/// Answers to strangers in a second. A thousand peers of a restarted master hear of it within seconds. A flood of
/// strangers draws less than 15 KB a second out of us.
pub const STATELESS_RESETS_PER_SECOND_MAX: u32 = 512;
const LABEL: &[u8] = b"sector gmp 2 gone";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_are_the_same_after_a_restart_and_differ_by_session_and_process() {
        let (first, again) = (StatelessResetKey::of_private_key("pem"), StatelessResetKey::of_private_key("pem"));
        let token = first.token(SessionId(5));
        assert!(is_same(&token, &again.token(SessionId(5))));
        assert!(!is_same(&token, &first.token(SessionId(6))));
        assert!(!is_same(&token, &StatelessResetKey::of_private_key("other").token(SessionId(5))));
        let mut near = token;
        near[15] ^= 1;
        assert!(!is_same(&token, &near));
    }

    #[test]
    fn so_many_strangers_are_answered_in_a_second_and_not_more() {
        let mut answering = ResetResponder::default();
        assert_eq!(answering.answer(Duration::ZERO, SessionId(1)), None, "without a key nobody is");
        answering.set_key(StatelessResetKey::of_private_key("pem"));
        for second in [0, 1, 7] {
            let at = Duration::from_secs(second);
            let answered = (0..2_000).filter(|session| answering.answer(at, SessionId(*session)).is_some()).count();
            assert_eq!(answered, STATELESS_RESETS_PER_SECOND_MAX as usize);
        }
    }
}
