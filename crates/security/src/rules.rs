//! What the security server decides: whether a user is who they say and may come from where they come, whether a node
//! belongs to the cloud, and who may change accounts (door 3; Sector/Sphere paper, 2.1 and 2.3). Pure: the clock comes
//! as an argument, and what takes a processor some ten milliseconds, or a disk, is an [`SecurityAction`] for someone
//! else.
//!
//! [`audit_buffer`] tells the audit record; [`login`] lets people in, [`providers`] and [`device`] those whom an
//! identity provider knows, which [`revalidation`] looks after later; [`nodes`] lets nodes in, [`admission`] gives
//! machines their certificates, [`machine_admin`] does what administrators want of them; [`users`] answers what is
//! asked about accounts, with [`password_change`] and [`sessions`].

pub mod admission;
mod audit_buffer;
mod audit_space;
mod device;
mod login;
mod machine_admin;
mod nodes;
mod password_change;
mod providers;
mod revalidation;
mod sessions;
#[cfg(test)]
mod tests;
mod users;

use std::{
    collections::{BTreeMap, VecDeque},
    time::Duration,
};

use net::identity::ProvedKey;
use protocol::{
    CredentialId, MachineKind, NodeId, Now, Refusal, Status,
    message::{
        admission::{AdmissionRequest, Enrolment},
        audit::{AuditHead, AuditRequest},
        join::MACHINE_BYTES_MAX,
        master_security::{SecurityReply, SecurityRequest},
    },
};
use store::RowChange;

use crate::{
    SecurityError,
    accounts::Accounts,
    changes::ChangeLog,
    failed_logins::FailedLogins,
    password_hash::{PasswordHash, PasswordHashing, SecretMatch, Verification},
    provider::{ProviderAnswer, ProviderQuestion},
    saves::{PendingSaves, SecurityBatchId},
    waiting_list::WaitingList,
};
use admission::{IssuedCertificate, PendingIssue};
use audit_buffer::AuditBuffer;
pub use audit_buffer::{AuditWrite, AuditWriteId};
pub use audit_space::AuditSpace;
use login::{Login, LoginPurpose, QueuedLogin};
use password_change::PasswordChange;
use providers::ProviderLogins;
use users::PendingUser;

/// The rule-keeper of the security server.
#[derive(Debug)]
pub struct Security {
    accounts: Accounts,
    /// Draws 32 random bytes for tokens and ids.
    random: fn() -> [u8; 32],
    changes: ChangeLog,
    /// When ended sessions are forgotten next, as [`Now::monotonic`].
    next_forgetting: Duration,
    /// What the password of an unknown user is compared with, so that it costs as much as a known one's.
    decoy: PasswordHash,
    failed: FailedLogins,
    /// Logins that wait for others; bounded where they are put here.
    queued_logins: Vec<QueuedLogin>,
    saves: PendingSaves,
    providers: ProviderLogins,
    pending: BTreeMap<CheckId, Pending>,
    /// Work of processors that waits for other such work to end.
    waiting: VecDeque<(CheckId, Work)>,
    under_way: usize,
    /// Certificates that the authority is asked for; bounded by those who ask.
    issues: BTreeMap<CheckId, PendingIssue>,
    waiting_list: WaitingList,
    audit_buffer: AuditBuffer,
    audit_space: AuditSpace,
    actions: VecDeque<SecurityAction>,
    next_check: u64,
}

