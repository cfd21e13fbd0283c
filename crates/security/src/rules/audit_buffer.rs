//! Fills the audit record, and holds the answers that wait for it. Refusals are recorded one by one within limits for
//! each address, user and day, and counted above them, so that nobody fills the disk. When the disk is nearly full,
//! those of strangers are only counted; the counts are recorded too. A login, or a change of rights, is never answered
//! before its line is on the disk: no action goes unrecorded.

use std::{
    collections::{BTreeMap, VecDeque},
    net::IpAddr,
    time::Duration,
};

use protocol::{
    AddressRange, NodeId, Now, Status, UserName,
    message::{
        accounts::{ACCESS_KEY_ID_LETTERS, AccountsRequest, UserChange},
        admission::{AdmissionRequest, AdmissionVerb, Enrolment},
        audit::{AuditBatch, AuditEvent, AuditKind, AuditOutcome},
        join::Secret,
        login::{DeviceReply, DeviceRequest},
        master_security::{SecurityReply, SecurityRequest},
        request::{
            AccessKeyOwnerRequest, AddAccessKeyRequest, AddGroupRequest, AddTicketRequest, AddTokenRequest,
            AllowRequest, ApproveRequest, ChangeUserRequest, RejectRequest, RemoveGroupRequest, RemoveUserRequest,
            RevokeSessionRequest, RevokeSessionsOfRequest, RevokeTokenRequest, SetMemberRequest, SetPasswordRequest,
            StrikeRequest, TokensRequest, WaitingMachinesRequest,
        },
    },
    refusals::{RefusalBudget, source_of},
};

use super::actions::{AuditWrite, AuditWriteId, SecurityAction, SecurityCaller};

/// Events on their way to the record.
#[derive(Debug, Default)]
pub(super) struct AuditBuffer {
    /// Whether anything is recorded.
    pub(super) is_on: bool,
    /// Requests that are not answered yet.
    pub(super) noted: BTreeMap<SecurityCaller, Noted>,
    /// What goes with the next batch.
    pub(super) waiting: Vec<Entry>,
    /// What is sent once the batch that is being written is on the disk.
    pub(super) held: Option<(AuditWriteId, Vec<Held>)>,
    pub(super) last: AuditWriteId,
    /// Refusals of callers who have not proved who they are.
    pub(super) unauthenticated_refusals: RefusalBudget,
    /// Refusals of callers who have.
    pub(super) user_refusals: RefusalBudget,
    /// Whether room for the record is running out, so that the rest is kept for actions of known callers.
    pub(super) is_low: bool,
    /// Whether the last batch found no room.
    pub(super) is_full: bool,
    /// Until when nothing is tried after that, as [`Now::monotonic`].
    pub(super) retry_at: Option<Duration>,
}

/// One entry for the record, and who waits for it.
#[derive(Debug)]
pub(super) enum Entry {
    Own(Box<AuditEvent>, Option<(SecurityCaller, SecurityReply)>),
    Batch(AuditBatch, SecurityCaller),
}

/// What waits for the disk.
#[derive(Debug)]
pub(super) enum Held {
    /// An event, with the answer that waits for it.
    Event(Box<AuditEvent>, Option<(SecurityCaller, SecurityReply)>),
    /// A master that is told how the record ends now.
    Head(SecurityCaller),
}

/// What is to be recorded of a question.
#[derive(Debug)]
pub(super) struct Noted {
    /// Whether it is recorded even if it is not refused.
    pub(super) always: bool,
    /// When it was asked.
    pub(super) at: Now,
    /// Whether the caller has proved who they are.
    pub(super) is_known: bool,
    pub(super) event: AuditEvent,
}

impl AuditBuffer {
    /// From now on events are recorded.
    pub(super) fn begin(&mut self) {
        self.is_on = true;
    }

    /// Releases an answer, or holds it until the request is recorded with it.
    pub(super) fn hold_or_release(
        &mut self,
        caller: SecurityCaller,
        reply: SecurityReply,
    ) -> Option<(SecurityCaller, SecurityReply)> {
        let Some(Noted { always, at, is_known, mut event }) = self.noted.remove(&caller) else {
            return Some((caller, reply));
        };
        match &reply {
            SecurityReply::Refused(refusal) => {
                let is_refused = refusal.status() == Status::Refused;
                if !is_refused && !always {
                    return Some((caller, reply));
                }
                event.outcome = if is_refused { AuditOutcome::Refused } else { AuditOutcome::Failed };
                event.note.clone_from(&refusal.message);
                if !self.takes(at, is_known, &event) {
                    return Some((caller, reply));
                }
            }
            SecurityReply::Device(DeviceReply::Done { user, .. }) => event.who = user.to_string(),
            _ if !always => return Some((caller, reply)),
            _ => {}
        }
        self.waiting.push(Entry::Own(Box::new(event), Some((caller, reply))));
        None
    }

