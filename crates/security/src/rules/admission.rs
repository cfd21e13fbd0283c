//! Admits machines and renews their certificates (tickets, approvals, renewals), for `node join`, `master join` and
//! every renewal. A certificate is issued only for a key whose owner proved to have it. Every ticket is valid for one
//! machine; the same machine may ask again with the same key, as it must if the answer was lost. A certificate never
//! counts before its row is durable: the answer with it waits for that.

use std::{net::IpAddr, time::Duration};

use net::identity::{ProvedKey, ticket_digest};
use protocol::{
    KeyDigest, MachineKind, NodeId, Now, Reason, Refusal, TicketSecret,
    message::{
        admission::{AdmissionReply, AdmissionRequest, CertificateRequest, Enrolment},
        master_security::SecurityReply,
    },
};
use store::RowChange;

use super::{
    CheckId, Connection, IssuedCertificate, Security, SecurityAction, SecurityCaller,
    pending::{IssueReason, PendingIssue},
};
use crate::{
    AddressRange, SecurityError,
    accounts::{
        SECURITY,
        machines::{self, Certificate, Machine, TicketRow},
        reserved_kind,
    },
    rules::waiting_list::WaitRefused,
};

impl Security {
    /// Handles a request about machines, whatever the other end of the connection is.
    pub(super) fn handle_admission(
        &mut self,
        now: Now,
        caller: SecurityCaller,
        connection: &Connection,
        request: AdmissionRequest,
    ) {
        if let Err(refusal) = self.note_admission(now, caller, &request) {
            return self.refuse(caller, refusal);
        }
        let outcome = match request {
            AdmissionRequest::Enrol { address, fingerprint, enrolment } => {
                let address = address.to_canonical();
                self.enrol(now, caller, connection, ShownCertificate { address, fingerprint }, enrolment)
            }
            AdmissionRequest::Administer { by, verb } => match self.check_admin(now, &by, "let machines in") {
                Ok(()) => self.administer(now, caller, false, verb),
                Err(refusal) => Err(refusal),
            },
            AdmissionRequest::Own(verb) if connection.is_own() => self.administer(now, caller, true, verb),
            AdmissionRequest::Own(_) => Err(no("only at the security server itself can this be done")),
        };
        match outcome {
            Ok(Some(reply)) => self.answer(caller, SecurityReply::Admission(reply)),
            Ok(None) => {}
            Err(refusal) => self.refuse(caller, refusal),
        }
    }

    fn enrol(
        &mut self,
        now: Now,
        caller: SecurityCaller,
        connection: &Connection,
        shown: ShownCertificate,
        enrolment: Enrolment,
    ) -> Result<Option<AdmissionReply>, Refusal> {
        match enrolment {
            Enrolment::WithTicket { kind, secret, name, key } => {
                // Otherwise a master could use up a ticket that was meant for another master.
                if kind == MachineKind::Master && !connection.is_unauthenticated() {
                    return Err(no("a master's ticket is used at the security server, whose address is in it"));
                }
                self.use_ticket(now, caller, kind, &secret, name, &key)
            }
            Enrolment::Ask { name, key } => self.ask_without_ticket(now, caller, shown.address, name, &key),
            Enrolment::Renew { name, key } => self.renew(caller, connection, shown, name, &key),
            Enrolment::Confirm { name } => self.confirm(caller, connection, shown, &name),
        }
    }

