//! Letting nodes in: only those that are registered, with their own certificate, from their own addresses. Serves joining.

use std::net::IpAddr;

use protocol::{NodeId, Status, message::master_security::SecurityReply};

use super::{Security, refused};
use crate::AddressRange;

impl Security {
    pub(super) fn check_node(&self, id: &NodeId, fingerprint: [u8; 32], address: IpAddr) -> SecurityReply {
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
}
