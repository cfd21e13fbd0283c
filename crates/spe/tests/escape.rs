//! Hostile user functions: what each gets inside the sandbox, and that it would get more without one. Real processes,
//! the product's own confinement; the attacks are in `escape/attacks.c`. As root an SPE runs as another user, otherwise
//! in a user namespace. The last three tests repeat all others: as an ordinary user, without any namespace, and as root
//! of a container that may only change users. A missing layer is reported loudly; a test that can test nothing says
//! `NOT TESTED`, and why.
#![allow(clippy::unwrap_used, clippy::expect_used)]

#[path = "escape/groups.rs"]
mod groups;

use std::{
    collections::BTreeSet,
    env, fs,
    fs::File,
    io::{self, Read, Seek, Write},
    net::{TcpListener, UdpSocket},
    os::{
        linux::net::SocketAddrExt,
        unix::{
            fs::PermissionsExt,
            net::{SocketAddr, UnixDatagram, UnixListener},
        },
    },
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::{
        Arc, LazyLock,
        atomic::{AtomicU32, Ordering},
    },
    time::Duration,
};

use protocol::{
    JobId, RecordFraming, SectorPath, SliceId, Status,
    message::spe::{AttemptId, FunctionCode, FunctionSpec, PartOrder, SegmentOrder, SegmentSource},
    sandbox::SandboxLayer,
};
use rustix::process::{Pid, Signal, geteuid, kill_process};
use spe::{
    MemoryBound, RuntimeKind, Sandbox, SandboxSettings, SegmentFile, SpeOutcome, SpeProcess, SpeProgram, TaskRun,
};
use tempfile::TempDir;

use groups::{TREE, TestGroup};

/// The SPE: `src/bin/sector-spe.rs`, or the copy that a nested run of these tests made.
fn program() -> SpeProgram {
    let executable = env::var_os(SPE).unwrap_or(env!("CARGO_BIN_EXE_sector-spe").into());
    SpeProgram { executable: executable.into(), arguments: vec![] }
}

/// The attacks, compiled as a library and as a program.
struct Attacks {
    library: Vec<u8>,
    program: PathBuf,
    folder: TempDir,
}

static ATTACKS: LazyLock<Attacks> = LazyLock::new(|| {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/escape/attacks.c");
    let header = Path::new(env!("CARGO_MANIFEST_DIR")).join("../udf/include");
    let folder = tempfile::tempdir().unwrap();
    // Other users run the program from here.
    fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755)).unwrap();
    let (library, program) = (folder.path().join("attacks.so"), folder.path().join("attacks"));
    let compile = |output: &Path, flags: &[&str]| {
        let mut command = Command::new("cc");
        command.args(["-std=gnu11", "-O1", "-Wall", "-Wextra", "-Werror", "-pthread", "-I"]).arg(&header);
        assert!(command.args(flags).arg("-o").args([output, &source]).status().expect("a C compiler").success());
    };
    if let Some(compiled) = env::var_os(COMPILED) {
        for file in [&library, &program] {
            fs::copy(Path::new(&compiled).join(file.file_name().unwrap()), file).unwrap();
        }
    } else {
        compile(&library, &["-shared", "-fPIC"]);
        compile(&program, &["-DCONTROL"]);
    }
    Attacks { library: fs::read(&library).unwrap(), program, folder }
});

/// What the attack gets without confinement: the proof that it is an attack.
fn outside(attack: &str, argument: &str) -> String {
    let output = Command::new(&ATTACKS.program)
        .args([attack, argument])
        .current_dir(tempfile::tempdir().unwrap().path())
        .output()
        .unwrap();
    String::from_utf8(output.stdout).unwrap().trim().to_owned()
}

/// An SPE with a node's usual settings except for what a test changes.
struct Spe {
    process: SpeProcess,
    missing: Vec<SandboxLayer>,
    folder: TempDir,
    /// Dropped after the process, whose group lies in it.
    _group: Option<TestGroup>,
}

impl Spe {
    async fn start(change: impl FnOnce(&mut SandboxSettings)) -> Self {
        Self::start_for(RuntimeKind::Library, change).await
    }

    async fn start_for(tenant: RuntimeKind, change: impl FnOnce(&mut SandboxSettings)) -> Self {
        static STARTED: AtomicU32 = AtomicU32::new(0);
        let node = format!("node-{}", STARTED.fetch_add(1, Ordering::Relaxed));
        // Each as a node of its own, so that no two have the same user.
        let mut settings = SandboxSettings { node, slots: 1, ..SandboxSettings::default() };
        let group = env::var_os(TREE).map(|_| TestGroup::make().unwrap());
        settings.cgroup = group.as_ref().map(|group| group.0.clone());
        change(&mut settings);
        let folder = tempfile::tempdir().unwrap();
        let sandbox = Arc::new(Sandbox::new(&settings));
        if group.is_some() {
            assert_eq!(sandbox.memory_bound(), MemoryBound::Group);
        }
        let place = sandbox.allocate(folder.path()).unwrap();
        let mut process = SpeProcess::start(&program(), place, tenant).unwrap();
        let missing = process.await_confinement().await.unwrap().to_vec();
        if !missing.is_empty() {
            eprintln!("\n*** THIS MACHINE LACKS LAYERS OF THE SANDBOX: {} ***\n", SandboxLayer::list(&missing));
        }
        Self { process, missing, folder, _group: group }
    }