    /// No answer is sent. A stranger who was hung up on leaves no line; otherwise anyone could write as many as they
    /// like.
    pub(super) fn forget(&mut self, caller: SecurityCaller) {
        self.noted.remove(&caller);
    }

    /// The next batch, if none is being written.
    pub(super) fn next(&mut self) -> Option<SecurityAction> {
        if self.held.is_some() || self.waiting.is_empty() || self.retry_at.is_some() {
            return None;
        }
        let (mut records, mut held): (VecDeque<AuditWrite>, Vec<Held>) = Default::default();
        for entry in self.waiting.drain(..) {
            match entry {
                Entry::Own(event, answer) => {
                    held.push(Held::Event(event.clone(), answer));
                    match records.back_mut() {
                        Some(AuditWrite::Own(events)) => events.push(*event),
                        _ => records.push_back(AuditWrite::Own(vec![*event])),
                    }
                }
                Entry::Batch(batch, caller) => {
                    held.push(Held::Head(caller));
                    records.push_back(AuditWrite::Batch(batch));
                }
            }
        }
        self.last.0 += 1;
        self.held = Some((self.last, held));
        Some(SecurityAction::Record { record: self.last, records: records.into() })
    }

    /// Whether this refusal gets a line of its own.
    fn takes(&mut self, now: Now, is_known: bool, event: &AuditEvent) -> bool {
        if is_known {
            return self.user_refusals.try_record(now, &event.who);
        }
        if self.is_low {
            self.unauthenticated_refusals.count(1);
            return false;
        }
        self.unauthenticated_refusals.try_record(now, &source_of(&event.from))
    }

    /// Whether room for the record is running out.
    pub(super) fn note_space(&mut self, is_short: bool) {
        self.is_low = is_short;
    }

    /// The last batch found no room: nothing is tried for a while.
    pub(super) fn note_full(&mut self, now: Now) {
        self.is_full = true;
        self.retry_at = Some(now.monotonic + RETRY_AFTER);
    }

    /// Takes back what found no room: it goes with the next batch. What is too much is counted.
    pub(super) fn wait_again(&mut self, events: impl ExactSizeIterator<Item = Box<AuditEvent>>) {
        let room = WAITING_EVENTS_MAX.saturating_sub(self.waiting.len()).min(events.len());
        self.user_refusals.count((events.len() - room) as u64);
        self.waiting.splice(0..0, events.take(room).map(|event| Entry::Own(event, None)));
    }

    /// The next batch may be tried, if it is time.
    pub(super) fn retry(&mut self, now: Now) {
        self.retry_at.take_if(|at| *at <= now.monotonic);
    }

    /// Records how many refusals were only counted, once their second is over.
    pub(super) fn record_uncounted(&mut self, now: Now) {
        let counted = [self.unauthenticated_refusals.take_counted(now), self.user_refusals.take_counted(now)];
        for count in counted.into_iter().flatten() {
            let event = AuditEvent {
                unix_millis: now.unix_millis,
                kind: AuditKind::Record,
                who: "security".into(),
                from: String::new(),
                what: "leave out refusals".into(),
                object: String::new(),
                outcome: AuditOutcome::Done,
                note: format!("{count} further refusals came than are recorded one by one"),
            };
            self.waiting.push(Entry::Own(Box::new(event), None));
        }
    }
}

/// How long nothing is written after the disk was full.
const RETRY_AFTER: Duration = Duration::from_secs(1);
/// Events that wait for room at once: of requests that were under way when the disk was full. Later ones are refused.
const WAITING_EVENTS_MAX: usize = 1_000;

