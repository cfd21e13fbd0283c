//! What the rules know of identity providers. These are the questions under way, the logins with a browser that have
//! begun, and when each user is looked up again. This file never decides who may log in.

use std::{
    collections::{BTreeMap, BTreeSet},
    net::IpAddr,
    time::Duration,
};

use protocol::{Now, UserName, refusals::network};

use super::{
    actions::{CheckId, SecurityCaller},
    pending::PasswordLogin,
};
use crate::provider::{DeviceGrant, ProviderMapping};

/// What the rules know of providers.
#[derive(Debug, Default)]
pub(super) struct ProviderLogins {
    pub(super) mapping: ProviderMapping,
    pub(super) devices: Devices,
    pub(super) revalidations: Revalidations,
    /// Questions under way.
    pub(super) asked: BTreeMap<CheckId, Asked>,
    /// Providers that did not answer, and until when nobody has to wait for them, as [`Now::monotonic`].
    pub(super) down: BTreeMap<String, Duration>,
}

/// A question under way.
#[derive(Debug)]
pub(super) struct Asked {
    pub(super) provider: String,
    pub(super) what_for: QuestionPurpose,
}

/// The purpose of a question.
#[derive(Debug)]
pub(super) enum QuestionPurpose {
    /// A login with a password.
    Password(PasswordLogin),
    /// The beginning of a login with a browser, for a user at this address and a machine of this name.
    Begin(SecurityCaller, IpAddr, String),
    /// Whether a login that has begun is finished.
    Poll(SecurityCaller, [u8; 32]),
    /// Whether a logged-in user may stay logged in.
    Revalidate(UserName),
}

/// Logins that have begun.
#[derive(Debug, Default)]
pub(super) struct Devices(pub(super) BTreeMap<[u8; 32], Device>);

#[derive(Debug)]
pub(super) struct Device {
    pub(super) provider: String,
    pub(super) address: IpAddr,
    /// The user's name for the machine.
    pub(super) machine: String,
    pub(super) grant: DeviceGrant,
    /// Time between two questions to the provider; it grows if the provider asks for that.
    pub(super) interval: Duration,
    /// Before this, the provider is not asked again, as [`Now::monotonic`].
    pub(super) next: Duration,
    /// After this, it is forgotten.
    pub(super) ends: Duration,
}

impl Devices {
    /// Forgets those whose time is over.
    pub(super) fn forget_old(&mut self, now: Now) {
        self.0.retain(|_, device| device.ends > now.monotonic);
    }

    /// When there will next be one to forget.
    pub(super) fn next_timeout(&self) -> Option<Duration> {
        self.0.values().map(|device| device.ends).min()
    }

    pub(super) fn of_address(&self, address: IpAddr) -> usize {
        self.0.values().filter(|device| network(device.address) == network(address)).count()
    }
}

/// When each user is revalidated.
#[derive(Debug, Default)]
pub(super) struct Revalidations {
    pub(super) at: BTreeMap<UserName, Duration>,
    /// The same, in the order of time, as [`Now::monotonic`].
    pub(super) order: BTreeSet<(Duration, UserName)>,
    pub(super) under_way: usize,
}

impl Revalidations {
    pub(super) fn set(&mut self, user: &UserName, at: Duration) {
        if let Some(before) = self.at.insert(user.clone(), at) {
            self.order.remove(&(before, user.clone()));
        }
        self.order.insert((at, user.clone()));
    }

    pub(super) fn pop_due(&mut self, now: Now) -> Option<UserName> {
        self.order.first().filter(|(at, _)| *at <= now.monotonic)?;
        let (_, user) = self.order.pop_first()?;
        self.at.remove(&user);
        Some(user)
    }
}