    async fn attack(&mut self, attack: &str, argument: &str) -> String {
        let parameters = [("attack", attack), ("argument", argument)];
        let (outcome, mut output) = self.run("attacker", &parameters).await;
        assert!(matches!(outcome, SpeOutcome::Finished(_)), "{attack}: {outcome:?}");
        output.rewind().unwrap();
        let mut text = String::new();
        output.read_to_string(&mut text).unwrap();
        text
    }

    /// The same by a program that the SPE starts.
    async fn attack_as_program(&mut self, attack: &str, argument: &str) -> String {
        let words = [ATTACKS.program.to_str().unwrap(), attack, argument].map(str::to_owned).to_vec();
        let (outcome, mut output) = self.run_code(FunctionCode::Program { words }, vec![]).await;
        assert!(matches!(outcome, SpeOutcome::Finished(_)), "{attack}: {outcome:?}");
        output.rewind().unwrap();
        let mut text = String::new();
        output.read_to_string(&mut text).unwrap();
        text.trim_end().to_owned()
    }

    /// Runs a function over a segment of a file that only the node owns.
    async fn run(&mut self, symbol: &str, parameters: &[(&str, &str)]) -> (SpeOutcome, File) {
        let parameters = parameters.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        let code = FunctionCode::Native { library: ATTACKS.library.clone(), symbol: symbol.into() };
        self.run_code(code, parameters).await
    }

    /// The same, while `progress` is told of signs of life.
    async fn run_watched(&mut self, symbol: &str, progress: &mut (dyn FnMut(u64) + Send)) -> (SpeOutcome, File) {
        let code = FunctionCode::Native { library: ATTACKS.library.clone(), symbol: symbol.into() };
        self.run_function(code, vec![], progress).await
    }

    async fn run_code(&mut self, code: FunctionCode, parameters: Vec<(String, String)>) -> (SpeOutcome, File) {
        self.run_function(code, parameters, &mut |_| {}).await
    }

    async fn run_function(
        &mut self,
        code: FunctionCode,
        parameters: Vec<(String, String)>,
        progress: &mut (dyn FnMut(u64) + Send),
    ) -> (SpeOutcome, File) {
        self.process.load(&FunctionSpec { code, parameters }, vec![]).await.unwrap();
        let slice = self.folder.path().join("slice");
        fs::write(&slice, "another user's").unwrap();
        let (source, path) = (SegmentSource::Local(SliceId(1)), SectorPath::parse("/in").unwrap());
        let order = SegmentOrder::single(0, PartOrder::plain(source, path, 0, 1, RecordFraming::File));
        let segments = vec![(order, vec![SegmentFile::from(File::open(&slice).unwrap())])];
        let output = tempfile::tempfile_in(self.folder.path()).unwrap();
        let attempt = AttemptId { job: JobId(1), stage: 0, epoch: 0, task: 0, attempt: 0 };
        let task = TaskRun { attempt, segments, output: output.try_clone().unwrap(), buckets: 1 };
        (self.process.run(task, progress).await, output)
    }

    fn lacks(&self, layer: SandboxLayer) -> bool {
        self.missing.contains(&layer)
    }

    /// The process in which user code runs, as this machine sees it: the second of the two that the supervisor started.
    fn worker(&self) -> u32 {
        let warden = self.process.id().unwrap();
        let children = fs::read_to_string(format!("/proc/{warden}/task/{warden}/children")).unwrap();
        children.split_whitespace().last().unwrap().parse().unwrap()
    }
}

/// A process of this user that waits; killed when dropped.
struct Victim(Child);

impl Victim {
    fn start() -> Self {
        Self(Command::new("sleep").arg("1000").stdout(Stdio::null()).spawn().unwrap())
    }

    fn id(&self) -> String {
        self.0.id().to_string()
    }

    fn lives(&mut self) -> bool {
        self.0.try_wait().unwrap().is_none()
    }
}

