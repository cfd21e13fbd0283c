//! What the security server decides: whether a user is who they say and may come from where they come, and whether a
//! node belongs to the cloud (door 3; Sector/Sphere paper, 2.3). Pure: the clock comes as an argument, and comparing
//! secrets, which takes a processor some ten milliseconds, is an [`Action`] for someone else.
//!
//! An unknown user and a wrong secret get the same sentence at the same cost; what the address allows is said only to
//! those who proved themselves.

use std::{
    collections::{BTreeMap, VecDeque},
    net::IpAddr,
    time::Duration,
};

use protocol::{
    NodeId, Now, Refusal, Status, UserName,
    message::{
        join::Secret,
        master_security::{SecurityReply, SecurityRequest, UserRights},
    },
};

use crate::{
    AddressRange, SecurityError,
    accounts::Accounts,
    failed_logins::FailedLogins,
    secret::{PasswordHash, Verification},
};

/// The rule-keeper of the security server.
#[derive(Debug)]
pub struct Security {
    accounts: Accounts,
    /// What the password of an unknown user is compared with, so that it costs as much as a known one's.
    decoy: PasswordHash,
    failed: FailedLogins,
    pending: BTreeMap<CheckId, Login>,
    /// Comparisons that wait for one under way to end.
    waiting: VecDeque<(CheckId, Verification)>,
    under_way: usize,
    actions: VecDeque<Action>,
    next_check: u64,
}

/// What is to be done. Nothing here must be saved before it is done: the rules change no account.
#[derive(Debug)]
pub enum Action {
    /// Send this reply to who asked.
    Answer {
        /// Who asked.
        caller: Caller,
        /// The reply.
        reply: SecurityReply,
    },
    /// Run this comparison off the hot path and bring the result to [`Security::handle_completion`].
    Verify {
        /// Names the comparison.
        check: CheckId,
        /// The comparison.
        verification: Verification,
    },
}

impl Security {
    /// A rule-keeper over these accounts. Hashes one password, which takes some ten milliseconds.
    pub fn new(accounts: Accounts) -> Result<Self, SecurityError> {
        Ok(Self {
            accounts,
            decoy: PasswordHash::new("no one's password")?,
            failed: FailedLogins::default(),
            pending: BTreeMap::new(),
            waiting: VecDeque::new(),
            under_way: 0,
            actions: VecDeque::new(),
            next_check: 0,
        })
    }

    /// A master asks; exactly one [`Action::Answer`] to `from` follows, now or after a completion.
    pub fn handle_message(&mut self, now: Now, from: Caller, request: SecurityRequest) {
        match request {
            SecurityRequest::CheckUser { user, secret, address } => self.check_user(now, from, user, secret, address),
            SecurityRequest::CheckNode { node, fingerprint, address } => {
                let reply = self.check_node(&node, fingerprint, address);
                self.answer(from, reply);
            }
        }
    }

    /// A comparison is done.
    pub fn handle_completion(&mut self, now: Now, check: CheckId, matches: bool) {
        let Some(login) = self.pending.remove(&check) else { return };
        self.under_way -= 1;
        let reply = self.judge(now, &login, matches);
        self.answer(login.caller, reply);
        self.start_waiting();
    }

    /// Forgets old failures.
    pub fn handle_timeout(&mut self, now: Now) {
        self.failed.forget_old(now);
    }

    /// What is to be done next, in order.
    pub fn poll_action(&mut self) -> Option<Action> {
        self.actions.pop_front()
    }

    /// When [`handle_timeout`](Self::handle_timeout) should be called, as [`Now::monotonic`].
    pub fn next_timeout(&self) -> Option<Duration> {
        self.failed.next_timeout()
    }

