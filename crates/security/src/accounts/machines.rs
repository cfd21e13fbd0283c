//! The machines of a cloud as rows of the journal (Sector/Sphere paper, 2.1). They hold each machine's certificate and
//! allowed addresses, the tickets that were given out, and the keys that an administrator approved. Every question
//! about a machine uses them. This file never decides anything.

use std::{collections::BTreeMap, ops::Bound};

use protocol::{AddressRange, KeyDigest, MachineKind, NodeId};
use serde::{Deserialize, Serialize};
use store::RowChange;

use crate::{
    SecurityError,
    accounts::{decode, row_change},
};

/// A machine with a certificate.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Machine {
    /// What it is.
    pub kind: MachineKind,
    /// The certificate by which it is known.
    pub certificate: Certificate,
    /// The certificate issued to follow it, not used yet; both are accepted until it is.
    pub next: Option<Certificate>,
    /// From where it may come; empty: from anywhere.
    pub addresses: Vec<AddressRange>,
    /// Whether it is refused, whatever it shows.
    pub is_revoked: bool,
}

/// What is stored of a certificate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Certificate {
    /// SHA-256 of it.
    pub fingerprint: [u8; 32],
    /// Its key; `None` where it was issued together with its key.
    pub key: Option<KeyDigest>,
    /// When it ends, in milliseconds since 1970; `None` if that was not recorded.
    pub until_unix_millis: Option<u64>,
}

/// A ticket that was given out.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TicketRow {
    /// What its bearer may become.
    pub kind: MachineKind,
    /// The only name it is good for.
    pub name: Option<NodeId>,
    /// Until when, in milliseconds since 1970.
    pub until_unix_millis: u64,
    /// Who used it; it is no longer valid for anyone else.
    pub used_by: Option<(NodeId, KeyDigest)>,
}

/// A key that may have a certificate the next time it asks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Approval {
    /// The key.
    pub key: KeyDigest,
    /// Until when, in milliseconds since 1970.
    pub until_unix_millis: u64,
}

/// All machines, tickets and approvals, in memory.
///
/// See the paper, 2.1: "lists of IP addresses of the authorized slave nodes".
#[derive(Clone, Debug, Default)]
pub struct Machines {
    machines: BTreeMap<NodeId, Machine>,
    /// By the digest of their secret, in hexadecimal.
    tickets: BTreeMap<String, TicketRow>,
    approvals: BTreeMap<NodeId, Approval>,
}

impl Machine {
    /// A machine with its first certificate.
    pub fn new(kind: MachineKind, certificate: Certificate) -> Self {
        Self { kind, certificate, next: None, addresses: Vec::new(), is_revoked: false }
    }

    /// Whether this is one of its certificates, and the machine is not revoked.
    pub fn is_proved_by(&self, fingerprint: [u8; 32]) -> bool {
        !self.is_revoked && (self.certificate.fingerprint == fingerprint || self.is_next(fingerprint))
    }

    /// Whether this is the certificate that was issued to follow.
    pub fn is_next(&self, fingerprint: [u8; 32]) -> bool {
        self.next.is_some_and(|next| next.fingerprint == fingerprint)
    }
}

impl Machines {
    /// A machine of any kind.
    pub fn get(&self, name: &NodeId) -> Option<&Machine> {
        self.machines.get(name)
    }

    /// A machine of this kind.
    pub fn of_kind(&self, name: &NodeId, kind: MachineKind) -> Option<&Machine> {
        self.machines.get(name).filter(|machine| machine.kind == kind)
    }

    /// All machines after this name, by name.
    pub fn after(&self, name: Option<&NodeId>) -> impl Iterator<Item = (&NodeId, &Machine)> {
        let from = name.map_or(Bound::Unbounded, Bound::Excluded);
        self.machines.range::<NodeId, _>((from, Bound::Unbounded))
    }

    /// The machine other than a node that has this certificate. There are few of those, and each question of a master
    /// looks one up.
    pub fn server_proved_by(&self, fingerprint: [u8; 32]) -> Option<(&NodeId, &Machine)> {
        let mut servers = self.machines.iter().filter(|(_, machine)| machine.kind != MachineKind::Node);
        servers.find(|(_, machine)| machine.is_proved_by(fingerprint))
    }

