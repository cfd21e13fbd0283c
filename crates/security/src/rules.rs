//! What the security server decides (door 3; Sector/Sphere paper, 2.1 and 2.3). It decides who may log in and from
//! where, which nodes belong to the cloud, and who may change accounts. Pure: each call is given the time, and work for
//! a disk or some ten milliseconds of a processor becomes a [`SecurityAction`]. It never opens a socket, reads a clock
//! or waits for a disk.

mod access_keys;
mod actions;
mod admission;
mod audit_buffer;
mod audit_space;
mod browser_login;
mod login;
mod machine_admin;
mod nodes;
mod password_change;
mod pending;
mod provider_questions;
mod providers;
mod recording;
mod revalidation;
pub(crate) mod saves;
mod sessions;
#[cfg(test)]
mod tests;
mod users;
pub(crate) mod waiting_list;

use std::{
    collections::{BTreeMap, VecDeque},
    time::Duration,
};

use protocol::{
    CredentialId, MachineKind, Now, Reason, Refusal,
    message::{
        admission::{AdmissionRequest, Enrolment},
        join::MACHINE_BYTES_MAX,
        master_security::{SecurityReply, SecurityRequest},
    },
};
use store::RowChange;

use crate::{
    SecurityError,
    accounts::{
        Accounts, access_key_secrets::AccessKeySecrets, changes::ChangeLog, failed_logins::FailedLogins, machines,
        password_hash::PasswordHash,
    },
    rules::{saves::PendingSaves, waiting_list::WaitingList},
};
pub use actions::{
    AuditWrite, AuditWriteId, CheckId, IssuedCertificate, SecurityAction, SecurityBatchId, SecurityCaller,
    SecurityCompletion,
};
use audit_buffer::AuditBuffer;
pub use audit_space::AuditSpace;
use pending::{LoginPurpose, Pending, PendingIssue, QueuedLogin, Work};
use provider_questions::ProviderLogins;

/// The rules of the security server.
///
/// - [`recording`] fills the audit record, through [`audit_buffer`].
/// - [`login`] handles logins, [`providers`] and [`browser_login`] those of users whom an identity provider knows.
///   [`revalidation`] checks those users again later.
/// - [`nodes`] admits nodes, [`admission`] gives machines their certificates, and [`machine_admin`] does what
///   administrators order about machines.
/// - [`users`] answers requests about accounts, with [`password_change`], [`sessions`] and [`access_keys`].
#[derive(Debug)]
pub struct Security {
    accounts: Accounts,
    /// Draws 32 random bytes for tokens and ids.
    random: fn() -> [u8; 32],
    /// What makes the secrets of access keys; without it there are none.
    access_keys: Option<AccessKeySecrets>,
    changes: ChangeLog,
    /// When ended sessions are forgotten next, as [`Now::monotonic`].
    next_forgetting: Duration,
    /// The password of an unknown user is compared with this, so that it costs as much as a known user's.
    decoy: PasswordHash,
    failed: FailedLogins,
    /// Logins that wait for others; bounded where they are added.
    queued_logins: Vec<QueuedLogin>,
    saves: PendingSaves,
    providers: ProviderLogins,
    pending: BTreeMap<CheckId, Pending>,
    /// Processor work that waits for other such work to end.
    waiting: VecDeque<(CheckId, Work)>,
    under_way: usize,
    /// Certificates that the authority is asked for; bounded by the number of requests.
    issues: BTreeMap<CheckId, PendingIssue>,
    waiting_list: WaitingList,
    audit_buffer: AuditBuffer,
    audit_space: AuditSpace,
    actions: VecDeque<SecurityAction>,
    next_check: u64,
}

impl Security {
    /// The rules over these accounts, with tokens from the operating system. Hashes one password, which takes some ten
    /// milliseconds.
    pub fn new(accounts: Accounts) -> Result<Self, SecurityError> {
        Self::with_random(accounts, net::identity::random)
    }