/// What is to be recorded of this question; `None`: nothing.
pub(super) fn noted(now: Now, request: &SecurityRequest) -> Option<Noted> {
    let login = |user: &UserName, address: &IpAddr, secret: &Secret, what| {
        let with = match secret {
            Secret::Password(_) => "with a password",
            Secret::Token(_) => "with a token",
        };
        let from = address.to_canonical().to_string();
        event(now, AuditKind::Login, (user.to_string(), from), what, String::new(), with.into())
    };
    let (always, event) = match request {
        SecurityRequest::CheckUser { user, secret, address } => (true, login(user, address, secret, "open session")),
        SecurityRequest::Login { user, secret, address, .. } => (true, login(user, address, secret, "log in")),
        SecurityRequest::CheckNode { node, address, .. } => {
            let from = address.to_canonical().to_string();
            (true, event(now, AuditKind::Login, (node.to_string(), from), "join", String::new(), String::new()))
        }
        SecurityRequest::Accounts { by, request } => {
            let Asked { changes, what, object, note } = about_accounts(request);
            let kind = if changes { AuditKind::Grant } else { AuditKind::Refusal };
            let (who, from) = (by.rights.user.to_string(), by.address.to_string());
            (changes, event(now, kind, (who, from), what, object, note))
        }
        // The user is known only when the login is done.
        SecurityRequest::Device { request, address } => {
            let (what, note) = match request {
                DeviceRequest::Begin { .. } => ("begin to log in", "with a browser"),
                DeviceRequest::Poll { .. } => ("log in", "with a browser"),
            };
            let who = ("a newcomer".to_owned(), address.to_canonical().to_string());
            (false, event(now, AuditKind::Login, who, what, String::new(), note.into()))
        }
        // The master records who looks at the record, as for every request it gets. The requests it makes itself every
        // few seconds change nothing.
        SecurityRequest::Audit(_)
        | SecurityRequest::Changes(_)
        | SecurityRequest::Recheck(_)
        | SecurityRequest::Health
        | SecurityRequest::StruckOff
        | SecurityRequest::Metrics => return None,
        // Recorded where it is handled: not only masters send these.
        SecurityRequest::Admission(_) => return None,
    };
    let is_known = matches!(request, SecurityRequest::Accounts { .. });
    Some(Noted { always, at: now, is_known, event })
}

/// An event that was done, unless its answer says otherwise.
pub(super) fn event(
    now: Now,
    kind: AuditKind,
    (who, from): (String, String),
    what: &str,
    object: String,
    note: String,
) -> AuditEvent {
    AuditEvent {
        unix_millis: now.unix_millis,
        kind,
        who,
        from,
        what: what.into(),
        object,
        outcome: AuditOutcome::Done,
        note,
    }
}

/// Who asks what about machines, and from where. Written without a wildcard; it never includes a ticket's secret or its
/// digest.
pub(super) fn about_admission(request: &AdmissionRequest) -> (String, String, Asked) {
    let asked = |what, name: Option<&NodeId>, note: String| Asked {
        changes: true,
        what,
        object: name.map(ToString::to_string).unwrap_or_default(),
        note,
    };
    match request {
        AdmissionRequest::Enrol { address, enrolment, .. } => {
            let (name, enrols) = match enrolment {
                Enrolment::WithTicket { kind, name, .. } => {
                    (name.as_ref(), asked("use a ticket", name.as_ref(), format!("for a {kind}")))
                }
                // It asks again every few seconds until someone has decided, which is recorded: so only its refusal is.
                Enrolment::Ask { name, .. } => {
                    (Some(name), Asked { changes: false, ..asked("ask to be let in", Some(name), String::new()) })
                }
                Enrolment::Renew { name, .. } => (Some(name), asked("renew certificate", Some(name), String::new())),
                Enrolment::Confirm { name } => (Some(name), asked("use new certificate", Some(name), String::new())),
            };
            let who = name.map_or_else(|| "a newcomer".into(), ToString::to_string);
            (who, address.to_canonical().to_string(), enrols)
        }
        AdmissionRequest::Administer { by, verb } => {
            (by.rights.user.to_string(), by.address.to_string(), about_machines(verb))
        }
        AdmissionRequest::Own(verb) => ("security".into(), "this machine".into(), about_machines(verb)),
    }
}