impl Drop for Victim {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

// Promise 22.
#[tokio::test]
async fn every_layer_that_is_said_to_be_there_shows_from_outside() {
    let mut spe = Spe::start(|settings| settings.threads_max = 77).await;
    assert_eq!(spe.attack("ordinary", "").await, "ok", "what functions are for still works");
    let worker = spe.worker();
    let link = |process: &str, space: &str| fs::read_link(format!("/proc/{process}/ns/{space}")).unwrap();
    let apart = |space: &str| link(&worker.to_string(), space) != link("self", space);
    let status = fs::read_to_string(format!("/proc/{worker}/status")).unwrap();
    let line = |name: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(name)).unwrap();
        line.trim_start_matches(':').split_whitespace().map(str::to_owned).collect::<Vec<_>>()
    };
    let limits = fs::read_to_string(format!("/proc/{worker}/limits")).unwrap();
    let shows = |layer| match layer {
        SandboxLayer::Identity => line("Uid")[0] != geteuid().as_raw().to_string() || apart("user"),
        SandboxLayer::Files => apart("mnt"),
        // No file of the process shows this layer: the attacks do, where it is the only one.
        SandboxLayer::FileRules => !spe.lacks(layer),
        SandboxLayer::Network => apart("net"),
        SandboxLayer::Processes => apart("pid"),
        SandboxLayer::Ipc => apart("ipc") && apart("uts"),
        SandboxLayer::Privileges => {
            ["CapInh", "CapPrm", "CapEff", "CapAmb"].iter().all(|set| line(set) == ["0000000000000000"])
                && line("NoNewPrivs") == ["1"]
        }
        SandboxLayer::SystemCalls => line("Seccomp") == ["2"],
        SandboxLayer::Limits => limits.lines().any(|line| line.starts_with("Max processes") && line.contains(" 77 ")),
    };
    for layer in SandboxLayer::ALL {
        assert_eq!(shows(layer), !spe.lacks(layer), "{layer}\n{status}\n{limits}");
    }
    if is_root() {
        let uids = line("Uid");
        assert!(uids.iter().all(|uid| uid.parse::<u32>().unwrap() >= 2_000_000_000), "{uids:?}");
        assert_eq!(line("Groups"), Vec::<String>::new(), "no group of the node's");
        assert_eq!(line("CapBnd"), ["0000000000000000"]);
    }
}

#[tokio::test]
async fn a_function_reads_and_writes_no_file_but_its_scratch() {
    let folder = tempfile::tempdir().unwrap();
    let key = folder.path().join("key.pem");
    fs::write(&key, "private key").unwrap();
    fs::set_permissions(&key, fs::Permissions::from_mode(0o644)).unwrap();
    fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o777)).unwrap();
    let (key, new) = (key.to_str().unwrap(), folder.path().join("new"));
    let mut spe = Spe::start(|_| {}).await;
    if spe.lacks(SandboxLayer::Files) && spe.lacks(SandboxLayer::FileRules) {
        return not_tested("neither a private root nor Landlock is there");
    }
    assert_eq!(outside("read", key), "ok private key");
    // It does not even exist in here; under Landlock alone it would exist and be refused.
    let refused = |got: &str| got == "ENOENT" || got == "EACCES" || got == "EROFS";
    for path in [key, "/etc/passwd", "/proc/self/maps", "/proc/1/environ", "/sys/kernel/notes", "/etc/shadow"] {
        let got = spe.attack("read", path).await;
        assert!(refused(&got), "{path}: {got}");
    }
    assert_eq!(outside("write", new.to_str().unwrap()), "ok");
    fs::remove_file(&new).unwrap();
    for path in [new.to_str().unwrap(), "/new", "/usr/lib/new", "/dev/new", "/etc/new", "../new"] {
        let got = spe.attack("write", path).await;
        assert!(refused(&got), "{path}: {got}");
    }
    assert!(!new.exists());
    if !spe.lacks(SandboxLayer::Files) {
        assert_eq!(spe.attack("write", "/tmp/note").await, "ok", "what is temporary goes to the scratch");
        assert_eq!(spe.attack("read", "/scratch/note").await, "ok pwned");
    }
    assert!(outside("read", "/etc/passwd").starts_with("ok root"));
}

#[tokio::test]
async fn a_descriptor_of_a_slice_allows_reading_and_nothing_else() {
    let mut spe = Spe::start(|_| {}).await;
    assert_eq!(spe.attack("reopen", "").await, "ok 0");
    assert_eq!(spe.attack("change_modes", "").await, "ok 0");
    let slice = spe.folder.path().join("slice");
    assert_eq!(fs::read_to_string(&slice).unwrap(), "another user's");
    assert_eq!(fs::metadata(&slice).unwrap().permissions().mode() & 0o111, 0);
    // Outside, a descriptor that was opened for reading is as good as the file.
    let outside = |attack: &str| {
        let script = "exec \"$0\" \"$1\" '' 3< \"$2\"";
        let output =
            Command::new("sh").args(["-c", script]).arg(&ATTACKS.program).arg(attack).arg(&slice).output().unwrap();
        String::from_utf8(output.stdout).unwrap().trim().to_owned()
    };
    for attack in ["reopen", "change_modes"] {
        assert_ne!(outside(attack), "ok 0", "{attack}");
    }
}