    /// As [`new`](Self::new), but tokens and ids are made of the 32 bytes that `draw` gives at each call. Nobody may be
    /// able to guess them.
    pub fn with_random(accounts: Accounts, draw: fn() -> [u8; 32]) -> Result<Self, SecurityError> {
        Ok(Self {
            accounts,
            random: draw,
            access_keys: None,
            changes: ChangeLog::new(id_of(draw())),
            next_forgetting: Duration::ZERO,
            decoy: PasswordHash::new("no one's password")?,
            failed: FailedLogins::default(),
            queued_logins: Vec::new(),
            saves: PendingSaves::default(),
            providers: ProviderLogins::default(),
            pending: BTreeMap::new(),
            waiting: VecDeque::new(),
            under_way: 0,
            issues: BTreeMap::new(),
            waiting_list: WaitingList::default(),
            audit_buffer: AuditBuffer::default(),
            audit_space: AuditSpace::default(),
            actions: VecDeque::new(),
            next_check: 0,
        })
    }

    /// Records requests from now on; answers wait for that. Without this the rules keep no record, for callers that
    /// only need one of their decisions.
    #[must_use]
    pub fn with_audit(mut self) -> Self {
        self.audit_buffer.begin();
        self
    }

    /// Whether this certificate is that of a machine that may ask more than a newcomer: a master, or ourselves.
    pub fn is_server(&self, fingerprint: [u8; 32]) -> bool {
        self.accounts.machines().server_proved_by(fingerprint).is_some()
    }

    /// Handles a question; exactly one [`SecurityAction::Answer`] or [`SecurityAction::HangUp`] to `from` follows, now
    /// or after a completion. Masters are answered. The holder of our own key may administer machines. A stranger may
    /// use a master's ticket, and is otherwise hung up on. This is checked for each question: a connection may outlast
    /// the validity of its certificate.
    pub fn handle_question(
        &mut self,
        now: Now,
        from: SecurityCaller,
        mut connection: Connection,
        request: SecurityRequest,
    ) {
        let shown = connection.fingerprint;
        let server = shown.and_then(|shown| self.accounts.machines().server_proved_by(shown));
        let server = server.map(|(name, machine)| (name.clone(), machine.clone()));
        connection.with = server.as_ref().map(|(_, machine)| machine.kind);
        match (connection.with, &request) {
            (Some(MachineKind::Master), SecurityRequest::Admission(AdmissionRequest::Own(_))) => {
                return self.actions.push_back(SecurityAction::HangUp { caller: from });
            }
            (Some(MachineKind::Master), _) => {}
            (Some(MachineKind::Security), SecurityRequest::Admission(AdmissionRequest::Own(_))) => {}
            (
                None,
                SecurityRequest::Admission(AdmissionRequest::Enrol {
                    enrolment: Enrolment::WithTicket { kind: MachineKind::Master, .. },
                    ..
                }),
            ) => {}
            _ => return self.actions.push_back(SecurityAction::HangUp { caller: from }),
        }
        // A master that connects with its next certificate has used it: the one before is now invalid.
        let promoted = server.zip(shown).and_then(|((name, machine), shown)| machines::promoted(&name, machine, shown));
        if let Some(change) = promoted
            && let Err(error) = change.and_then(|change| self.apply(vec![change]))
        {
            return self.refuse(from, error.refusal());
        }
        match request {
            SecurityRequest::Admission(request) => self.handle_admission(now, from, &connection, request),
            other => self.handle_message(now, from, other),
        }
    }

    /// Handles a master's question; exactly one [`SecurityAction::Answer`] to `from` follows, now or after a
    /// completion.
    pub fn handle_message(&mut self, now: Now, from: SecurityCaller, request: SecurityRequest) {
        if let Err(refusal) = self.note_question(now, from, &request) {
            return self.refuse(from, refusal);
        }
        match request {
            SecurityRequest::CheckUser { user, secret, address } => {
                self.check_user(now, from, (user, secret, address), LoginPurpose::MasterSession);
            }
            SecurityRequest::Login { user, secret, address, mut machine } => {
                machine.truncate(machine.floor_char_boundary(MACHINE_BYTES_MAX));
                self.check_user(now, from, (user, secret, address), LoginPurpose::LoginSession(machine));
            }
            SecurityRequest::CheckNode { node, fingerprint, address } => {
                self.check_node(from, &node, fingerprint, address);
            }
            SecurityRequest::Admission(request) => {
                let connection = Connection { fingerprint: None, with: Some(MachineKind::Master) };
                self.handle_admission(now, from, &connection, request);
            }
            SecurityRequest::Accounts { by, request } => self.handle_accounts(now, from, by, request),
            SecurityRequest::Changes(mark) => {
                let changes = self.changes.since(mark);
                self.answer(from, SecurityReply::Changes(changes));
            }
            SecurityRequest::Recheck(held) => self.recheck(now, from, &held),
            SecurityRequest::Device { request, address } => self.handle_device(now, from, request, address),
            SecurityRequest::Audit(request) => self.handle_audit(from, request),
            SecurityRequest::Health => {
                let reasons = self.health();
                self.answer(from, SecurityReply::Health(reasons));
            }
            SecurityRequest::Metrics => self.actions.push_back(SecurityAction::ReadMetrics { caller: from }),
            SecurityRequest::StruckOff => {
                let names = self.accounts.machines().revoked(now.unix_millis).cloned().collect();
                self.answer(from, SecurityReply::StruckOff(names));
            }
        }
    }

