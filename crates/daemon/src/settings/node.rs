//! Settings of a node. They are checked against each other and the number of processors, never against the disks or the
//! network.

use std::{
    collections::BTreeMap,
    net::SocketAddr,
    path::{Path, PathBuf},
    thread,
    time::Duration,
};

use protocol::{CarrierChoice, ControllerKind, HostAddress, NodeId, Place, UserName, limits};

use super::{
    CredentialFiles, InvalidSetting, SandboxDemand, Settings, ThirdPartyFrom, UserRange,
    checked::{check_range, check_reachable, make_absolute},
    credentials::make_all_absolute,
    keys::settings,
};

settings! {
    /// Settings of a node, the paper's slave (Sector/Sphere paper, 2.1).
    struct NodeSettings of "node" {
        /// The node's name: letters, digits, `-`, `_` and `.`. The node's certificate is issued for this name.
        id: NodeId = required("node-1"),
        /// The data centre that the node is in; copies of a file are spread over sites first.
        site: String = default("site-1"),
        /// The rack within the site; copies are spread over racks next.
        rack: String = default("rack-1"),
        /// Address and port for transfers: TCP, and UDP with the same number for QUIC. By default on all networks of
        /// the machine, since clients and nodes of all sites connect. Port 0 takes any free one.
        listen: SocketAddr = default("0.0.0.0:7410"),
        /// Address and port at which Prometheus reads what it counts: plain HTTP without a login, so let only the scraper
        /// reach it. By default none.
        metrics_listen: Option<SocketAddr> = optional(),
        /// Address and port under which others reach `listen`; needed if `listen` is `0.0.0.0` or `[::]`, or behind
        /// address translation.
        advertise: Option<SocketAddr> = optional(),
        /// Host and port of the master, a name or a number. A name is looked up at each connect.
        master: HostAddress = required("10.0.0.1:7400"),
        /// Folder of its slices; by default that of the settings file, so that a node can be moved as one folder.
        folder: PathBuf = default("."),
        /// Further data folders, one for each disk beside that of `folder`. A failed disk takes only its own files out
        /// of service; an unmounted one is not begun anew. Their order and node may change.
        folders: Option<Vec<PathBuf>> = optional(),
        /// Bytes kept free on each disk, so that moves and the file system's own work still go on when it is full.
        reserve_bytes: u64 = default(1_073_741_824),
        /// Most bytes of files below `/memory` that this node keeps, in memory; 0: none.
        memory_bytes: u64 = default(1_073_741_824),
        /// Folder for these files, on a file system in memory.
        memory_folder: PathBuf = default("/dev/shm"),
        /// Seconds in which every slice is read again and compared with its checksums, 600 to 31536000; 0 never. Two
        /// weeks: less often lets bit rot reach several copies, more often slows users.
        scrub_period_seconds: u64 = default(1_209_600),
        /// Certificate of the cloud's authority, in `folder` unless absolute.
        authority: PathBuf = default("authority.pem"),
        /// Its own certificate, in `folder` unless absolute.
        certificate: PathBuf = default("certificate.pem"),
        /// Its private key, in `folder` unless absolute; only its own user should be able to read it.
        key: PathBuf = default("key.pem"),
        /// Folders from which administrators may import files in place, beside `import` in `folder`, which is always
        /// allowed. None by default: anyone who may import can read all files in them.
        import_folders: Option<Vec<PathBuf>> = optional(),
        /// Sphere processing elements (SPEs) it runs at once, up to 1024; 0 is one for each processor, since an SPE
        /// keeps one busy.
        spe_slots: u32 = default(0),
        /// Most SPEs that one user may have at work here at once; 0 for no limit but `spe_slots`.
        spe_user_slots_max: u32 = default(0),
        /// Shares of SPE time by user, 1 to 1000; others have 1. With `{ survey = 3 }` the user `survey` gets three
        /// times another's share while both have work here.
        spe_user_weights: Option<BTreeMap<UserName, u32>> = optional(),
        /// What to do if the kernel lacks a part of the sandbox around user functions (docs/security.md). `best` runs
        /// them with the available parts, and says so; `required` refuses them.
        spe_sandbox: SandboxDemand = default("best"),
        /// User (and group) numbers that SPEs run as if the node runs as root, one each and used by nothing else. At
        /// least 16 times `spe_slots`. By default above all that system tools give out.
        spe_users: UserRange = default("2000000000-2000065535"),
        /// Most memory of an SPE's own, without slices in the kernel's cache. 0: the machine's memory divided by
        /// `spe_slots`, at least 512 MiB. A segment is at most 64 times as long.
        spe_memory_bytes: u64 = default(0),
        /// A control group (version 2, with `memory` and `pids`) of this node alone. Each SPE gets one in it, which
        /// bounds its memory with all its processes. By default the node's own, if alone in it.
        spe_cgroup: Option<PathBuf> = optional(),
        /// Most bytes that a function may keep in its scratch folder, 1 MiB to 1 TiB. The folder is in memory, and is
        /// removed with its SPE.
        spe_scratch_bytes: u64 = default(268_435_456),
        /// Most bytes of one file that a function writes, including the results of a task. 0: the free space of the
        /// disk when the SPE starts, less `reserve_bytes`.
        spe_file_bytes: u64 = default(0),
        /// Threads of an SPE, 4 to 65536: numeric libraries start one for each processor.
        spe_threads_max: u32 = default(256),
        /// Files that an SPE may have open, 64 to 65536; up to 40 of them are the segments it is given.
        spe_open_files_max: u32 = default(256),
        /// Whether functions may start processes, as a program (`cmd:`) with a pipe must. Off, since each may take
        /// `spe_memory_bytes` (with control groups, all together), and one is enough for a processor.
        spe_fork: bool = default(false),
        /// The Python, 3.9 or newer, for functions in Python, such as one of a virtual environment with the needed
        /// modules. Functions may read its files. By default `python3` in the node's `PATH`.
        spe_python: Option<PathBuf> = optional(),
        /// Most bytes of Python packages that jobs have brought and the node keeps for later jobs, in its main folder,
        /// up to 1 TiB. Those used least recently go first.
        spe_environments_bytes: u64 = default(2_000_000_000),
        /// Files and folders that functions may read beside the system's libraries, such as a separate Python or
        /// reference data. None by default: every user who may run a job can read them.
        spe_read_paths: Option<Vec<PathBuf>> = optional(),
        /// Seconds after which a function without a sign of life (results, progress, a segment done) has failed, up to
        /// 31536000; 0 never. An hour, since a longer computation can report progress.
        spe_silence_seconds: u64 = default(3_600),
        /// Seconds that a function may spend on one task (one segment or several small ones), despite signs of life, up
        /// to 31536000; 0: no limit. A day, since jobs progress by many short tasks.
        spe_task_seconds: u64 = default(86_400),
        /// Transfers it serves at once, 1 to 65536; further clients are told to come back. Each holds a connection and
        /// about 2 MiB of buffers.
        transfers_max: u32 = default(256),
        /// Transport of file data to other nodes: `auto` is TCP within a site, QUIC between sites, and TCP where UDP
        /// fails. `tcp` and `quic` apply everywhere. Readers choose their own; the node serves both.
        carrier: CarrierChoice = default("auto"),
        /// Congestion control of QUIC: `udt` keeps its rate through random loss, and `bbr` is BBR version 3. `cubic`
        /// takes each lost packet for congestion, as most TCP does.
        controller: ControllerKind = default("udt"),
        /// Clouds from which clients may have it copy files: `any` known to them, or its `own-cloud`. It contacts
        /// addresses that they name, but only proven nodes, and with only the clients' tickets.
        third_party_from: ThirdPartyFrom = default("any"),
        /// Milliseconds between two status reports, which also show that the node lives; 100 to 60000. Keep it several
        /// times below the master's `node_lost_after_seconds`.
        status_interval_millis: u64 = default(1_000),
    }
}