#[tokio::test]
async fn a_function_has_no_network_nor_any_socket_of_this_machine() {
    let folder = tempfile::tempdir().unwrap();
    fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o777)).unwrap();
    let name = format!("sector-escape-{}-{}", std::process::id(), geteuid().as_raw());
    let (tcp, udp) = (TcpListener::bind("127.0.0.1:0").unwrap(), UdpSocket::bind("127.0.0.1:0").unwrap());
    let path = folder.path().join("socket");
    let _at_path = UnixListener::bind(&path).unwrap();
    // As the node's own local door.
    let _abstract = UnixListener::bind_addr(&SocketAddr::from_abstract_name(&name).unwrap()).unwrap();
    let datagrams = format!("{name}-datagrams");
    let _datagrams = UnixDatagram::bind_addr(&SocketAddr::from_abstract_name(&datagrams).unwrap()).unwrap();
    let attacks = [
        ("tcp", tcp.local_addr().unwrap().port().to_string()),
        ("udp", udp.local_addr().unwrap().port().to_string()),
        ("unix_path", path.to_str().unwrap().to_owned()),
        ("unix_abstract", name),
        ("pair_to_abstract", datagrams),
    ];
    let mut spe = Spe::start(|_| {}).await;
    for (attack, argument) in &attacks {
        assert_eq!(outside(attack, argument), "ok", "{attack}");
        let got = spe.attack(attack, argument).await;
        assert!(got == "EPERM" || got == "ENOSYS", "{attack}: {got}");
    }
}

#[tokio::test]
async fn a_function_starts_no_process_and_so_many_threads() {
    let mut spe = Spe::start(|settings| settings.threads_max = 20).await;
    assert_eq!(outside("forks", "50"), "ok 50");
    assert_eq!(spe.attack("forks", "50").await, "ok 0");
    assert_eq!(outside("threads", "50"), "ok 50");
    let threads: u32 = spe.attack("threads", "50").await.strip_prefix("ok ").unwrap().parse().unwrap();
    assert!(spe.lacks(SandboxLayer::Limits) || (10..20).contains(&threads), "{threads}");
}

#[tokio::test]
async fn where_processes_are_allowed_they_are_counted() {
    let mut spe = Spe::start(|settings| (settings.threads_max, settings.fork) = (20, true)).await;
    let children: u32 = spe.attack("forks", "50").await.strip_prefix("ok ").unwrap().parse().unwrap();
    assert!(spe.lacks(SandboxLayer::Limits) || (10..20).contains(&children), "{children}");
}

#[tokio::test]
async fn what_a_function_leaves_behind_ends_with_its_spe() {
    let mut spe = Spe::start(|settings| settings.fork = true).await;
    assert_eq!(spe.attack("stay", "").await, "ok");
    if spe.lacks(SandboxLayer::Processes) {
        return not_tested("there are no namespaces of processes");
    }
    let space = fs::read_link(format!("/proc/{}/ns/pid", spe.worker())).unwrap();
    let members = || -> BTreeSet<String> {
        let processes = fs::read_dir("/proc").unwrap().flatten().map(|entry| entry.file_name().into_string().unwrap());
        processes.filter(|id| fs::read_link(format!("/proc/{id}/ns/pid")).is_ok_and(|found| found == space)).collect()
    };
    assert_eq!(members().len(), 3, "the first process, the worker, and what it left");
    drop(spe);
    while !members().is_empty() {
        tokio::task::yield_now().await;
    }
}

// Promise 22.
#[tokio::test]
async fn a_function_gets_no_more_memory_than_its_own() {
    let mut spe = Spe::start(|settings| settings.memory_bytes = 128 << 20).await;
    let got = |text: String| text.strip_prefix("ok ").unwrap().parse::<u64>().unwrap();
    assert_eq!(outside("memory", "300"), "ok 300");
    let memory = got(spe.attack("memory", "300").await);
    assert!((32..128).contains(&memory), "{memory} MiB");
    // Without Landlock nothing prevents it from opening the device, so it may share no memory at all.
    let zeros = if spe.lacks(SandboxLayer::FileRules) { "ok 0" } else { "EACCES" };
    let refused =
        [("shared_memory", "ok 0"), ("stack_memory", "ok 0"), ("file_memory", "EPERM"), ("zero_memory", zeros)];
    for (attack, error) in refused {
        assert_eq!(outside(attack, "10"), "ok 10", "{attack}");
        assert_eq!(spe.attack(attack, "10").await, error, "{attack}");
    }
}

