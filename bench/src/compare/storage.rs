//! One large file and many small ones, put into storage systems and read back. What comes back is compared each time.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use crate::{
    cloud::Cloud,
    compare::{
        Plan,
        hadoop::{Hadoop, HdfsClient},
        install::Tools,
        report::{Missing, Peer, Report, Table, Unit},
        stores::{HttpStore, Xrootd},
        turns::{Contender, take_turns},
    },
    input::{remove, shell, write_random},
};

/// A file, or a folder of files, that is stored under a name.
#[derive(Clone, Copy)]
pub(crate) struct Item<'a> {
    pub(crate) name: &'a str,
    /// What it is made from.
    pub(crate) source: &'a Path,
}

/// A storage system.
pub(crate) trait Store {
    fn peer(&self) -> Peer;
    fn put(&self, item: Item<'_>) -> Result<(), String>;
    /// Brings it to `local`.
    fn get(&self, item: Item<'_>, local: &Path) -> Result<(), String>;
    fn remove(&self, item: Item<'_>) -> Result<(), String>;
}

/// Measures.
pub(crate) fn compare(plan: &Plan, tools: &Tools) -> Result<Report, String> {
    let folder = plan.folder.as_path();
    let cloud = Cloud::start(folder)?;
    let (large, small) = (folder.join("large"), folder.join("small"));
    write_random(&large, plan.megabytes * 1_000_000)?;
    remove(&small)?;
    fs::create_dir_all(&small).map_err(|error| error.to_string())?;
    for number in 0..SMALL_FILES {
        write_random(&small.join(format!("{number:04}")), SMALL_BYTES)?;
    }
    let mut report = Report { what: "storage", title: "Storage, side by side", ..Report::default() };
    let mut stores: Vec<Box<dyn Store + '_>> = vec![
        Box::new(Sector { cloud: &cloud, over_network: true }),
        Box::new(Sector { cloud: &cloud, over_network: false }),
    ];
    stores.push(Box::new(LocalDisk { folder: folder.join("disk") }));
    let mut add = |name: &'static str, store: &dyn Fn() -> Result<Box<dyn Store>, String>| {
        if plan.wants(name) {
            match store() {
                Ok(store) => stores.push(store),
                Err(reason) => report.missing.push(Missing { name: name.into(), reason }),
            }
        }
    };
    add("HDFS", &|| Ok(Box::new(Hdfs::start(tools, folder)?)));
    add("SeaweedFS", &|| Ok(Box::new(HttpStore::seaweedfs(tools, folder)?)));
    add("MinIO", &|| Ok(Box::new(HttpStore::minio(tools, folder)?)));
    add("XRootD", &|| Ok(Box::new(Xrootd::start(tools, folder)?)));

    let works = [
        (format!("put one file of {} MB", plan.megabytes), &large, true),
        (format!("get one file of {} MB", plan.megabytes), &large, false),
        (format!("put {SMALL_FILES} files of {} KB", SMALL_BYTES / 1_000), &small, true),
        (format!("get {SMALL_FILES} files of {} KB", SMALL_BYTES / 1_000), &small, false),
    ];
    for (title, local, is_put) in works {
        let held = Item { name: HELD, source: local };
        if !is_put {
            let mut holding = Vec::new();
            for store in stores {
                match store.put(held) {
                    Ok(()) => holding.push(store),
                    Err(reason) if holding.is_empty() => return Err(reason),
                    Err(reason) => report.missing.push(Missing { name: store.peer().name.into(), reason }),
                }
            }
            stores = holding;
        }
        let contenders: Vec<_> = stores.iter().map(|store| contender(store.as_ref(), local, is_put, folder)).collect();
        // Who comes after a long write would pay for it.
        let prepare = || shell("sync").and_then(|()| plan.prepare());
        let (rows, failed) = take_turns(&contenders, plan.rounds, prepare)?;
        if !is_put {
            stores.iter().try_for_each(|store| store.remove(held))?;
        }
        let unit = if local == &large {
            Unit::Seconds(plan.megabytes as f64, "MB/s")
        } else {
            Unit::Seconds(SMALL_FILES as f64, "files/s")
        };
        report.missing.extend(failed.into_iter().map(|peer| peer.at(&title)));
        report.tables.push(Table { title, unit, rows });
    }
    report.peers = stores.iter().map(|store| store.peer()).collect();
    report.paragraphs = vec![
        "Files of random bytes go into each system, and come back to the local disk. Each keeps one copy.\n\
         Each is asked by its own client, or by `curl` where it speaks HTTP; the client's start counts, except for HDFS, \
         whose client stays. All servers are on this machine.\n\
         Before each turn the disk is settled (`sync`). What comes back is compared each time. Files are in the system's \
         cache (warm)."
            .into(),
        "They do not do the same work: see below who encrypts, who syncs, and who checks.".into(),
    ];
    Ok(report)
}

fn contender<'a>(store: &'a dyn Store, source: &'a Path, is_put: bool, folder: &Path) -> Contender<'a> {
    let fetched = folder.join("fetched");
    let name = store.peer().name;
    let (put, held) = (Item { name: PUT, source }, Item { name: HELD, source });
    if is_put {
        return Contender {
            name,
            work: Box::new(move || store.put(put)),
            check: Box::new(move || {
                remove(&fetched)?;
                store.get(put, &fetched)?;
                same(source, &fetched)?;
                store.remove(put)
            }),
        };
    }
    let to = fetched.clone();
    Contender {
        name,
        work: Box::new(move || remove(&to).and_then(|()| store.get(held, &to))),
        check: Box::new(move || same(source, &fetched)),
    }
}

/// Fails unless these files, or folders of files, are the same; removes the second.
fn same(local: &Path, fetched: &Path) -> Result<(), String> {
    let compared =
        Command::new("diff").arg("-rq").args([local, fetched]).output().map_err(|error| error.to_string())?;
    if !compared.status.success() {
        return Err(format!("other bytes came back: {}", String::from_utf8_lossy(&compared.stdout)));
    }
    remove(fetched)
}

/// Our cloud, over TLS or by passed files.
struct Sector<'a> {
    cloud: &'a Cloud,
    over_network: bool,
}