impl NodeSettings {
    /// Where its certificate and key are.
    pub fn credential_files(&self) -> CredentialFiles {
        CredentialFiles {
            authority: self.authority.clone(),
            certificate: self.certificate.clone(),
            key: self.key.clone(),
        }
    }

    /// The node's place in the topology.
    pub fn place(&self) -> Place {
        Place::new(self.site.as_str(), self.rack.as_str())
    }

    /// The address to give to others, once `listen` was bound to `bound`.
    pub fn advertised(&self, bound: SocketAddr) -> SocketAddr {
        self.advertise.unwrap_or(bound)
    }

    /// All data folders, one a disk, the main one first.
    pub fn data_folders(&self) -> Vec<PathBuf> {
        let further = self.folders.iter().flatten().cloned();
        std::iter::once(self.folder.clone()).chain(further).collect()
    }

    /// In what time every slice is read again; `None` if that is off.
    pub fn scrub_period(&self) -> Option<Duration> {
        (self.scrub_period_seconds > 0).then(|| Duration::from_secs(self.scrub_period_seconds))
    }

    /// Time between two status reports.
    pub fn status_interval(&self) -> Duration {
        Duration::from_millis(self.status_interval_millis)
    }
}

impl NodeSettings {
    /// Makes the further folders absolute, and refuses any that cannot be a folder of its own.
    fn make_folders_absolute(&mut self, base: &Path) -> Result<(), InvalidSetting> {
        let wrong = |why| Err(InvalidSetting { keys: &["folders"], why });
        for folder in self.folders.iter_mut().flatten() {
            if folder.as_os_str().is_empty() || folder.to_string_lossy().contains('\n') {
                return wrong("it names a folder that is empty or has a line break in its name".into());
            }
            make_absolute(folder, base);
        }
        // There is room for others below the main folder: beside its own subfolders.
        let all = self.data_folders();
        for (at, folder) in all.iter().enumerate() {
            let clash = all.iter().enumerate().find(|(other_at, other)| {
                *other_at != at && (folder == *other || at != 0 && *other_at != 0 && folder.starts_with(other))
            });
            if let Some((_, other)) = clash {
                return wrong(format!("`{}` and `{}` lie in one another", folder.display(), other.display()));
            }
            let own =
                ["slices", "staging", "retired", "corrupt", "unfinished", "jobs"].map(|name| self.folder.join(name));
            if at != 0 && (own.iter().any(|own| folder.starts_with(own)) || self.folder.starts_with(folder)) {
                return wrong(format!("`{}` and `{}` lie in one another", folder.display(), self.folder.display()));
            }
        }
        if all.len() > DISKS_MAX {
            return wrong(format!("there are {} folders, and a node takes {DISKS_MAX}", all.len()));
        }
        Ok(())
    }
}