/// What is to be done, in this order; but a [`Save`](Self::Save) may be on its way to the disk while later actions are
/// done. That is safe, because every answer that may tell of a batch is given out only after
/// [`SecurityCompletion::Saved`] for it.
#[derive(Debug)]
pub enum SecurityAction {
    /// Send this reply to who asked.
    Answer {
        /// Who asked.
        caller: SecurityCaller,
        /// The reply.
        reply: SecurityReply,
    },
    /// Make this comparison off the hot path, then complete with [`SecurityCompletion::Verified`].
    Verify {
        /// Names the comparison.
        check: CheckId,
        /// The comparison.
        verification: Verification,
    },
    /// Ask this provider, then complete with [`SecurityCompletion::Asked`], in bounded time.
    AskProvider {
        /// Names the question.
        check: CheckId,
        /// Which provider.
        provider: String,
        /// What it is asked.
        question: ProviderQuestion,
    },
    /// Hash this password off the hot path, then complete with [`SecurityCompletion::Hashed`].
    Hash {
        /// Names the work.
        check: CheckId,
        /// The password.
        hashing: PasswordHashing,
    },
    /// Have the authority sign a certificate for this key, then complete with [`SecurityCompletion::Issued`].
    Issue {
        /// Names the work.
        check: CheckId,
        /// For whom.
        name: NodeId,
        /// What the machine is.
        kind: MachineKind,
        /// Its key.
        key: ProvedKey,
    },
    /// Say nothing to who asked, and end the connection: it is with nobody who may ask that.
    HangUp {
        /// Who asked.
        caller: SecurityCaller,
    },
    /// Make these rows durable, in order with other batches (several may share one transaction), then complete with
    /// [`SecurityCompletion::Saved`]. When that fails for good, the server must stop: its memory is ahead of its disk.
    Save {
        /// Which batch; counts up.
        batch: SecurityBatchId,
        /// The rows.
        changes: Vec<RowChange>,
    },
    /// Append these to the audit record and sync it, then complete with [`SecurityCompletion::Recorded`]. One at a
    /// time. When that fails the server must stop: it would do what nobody knows of.
    Record {
        /// Names it in the completion.
        record: AuditWriteId,
        /// What, in this order.
        records: Vec<AuditWrite>,
    },
    /// Answer this question from the files of the audit record, off the hot path; then complete with
    /// [`SecurityCompletion::Inspected`].
    Inspect {
        /// Who asked.
        caller: SecurityCaller,
        /// What: to show, or to verify.
        request: AuditRequest,
    },
}

/// What the hands finished.
#[derive(Debug)]
pub enum SecurityCompletion {
    /// A comparison is made.
    Verified {
        /// Which.
        check: CheckId,
        /// What the secret matched, if anything.
        found: Option<SecretMatch>,
    },
    /// A provider answered, or did not.
    Asked {
        /// Which question.
        check: CheckId,
        /// What it said.
        answer: ProviderAnswer,
    },
    /// A password is hashed.
    Hashed {
        /// Which.
        check: CheckId,
        /// Its hash, or why there is none.
        hash: Result<PasswordHash, SecurityError>,
    },
    /// The authority signed a certificate, or could not.
    Issued {
        /// Which.
        check: CheckId,
        /// The certificate.
        issued: Result<IssuedCertificate, SecurityError>,
    },
    /// This batch and every earlier one are durable.
    Saved {
        /// The newest durable batch.
        batch: SecurityBatchId,
    },
    /// These events are on the disk.
    Recorded {
        /// Which.
        record: AuditWriteId,
        /// How the record ends now.
        head: AuditHead,
    },
    /// The audit record was looked at.
    Inspected {
        /// Who asked.
        caller: SecurityCaller,
        /// What was found, or a refusal.
        reply: SecurityReply,
    },
}

impl Security {
    /// A rule-keeper over these accounts, with tokens from the operating system. Hashes one password, which takes some
    /// ten milliseconds.
    pub fn new(accounts: Accounts) -> Result<Self, SecurityError> {
        Self::with_random(accounts, net::identity::random)
    }