    /// Takes a completion; one that is not awaited changes nothing.
    pub fn handle_completion(&mut self, now: Now, completion: SecurityCompletion) {
        match completion {
            SecurityCompletion::Verified { check, found } => match self.end_work(check) {
                Some(Pending::Login(login)) => self.finish_login(now, login, found),
                Some(Pending::Password(renewal)) => self.continue_password_change(now, renewal, found),
                Some(Pending::NewUser(_)) | None => {}
            },
            SecurityCompletion::Asked { check, answer } => self.handle_provider(now, check, answer),
            SecurityCompletion::Hashed { check, hash } => match self.end_work(check) {
                Some(Pending::NewUser(adding)) => self.add_user(now, adding, hash),
                Some(Pending::Password(renewal)) => self.finish_password_change(now, renewal, hash),
                Some(Pending::Login(_)) | None => {}
            },
            SecurityCompletion::Issued { check, issued } => self.finish_issue(check, issued),
            SecurityCompletion::Recorded { record, head } => self.note_recorded(record, head),
            SecurityCompletion::Unrecorded { record } => self.note_unrecorded(now, record),
            SecurityCompletion::Unsaved => self.note_unsaved(),
            SecurityCompletion::Inspected { caller, reply } => self.answer(caller, reply),
            SecurityCompletion::Saved { batch } => {
                let answers = self.saves.finish(batch);
                self.actions
                    .extend(answers.into_iter().map(|(caller, reply)| SecurityAction::Answer { caller, reply }));
            }
        }
        self.resume_queued_logins(now);
        self.start_waiting();
    }

    /// Forgets old failures, ended sessions and unfinished logins; checks users of providers again.
    pub fn handle_timeout(&mut self, now: Now) {
        self.failed.forget_old(now);
        self.providers.devices.forget_old(now);
        self.waiting_list.forget_old(now);
        self.audit_buffer.retry(now);
        if now.monotonic >= self.next_forgetting {
            self.next_forgetting = now.monotonic + FORGET_EVERY;
            self.forget_ended(now);
        }
        self.revalidate_due_users(now);
    }

    /// The next action, in order.
    pub fn poll_action(&mut self) -> Option<SecurityAction> {
        while let Some(action) = self.actions.pop_front() {
            let (caller, reply) = match action {
                SecurityAction::Answer { caller, reply } => (caller, reply),
                SecurityAction::HangUp { caller } => {
                    self.audit_buffer.forget(caller);
                    return Some(SecurityAction::HangUp { caller });
                }
                action => return Some(action),
            };
            if let Some((caller, reply)) = self.audit_buffer.hold_or_release(caller, reply) {
                return Some(SecurityAction::Answer { caller, reply });
            }
        }
        self.audit_buffer.next()
    }

    /// When [`handle_timeout`](Self::handle_timeout) should be called, as [`Now::monotonic`].
    pub fn next_timeout(&self) -> Option<Duration> {
        let forgetting = [self.failed.next_timeout(), self.waiting_list.next_timeout(), Some(self.next_forgetting)];
        let of_providers = [self.providers.devices.next_timeout(), self.next_revalidation()];
        let retrying = self.audit_buffer.retry_at;
        forgetting.into_iter().chain(of_providers).flatten().chain(retrying).min()
    }

