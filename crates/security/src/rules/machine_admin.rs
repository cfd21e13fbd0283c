//! Requests of administrators about machines: tickets, approvals, address lists and removal. It serves `sector node
//! ticket|requests|approve|reject|allow|remove`, and the holder of the security server's own key. It never issues a
//! certificate: [`admission`](super::admission) does.

use protocol::{
    AddressRange, KeyDigest, MachineKind, NodeId, Now, Reason, Refusal,
    message::{
        admission::{AdmissionReply, AdmissionVerb, MachineStatus},
        master_security::SecurityReply,
        request::{
            AddTicketRequest, AllowRequest, ApproveRequest, MachinesRequest, RejectRequest, StrikeRequest,
            WaitingMachinesRequest,
        },
    },
};

use super::{Security, SecurityCaller, admission::APPROVAL_LIFE};
use crate::accounts::{
    machines::{self, Approval, Machine, TicketRow},
    reserved_kind,
};

impl Security {
    /// Does what an administrator asks for; with `own`, what the holder of the security server's private key asks for.
    pub(super) fn administer(
        &mut self,
        now: Now,
        caller: SecurityCaller,
        own: bool,
        verb: AdmissionVerb,
    ) -> Result<Option<AdmissionReply>, Refusal> {
        let changes = match verb {
            AdmissionVerb::AddTicket(AddTicketRequest { kind, digest, name, life_seconds }) => {
                self.add_ticket(now, own, kind, digest, name, life_seconds)?
            }
            AdmissionVerb::Requests(WaitingMachinesRequest) => {
                self.waiting_list.forget_old(now);
                return Ok(Some(AdmissionReply::Requests(self.waiting_list.list())));
            }
            AdmissionVerb::Approve(ApproveRequest { name, key }) => self.approve(now, &name, key)?,
            AdmissionVerb::Reject(RejectRequest { name }) => self.reject(now, &name)?,
            AdmissionVerb::Allow(AllowRequest { name, addresses }) => self.allow(&name, addresses)?,
            AdmissionVerb::Machines(MachinesRequest { after }) => return Ok(Some(self.machines_after(after.as_ref()))),
            AdmissionVerb::Strike(StrikeRequest { name, undo }) => self.revoke(own, &name, undo)?,
        };
        self.change(caller, Ok(changes), SecurityReply::Admission(AdmissionReply::Done));
        Ok(None)
    }

    fn add_ticket(
        &self,
        now: Now,
        own: bool,
        kind: MachineKind,
        digest: [u8; 32],
        name: Option<NodeId>,
        life_seconds: u64,
    ) -> Result<Changes, Refusal> {
        let known = self.accounts.machines();
        match kind {
            MachineKind::Node => {}
            // A master may ask for everyone's rights, so only someone at the security server itself may make one.
            MachineKind::Master if own => {}
            _ => return Err(refuse(Reason::NoRight, "a master's ticket is made at the security server itself")),
        }
        if let Some(name) = &name
            && (reserved_kind(name).is_some_and(|kept_for| kept_for != kind)
                || known.get(name).is_some_and(|machine| machine.kind != kind))
        {
            return Err(refuse(Reason::Exists, format!("`{name}` is no {kind}; choose another name")));
        }
        if !(TICKET_LIFE_SECONDS_MIN..=TICKET_LIFE_DAYS_MAX * 24 * 3_600).contains(&life_seconds) {
            return Err(refuse(
                Reason::Invalid,
                format!(
                    "a ticket lives for {TICKET_LIFE_SECONDS_MIN} s at least and {TICKET_LIFE_DAYS_MAX} days at most"
                ),
            ));
        }
        // The administrator asks again, since the answer was lost. The ticket may even have been used meanwhile.
        if known.ticket(&digest).is_some() {
            return Ok(Vec::new());
        }
        // Expired entries make room first.
        let mut changes = known.forget_expired(now.unix_millis);
        let lives = |ticket: &&TicketRow| ticket.until_unix_millis > now.unix_millis;
        if known.tickets().filter(lives).count() >= TICKETS_MAX {
            let message = format!("{TICKETS_MAX} tickets are valid already; wait until some expire");
            return Err(refuse(Reason::Busy, message));
        }
        let until_unix_millis = now.unix_millis + life_seconds * 1_000;
        let ticket = TicketRow { kind, name, until_unix_millis, used_by: None };
        changes.push(machines::set_ticket(&digest, &ticket).map_err(|error| error.refusal())?);
        Ok(changes)
    }

