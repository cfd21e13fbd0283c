//! Settings of the master. They are checked here against each other, never against the state of the machine or the
//! network.

use std::{
    net::SocketAddr,
    path::{Path, PathBuf},
    time::Duration,
};

use protocol::{HostAddress, NodeId, Rights, limits};

use super::{
    CredentialFiles, InvalidSetting, Settings,
    checked::{check_range, check_reachable, make_absolute},
    credentials::make_all_absolute,
    keys::settings,
};

settings! {
    /// Settings of the master (Sector/Sphere paper, 2.1 and 2.2).
    struct MasterSettings of "master" {
        /// The name that its certificate was issued for; `master` is that of the first one. Clients and nodes need not
        /// know it.
        id: NodeId = default("master"),
        /// Address and port for clients and nodes: TCP for joining, UDP with the same number after that. By default on
        /// all networks, since it is how a cloud is reached. Port 0 takes any free one.
        listen: SocketAddr = default("0.0.0.0:7400"),
        /// Address and port at which Prometheus reads what it counts: plain HTTP without a login, so let only the scraper
        /// reach it. By default none.
        metrics_listen: Option<SocketAddr> = optional(),
        /// Folder of its journal; by default that of the settings file, so that a cloud can be moved as one folder.
        folder: PathBuf = default("."),
        /// Certificate of the cloud's authority, in `folder` unless absolute.
        authority: PathBuf = default("authority.pem"),
        /// Its own certificate, in `folder` unless absolute.
        certificate: PathBuf = default("certificate.pem"),
        /// Its private key, in `folder` unless absolute; only its own user should be able to read it.
        key: PathBuf = default("key.pem"),
        /// Host and port of the security server, a name or a number. By default the one of the same machine.
        security: HostAddress = default("127.0.0.1:7401"),
        /// Copies of a file, unless its owner asks for another number; 1 to 16. Three, over different sites and racks,
        /// survive the loss of any two disks.
        copies: u8 = default(3),
        /// Copies that must be on disk before an upload is reported as done; 1 to `copies`, and never more than there
        /// are nodes. Two survive the loss of a disk in the minute before the further copies are made.
        sync_copies: u8 = default(2),
        /// Seconds without a message from a node after which it counts as lost and its copies as missing; 2 to 3600.
        /// Ten are several status intervals, so that a few lost datagrams raise no alarm.
        node_lost_after_seconds: u64 = default(10),
        /// Seconds, 0 to 86400, before copies of a lost node are replaced; after a master's start, nodes have as long
        /// to return. A minute, so that a node that only restarts costs no copying.
        replicate_after_seconds: u64 = default(60),
        /// Seconds that a rebuild after the loss of the journal waits for known nodes that are missing; 0 to 604800.
        /// Nothing can be written meanwhile; ten minutes let a data centre start.
        rebuild_wait_seconds: u64 = default(600),
        /// Bytes that stay free on every node, for sidecars and the scratch files of jobs; a node with less gets no new
        /// files. 256 MiB hold a job's results on a small disk.
        reserve_bytes: u64 = default(268_435_456),
        /// File with the sites and racks of nodes and clients, distances, and link limits for copies
        /// (docs/paths/replication.md). Read again when it changes. By default none: nodes name their own places.
        topology: Option<PathBuf> = optional(),
        /// Seconds that removed files stay in the trash and can be restored; 0 to 31536000. 0: there is no trash. A
        /// week, since users who miss something have often been away for days.
        trash_seconds: u64 = default(604_800),
        /// Seconds that replaced content can be had back (`sector versions`), unless a policy says otherwise; 0 to
        /// 31536000. 0: it is gone at once. A day, since most mistakes show soon.
        versions_seconds: u64 = default(86_400),
        /// Seconds that files below `/memory` stay after they were written, unless a policy says otherwise; 1 to
        /// 31536000. A day, since memory is short and its files are meant to be read soon.
        memory_lifetime_seconds: u64 = default(86_400),
        /// Rights of logged-in users where no entry says otherwise (docs/semantics.md): letters of `rwxa`, or `none`
        /// (owner and administrators only). By default reading and jobs, since shared data is for use.
        everyone_rights: String = default("rx"),
        /// Whether file data goes unencrypted within a site, readable by anyone on its network. Everything else, and
        /// traffic between sites, is always encrypted (docs/security.md). By default all is.
        insecure_data: bool = default(false),
    }
}

impl MasterSettings {
    /// Where its certificate and key are.
    pub fn credential_files(&self) -> CredentialFiles {
        CredentialFiles {
            authority: self.authority.clone(),
            certificate: self.certificate.clone(),
            key: self.key.clone(),
        }
    }

    /// How long a node may be silent.
    pub fn node_lost_after(&self) -> Duration {
        Duration::from_secs(self.node_lost_after_seconds)
    }

    /// How long the copies of a lost node still count.
    pub fn replicate_after(&self) -> Duration {
        Duration::from_secs(self.replicate_after_seconds)
    }

    /// How long removed files can be restored.
    pub fn trash(&self) -> Duration {
        Duration::from_secs(self.trash_seconds)
    }

    /// How long replaced content can be had back.
    pub fn versions(&self) -> Duration {
        Duration::from_secs(self.versions_seconds)
    }

    /// How long files stay in memory.
    pub fn memory_lifetime(&self) -> Duration {
        Duration::from_secs(self.memory_lifetime_seconds)
    }

    /// The rights of everyone where no entry says otherwise.
    pub fn everyone(&self) -> Result<Rights, String> {
        if self.everyone_rights == NO_RIGHTS { Ok(Rights::default()) } else { self.everyone_rights.parse() }
    }

    /// How long a rebuild of the names waits for missing nodes.
    pub fn rebuild_wait(&self) -> Duration {
        Duration::from_secs(self.rebuild_wait_seconds)
    }
}

impl Settings for MasterSettings {
    fn check(&mut self, base: &Path) -> Result<(), InvalidSetting> {
        make_all_absolute(base, &mut self.folder, [&mut self.authority, &mut self.certificate, &mut self.key])?;
        if let Some(file) = &mut self.topology {
            make_absolute(file, base);
        }
        check_reachable(&["security"], &self.security)?;
        check_range(&["copies"], self.copies, 1, limits::COPIES_MAX)?;
        check_range(&["node_lost_after_seconds"], self.node_lost_after_seconds, 2, 3_600)?;
        check_range(&["replicate_after_seconds"], self.replicate_after_seconds, 0, 86_400)?;
        check_range(&["trash_seconds"], self.trash_seconds, 0, 31_536_000)?;
        check_range(&["versions_seconds"], self.versions_seconds, 0, limits::VERSIONS_SECONDS_MAX)?;
        check_range(&["memory_lifetime_seconds"], self.memory_lifetime_seconds, 1, 31_536_000)?;
        check_range(&["rebuild_wait_seconds"], self.rebuild_wait_seconds, 0, 604_800)?;
        check_range(&["reserve_bytes"], self.reserve_bytes, 0, limits::SLICE_BYTES_MAX)?;
        self.everyone()
            .map_err(|why| InvalidSetting { keys: &["everyone_rights"], why: format!("{why}, or `{NO_RIGHTS}`") })?;
        if self.sync_copies < 1 || self.sync_copies > self.copies {
            let why = format!(
                "sync_copies is {} and copies is {}; sync_copies must be from 1 to copies",
                self.sync_copies, self.copies
            );
            return Err(InvalidSetting { keys: &["sync_copies", "copies"], why });
        }
        Ok(())
    }
}

/// The word that gives everyone no rights.
const NO_RIGHTS: &str = "none";