#[tokio::test]
async fn what_a_function_only_reads_costs_the_kernel_at_most_an_eighth_of_its_memory() {
    let mut spe = Spe::start(|settings| settings.memory_bytes = 128 << 20).await;
    assert_eq!(outside("zero_pages", "300"), "ok 300");
    let kilobytes = |worker: u32, name: &str| -> u64 {
        let status = fs::read_to_string(format!("/proc/{worker}/status")).unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix(name)).unwrap();
        line.trim_start_matches(':').trim().strip_suffix(" kB").unwrap().parse().unwrap()
    };
    // Where programs themselves lie in memory, they are shared memory too.
    assert_eq!(spe.attack("ordinary", "").await, "ok");
    let before = kilobytes(spe.worker(), "RssShmem");
    spe.attack("zero_pages", "300").await;
    let shared = kilobytes(spe.worker(), "RssShmem") - before;
    assert!(shared < 1 << 10, "{shared} kB of shared memory");
    assert_eq!(outside("page_tables", "64"), "ok 64", "128 MiB of page tables");
    let addresses: u64 = spe.attack("page_tables", "64").await.strip_prefix("ok ").unwrap().parse().unwrap();
    assert!((1..=8).contains(&addresses), "{addresses} GiB of addresses");
    let tables = kilobytes(spe.worker(), "VmPTE");
    assert!(tables <= 16 << 10, "{tables} kB of page tables");
    assert_eq!(spe.attack("ordinary", "").await, "ok", "and it goes on");
}

// Promise 22.
#[tokio::test]
async fn an_end_for_want_of_memory_is_the_functions_own_error() {
    // Not a real one: nothing counts there. This test writes the kernel's numbers and sends its signal.
    let group = tempfile::tempdir().unwrap();
    fs::write(group.path().join("cgroup.controllers"), "memory pids").unwrap();
    fs::write(group.path().join("cgroup.procs"), "").unwrap();
    let named = group.path().to_owned();
    let mut spe = Spe::start(|settings| settings.cgroup = Some(named)).await;
    let made =
        fs::read_dir(group.path()).unwrap().map(|entry| entry.unwrap().path()).find(|path| path.is_dir()).unwrap();
    assert_eq!(fs::read_to_string(made.join("cgroup.procs")).unwrap(), spe.process.id().unwrap().to_string());
    let worker = Pid::from_raw(spe.worker().try_into().unwrap()).unwrap();
    fs::write(made.join("memory.events"), "oom 1\noom_kill 1\noom_group_kill 1\n").unwrap();
    let mut is_killed = false;
    let (outcome, _) = spe
        .run_watched("tells", &mut |_| {
            if !std::mem::replace(&mut is_killed, true) {
                kill_process(worker, Signal::KILL).unwrap();
            }
        })
        .await;
    let SpeOutcome::FunctionFailed(error) = outcome else { panic!("{outcome:?}") };
    assert!(error.message.contains("spe_memory_bytes"), "{}", error.message);
}

#[tokio::test]
async fn all_processes_of_a_function_together_have_the_memory_of_one() {
    let group = match TestGroup::make() {
        Ok(group) => group,
        Err(why) => return not_tested(&why),
    };
    assert_eq!(outside("many_memories", "100"), "ok 8");
    let named = group.0.clone();
    let mut spe = Spe::start(|settings| {
        (settings.fork, settings.cgroup) = (true, Some(named));
        (settings.memory_bytes, settings.scratch_bytes) = (128 << 20, 1 << 20);
    })
    .await;
    let (outcome, _) = spe.run("attacker", &[("attack", "many_memories"), ("argument", "100")]).await;
    // The function's own error, which is reported at once and not retried elsewhere.
    let SpeOutcome::FunctionFailed(error) = outcome else { panic!("{outcome:?}") };
    assert!(error.message.contains("spe_memory_bytes"), "{}", error.message);
    let most = group.spes("memory.max");
    assert_eq!(most, (128 + 1 + 32) << 20);
    let peak = group.spes("memory.peak");
    assert!((100 << 20..=most).contains(&peak), "{peak} of {most} bytes");
    eprintln!("800 MiB were asked for, {} MiB were had, of {} MiB", peak >> 20, most >> 20);
}

#[tokio::test]
async fn an_end_since_all_spes_together_took_too_much_may_be_tried_once_more() {
    let group = match TestGroup::make() {
        Ok(group) => group,
        Err(why) => return not_tested(&why),
    };
    let named = group.0.clone();
    let mut spe = Spe::start(|settings| {
        (settings.fork, settings.cgroup) = (true, Some(named));
        settings.memory_bytes = 512 << 20;
    })
    .await;
    // As `MemoryMax=` of the unit: less than what one SPE may have.
    fs::write(group.0.join("memory.max"), (160 << 20).to_string()).unwrap();
    let (outcome, _) = spe.run("attacker", &[("attack", "many_memories"), ("argument", "60")]).await;
    let SpeOutcome::OutOfMemory(error) = outcome else { panic!("{outcome:?}") };
    assert!(error.message.contains("the machine had no more memory"), "{}", error.message);
}

