//! Where the two ends of a measurement run: both here, or each at a site of a testbed. It never moves a byte itself.

use std::net::{IpAddr, Ipv4Addr};

use testbed::{Testbed, TestbedError, site_address};

use super::flow::EmulatedPath;

/// See the module.
pub(super) struct BenchNetwork {
    testbed: Option<Testbed>,
    rate_bits_per_s: Option<u64>,
}

/// An end.
#[derive(Clone, Copy, Debug)]
pub(super) enum End {
    /// Where bytes come from.
    Sender,
    /// Where they go.
    Receiver,
}

impl BenchNetwork {
    /// The loopback, or an emulated path whose random draws are those of this turn.
    pub(super) fn set_up(way: Option<&EmulatedPath>, turn: u64) -> Result<Self, TestbedError> {
        let testbed = way.map(|way| Testbed::start(way.plan(turn)?, true)).transpose()?;
        Ok(Self { testbed, rate_bits_per_s: way.map(|way| way.rate.0) })
    }

    /// The receiver's address.
    pub(super) fn receiver(&self) -> IpAddr {
        match self.testbed {
            Some(_) => site_address(1).into(),
            None => Ipv4Addr::LOCALHOST.into(),
        }
    }

    /// The path's rate; `None` for the loopback.
    pub(super) fn rate_bits_per_s(&self) -> Option<u64> {
        self.rate_bits_per_s
    }

    /// Runs a closure at an end, on a thread that is there. Sockets it makes and processes it starts are there too.
    pub(super) fn run<T: Send>(&self, end: End, what: impl FnOnce() -> T + Send) -> Result<T, TestbedError> {
        match &self.testbed {
            Some(testbed) => testbed.run(end as usize, what),
            None => Ok(what()),
        }
    }
}
