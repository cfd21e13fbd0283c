//! Where the two ends of a measurement are: both here, or each at a site of a testbed.

use std::net::{IpAddr, Ipv4Addr};

use testbed::{Testbed, TestbedError, site_address};

use super::Way;

/// See the module.
pub(super) struct Place(Option<Testbed>);

/// An end.
#[derive(Clone, Copy, Debug)]
pub(super) enum End {
    /// Where bytes come from.
    Sender,
    /// Where they go.
    Receiver,
}

impl Place {
    /// The loopback, or an emulated way with its lots drawn for this turn.
    pub(super) fn make(way: Option<&Way>, turn: u64) -> Result<Self, TestbedError> {
        let testbed = way.map(|way| Testbed::start(way.plan(turn)?, true)).transpose()?;
        Ok(Self(testbed))
    }

    /// The receiver's address.
    pub(super) fn receiver(&self) -> IpAddr {
        match self.0 {
            Some(_) => site_address(1).into(),
            None => Ipv4Addr::LOCALHOST.into(),
        }
    }

    /// Does something at an end, on a thread that is there; sockets it makes, and processes it starts, are there too.
    pub(super) fn run<T: Send>(&self, end: End, what: impl FnOnce() -> T + Send) -> Result<T, TestbedError> {
        match &self.0 {
            Some(testbed) => testbed.run(end as usize, what),
            None => Ok(what()),
        }
    }
}