#[tokio::test]
async fn a_function_fills_neither_its_scratch_nor_the_disk_nor_the_table_of_files() {
    let mut spe = Spe::start(|settings| {
        (settings.scratch_bytes, settings.open_files_max) = (8 << 20, 64);
        settings.file_bytes = 64 << 20;
    })
    .await;
    let got = |text: String| text.strip_prefix("ok ").unwrap().parse::<u64>().unwrap();
    assert_eq!(outside("fill", "100"), "ok 100");
    let filled = got(spe.attack("fill", "100").await);
    assert!(filled < if spe.lacks(SandboxLayer::Files) { 65 } else { 8 }, "{filled} MiB");
    assert_eq!(outside("many_files", "100"), "ok 100");
    let files = got(spe.attack("many_files", "100").await);
    assert!((20..64).contains(&files), "{files}");
    let mut spe = Spe::start(|settings| settings.file_bytes = 8 << 20).await;
    let (outcome, output) = spe.run("emits", &[]).await;
    assert!(matches!(&outcome, SpeOutcome::Refused(why) if why.message.contains("could not write")), "{outcome:?}");
    assert!(output.metadata().unwrap().len() <= 8 << 20);
    let (outcome, _) = spe.run("attacker", &[("attack", "ordinary"), ("argument", "")]).await;
    assert!(matches!(outcome, SpeOutcome::Finished(_)), "the SPE goes on: {outcome:?}");
}

#[tokio::test]
async fn a_function_touches_no_process_of_the_node_nor_of_another_spe() {
    let mut victim = Victim::start();
    let mut sibling = Spe::start(|_| {}).await;
    let mut spe = Spe::start(|_| {}).await;
    for attack in ["peek", "trace", "limit"] {
        assert_eq!(outside(attack, &victim.id()), "ok", "{attack}");
    }
    let node = std::process::id().to_string();
    for target in [victim.id(), node, sibling.worker().to_string(), "1".into(), "-1".into(), "0".into()] {
        for attack in ["peek", "trace", "limit", "end"] {
            // "0" as the target of `limit` is the function itself.
            if (attack, &*target) != ("limit", "0") {
                let got = spe.attack(attack, &target).await;
                assert!(matches!(&*got, "EPERM" | "ENOSYS" | "ESRCH" | "ENOENT"), "{attack} {target}: {got}");
            }
        }
    }
    assert_eq!(sibling.attack("ordinary", "").await, "ok");
    assert!(victim.lives());
    assert_eq!(outside("end", &victim.id()), "ok");
    victim.0.wait().unwrap();
}

#[tokio::test]
async fn a_function_that_may_start_processes_ends_none_outside() {
    let mut victim = Victim::start();
    let mut spe = Spe::start(|settings| settings.fork = true).await;
    if spe.lacks(SandboxLayer::Processes) && spe.lacks(SandboxLayer::FileRules) {
        return not_tested("there are neither namespaces of processes nor Landlock");
    }
    let got = spe.attack("end", &victim.id()).await;
    assert!(got == "ESRCH" || got == "EPERM", "{got}");
    assert!(victim.lives());
}

#[tokio::test]
async fn a_function_does_not_become_root_nor_mount_nor_speak_to_the_kernel() {
    let mut spe = Spe::start(|_| {}).await;
    assert_eq!(spe.attack("become_root", "").await, "EPERM");
    assert_eq!(spe.attack("mount", "").await, "EPERM");
    assert_eq!(spe.attack("kernel", "").await, "", "each of these calls is refused by name");
    let outside = outside("kernel", "");
    for call in ["unshare", "keyctl", "pidfd_open", "setns"] {
        assert!(outside.contains(call), "{call} would be looked at: {outside}");
    }
}