    /// As [`new`](Self::new), with tokens and ids made of the 32 bytes that `draw` gives at each call, which nobody may
    /// be able to guess.
    pub fn with_random(accounts: Accounts, draw: fn() -> [u8; 32]) -> Result<Self, SecurityError> {
        Ok(Self {
            accounts,
            random: draw,
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

    /// From now on what is asked is recorded, and answers wait for that; without this the rules keep no record, as
    /// whoever looks only at one of their decisions wants it.
    #[must_use]
    pub fn with_audit(mut self) -> Self {
        self.audit_buffer.begin();
        self
    }

    /// Whether this certificate is that of a machine that may ask more than a newcomer: a master, or ourselves.
    pub fn is_server(&self, fingerprint: [u8; 32]) -> bool {
        self.accounts.machines().server_proved_by(fingerprint).is_some()
    }

    /// Somebody asks; exactly one [`SecurityAction::Answer`] or [`SecurityAction::HangUp`] to `from` follows, now or
    /// after a completion. Masters are answered; who has our own key may administer machines; a stranger may use a
    /// master's ticket, and else is hung up on. Looked at for each question: a connection may outlast what its
    /// certificate was worth.
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
        // A master that speaks under its next certificate has used it: the one before is worth nothing then.
        let promoted =
            server.zip(shown).and_then(|((name, machine), shown)| admission::promoted(&name, machine, shown));
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

    /// A master asks; exactly one [`SecurityAction::Answer`] to `from` follows, now or after a completion.
    pub fn handle_message(&mut self, now: Now, from: SecurityCaller, request: SecurityRequest) {
        self.note_question(now, from, &request);
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
            SecurityRequest::StruckOff => {
                let names = self.accounts.machines().revoked(now.unix_millis).cloned().collect();
                self.answer(from, SecurityReply::StruckOff(names));
            }
        }
    }

    /// Takes what the hands finished; what nobody waits for changes nothing.
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

    /// Forgets old failures, ended sessions and logins that were not finished; looks after users of providers.
    pub fn handle_timeout(&mut self, now: Now) {
        self.failed.forget_old(now);
        self.providers.devices.forget_old(now);
        self.waiting_list.forget_old(now);
        if now.monotonic >= self.next_forgetting {
            self.next_forgetting = now.monotonic + FORGET_EVERY;
            self.forget_ended(now);
        }
        self.revalidate_due_users(now);
    }

    /// What is to be done next, in order.
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
        forgetting.into_iter().chain(of_providers).flatten().min()
    }

    /// Answers once all that was changed before is durable: an answer may tell of a change that a crash would undo.
    fn answer(&mut self, caller: SecurityCaller, reply: SecurityReply) {
        if let Some((caller, reply)) = self.saves.after_waiting((caller, reply)) {
            self.actions.push_back(SecurityAction::Answer { caller, reply });
        }
    }

    fn refuse(&mut self, caller: SecurityCaller, refusal: Refusal) {
        self.answer(caller, SecurityReply::Refused(refusal));
    }

    /// Makes these changes in memory and has them saved; `reply` goes to `caller` once they are durable. Where a row
    /// cannot be made nothing is changed.
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

    /// Has rows saved; whatever is answered from now on waits for them.
    fn save(&mut self, changes: Vec<RowChange>) {
        if !changes.is_empty() {
            let batch = self.saves.begin();
            self.actions.push_back(SecurityAction::Save { batch, changes });
        }
    }

    fn random_id(&self) -> CredentialId {
        CredentialId(id_of((self.random)()))
    }

    /// Whether one more may wait for a processor.
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

fn refused(status: Status, message: impl Into<String>) -> SecurityReply {
    SecurityReply::Refused(Refusal::new(status, message))
}

fn too_busy() -> Refusal {
    Refusal::new(Status::Unavailable, "too many logins at the same moment; try again in a few seconds")
}

/// Who asked a question; each question has its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct SecurityCaller(pub u64);

/// The other end of the connection on which something was asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Connection {
    /// SHA-256 of the certificate it showed, if any.
    pub fingerprint: Option<[u8; 32]>,
    /// What it is by that certificate; `None`: nobody we know.
    with: Option<MachineKind>,
}

impl Connection {
    /// A connection with whoever showed this certificate.
    pub fn new(fingerprint: Option<[u8; 32]>) -> Self {
        Self { fingerprint, with: None }
    }

    /// Whether whoever it is has our own key.
    fn is_own(&self) -> bool {
        self.with == Some(MachineKind::Security)
    }

    fn is_unauthenticated(&self) -> bool {
        self.with.is_none()
    }
}

/// Names work under way, of a processor or of a provider.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct CheckId(u64);

/// What work of a processor is for.
#[derive(Debug)]
enum Pending {
    Login(Login),
    NewUser(PendingUser),
    Password(PasswordChange),
}

/// Work of a processor.
#[derive(Debug)]
enum Work {
    Verify(Verification),
    Hash(PasswordHashing),
}

/// How often login sessions that have ended are forgotten: their rows do no harm meanwhile.
const FORGET_EVERY: Duration = Duration::from_secs(3_600);
/// Comparisons and hashes at once: 4 × 19 MiB, and no more processors than a small machine has.
const WORK_MAX: usize = 4;
/// Those under way or waiting: at some ten milliseconds each, the last waits for about a second.
const PENDING_MAX: usize = 64;
