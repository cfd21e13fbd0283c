//! Logins with a browser (device flow, RFC 8628) for `sector login --oidc`. They begin here, are finished at the
//! provider, and are polled until then. Their number and life are bounded, since anyone may begin one. A provider is
//! never asked more often than it allows, however often clients ask us.

use std::{net::IpAddr, time::Duration};

use protocol::{
    Now, Reason, Refusal,
    message::{
        join::MACHINE_BYTES_MAX,
        login::{DeviceLogin, DeviceReply, DeviceRequest},
        master_security::SecurityReply,
    },
};

use super::{
    Security, SecurityCaller,
    provider_questions::{Device, QuestionPurpose},
    providers::failure,
};
use crate::provider::{DeviceBegun, ProviderAnswer, ProviderFailure, ProviderQuestion, ProviderUser};

impl Security {
    pub(super) fn handle_device(&mut self, now: Now, caller: SecurityCaller, request: DeviceRequest, address: IpAddr) {
        let address = address.to_canonical();
        let outcome = match request {
            DeviceRequest::Begin { provider, mut machine } => {
                machine.truncate(machine.floor_char_boundary(MACHINE_BYTES_MAX));
                self.begin_device(now, caller, provider.as_deref(), (address, machine))
            }
            DeviceRequest::Poll { login } => self.poll_device(now, caller, login),
        };
        if let Err(refusal) = outcome {
            self.refuse(caller, refusal);
        }
    }

    fn begin_device(
        &mut self,
        now: Now,
        caller: SecurityCaller,
        provider: Option<&str>,
        (address, machine): (IpAddr, String),
    ) -> Result<(), Refusal> {
        let provider = self.providers.mapping.device_provider(provider)?;
        self.providers.devices.forget_old(now);
        if self.providers.devices.of_address(address) >= LOGINS_OF_ADDRESS_MAX {
            let message = format!("too many logins from {address} have begun and not ended; finish one, or wait");
            return Err(Refusal::new(Reason::LimitReached, message));
        }
        self.ask_provider(
            now,
            provider,
            QuestionPurpose::Begin(caller, address, machine),
            ProviderQuestion::BeginDevice,
        )
    }

    /// The provider was asked to begin a login.
    pub(super) fn note_begun(
        &mut self,
        now: Now,
        caller: SecurityCaller,
        (provider, address, machine): (String, IpAddr, String),
        answer: ProviderAnswer,
    ) {
        let begun = match answer {
            ProviderAnswer::Begun(begun) => begun,
            other => return self.refuse(caller, failure(&provider, &other)),
        };
        let DeviceBegun { grant, user_code, verification_url, complete_url, interval, lives_for, login } = begun;
        let devices = &mut self.providers.devices.0;
        if devices.len() >= LOGINS_MAX {
            // Only under attack, and from many addresses. The one that would end first is dropped.
            let first = devices.iter().min_by_key(|(_, device)| device.ends).map(|(login, _)| *login);
            first.and_then(|login| devices.remove(&login));
        }
        let (next, ends) = (now.monotonic + interval, now.monotonic + lives_for);
        devices.insert(login, Device { provider, address, machine, grant, interval, next, ends });
        let reply = DeviceReply::Begun {
            login: DeviceLogin(login),
            user_code,
            verification_url,
            complete_url,
            interval_seconds: seconds(interval),
            lives_seconds: seconds(lives_for),
        };
        self.answer(caller, SecurityReply::Device(reply));
    }

    fn poll_device(&mut self, now: Now, caller: SecurityCaller, login: DeviceLogin) -> Result<(), Refusal> {
        let device = self.providers.devices.0.get_mut(&login.0).filter(|device| device.ends > now.monotonic);
        let Some(device) = device else {
            return Err(Refusal::new(Reason::NotAuthenticated, "this login has ended, or never began; log in again"));
        };
        if device.next > now.monotonic {
            let wait = device.next - now.monotonic;
            self.answer(caller, pending(wait));
            return Ok(());
        }
        // Clients that ask meanwhile are told to wait.
        device.next = now.monotonic + device.interval;
        let (provider, question) = (device.provider.clone(), ProviderQuestion::PollDevice(device.grant.clone()));
        self.ask_provider(now, provider, QuestionPurpose::Poll(caller, login.0), question)
    }

    /// The provider was asked whether a login is finished.
    pub(super) fn note_polled(&mut self, now: Now, caller: SecurityCaller, login: [u8; 32], answer: ProviderAnswer) {
        let Some(device) = self.providers.devices.0.get_mut(&login) else {
            return self.refuse(caller, Refusal::new(Reason::NotAuthenticated, "this login has ended; log in again"));
        };
        let slower = match &answer {
            ProviderAnswer::Pending { slow_down: true } => Some(device.interval + SLOWER),
            ProviderAnswer::Pending { slow_down: false } => Some(device.interval),
            // RFC 8628, 3.5: back off. The person may still finish meanwhile.
            ProviderAnswer::Failed(ProviderFailure::Unreachable(_)) => Some(device.interval * 2),
            _ => None,
        };
        if let Some(interval) = slower {
            device.interval = interval.min(INTERVAL_MAX);
            device.next = now.monotonic + device.interval;
            let wait = device.interval;
            return self.answer(caller, pending(wait));
        }
        // Anything else ends it: a grant is valid for one token.
        let Some(device) = self.providers.devices.0.remove(&login) else { return };
        let done = match answer {
            ProviderAnswer::User(user) => self.finish(now, &device, &user),
            other => Err(failure(&device.provider, &other)),
        };
        match done {
            Ok(reply) => self.answer(caller, SecurityReply::Device(reply)),
            Err(refusal) => self.refuse(caller, refusal),
        }
    }

    /// Logs the user in, with a new login session.
    fn finish(&mut self, now: Now, device: &Device, user: &ProviderUser) -> Result<DeviceReply, Refusal> {
        let Device { provider, address, machine, .. } = device;
        let user = self.admit_user(now, provider, user, None, *address)?.user;
        let session = self.new_session(now, user.clone(), *address, machine.clone());
        Ok(DeviceReply::Done { user, session: session.map_err(|error| error.refusal())? })
    }
}

fn pending(wait: Duration) -> SecurityReply {
    SecurityReply::Device(DeviceReply::Pending { interval_seconds: seconds(wait) })
}

/// Whole seconds, rounded up: a client that asks too early has to ask twice.
fn seconds(time: Duration) -> u32 {
    u32::try_from(time.as_secs() + u64::from(time.subsec_nanos() > 0)).unwrap_or(u32::MAX)
}

/// Logins that have begun, at once: each holds about 1 KiB for at most 15 minutes.
const LOGINS_MAX: usize = 512;
/// Those of one address: a few people behind one gateway, and their second tries.
const LOGINS_OF_ADDRESS_MAX: usize = 16;
/// What "slow down" adds to the interval, RFC 8628, 3.5.
const SLOWER: Duration = Duration::from_secs(5);
/// Longest time between two questions.
const INTERVAL_MAX: Duration = Duration::from_secs(60);
