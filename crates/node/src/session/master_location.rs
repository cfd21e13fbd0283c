//! Where this node's master is: the host of the settings, and the number at which it was last reached. It never looks
//! anything up.

use std::{
    net::SocketAddr,
    sync::{Mutex, PoisonError},
};

use protocol::HostAddress;

/// The master's place in the network.
#[derive(Debug)]
pub(crate) struct MasterLocation {
    host: HostAddress,
    found: Mutex<Option<SocketAddr>>,
}

impl MasterLocation {
    /// At this host; nobody has reached it yet.
    pub(crate) fn new(host: HostAddress) -> Self {
        Self { host, found: Mutex::default() }
    }

    /// The host of the settings.
    pub(crate) fn host(&self) -> &HostAddress {
        &self.host
    }

    /// The master has let the node in at this address.
    pub(crate) fn found(&self, at: SocketAddr) {
        // An address is whole, whoever panicked beside it.
        *self.found.lock().unwrap_or_else(PoisonError::into_inner) = Some(at);
    }

    /// The address at which the master last let the node in. A child of this node, which has no name service of its
    /// own to trust, is told this one.
    pub(crate) fn last_found(&self) -> Option<SocketAddr> {
        *self.found.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
