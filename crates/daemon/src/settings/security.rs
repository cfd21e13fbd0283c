//! Settings of the security server. They are checked here against each other, never against the state of the machine or
//! the network.

use std::{
    net::SocketAddr,
    path::{Path, PathBuf},
    time::Duration,
};

use super::{
    CredentialFiles, InvalidSetting, Settings,
    checked::check_range,
    credentials::make_all_absolute,
    keys::settings,
    providers::{self, ProviderTables},
};

settings! {
    /// Settings of the security server (Sector/Sphere paper, 2.3).
    struct SecuritySettings of "security server" {
        /// Address and port (TCP) for masters. By default only masters of the same machine reach it, since only masters
        /// need it. Port 0 takes any free one.
        listen: SocketAddr = default("127.0.0.1:7401"),
        /// Address and port at which Prometheus reads what it counts: plain HTTP without a login, so let only the scraper
        /// reach it. By default none.
        metrics_listen: Option<SocketAddr> = optional(),
        /// Folder of its accounts (`accounts.redb`) and of the cloud's authority. By default that of the settings file,
        /// so that a cloud can be moved as one folder.
        folder: PathBuf = default("."),
        /// Certificate of the cloud's authority, in `folder` unless absolute.
        authority: PathBuf = default("authority.pem"),
        /// Its own certificate, in `folder` unless absolute.
        certificate: PathBuf = default("certificate.pem"),
        /// Its private key, in `folder` unless absolute; only its own user should be able to read it.
        key: PathBuf = default("key.pem"),
        /// Life of machine certificates in seconds, 10 to 315360000; renewed after two thirds. 90 days limit the use of
        /// an unnoticed theft, and a machine may be off for a month without joining anew.
        certificate_life_seconds: u64 = default(7_776_000),
        /// Providers of `providers` without a `suffix`, in the order in which they are asked about an unknown name. A
        /// provider with neither is refused, since it would never be asked.
        provider_order: Option<Vec<String>> = optional(),
        /// Sources of users beside this server's accounts: a table `[providers.NAME]` each, of `kind` `"ldap"` or
        /// `"oidc"`; their keys are below. `docs/providers.md` says how to set one up.
        providers: Option<ProviderTables> = optional(),
    }
}

impl SecuritySettings {
    /// Where its certificate and key are.
    pub fn credential_files(&self) -> CredentialFiles {
        CredentialFiles {
            authority: self.authority.clone(),
            certificate: self.certificate.clone(),
            key: self.key.clone(),
        }
    }

    /// How long certificates live.
    pub fn certificate_life(&self) -> Duration {
        Duration::from_secs(self.certificate_life_seconds)
    }
}

impl Settings for SecuritySettings {
    fn check(&mut self, base: &Path) -> Result<(), InvalidSetting> {
        make_all_absolute(base, &mut self.folder, [&mut self.authority, &mut self.certificate, &mut self.key])?;
        check_range(&["certificate_life_seconds"], self.certificate_life_seconds, 10, 315_360_000)?;
        providers::check(self.providers.iter_mut().flatten(), self.provider_order.as_deref(), base)
    }
}
