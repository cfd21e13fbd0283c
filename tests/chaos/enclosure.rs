//! Where a run lives: in namespaces of its own for mounts, networks and processes. However the run ends, Ctrl-C and
//! `kill -9` included, the kernel removes its disks, its links and every process. The machine's own are never
//! touched.

use std::{
    env,
    path::PathBuf,
    process::{Command, Stdio},
};

/// Whether this process is inside already.
pub(crate) fn is_inside() -> bool {
    env::var_os(INSIDE).is_some()
}

/// Runs the same command inside and returns its exit code, or a sentence why that is not possible.
pub(crate) fn enter(arguments: &[String]) -> Result<u8, String> {
    if clock_library().is_none() {
        return Err(
            "chaos moves the clocks of roles with libfaketime, which is not here: `apt-get install faketime`".into()
        );
    }
    let may = Command::new("unshare").args(NAMESPACES).arg("true").stdout(Stdio::null()).stderr(Stdio::null()).status();
    if !may.is_ok_and(|status| status.success()) {
        return Err(
            "chaos makes namespaces of its own for disks, links and processes (`unshare`, of the package util-linux), \
                    which needs root: run it as root"
                .into(),
        );
    }
    let program = env::current_exe().map_err(|error| format!("chaos does not find itself: {error}"))?;
    // However this process ends, the kernel then ends `unshare`, with it the first process inside, and so everything
    // else.
    let mut command = Command::new("setpriv");
    command.args(["--pdeathsig", "KILL", "unshare"]).args(NAMESPACES).args(["--kill-child", "--mount-proc", "--"]);
    command.args(["sh", "-c", FIRST_PROCESS, "sh"]).arg(program).args(arguments);
    let status = command.env(INSIDE, "1").env("TMPDIR", FOLDER).status();
    let status = status.map_err(|error| format!("`setpriv`, of the package util-linux, cannot be run: {error}"))?;
    Ok(status.code().and_then(|code| u8::try_from(code).ok()).unwrap_or(1))
}

/// The library that shows a process a different time.
pub(crate) fn clock_library() -> Option<PathBuf> {
    let of_architectures = std::fs::read_dir("/usr/lib").into_iter().flatten().flatten().map(|item| item.path());
    let folders = of_architectures.chain(["/usr/lib", "/usr/lib64", "/usr/local/lib"].map(PathBuf::from));
    folders.map(|folder| folder.join("faketime/libfaketimeMT.so.1")).find(|library| library.exists())
}

/// The namespaces of the run.
const NAMESPACES: [&str; 4] = ["--mount", "--net", "--pid", "--fork"];
/// The first process of the namespaces: when it ends, the kernel ends all others in them. `ip netns` records its
/// networks below `/run`.
const FIRST_PROCESS: &str =
    "mount -t tmpfs tmpfs /run && mount -t tmpfs -o mode=1777 tmpfs /mnt && ip link set lo up || exit 69
\"$@\" & wait $!";
/// Where everything of the run lies, in memory, and in this mount namespace alone.
const FOLDER: &str = "/mnt";
/// Set inside.
const INSIDE: &str = "SECTOR_CHAOS_INSIDE";
