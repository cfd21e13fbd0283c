//! Admits nodes that join. A node without a certificate of this cloud, or at an address that is not one of its own, is
//! never admitted.

use std::net::IpAddr;

use protocol::{MachineKind, NodeId, message::master_security::SecurityReply};

use super::{
    Security, SecurityCaller,
    admission::{check_certificate, unknown},
};
use crate::accounts::machines;

impl Security {
    /// A node that joins with its next certificate has used it: the one before is then invalid.
    pub(super) fn check_node(&mut self, caller: SecurityCaller, name: &NodeId, fingerprint: [u8; 32], address: IpAddr) {
        let machine = self.accounts.machines().of_kind(name, MachineKind::Node).cloned();
        let checked = machine.ok_or_else(|| unknown(name)).and_then(|machine| {
            check_certificate(name, &machine, Some(fingerprint), address)?;
            Ok(machines::promoted(name, machine, fingerprint))
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