#[tokio::test]
async fn what_a_library_may_not_do_a_program_may_not_either() {
    let mut victim = Victim::start();
    let (tcp, udp) = (TcpListener::bind("127.0.0.1:0").unwrap(), UdpSocket::bind("127.0.0.1:0").unwrap());
    let ports = [tcp.local_addr().unwrap().port(), udp.local_addr().unwrap().port()].map(|port| port.to_string());
    let readable = vec![ATTACKS.folder.path().to_owned()];
    let mut spe = Spe::start_for(RuntimeKind::Program, |settings| {
        settings.read_paths = readable;
        (settings.memory_bytes, settings.threads_max) = (128 << 20, 20);
    })
    .await;
    assert_eq!(spe.attack_as_program("ordinary", "").await, "ok");
    let no = &["EPERM", "ENOSYS", "ESRCH", "ENOENT", "EACCES"][..];
    // 2 is the SPE itself where process numbers are separate: the process that reads what a program says.
    let (id, node) = (victim.id(), std::process::id().to_string());
    for (attack, argument, expected) in [
        ("tcp", ports[0].as_str(), no),
        ("udp", &ports[1], no),
        ("unix_abstract", "nobody", no),
        ("read", "/etc/passwd", no),
        ("write", "/new", &["ENOENT", "EACCES", "EROFS"]),
        ("reopen", "", &["ok 0"]),
        ("change_modes", "", &["ok 0"]),
        ("forks", "50", &["ok 0"]),
        ("run", "/bin/true", &["EPERM"]),
        ("shared_memory", "10", &["ok 0"]),
        ("stack_memory", "10", &["ok 0"]),
        ("file_memory", "10", &["EPERM"]),
        ("zero_memory", "10", &["EACCES", "ok 0"]),
        ("become_root", "", &["EPERM"]),
        ("mount", "", &["EPERM"]),
        ("kernel", "", &[""]),
        ("peek", "2", no),
        ("trace", "2", no),
        ("limit", "2", no),
        ("end", "2", no),
        ("end", "-1", no),
        ("end", "0", no),
        ("peek", &id, no),
        ("trace", &id, no),
        ("limit", &id, no),
        ("end", &id, no),
        ("end", &node, no),
    ] {
        let got = spe.attack_as_program(attack, argument).await;
        assert!(expected.contains(&&*got), "{attack} {argument}: {got}");
    }
    let got = |text: String| text.strip_prefix("ok ").unwrap().parse::<u64>().unwrap();
    let memory = got(spe.attack_as_program("memory", "300").await);
    assert!((32..128).contains(&memory), "{memory} MiB");
    let threads = got(spe.attack_as_program("threads", "50").await);
    assert!(spe.lacks(SandboxLayer::Limits) || (10..20).contains(&threads), "{threads}");
    assert!(victim.lives());
}

#[tokio::test]
async fn a_set_user_id_program_gives_a_function_nothing() {
    if !is_root() {
        return not_tested("only root can make such a program");
    }
    let program = ATTACKS.folder.path().join("root");
    fs::copy(&ATTACKS.program, &program).unwrap();
    fs::set_permissions(&program, fs::Permissions::from_mode(0o4755)).unwrap();
    let path = program.to_str().unwrap().to_owned();
    let control = Command::new("setpriv")
        .args(["--reuid", "65534", "--regid", "65534", "--clear-groups", &path, "who"])
        .output()
        .unwrap();
    if control.stdout != b"ok 0\n" {
        return not_tested("such programs give nobody anything where temporary files lie");
    }
    let readable = vec![ATTACKS.folder.path().to_owned()];
    let mut spe = Spe::start(|settings| (settings.fork, settings.read_paths) = (true, readable.clone())).await;
    let own = spe.attack("who", "").await;
    assert_ne!(own, "ok 0");
    assert_eq!(spe.attack("run", &path).await.trim(), own);
    let mut spe = Spe::start(|settings| settings.read_paths = readable).await;
    assert_eq!(spe.attack("run", &path).await, "EPERM", "and by default no program runs at all");
}