impl Sector<'_> {
    fn run(&self, arguments: &[&str]) -> Result<(), String> {
        if self.over_network {
            self.cloud.sector_over_network(arguments).map(drop)
        } else {
            self.cloud.sector(arguments).map(drop)
        }
    }

    /// Each of both clients has names of its own.
    fn path(&self, name: &str) -> String {
        format!("/{name}-{}", if self.over_network { "over-network" } else { "local" })
    }
}

impl Store for Sector<'_> {
    fn peer(&self) -> Peer {
        let (name, note) = if self.over_network { ("Sector", OUR_NOTE) } else { ("Sector, same machine", LOCAL_NOTE) };
        Peer { name, version: self.cloud.version(), note }
    }

    fn put(&self, Item { name, source }: Item<'_>) -> Result<(), String> {
        let (source, path) = (source.to_string_lossy(), self.path(name));
        self.run(&["put", "-q", "-r", "--copies", "1", "--sync-copies", "1", &source, &path])
    }

    fn get(&self, Item { name, .. }: Item<'_>, local: &Path) -> Result<(), String> {
        self.run(&["get", "-q", "-r", &self.path(name), &local.to_string_lossy()])
    }

    fn remove(&self, Item { name, .. }: Item<'_>) -> Result<(), String> {
        self.run(&["rm", "-r", "--now", &self.path(name)])
    }
}

/// The machine's own file system.
struct LocalDisk {
    folder: PathBuf,
}

impl Store for LocalDisk {
    fn peer(&self) -> Peer {
        Peer { name: "cp and sync", version: "of this machine".into(), note: CP_NOTE }
    }

    fn put(&self, Item { name, source }: Item<'_>) -> Result<(), String> {
        fs::create_dir_all(&self.folder).map_err(|error| error.to_string())?;
        let to = self.folder.join(name);
        shell(&format!("cp -r '{0}' '{1}' && find '{1}' -exec sync {{}} +", source.display(), to.display()))
    }

    fn get(&self, Item { name, .. }: Item<'_>, local: &Path) -> Result<(), String> {
        shell(&format!("cp -r '{}' '{}'", self.folder.join(name).display(), local.display()))
    }

    fn remove(&self, Item { name, .. }: Item<'_>) -> Result<(), String> {
        remove(&self.folder.join(name))
    }
}

/// Hadoop's file system.
struct Hdfs {
    client: HdfsClient,
    hadoop: Hadoop,
}

impl Hdfs {
    fn start(tools: &Tools, folder: &Path) -> Result<Self, String> {
        let hadoop = Hadoop::start(tools, folder)?;
        Ok(Self { client: hadoop.client()?, hadoop })
    }
}

impl Store for Hdfs {
    fn peer(&self) -> Peer {
        Peer { name: "HDFS", version: self.hadoop.version(), note: HDFS_NOTE }
    }

    fn put(&self, Item { name, source }: Item<'_>) -> Result<(), String> {
        self.client.ask(&format!("put {} /{name}", source.display()))
    }

    fn get(&self, Item { name, .. }: Item<'_>, local: &Path) -> Result<(), String> {
        self.client.ask(&format!("get {} /{name}", local.display()))
    }

    fn remove(&self, Item { name, .. }: Item<'_>) -> Result<(), String> {
        self.client.ask(&format!("rm /{name}"))
    }
}

/// Names in the systems.
const PUT: &str = "put";
const HELD: &str = "held";
const SMALL_FILES: u64 = 1_000;
const SMALL_BYTES: u64 = 64_000;
const OUR_NOTE: &str = "Bytes travel over TLS, are checked at both ends, hashed, and synced with their name.";
const LOCAL_NOTE: &str = "The same cloud for a client on a node's machine: files are passed instead of bytes. Blocks are \
    checked, hashed and synced.";
const CP_NOTE: &str = "What the disk gives, with a sync after put. There is no network, check or encryption.";
const HDFS_NOTE: &str = "Three DataNodes, one copy; a client with 8 threads that stays, and asks again after 5 ms instead of \
    400 whether a file is complete. It checks blocks. It does not encrypt or sync.";