    fn use_ticket(
        &mut self,
        now: Now,
        caller: SecurityCaller,
        kind: MachineKind,
        secret: &TicketSecret,
        wanted: Option<NodeId>,
        key: &CertificateRequest,
    ) -> Result<Option<AdmissionReply>, Refusal> {
        let key = prove(key, wanted.as_ref())?;
        let digest = ticket_digest(secret);
        let Some(ticket) = self.accounts.machines().ticket(&digest).cloned() else {
            return Err(not_proved("this ticket is not known here; have an administrator make a new one"));
        };
        if ticket.until_unix_millis <= now.unix_millis {
            return Err(not_proved("this ticket has expired; have an administrator make a new one"));
        }
        if ticket.kind != kind {
            return Err(no(format!("this ticket is for a {}; use it with `sector {} join`", ticket.kind, ticket.kind)));
        }
        if self.issues.values().any(|issue| issue.why == IssueReason::Ticket(digest)) {
            return Err(no("this ticket is in use at this moment, and it is good for one machine"));
        }
        if let Some((name, used_key)) = &ticket.used_by {
            // The answer was lost on its way: the holder of the key is the one who used the ticket.
            if *used_key != key.digest() || self.keeps_key(name, *used_key).is_none() {
                return Err(not_proved("this ticket was used already, and it is good for one machine; make a new one"));
            }
            return Ok(self.issue(caller, name.clone(), kind, key, IssueReason::Reissue));
        }
        let name = self.name_for(&ticket, wanted)?;
        Ok(self.issue(caller, name, kind, key, IssueReason::Ticket(digest)))
    }

    /// The name that the bearer of a ticket gets.
    fn name_for(&self, ticket: &TicketRow, wanted: Option<NodeId>) -> Result<NodeId, Refusal> {
        match (&ticket.name, wanted) {
            (Some(name), Some(wanted)) if *name != wanted => Err(no(format!(
                "this ticket is for `{name}` and for no other; leave the name out, or make one for `{wanted}`"
            ))),
            // It may exist already: a ticket for one name may be for a machine that lost its disk.
            (Some(name), _) => match self.accounts.machines().get(name) {
                Some(machine) if machine.kind != ticket.kind => Err(taken(name)),
                _ => Ok(name.clone()),
            },
            (None, Some(wanted)) if self.is_free(&wanted, ticket.kind) => Ok(wanted),
            (None, Some(wanted)) => Err(taken(&wanted)),
            (None, None) => {
                let names = (1..).map_while(|number| NodeId::new(format!("{}-{number}", ticket.kind)).ok());
                let first = (ticket.kind == MachineKind::Master).then(|| NodeId::new("master").ok()).flatten();
                let mut names = first.into_iter().chain(names);
                names.find(|name| self.is_free(name, ticket.kind)).ok_or_else(|| no("there is no free name"))
            }
        }
    }

    fn ask_without_ticket(
        &mut self,
        now: Now,
        caller: SecurityCaller,
        address: IpAddr,
        name: NodeId,
        key: &CertificateRequest,
    ) -> Result<Option<AdmissionReply>, Refusal> {
        let key = prove(key, Some(&name))?;
        let digest = key.digest();
        if self.keeps_key(&name, digest) == Some(MachineKind::Node) {
            return Ok(self.issue(caller, name, MachineKind::Node, key, IssueReason::Reissue));
        }
        if !self.is_free(&name, MachineKind::Node) {
            return Err(taken(&name));
        }
        let approval = self.accounts.machines().approval(&name);
        if approval.is_some_and(|approval| approval.key == digest && approval.until_unix_millis > now.unix_millis) {
            return Ok(self.issue(caller, name, MachineKind::Node, key, IssueReason::Approval));
        }
        match self.waiting_list.ask(now, digest, &name, address) {
            Ok(()) => Ok(Some(AdmissionReply::Waiting { key: digest })),
            Err(WaitRefused::Rejected) => Err(no("an administrator has turned this request away")),
            Err(WaitRefused::Full) => Err(unavailable("too many requests for certificates wait; use a ticket")),
            Err(WaitRefused::FullForAddress) => {
                Err(unavailable("too many requests for certificates from this address wait; use a ticket"))
            }
        }
    }

    fn renew(
        &mut self,
        caller: SecurityCaller,
        connection: &Connection,
        shown: ShownCertificate,
        name: NodeId,
        key: &CertificateRequest,
    ) -> Result<Option<AdmissionReply>, Refusal> {
        let kind = self.check_shown(connection, shown, &name)?.kind;
        let key = prove(key, Some(&name))?;
        Ok(self.issue(caller, name, kind, key, IssueReason::Renewal))
    }

