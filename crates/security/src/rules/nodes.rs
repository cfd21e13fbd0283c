//! Letting nodes in: only those that have a certificate of this cloud and show it, from their own addresses. Serves
//! joining.

use std::net::IpAddr;

use protocol::{MachineKind, NodeId, message::master_security::SecurityReply};

use super::{
    Security, SecurityCaller,
    admission::{check_certificate, promoted, unknown},
};

impl Security {
    /// A node that joins with the certificate that was issued to follow has used it: the one before is worth nothing
    /// then.
    pub(super) fn check_node(&mut self, caller: SecurityCaller, name: &NodeId, fingerprint: [u8; 32], address: IpAddr) {
        let machine = self.accounts.machines().of_kind(name, MachineKind::Node).cloned();
        let checked = machine.ok_or_else(|| unknown(name)).and_then(|machine| {
            check_certificate(name, &machine, Some(fingerprint), address)?;
            Ok(promoted(name, machine, fingerprint))
        });
        match checked {
            Ok(change) => {
                let changes = change.transpose().map(|change| change.into_iter().collect());
                self.change(caller, changes, SecurityReply::NodeAllowed);
            }
            Err(refusal) => self.refuse(caller, refusal),
        }
    }
}