    fn approve(&self, now: Now, name: &NodeId, key: Option<KeyDigest>) -> Result<Changes, Refusal> {
        let waiting = self.waiting_list.keys(name);
        let key = match (key, waiting.as_slice()) {
            (_, []) => return Err(nobody_waits(name)),
            (Some(key), keys) if keys.contains(&key) => key,
            (Some(_), _) => {
                let message =
                    format!("the one that wants to be `{name}` has another key; look at `sector node requests`");
                return Err(refuse(Reason::NoRight, message));
            }
            (None, [key]) => *key,
            (None, keys) => {
                let count = keys.len();
                let message = format!("{count} machines want to be `{name}`; say with --fingerprint which is yours");
                return Err(refuse(Reason::NoRight, message));
            }
        };
        if !self.is_free(name, MachineKind::Node) {
            return Err(refuse(Reason::Exists, format!("there is a machine `{name}` already")));
        }
        let until_unix_millis = now.unix_millis + APPROVAL_LIFE.as_millis() as u64;
        let approval = Approval { key, until_unix_millis };
        let mut changes = self.accounts.machines().forget_expired(now.unix_millis);
        changes.push(machines::set_approval(name, &approval).map_err(|error| error.refusal())?);
        Ok(changes)
    }

    fn reject(&mut self, now: Now, name: &NodeId) -> Result<Changes, Refusal> {
        let keys = self.waiting_list.keys(name);
        let approved = self.accounts.machines().approval(name).is_some();
        if keys.is_empty() && !approved {
            return Err(nobody_waits(name));
        }
        keys.into_iter().for_each(|key| self.waiting_list.reject(now, key));
        Ok(if approved { vec![machines::remove_approval(name)] } else { Vec::new() })
    }

    fn allow(&self, name: &NodeId, addresses: Vec<AddressRange>) -> Result<Changes, Refusal> {
        if addresses.len() > ADDRESSES_MAX {
            return Err(refuse(
                Reason::Invalid,
                format!("a node may have {ADDRESSES_MAX} ranges of addresses at most"),
            ));
        }
        let machine = self.accounts.machines().of_kind(name, MachineKind::Node).ok_or_else(|| no_such(name))?;
        changed(name, &Machine { addresses, ..machine.clone() })
    }

    fn revoke(&self, own: bool, name: &NodeId, undo: bool) -> Result<Changes, Refusal> {
        let machine = self.accounts.machines().get(name).ok_or_else(|| no_such(name))?;
        match machine.kind {
            MachineKind::Node => {}
            MachineKind::Master if own => {
                let mut others = self.accounts.machines().masters().filter(|other| *other != name);
                if !undo && others.next().is_none() {
                    return Err(refuse(
                        Reason::InUse,
                        format!("`{name}` is the last master; let another one in first"),
                    ));
                }
            }
            _ => {
                return Err(refuse(
                    Reason::NotPermitted,
                    format!("`{name}` is no node; only nodes are removed this way"),
                ));
            }
        }
        changed(name, &Machine { is_revoked: !undo, ..machine.clone() })
    }

    fn machines_after(&self, after: Option<&NodeId>) -> AdmissionReply {
        let mut rest = self.accounts.machines().after(after);
        let status = |(name, machine): (&NodeId, &Machine)| MachineStatus {
            name: name.clone(),
            kind: machine.kind,
            fingerprint: machine.certificate.fingerprint,
            until_unix_millis: machine.certificate.until_unix_millis,
            next_fingerprint: machine.next.map(|next| next.fingerprint),
            addresses: machine.addresses.clone(),
            is_struck_off: machine.is_revoked,
        };
        let machines = rest.by_ref().take(PAGE_MACHINES_MAX).map(status).collect();
        AdmissionReply::Machines { machines, more: rest.next().is_some() }
    }
}

type Changes = Vec<store::RowChange>;

fn changed(name: &NodeId, machine: &Machine) -> Result<Changes, Refusal> {
    Ok(vec![machines::set_machine(name, machine).map_err(|error| error.refusal())?])
}

fn refuse(reason: Reason, message: impl Into<String>) -> Refusal {
    Refusal::new(reason, message)
}

fn nobody_waits(name: &NodeId) -> Refusal {
    refuse(Reason::NotFound, format!("nobody waits who wants to be `{name}`; look at `sector node requests`"))
}

fn no_such(name: &NodeId) -> Refusal {
    refuse(Reason::NotFound, format!("there is no node `{name}` with a certificate"))
}

/// Shortest life of a ticket: the time to carry it to the next terminal.
const TICKET_LIFE_SECONDS_MIN: u64 = 1;
/// Longest life of a ticket: the time until a machine that was ordered arrives.
const TICKET_LIFE_DAYS_MAX: u64 = 30;
/// Most tickets that are valid at once: a rack or two that is set up in one go.
const TICKETS_MAX: usize = 1_000;
/// Most ranges of addresses of one node.
const ADDRESSES_MAX: usize = 64;
/// Machines on one page of the list: some 100 KB, with a few ranges of addresses each.
const PAGE_MACHINES_MAX: usize = 500;