/// An administrator's request about machines, in words.
fn about_machines(verb: &AdmissionVerb) -> Asked {
    let change = |what, name: Option<&NodeId>, note: String| Asked {
        changes: true,
        what,
        object: name.map(ToString::to_string).unwrap_or_default(),
        note,
    };
    let look = |what| Asked { changes: false, what, object: String::new(), note: String::new() };
    match verb {
        AdmissionVerb::AddTicket(AddTicketRequest { kind, name, life_seconds, .. }) => {
            change("add ticket", name.as_ref(), format!("for a {kind}, for {life_seconds} s"))
        }
        AdmissionVerb::Approve(ApproveRequest { name, .. }) => change("approve machine", Some(name), String::new()),
        AdmissionVerb::Reject(RejectRequest { name }) => change("reject machine", Some(name), String::new()),
        AdmissionVerb::Allow(AllowRequest { name, addresses }) => {
            change("set addresses", Some(name), ranges(addresses))
        }
        AdmissionVerb::Strike(StrikeRequest { name, undo: false }) => {
            change("strike machine off", Some(name), String::new())
        }
        AdmissionVerb::Strike(StrikeRequest { name, undo: true }) => {
            change("take machine again", Some(name), String::new())
        }
        AdmissionVerb::Requests(WaitingMachinesRequest) => look("list who waits"),
        AdmissionVerb::Machines(_) => look("list machines"),
    }
}

/// The allowed addresses.
fn ranges(addresses: &[AddressRange]) -> String {
    match addresses {
        [] => "from anywhere".into(),
        ranges => ranges.iter().map(ToString::to_string).collect::<Vec<_>>().join(", "),
    }
}

/// A request about accounts, in words.
pub(super) struct Asked {
    /// Whether it changes who may do what; otherwise only its refusal is recorded.
    pub(super) changes: bool,
    pub(super) what: &'static str,
    pub(super) object: String,
    pub(super) note: String,
}

/// Written without a wildcard, so that anyone who adds a question also says what is recorded of it. No password or
/// token ever is.
fn about_accounts(request: &AccountsRequest) -> Asked {
    use AccountsRequest as Ask;
    let look = |what| Asked { changes: false, what, object: String::new(), note: String::new() };
    let change = |what, object: String| Asked { changes: true, what, object, note: String::new() };
    match request {
        Ask::WhoAmI(_) => look("ask who I am"),
        Ask::Users(_) => look("list users"),
        Ask::Groups(_) => look("list groups"),
        Ask::Tokens(TokensRequest(user)) => Asked { object: user.to_string(), ..look("list tokens") },
        Ask::Sessions(_) => look("list sessions"),
        Ask::AddUser(new) => {
            let groups = if new.groups.is_empty() { String::new() } else { format!("in {}", new.groups.join(", ")) };
            let admin = if new.admin { "an administrator " } else { "" };
            Asked { note: format!("{admin}{groups}").trim_end().to_owned(), ..change("add user", new.user.to_string()) }
        }
        Ask::RemoveUser(RemoveUserRequest(user)) => change("remove user", user.to_string()),
        Ask::ChangeUser(ChangeUserRequest { user, change: to }) => match to {
            UserChange::Enabled(true) => change("enable user", user.to_string()),
            UserChange::Enabled(false) => change("disable user", user.to_string()),
            UserChange::Admin(true) => change("make administrator", user.to_string()),
            UserChange::Admin(false) => change("make no administrator", user.to_string()),
            UserChange::Addresses(addresses) => {
                Asked { note: ranges(addresses), ..change("set addresses", user.to_string()) }
            }
        },
        Ask::SetPassword(SetPasswordRequest { user, .. }) => change("set password", user.to_string()),
        Ask::AddGroup(AddGroupRequest(group)) => change("add group", group.clone()),
        Ask::RemoveGroup(RemoveGroupRequest(group)) => change("remove group", group.clone()),
        Ask::SetMember(SetMemberRequest { group, user, member }) => {
            let what = if *member { "join group" } else { "leave group" };
            Asked { note: user.to_string(), ..change(what, group.clone()) }
        }
        Ask::AddToken(AddTokenRequest { user, name, life_seconds }) => {
            Asked { note: format!("{name}, for {life_seconds} s"), ..change("add token", user.to_string()) }
        }
        Ask::AddAccessKey(AddAccessKeyRequest { user, life_seconds }) => {
            Asked { note: format!("for {life_seconds} s"), ..change("add access key", user.to_string()) }
        }
        Ask::AccessKeyOwner(AccessKeyOwnerRequest(id)) => {
            Asked { object: id.chars().take(ACCESS_KEY_ID_LETTERS).collect(), ..look("learn whose access key it is") }
        }
        Ask::RevokeToken(RevokeTokenRequest { user, name }) => {
            Asked { note: name.clone(), ..change("revoke token", user.to_string()) }
        }
        Ask::RevokeSession(RevokeSessionRequest(session)) => change("revoke session", session.to_string()),
        Ask::RevokeSessionsOf(RevokeSessionsOfRequest(user)) => change("revoke sessions", user.to_string()),
    }
}