    /// The masters that are not revoked.
    pub fn masters(&self) -> impl Iterator<Item = &NodeId> {
        let is_one = |machine: &Machine| machine.kind == MachineKind::Master && !machine.is_revoked;
        self.machines.iter().filter(move |(_, machine)| is_one(machine)).map(|(name, _)| name)
    }

    /// Those of any kind that are revoked and have a certificate that someone might still show.
    pub fn revoked(&self, unix_millis: u64) -> impl Iterator<Item = &NodeId> {
        let lasts = move |certificate: &Certificate| certificate.until_unix_millis.is_none_or(|end| end > unix_millis);
        let is_one = move |machine: &Machine| {
            machine.is_revoked && [Some(machine.certificate), machine.next].iter().flatten().any(lasts)
        };
        self.machines.iter().filter(move |(_, machine)| is_one(machine)).map(|(name, _)| name)
    }

    /// The ticket whose secret has this digest.
    pub fn ticket(&self, digest: &[u8; 32]) -> Option<&TicketRow> {
        self.tickets.get(&hexadecimal(digest))
    }

    /// All tickets.
    pub fn tickets(&self) -> impl Iterator<Item = &TicketRow> {
        self.tickets.values()
    }

    /// What was approved for this name.
    pub fn approval(&self, name: &NodeId) -> Option<&Approval> {
        self.approvals.get(name)
    }

    /// The changes that forget expired tickets and approvals.
    pub fn forget_expired(&self, unix_millis: u64) -> Vec<RowChange> {
        let tickets = self.tickets.iter().filter(|(_, ticket)| ticket.until_unix_millis <= unix_millis);
        let tickets = tickets.map(|(key, _)| RowChange::Remove { table: TICKETS, key: key.as_str().into() });
        let approvals = self.approvals.iter().filter(|(_, approval)| approval.until_unix_millis <= unix_millis);
        tickets.chain(approvals.map(|(name, _)| remove_approval(name))).collect()
    }

    /// Applies a row; `None` means that it is gone.
    pub(crate) fn apply_row(
        &mut self,
        table: &'static str,
        key: &str,
        value: Option<&[u8]>,
    ) -> Result<(), SecurityError> {
        let wrong = |why: &str| SecurityError::Row { table, key: key.chars().take(64).collect(), why: why.into() };
        if table == TICKETS {
            match value {
                Some(value) => drop(self.tickets.insert(key.to_owned(), decode(value).map_err(wrong)?)),
                None => drop(self.tickets.remove(key)),
            }
            return Ok(());
        }
        let name = NodeId::new(key).map_err(|error| wrong(&error.to_string()))?;
        match (table, value) {
            (APPROVALS, Some(value)) => drop(self.approvals.insert(name, decode(value).map_err(wrong)?)),
            (APPROVALS, None) => drop(self.approvals.remove(&name)),
            (_, Some(value)) => drop(self.machines.insert(name, decode(value).map_err(wrong)?)),
            (_, None) => drop(self.machines.remove(&name)),
        }
        Ok(())
    }
}

/// The change that sets a machine's row.
///
/// # Errors
/// When the row cannot be encoded.
pub fn set_machine(name: &NodeId, machine: &Machine) -> Result<RowChange, SecurityError> {
    row_change(MACHINES, name.as_str(), machine)
}

/// The change that makes the next certificate the only one, if this is the next one.
pub(crate) fn promoted(
    name: &NodeId,
    machine: Machine,
    fingerprint: [u8; 32],
) -> Option<Result<RowChange, SecurityError>> {
    let next = machine.next.filter(|next| next.fingerprint == fingerprint)?;
    Some(set_machine(name, &Machine { certificate: next, next: None, ..machine }))
}

/// The change that sets a ticket's row.
///
/// # Errors
/// When the row cannot be encoded.
pub fn set_ticket(digest: &[u8; 32], ticket: &TicketRow) -> Result<RowChange, SecurityError> {
    row_change(TICKETS, &hexadecimal(digest), ticket)
}