    /// Once the new certificate was shown, the old one is invalid.
    fn confirm(
        &mut self,
        caller: SecurityCaller,
        connection: &Connection,
        shown: ShownCertificate,
        name: &NodeId,
    ) -> Result<Option<AdmissionReply>, Refusal> {
        let machine = self.check_shown(connection, shown, name)?.clone();
        let changes =
            shown.fingerprint.and_then(|fingerprint| machines::promoted(name, machine, fingerprint)).transpose();
        let changes = changes.map(|change| change.into_iter().collect());
        self.change(caller, changes, SecurityReply::Admission(AdmissionReply::Done));
        Ok(None)
    }

    /// The machine of this name, if its own certificate was shown. A master's report of which certificate it was shown
    /// is trusted for nodes only: a master shows us its own.
    fn check_shown(
        &self,
        connection: &Connection,
        shown: ShownCertificate,
        name: &NodeId,
    ) -> Result<&Machine, Refusal> {
        let machine = self.accounts.machines().get(name).ok_or_else(|| unknown(name))?;
        let fingerprint = match machine.kind {
            MachineKind::Node => shown.fingerprint,
            MachineKind::Master | MachineKind::Security => connection.fingerprint,
        };
        check_certificate(name, machine, fingerprint, shown.address).map(|()| machine)
    }

    /// Has the authority sign; [`finish_issue`](Self::finish_issue) handles the result.
    fn issue(
        &mut self,
        caller: SecurityCaller,
        name: NodeId,
        kind: MachineKind,
        key: ProvedKey,
        why: IssueReason,
    ) -> Option<AdmissionReply> {
        let check = CheckId(self.next_check);
        self.next_check += 1;
        self.actions.push_back(SecurityAction::Issue { check, name: name.clone(), kind, key });
        self.issues.insert(check, PendingIssue { caller, name, kind, key: key.digest(), why });
        None
    }

    /// The authority has signed, or could not.
    pub(super) fn finish_issue(&mut self, check: CheckId, issued: Result<IssuedCertificate, SecurityError>) {
        let Some(issue) = self.issues.remove(&check) else { return };
        let outcome = issued.map_err(|error| error.refusal()).and_then(|issued| {
            let changes = self.changes_for(&issue, &issued)?;
            Ok((issued, changes))
        });
        match outcome {
            Ok((issued, changes)) => {
                self.waiting_list.remove(issue.key);
                let IssuedCertificate { certificate_pem, authority_pem, .. } = issued;
                let reply = AdmissionReply::Issued { name: issue.name, certificate_pem, authority_pem };
                self.change(issue.caller, Ok(changes), SecurityReply::Admission(reply));
            }
            Err(refusal) => self.refuse(issue.caller, refusal),
        }
    }

    /// The rows that make a certificate count. Checked again: much may have changed while it was signed.
    fn changes_for(&self, issue: &PendingIssue, issued: &IssuedCertificate) -> Result<Vec<RowChange>, Refusal> {
        let PendingIssue { name, kind, key, why, .. } = issue;
        let certificate = Certificate {
            fingerprint: issued.fingerprint,
            key: Some(*key),
            until_unix_millis: Some(issued.until_unix_millis),
        };
        let before = self.accounts.machines().get(name);
        let first = || {
            let addresses = before.map(|machine| machine.addresses.clone()).unwrap_or_default();
            Machine { addresses, ..Machine::new(*kind, certificate) }
        };
        let set = |machine: &Machine| machines::set_machine(name, machine).map_err(|error| error.refusal());
        let still = || before.filter(|machine| !machine.is_revoked).cloned().ok_or_else(|| certificate_revoked(name));
        Ok(match why {
            IssueReason::Ticket(digest) => {
                let known = self.accounts.machines().ticket(digest).filter(|ticket| ticket.used_by.is_none());
                let mut ticket = known.cloned().ok_or_else(|| not_proved("this ticket was used already"))?;
                ticket.used_by = Some((name.clone(), *key));
                let used = machines::set_ticket(digest, &ticket).map_err(|error| error.refusal())?;
                vec![set(&first())?, used]
            }
            IssueReason::Approval if before.is_some() => return Err(taken(name)),
            IssueReason::Approval => vec![set(&first())?, machines::remove_approval(name)],
            IssueReason::Reissue => vec![set(&Machine { certificate, next: None, ..still()? })?],
            IssueReason::Renewal => vec![set(&Machine { next: Some(certificate), ..still()? })?],
        })
    }