    fn check_user(&mut self, now: Now, caller: Caller, user: UserName, secret: Secret, address: IpAddr) {
        let address = address.to_canonical();
        // A token cannot be guessed, so nobody is slowed down over one.
        let guessable = matches!(secret, Secret::Password(_));
        if guessable && let Some(wait) = self.failed.wait(now, &user, address) {
            let seconds = wait.as_secs() + u64::from(wait.subsec_nanos() > 0);
            let sentence = format!("too many failed logins as `{user}` from {address}; wait {seconds} s and try again");
            return self.answer(caller, refused(Status::Refused, sentence));
        }
        if self.pending.len() >= LOGINS_MAX {
            let sentence = "too many logins at the same moment; try again in a few seconds";
            return self.answer(caller, refused(Status::Unavailable, sentence));
        }
        let known = self.accounts.user(&user);
        let password = known.and_then(|user| user.password.as_ref()).unwrap_or(&self.decoy);
        let tokens = known.map_or(&[][..], |user| &user.tokens);
        let verification = Verification::new(secret, password, tokens);
        // The decoy's own password is in the source: whoever gives it must not come in with it.
        let possible = known.is_some_and(|user| !guessable || user.password.is_some());
        let check = CheckId(self.next_check);
        self.next_check += 1;
        self.pending.insert(check, Login { caller, user, address, guessable, possible });
        self.waiting.push_back((check, verification));
        self.start_waiting();
    }

    fn judge(&mut self, now: Now, login: &Login, matches: bool) -> SecurityReply {
        let Login { user, address, .. } = login;
        // Looked up again: the account is that of now, not that of when the question came.
        let Some(account) = self.accounts.user(user).filter(|_| matches && login.possible) else {
            if login.guessable {
                self.failed.note_failure(now, user.clone(), *address);
            }
            return refused(Status::Refused, WRONG_LOGIN);
        };
        if !AddressRange::allows(&account.addresses, *address) {
            let sentence = format!("`{user}` may not log in from {address}; ask an administrator to allow it");
            return refused(Status::Refused, sentence);
        }
        let rights = UserRights { user: user.clone(), groups: account.groups.clone(), admin: account.admin };
        if login.guessable {
            self.failed.note_success(user, *address);
        }
        SecurityReply::User(rights)
    }

    fn check_node(&self, id: &NodeId, fingerprint: [u8; 32], address: IpAddr) -> SecurityReply {
        let Some(node) = self.accounts.node(id) else {
            return refused(
                Status::Refused,
                format!("there is no node `{id}` in this cloud; an administrator must admit it"),
            );
        };
        if node.fingerprint != fingerprint {
            let sentence = format!("the certificate shown is not that of `{id}`; use the one that was issued for it");
            return refused(Status::Refused, sentence);
        }
        if !AddressRange::allows(&node.addresses, address) {
            let address = address.to_canonical();
            let sentence = format!("`{id}` may not join from {address}; ask an administrator to allow it");
            return refused(Status::Refused, sentence);
        }
        SecurityReply::NodeAllowed
    }

    fn start_waiting(&mut self) {
        while self.under_way < VERIFICATIONS_MAX
            && let Some((check, verification)) = self.waiting.pop_front()
        {
            self.under_way += 1;
            self.actions.push_back(Action::Verify { check, verification });
        }
    }

    fn answer(&mut self, caller: Caller, reply: SecurityReply) {
        self.actions.push_back(Action::Answer { caller, reply });
    }
}

fn refused(status: Status, sentence: impl Into<String>) -> SecurityReply {
    SecurityReply::Refused(Refusal::new(status, sentence))
}

/// Who asked a question; each question has its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Caller(pub u64);

/// Names a comparison under way.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct CheckId(u64);

/// A login whose secret is being compared.
#[derive(Debug)]
struct Login {
    caller: Caller,
    user: UserName,
    address: IpAddr,
    /// Whether the secret is one that can be guessed.
    guessable: bool,
    /// Whether there is anything a match would prove; false where the comparison is for the sake of its cost.
    possible: bool,
}