impl NodeSettings {
    fn check_sandbox(&mut self, base: &Path) -> Result<(), InvalidSetting> {
        for path in self.spe_read_paths.iter_mut().flatten() {
            make_absolute(path, base);
            if path.parent().is_none() {
                let why = "`/` is all there is: name what functions need".into();
                return Err(InvalidSetting { keys: &["spe_read_paths"], why });
            }
        }
        for path in self.spe_python.iter_mut().chain(&mut self.spe_cgroup) {
            make_absolute(path, base);
        }
        if self.spe_memory_bytes != 0 {
            check_range(&["spe_memory_bytes"], self.spe_memory_bytes, SPE_MEMORY_BYTES_MIN, 1 << 50)?;
        }
        if self.spe_file_bytes != 0 {
            check_range(&["spe_file_bytes"], self.spe_file_bytes, 1 << 20, 1 << 60)?;
        }
        check_range(&["spe_scratch_bytes"], self.spe_scratch_bytes, 1 << 20, 1 << 40)?;
        check_range(&["spe_environments_bytes"], self.spe_environments_bytes, 0, 1 << 40)?;
        check_range(&["spe_threads_max"], self.spe_threads_max, 4, 65_536)?;
        check_range(&["spe_open_files_max"], self.spe_open_files_max, 64, 65_536)?;
        check_range(&["spe_silence_seconds"], self.spe_silence_seconds, 0, 31_536_000)?;
        check_range(&["spe_task_seconds"], self.spe_task_seconds, 0, 31_536_000)
    }
}