    /// The security server has issued itself a certificate, and answers once that is durable. Both are accepted as its
    /// own: it may end before the new one is in its files.
    pub fn renew_own(&mut self, caller: SecurityCaller, certificate: Certificate) {
        let own =
            NodeId::new(SECURITY).ok().and_then(|name| Some((self.accounts.machines().get(&name)?.clone(), name)));
        let changes = own.map(|(machine, name)| {
            let before = machine.next.unwrap_or(machine.certificate);
            machines::set_machine(&name, &Machine { certificate: before, next: Some(certificate), ..machine })
        });
        let changes = changes.transpose().map(|change| change.into_iter().collect());
        self.change(caller, changes, SecurityReply::Admission(AdmissionReply::Done));
    }

    /// The kind of the machine of this name, if it has this very key and is not revoked.
    fn keeps_key(&self, name: &NodeId, key: KeyDigest) -> Option<MachineKind> {
        let machine = self.accounts.machines().get(name).filter(|machine| !machine.is_revoked)?;
        (machine.certificate.key == Some(key)).then_some(machine.kind)
    }

    /// Whether a machine that comes without a ticket for this name may have it.
    pub(super) fn is_free(&self, name: &NodeId, kind: MachineKind) -> bool {
        reserved_kind(name).is_none_or(|kept_for| kept_for == kind)
            && self.accounts.machines().get(name).is_none()
            && !self.issues.values().any(|issue| issue.name == *name)
    }
}

/// Refuses a machine that shows no certificate of its own, or comes from an address that is not allowed.
pub(super) fn check_certificate(
    name: &NodeId,
    machine: &Machine,
    fingerprint: Option<[u8; 32]>,
    address: IpAddr,
) -> Result<(), Refusal> {
    if machine.is_revoked {
        return Err(certificate_revoked(name));
    }
    if !fingerprint.is_some_and(|fingerprint| machine.is_proved_by(fingerprint)) {
        return Err(not_proved(format!(
            "the certificate shown is not that of `{name}`; use the one that was issued for it"
        )));
    }
    if !AddressRange::allows(&machine.addresses, address) {
        let address = address.to_canonical();
        return Err(no(format!("`{name}` may not join from {address}; ask an administrator to allow it")));
    }
    Ok(())
}

/// The certificate and address that a machine showed to the cloud.
#[derive(Clone, Copy, Debug)]
struct ShownCertificate {
    address: IpAddr,
    fingerprint: Option<[u8; 32]>,
}

fn prove(key: &CertificateRequest, name: Option<&NodeId>) -> Result<ProvedKey, Refusal> {
    ProvedKey::check(key, name).map_err(|error| not_proved(error.to_string()))
}

fn no(message: impl Into<String>) -> Refusal {
    Refusal::new(Reason::NoRight, message)
}

fn not_proved(message: impl Into<String>) -> Refusal {
    Refusal::new(Reason::NotAuthenticated, message)
}

fn unavailable(message: &str) -> Refusal {
    Refusal::new(Reason::Unavailable, message)
}

fn taken(name: &NodeId) -> Refusal {
    let message = format!(
        "the name `{name}` is taken; choose another, or have an administrator make a ticket for just this name"
    );
    Refusal::new(Reason::Exists, message)
}

fn certificate_revoked(name: &NodeId) -> Refusal {
    no(format!(
        "`{name}` was removed from this cloud; an administrator can take it back with `sector node remove --undo`"
    ))
}

pub(super) fn unknown(name: &NodeId) -> Refusal {
    no(format!("there is no node `{name}` in this cloud; an administrator must admit it"))
}

/// How long an approved machine may take to fetch its certificate: until the next morning.
pub(super) const APPROVAL_LIFE: Duration = Duration::from_secs(24 * 3_600);