    /// Answers once all earlier changes are durable: an answer may report a change that a crash would undo.
    fn answer(&mut self, caller: SecurityCaller, reply: SecurityReply) {
        if let Some((caller, reply)) = self.saves.after_waiting((caller, reply)) {
            self.actions.push_back(SecurityAction::Answer { caller, reply });
        }
    }

    fn refuse(&mut self, caller: SecurityCaller, refusal: Refusal) {
        self.answer(caller, SecurityReply::Refused(refusal));
    }

    /// Makes these changes in memory and has them saved; `reply` goes to `caller` once they are durable. If a row
    /// cannot be made, nothing is changed.
    fn change(&mut self, caller: SecurityCaller, changes: Result<Vec<RowChange>, SecurityError>, reply: SecurityReply) {
        match changes.and_then(|changes| self.apply(changes)) {
            Ok(()) => self.answer(caller, reply),
            Err(error) => self.refuse(caller, error.refusal()),
        }
    }

    fn apply(&mut self, changes: Vec<RowChange>) -> Result<(), SecurityError> {
        for change in &changes {
            self.accounts.apply(change)?;
        }
        self.save(changes);
        Ok(())
    }

    /// Has rows saved; every answer from now on waits for them.
    fn save(&mut self, changes: Vec<RowChange>) {
        if !changes.is_empty() {
            let batch = self.saves.begin();
            self.actions.push_back(SecurityAction::Save { batch, changes });
        }
    }

    fn random_id(&self) -> CredentialId {
        CredentialId(id_of((self.random)()))
    }

    /// Whether there is room for one more piece of processor work.
    fn has_room(&self) -> bool {
        self.pending.len() < PENDING_MAX
    }

    fn begin_work(&mut self, pending: Pending, work: Work) {
        let check = self.new_check();
        self.pending.insert(check, pending);
        self.waiting.push_back((check, work));
        self.start_waiting();
    }

    fn new_check(&mut self) -> CheckId {
        self.next_check += 1;
        CheckId(self.next_check)
    }

    fn end_work(&mut self, check: CheckId) -> Option<Pending> {
        let pending = self.pending.remove(&check)?;
        self.under_way -= 1;
        Some(pending)
    }

    fn start_waiting(&mut self) {
        while self.under_way < WORK_MAX
            && let Some((check, work)) = self.waiting.pop_front()
        {
            self.under_way += 1;
            self.actions.push_back(match work {
                Work::Verify(verification) => SecurityAction::Verify { check, verification },
                Work::Hash(hashing) => SecurityAction::Hash { check, hashing },
            });
        }
    }
}

/// A number other than 0, which stands for none.
fn id_of(drawn: [u8; 32]) -> u64 {
    let [a, b, c, d, e, f, g, h, ..] = drawn;
    u64::from_be_bytes([a, b, c, d, e, f, g, h]).max(1)
}

fn refused(reason: Reason, message: impl Into<String>) -> SecurityReply {
    SecurityReply::Refused(Refusal::new(reason, message))
}

fn too_busy() -> Refusal {
    Refusal::new(Reason::Busy, "too many logins at the same moment; try again in a few seconds")
}

/// The other end of the connection on which a question came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Connection {
    /// SHA-256 of the certificate it showed, if any.
    pub fingerprint: Option<[u8; 32]>,
    /// The kind of machine, by that certificate; `None` if it is unknown.
    with: Option<MachineKind>,
}

impl Connection {
    /// A connection whose other end showed this certificate.
    pub fn new(fingerprint: Option<[u8; 32]>) -> Self {
        Self { fingerprint, with: None }
    }

    /// Whether the other end has our own key.
    fn is_own(&self) -> bool {
        self.with == Some(MachineKind::Security)
    }

    fn is_unauthenticated(&self) -> bool {
        self.with.is_none()
    }
}

/// How often login sessions that have ended are forgotten: until then their rows do no harm.
const FORGET_EVERY: Duration = Duration::from_secs(3_600);
/// Comparisons and hashes at once: 4 × 19 MiB, and no more processors than a small machine has.
const WORK_MAX: usize = 4;
/// Those under way or waiting: at some ten milliseconds each, the last waits about a second.
const PENDING_MAX: usize = 64;