/// The change that sets what is approved for a name.
///
/// # Errors
/// When the row cannot be encoded.
pub fn set_approval(name: &NodeId, approval: &Approval) -> Result<RowChange, SecurityError> {
    row_change(APPROVALS, name.as_str(), approval)
}

/// The change that takes an approval back.
pub fn remove_approval(name: &NodeId) -> RowChange {
    RowChange::Remove { table: APPROVALS, key: name.as_str().into() }
}

fn hexadecimal(digest: &[u8; 32]) -> String {
    digest.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Table of machines, by name.
pub(crate) const MACHINES: &str = "machines";
/// Table of tickets, by the digest of their secret.
pub(crate) const TICKETS: &str = "tickets";
/// Table of approved keys, by the name they may have.
pub(crate) const APPROVALS: &str = "approvals";

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn name(text: &str) -> NodeId {
        text.parse().unwrap()
    }

    fn certificate(byte: u8) -> Certificate {
        Certificate { fingerprint: [byte; 32], key: Some(KeyDigest(byte.into())), until_unix_millis: Some(9) }
    }

    fn apply(machines: &mut Machines, change: RowChange) {
        let (table, key, value) = match &change {
            RowChange::Set { table, key, value } => (*table, key, Some(value.as_slice())),
            RowChange::Remove { table, key } => (*table, key, None),
        };
        machines.apply_row(table, std::str::from_utf8(key).unwrap(), value).unwrap();
    }

    #[test]
    fn rows_read_back_as_written_and_are_gone_when_removed() {
        let mut machines = Machines::default();
        let node = Machine { next: Some(certificate(2)), ..Machine::new(MachineKind::Node, certificate(1)) };
        let used_by = Some((name("node-1"), KeyDigest(1)));
        let ticket = TicketRow { kind: MachineKind::Node, name: None, until_unix_millis: 5, used_by };
        let approval = Approval { key: KeyDigest(7), until_unix_millis: 6 };
        apply(&mut machines, set_machine(&name("node-1"), &node).unwrap());
        apply(&mut machines, set_ticket(&[8; 32], &ticket).unwrap());
        apply(&mut machines, set_approval(&name("node-2"), &approval).unwrap());
        assert_eq!(machines.get(&name("node-1")), Some(&node));
        assert_eq!(machines.ticket(&[8; 32]), Some(&ticket));
        assert_eq!(machines.approval(&name("node-2")), Some(&approval));
        assert!(machines.forget_expired(4).is_empty());
        machines.forget_expired(6).into_iter().for_each(|change| apply(&mut machines, change));
        assert!(machines.ticket(&[8; 32]).is_none() && machines.approval(&name("node-2")).is_none());
    }

    #[test]
    fn both_certificates_prove_a_machine_until_it_is_struck_off() {
        let mut machine = Machine { next: Some(certificate(2)), ..Machine::new(MachineKind::Master, certificate(1)) };
        assert!(machine.is_proved_by([1; 32]) && machine.is_proved_by([2; 32]) && !machine.is_proved_by([3; 32]));
        machine.is_revoked = true;
        assert!(!machine.is_proved_by([1; 32]) && !machine.is_proved_by([2; 32]));
    }

    #[test]
    fn masters_are_found_by_either_certificate_and_nodes_are_no_masters() {
        let mut machines = Machines::default();
        for (text, kind, byte) in
            [("master", MachineKind::Master, 1), ("master-2", MachineKind::Master, 2), ("node-1", MachineKind::Node, 3)]
        {
            apply(&mut machines, set_machine(&name(text), &Machine::new(kind, certificate(byte))).unwrap());
        }
        assert_eq!(machines.masters().map(NodeId::as_str).collect::<Vec<_>>(), ["master", "master-2"]);
        assert_eq!(machines.server_proved_by([2; 32]).unwrap().0.as_str(), "master-2");
        assert!(machines.server_proved_by([3; 32]).is_none());
        assert_eq!(machines.after(Some(&name("master-2"))).count(), 1);
    }
}