impl Settings for NodeSettings {
    fn check(&mut self, base: &Path) -> Result<(), InvalidSetting> {
        make_all_absolute(base, &mut self.folder, [&mut self.authority, &mut self.certificate, &mut self.key])?;
        self.make_folders_absolute(base)?;
        make_absolute(&mut self.memory_folder, base);
        place_name(&["site"], &self.site)?;
        place_name(&["rack"], &self.rack)?;
        check_reachable(&["master"], &self.master)?;
        match self.advertise {
            Some(address) => check_reachable(&["advertise"], &address.into())?,
            None if self.listen.ip().is_unspecified() => {
                let why = "`listen` names no single address: say in `advertise` where others reach this node";
                return Err(InvalidSetting { keys: &["advertise", "listen"], why: why.into() });
            }
            None => {}
        }
        for folder in self.import_folders.iter_mut().flatten() {
            make_absolute(folder, base);
        }
        check_range(&["spe_slots"], self.spe_slots, 0, SPE_SLOTS_MAX)?;
        if self.spe_slots == 0 {
            let processors = thread::available_parallelism().map_or(1, |count| count.get());
            self.spe_slots = u32::try_from(processors).unwrap_or(SPE_SLOTS_MAX).min(SPE_SLOTS_MAX);
        }
        for weight in self.spe_user_weights.iter().flat_map(BTreeMap::values) {
            check_range(&["spe_user_weights"], *weight, 1, 1_000)?;
        }
        self.check_sandbox(base)?;
        check_range(&["reserve_bytes"], self.reserve_bytes, 0, limits::SLICE_BYTES_MAX)?;
        if self.scrub_period_seconds != 0 {
            check_range(&["scrub_period_seconds"], self.scrub_period_seconds, 600, 31_536_000)?;
        }
        check_range(&["transfers_max"], self.transfers_max, 1, 65_536)?;
        check_range(&["status_interval_millis"], self.status_interval_millis, 100, 60_000)
    }
}

fn place_name(keys: &'static [&'static str], name: &str) -> Result<(), InvalidSetting> {
    if name.is_empty() || name.len() > limits::NAME_BYTES_MAX || name.chars().any(char::is_control) {
        let why = format!("it must have 1 to {} bytes and no control characters", limits::NAME_BYTES_MAX);
        return Err(InvalidSetting { keys, why });
    }
    Ok(())
}