#[tokio::test]
async fn a_function_that_gives_no_sign_of_life_has_failed_and_is_ended() {
    let mut spe = Spe::start(|settings| settings.silence_max = Some(Duration::from_secs(1))).await;
    let worker = spe.worker();
    let (outcome, _) = spe.run("spins", &[]).await;
    assert!(
        matches!(&outcome, SpeOutcome::FunctionFailed(error) if error.message.contains("spe_silence_seconds")),
        "{outcome:?}"
    );
    assert!(!spe.process.is_ready());
    drop(spe);
    while Path::new(&format!("/proc/{worker}")).exists() {
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn a_function_that_only_says_that_it_goes_on_has_failed_when_its_time_is_over() {
    let mut spe = Spe::start(|settings| settings.task_max = Some(Duration::from_secs(1))).await;
    let (outcome, _) = spe.run("tells", &[]).await;
    let SpeOutcome::FunctionFailed(error) = outcome else { panic!("{outcome:?}") };
    assert_eq!((&*error.function, error.path.as_str(), error.segment), ("tells", "/in", 0));
    assert!(error.message.contains("spe_task_seconds"), "{}", error.message);
    assert!(!spe.process.is_ready());
}

// Promise 22.
#[tokio::test]
async fn a_node_that_requires_a_layer_that_is_missing_runs_nothing() {
    let settings = SandboxSettings { is_required: true, ..SandboxSettings::default() };
    let folder = tempfile::tempdir().unwrap();
    let sandbox = Arc::new(Sandbox::new(&settings));
    let mut process =
        SpeProcess::start(&program(), sandbox.allocate(folder.path()).unwrap(), RuntimeKind::Library).unwrap();
    let answer = process.await_confinement().await.map(<[SandboxLayer]>::to_vec);
    match answer {
        Ok(missing) => {
            assert_eq!(missing, [], "all is there, and nothing is refused");
            assert!(env::var(NESTED).is_ok_and(|how| how == ORDINARY) || env::var_os(NESTED).is_none());
        }
        Err(refusal) => {
            assert_eq!(refusal.status(), Status::Unavailable);
            assert!(refusal.message.contains("spe_sandbox"), "{refusal:?}");
            let lacking = SandboxLayer::list(sandbox.missing().unwrap());
            assert!(refusal.message.contains(&lacking), "{refusal:?}");
            match &*env::var(NESTED).unwrap_or_default() {
                NO_NAMESPACES => assert_eq!(lacking, "identity, files, network, processes, ipc, limits"),
                CONTAINER => assert_eq!(lacking, "files, network, processes, ipc"),
                _ => {}
            }
        }
    }
}

#[test]
fn all_of_this_holds_for_an_ordinary_user_too() {
    if !is_root() {
        return not_tested("the tests of this file have run as an ordinary user already");
    }
    run_all_again(ORDINARY, &ORDINARY_USER);
}

#[test]
fn what_is_left_holds_where_the_kernel_allows_no_namespaces() {
    let script =
        "echo 0 > /proc/sys/user/max_user_namespaces && exec setpriv --bounding-set=-all --inh-caps=-all \"$@\"";
    let user = if is_root() { &ORDINARY_USER[..] } else { &[] };
    run_all_again(NO_NAMESPACES, &[user, &["unshare", "--map-root-user", "sh", "-c", script, "sh"]].concat());
}

#[test]
fn what_is_left_holds_for_the_root_of_a_container_that_may_only_change_users() {
    if !is_root() {
        return not_tested("only root can be that root");
    }
    run_all_again(CONTAINER, &["sh", "-c", IN_A_CONTAINER, "sh"]);
}

/// Runs the other tests of this file once more, started through a command.
fn run_all_again(how: &str, words: &[&str]) {
    if env::var_os(NESTED).is_some() {
        return;
    }
    let tried = Command::new(words[0]).args(&words[1..]).arg("true").output();
    if !tried.as_ref().is_ok_and(|tried| tried.status.success()) {
        let why = tried.map_or_else(|error| error.to_string(), |tried| String::from_utf8(tried.stderr).unwrap());
        return not_tested(&format!("`{}` does not work: {}", words.join(" "), why.trim()));
    }
    let folder = tempfile::tempdir().unwrap();
    fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o777)).unwrap();
    // Where these normally are, an ordinary user may not even look.
    let (tests, spe) = (folder.path().join("escape"), folder.path().join("spe"));
    for (from, to) in [(env::current_exe().unwrap(), &tests), (program().executable, &spe)] {
        fs::copy(from, to).unwrap();
        fs::set_permissions(to, fs::Permissions::from_mode(0o755)).unwrap();
    }
    let output = Command::new(words[0])
        .args(&words[1..])
        .arg(&tests)
        .env("TMPDIR", folder.path())
        .env(SPE, &spe)
        .env(NESTED, how)
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{how}:\n{text}{}", String::from_utf8_lossy(&output.stderr));
    assert!(text.contains("test result: ok. ") && !text.contains("ok. 0 passed"), "{how}: some tests ran: {text}");
}

/// Whether this is root itself, and not a run of these tests within one of them.
fn is_root() -> bool {
    geteuid().is_root() && env::var_os(NESTED).is_none()
}

/// Reports loudly that a test has shown nothing, and why.
fn not_tested(why: &str) {
    // Not with `eprintln!`: the runner would hide the output of a test that passes.
    let _ = writeln!(io::stderr(), "\n*** NOT TESTED: {why} ***\n");
}

/// Precedes a command that an ordinary user is to run.
const ORDINARY_USER: [&str; 6] = ["setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups"];
/// Runs a command as a root that may neither mount nor make namespaces. All users exist, unlike in a container: fewer
/// would do, but not the numbers that SPEs are given.
const IN_A_CONTAINER: &str = r#"
    unshare --user sh -c '
        kill -STOP $$
        exec sh -c "echo 0 > /proc/sys/user/max_user_namespaces && exec setpriv --bounding-set=-sys_admin \"\$@\"" sh "$@"
    ' sh "$@" &
    until ! test -e /proc/$! || grep -q "^State:.[TZ]" /proc/$!/status; do :; done
    for map in uid_map gid_map; do echo 0 0 4294967295 > /proc/$!/$map; done
    kill -CONT $!
    wait $!
"#;
/// Nested runs of these tests.
const ORDINARY: &str = "ordinary user";
const NO_NAMESPACES: &str = "without namespaces";
const CONTAINER: &str = "root of a container";
/// Set in such a run, to its kind.
const NESTED: &str = "SECTOR_ESCAPE_TESTS_AGAIN";
/// Where such a run finds the SPE.
const SPE: &str = "SECTOR_ESCAPE_TESTS_SPE";
/// For machines without a compiler: a folder with the compiled attacks (`cargo xtask cgroups`).
const COMPILED: &str = "SECTOR_ESCAPE_TESTS_ATTACKS";