/// The one sentence for an unknown user and for a wrong secret.
const WRONG_LOGIN: &str = "the user name or the password or token is wrong; look at the profile";
/// Comparisons at once: 4 × 19 MiB, and no more processors than a small machine has.
const VERIFICATIONS_MAX: usize = 4;
/// Logins under way or waiting: at some ten milliseconds each, the last waits for about a second.
const LOGINS_MAX: usize = 64;

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::{
        accounts::{self, MASTER, Node, User},
        secret::TokenHash,
    };

    const HOME: &str = "10.0.0.1";
    const AWAY: &str = "203.0.113.9";

    /// Alice has a password and a token and may come from 10/8; robot has a token only; node-1 may join from 10/8.
    fn security() -> Security {
        let mut accounts = Accounts::default();
        let home: AddressRange = "10.0.0.0/8".parse().unwrap();
        let alice = User {
            password: Some(PasswordHash::new("correct horse").unwrap()),
            tokens: vec![TokenHash::new(&[1; 32])],
            groups: vec!["astro".into()],
            admin: true,
            addresses: vec![home],
        };
        let robot = User { tokens: vec![TokenHash::new(&[2; 32])], ..User::default() };
        for (name, user) in [("alice", alice), ("robot", robot)] {
            accounts.apply(&accounts::set_user(&name.parse().unwrap(), &user).unwrap()).unwrap();
        }
        for (id, fingerprint, addresses) in [("node-1", [7; 32], vec![home]), (MASTER, [9; 32], vec![])] {
            let row = Node { fingerprint, addresses };
            accounts.apply(&accounts::set_node(&id.parse().unwrap(), &row).unwrap()).unwrap();
        }
        Security::new(accounts).unwrap()
    }

    fn login(user: &str, secret: Secret, from: &str) -> SecurityRequest {
        SecurityRequest::CheckUser { user: user.parse().unwrap(), secret, address: from.parse().unwrap() }
    }

    fn password(text: &str) -> Secret {
        Secret::Password(text.into())
    }

    fn at(seconds: u64) -> Now {
        Now::default().after(Duration::from_secs(seconds))
    }

    /// Asks and carries out every action until the answer comes; also says whether a comparison was made.
    fn ask(security: &mut Security, now: Now, request: SecurityRequest) -> (SecurityReply, bool) {
        security.handle_message(now, Caller(1), request);
        let mut compared = false;
        loop {
            match security.poll_action().expect("an answer") {
                Action::Answer { caller, reply } => {
                    assert_eq!(caller, Caller(1));
                    assert!(security.poll_action().is_none(), "one question, one answer");
                    return (reply, compared);
                }
                Action::Verify { check, verification } => {
                    compared = true;
                    security.handle_completion(now, check, verification.run());
                }
            }
        }
    }

    fn sentence(reply: SecurityReply) -> String {
        match reply {
            SecurityReply::Refused(refusal) => {
                assert_eq!(refusal.status, Status::Refused);
                refusal.sentence
            }
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_user_proves_herself_by_password_or_token() {
        let mut security = security();
        let rights = UserRights { user: "alice".parse().unwrap(), groups: vec!["astro".into()], admin: true };
        for secret in [password("correct horse"), Secret::Token([1; 32])] {
            let (reply, _) = ask(&mut security, at(0), login("alice", secret, HOME));
            assert_eq!(reply, SecurityReply::User(rights.clone()));
        }
        let (reply, _) = ask(&mut security, at(0), login("robot", Secret::Token([2; 32]), AWAY));
        assert!(matches!(reply, SecurityReply::User(rights) if !rights.admin));
    }

    #[test]
    fn a_wrong_secret_an_unknown_user_and_a_missing_password_cannot_be_told_apart() {
        let mut security = security();
        for (user, secret) in [
            ("alice", password("wrong horse")),
            ("alice", Secret::Token([2; 32])),
            ("nobody", password("correct horse")),
            ("nobody", Secret::Token([1; 32])),
            ("robot", password("no one's password")),
            ("nobody", password("no one's password")),
        ] {
            let (reply, compared) = ask(&mut security, at(0), login(user, secret, HOME));
            assert_eq!(sentence(reply), WRONG_LOGIN, "{user}");
            assert!(compared, "{user} cost nothing");
        }
    }

    #[test]
    fn a_wrong_address_is_told_only_to_those_who_proved_themselves() {
        let mut security = security();
        let (reply, _) = ask(&mut security, at(0), login("alice", password("correct horse"), AWAY));
        assert!(sentence(reply).contains("may not log in from 203.0.113.9"));
        let (reply, _) = ask(&mut security, at(0), login("alice", password("wrong horse"), AWAY));
        assert_eq!(sentence(reply), WRONG_LOGIN);
    }

    #[test]
    fn guessing_passwords_is_slowed_down_also_for_users_that_do_not_exist() {
        for user in ["alice", "nobody"] {
            let mut security = security();
            let mut guess = |now, secret| ask(&mut security, now, login(user, secret, HOME));
            for _ in 0..5 {
                assert!(guess(at(0), password("wrong horse")).1);
            }
            let (reply, compared) = guess(at(0), password("correct horse"));
            assert!(sentence(reply).contains("wait 1 s"), "{user}");
            assert!(!compared);
            // A token is no guess, and the wait ends.
            assert!(guess(at(0), Secret::Token([5; 32])).1);
            assert!(guess(at(1), password("wrong horse")).1);
            assert!(!guess(at(2), password("wrong horse")).1);
            assert_eq!(security.next_timeout(), Some(Duration::from_secs(601)));
        }
    }

    #[test]
    fn comparisons_at_once_and_logins_waiting_are_bounded() {
        let mut security = security();
        for caller in 0..=LOGINS_MAX as u64 {
            security.handle_message(at(0), Caller(caller), login("robot", Secret::Token([2; 32]), HOME));
        }
        let mut checks = VecDeque::new();
        let (mut answered, mut turned_away) = (0, 0);
        loop {
            while let Some(action) = security.poll_action() {
                match action {
                    Action::Verify { check, verification } => checks.push_back((check, verification)),
                    Action::Answer { reply: SecurityReply::User(_), .. } => answered += 1,
                    Action::Answer { caller, reply: SecurityReply::Refused(refusal) } => {
                        assert_eq!((caller.0, refusal.status), (LOGINS_MAX as u64, Status::Unavailable));
                        turned_away += 1;
                    }
                    Action::Answer { reply, .. } => panic!("{reply:?}"),
                }
            }
            assert!(checks.len() <= VERIFICATIONS_MAX);
            let Some((check, verification)) = checks.pop_front() else { break };
            security.handle_completion(at(0), check, verification.run());
        }
        assert_eq!((answered, turned_away), (LOGINS_MAX, 1));
    }

    #[test]
    fn a_completion_nobody_waits_for_changes_nothing() {
        let mut security = security();
        security.handle_completion(at(0), CheckId(99), true);
        assert!(security.poll_action().is_none());
    }

    #[test]
    fn a_node_joins_with_its_own_certificate_from_its_own_addresses() {
        let mut security = security();
        let mut join = |id: &str, fingerprint, from: &str| {
            let (node, address) = (id.parse().unwrap(), from.parse().unwrap());
            ask(&mut security, at(0), SecurityRequest::CheckNode { node, fingerprint, address }).0
        };
        assert_eq!(join("node-1", [7; 32], HOME), SecurityReply::NodeAllowed);
        assert_eq!(join("node-1", [7; 32], "::ffff:10.9.9.9"), SecurityReply::NodeAllowed);
        assert!(sentence(join("node-1", [7; 32], AWAY)).contains("may not join from 203.0.113.9"));
        assert!(sentence(join("node-1", [8; 32], HOME)).contains("not that of `node-1`"));
        assert!(sentence(join("node-2", [7; 32], HOME)).contains("no node `node-2`"));
        assert!(sentence(join(MASTER, [9; 32], HOME)).contains("no node `master`"));
    }
}