/// Most disks of a node: their states travel in one report of some kilobytes.
const DISKS_MAX: usize = 64;
/// Least memory of an SPE: its own buffers take half of it.
const SPE_MEMORY_BYTES_MIN: u64 = 64 << 20;
/// Most SPEs of a node: each is a process, and no machine of today keeps more busy.
const SPE_SLOTS_MAX: u32 = 1_024;

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::{DaemonError, settings::Checked};

    fn check(change: impl FnOnce(&mut NodeSettings)) -> Result<Checked<NodeSettings>, DaemonError> {
        let mut settings = NodeSettings { listen: "10.0.0.7:7410".parse().unwrap(), ..NodeSettings::default() };
        change(&mut settings);
        Checked::of(settings, Path::new("/cloud"))
    }

    fn refused_key(change: impl FnOnce(&mut NodeSettings)) -> &'static str {
        match check(change).unwrap_err() {
            DaemonError::SettingsRefused { key, .. } => key,
            other => panic!("{other}"),
        }
    }

    #[test]
    fn zero_slots_become_the_processors_of_the_machine() {
        assert!(check(|_| ()).unwrap().spe_slots >= 1);
        assert_eq!(check(|settings| settings.spe_slots = 5).unwrap().spe_slots, 5);
    }

    #[test]
    fn a_node_that_listens_everywhere_must_say_where_it_is() {
        let everywhere = "0.0.0.0:7410".parse().unwrap();
        assert_eq!(refused_key(|settings| settings.listen = everywhere), "advertise");
        let behind = "192.0.2.1:99".parse().unwrap();
        let checked = check(|settings| (settings.listen, settings.advertise) = (everywhere, Some(behind))).unwrap();
        assert_eq!(checked.advertised(everywhere), behind);
        let bound = "10.0.0.7:33333".parse().unwrap();
        assert_eq!(check(|_| ()).unwrap().advertised(bound), bound);
    }

    #[test]
    fn each_limit_is_refused_at_its_own_key() {
        assert_eq!(refused_key(|settings| settings.site.clear()), "site");
        assert_eq!(refused_key(|settings| settings.rack = "a\nb".into()), "rack");
        assert_eq!(refused_key(|settings| settings.spe_slots = 1_025), "spe_slots");
        let weights = BTreeMap::from([("ann".parse().unwrap(), 0)]);
        assert_eq!(refused_key(|settings| settings.spe_user_weights = Some(weights.clone())), "spe_user_weights");
        assert_eq!(refused_key(|settings| settings.transfers_max = 0), "transfers_max");
        assert_eq!(refused_key(|settings| settings.spe_memory_bytes = 1 << 20), "spe_memory_bytes");
        assert_eq!(refused_key(|settings| settings.spe_scratch_bytes = 0), "spe_scratch_bytes");
        assert_eq!(refused_key(|settings| settings.spe_environments_bytes = u64::MAX), "spe_environments_bytes");
        assert_eq!(refused_key(|settings| settings.spe_file_bytes = 1), "spe_file_bytes");
        assert_eq!(refused_key(|settings| settings.spe_threads_max = 1), "spe_threads_max");
        assert_eq!(refused_key(|settings| settings.spe_read_paths = Some(vec!["/".into()])), "spe_read_paths");
        assert_eq!(refused_key(|settings| settings.spe_open_files_max = 10), "spe_open_files_max");
        assert_eq!(refused_key(|settings| settings.spe_silence_seconds = 1 << 40), "spe_silence_seconds");
        assert_eq!(refused_key(|settings| settings.spe_task_seconds = 1 << 40), "spe_task_seconds");
        assert_eq!(refused_key(|settings| settings.status_interval_millis = 99), "status_interval_millis");
        assert_eq!(refused_key(|settings| settings.master = settings.master.with_port(0)), "master");
        assert_eq!(refused_key(|settings| settings.folder = PathBuf::new()), "folder");
        assert_eq!(refused_key(|settings| settings.scrub_period_seconds = 599), "scrub_period_seconds");
    }

    #[test]
    fn the_folders_of_several_disks_are_absolute_and_each_is_its_own() {
        let with = |folders: &[&str]| {
            let folders = folders.iter().map(PathBuf::from).collect();
            check(|settings| settings.folders = Some(folders))
        };
        let checked = with(&["disk-2", "/mnt/disk-3"]).unwrap();
        assert_eq!(checked.data_folders(), ["/cloud", "/cloud/disk-2", "/mnt/disk-3"].map(PathBuf::from));
        let same: [&[&str]; 7] =
            [&["/cloud"], &["."], &["/"], &["/a", "/a"], &["/a", "/a/b"], &["slices/x"], &["/a", ""]];
        for folders in same {
            assert!(matches!(with(folders), Err(DaemonError::SettingsRefused { key: "folders", .. })), "{folders:?}");
        }
    }
}
