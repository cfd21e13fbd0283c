//! Settings of the security server.

use std::{
    net::SocketAddr,
    path::{Path, PathBuf},
    time::Duration,
};

use super::{CredentialFiles, Settings, Wrong, checked::within, credentials::settle_all, keys::settings};

settings! {
    /// Settings of the security server (Sector/Sphere paper, 2.3).
    struct SecuritySettings of "security server" {
        /// Address and port (TCP) on which it waits for masters. By default only masters of the same machine reach it,
        /// since nobody but a master has business here. Port 0 takes any free one.
        listen: SocketAddr = default("127.0.0.1:7401"),
        /// Folder of its accounts (`accounts.redb`) and of the cloud's authority; by default that of the settings file,
        /// so that a cloud can be moved as one folder.
        folder: PathBuf = default("."),
        /// Certificate of the cloud's authority, in `folder` unless absolute.
        authority: PathBuf = default("authority.pem"),
        /// Its own certificate, in `folder` unless absolute.
        certificate: PathBuf = default("certificate.pem"),
        /// Its private key, in `folder` unless absolute; only its own user should be able to read it.
        key: PathBuf = default("key.pem"),
        /// Seconds that the certificates of nodes, masters and itself live; 10 to 315360000. They are renewed while they
        /// are in use, when two thirds of it are over. 90 days: one that was stolen unnoticed is worth nothing after a
        /// season, and a machine may be off for a month without coming back as a stranger.
        certificate_life_seconds: u64 = default(7_776_000),
    }
}

impl SecuritySettings {
    /// How long certificates live.
    pub fn certificate_life(&self) -> Duration {
        Duration::from_secs(self.certificate_life_seconds)
    }
}

impl Settings for SecuritySettings {
    fn check(&mut self, base: &Path) -> Result<(), Wrong> {
        settle_all(base, &mut self.folder, [&mut self.authority, &mut self.certificate, &mut self.key])?;
        within(&["certificate_life_seconds"], self.certificate_life_seconds, 10, 315_360_000)
    }

    fn credential_files(&self) -> CredentialFiles {
        CredentialFiles {
            authority: self.authority.clone(),
            certificate: self.certificate.clone(),
            key: self.key.clone(),
        }
    }
}
