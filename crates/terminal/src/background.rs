//! Commands that continue in the background (`--detach`). The same command is started once more, with a log instead
//! of a terminal. The foreground waits for its ready line or its end, and never longer.

use std::{
    ffi::OsStr,
    fs::{self, File},
    io::{self, BufRead, BufReader},
    path::Path,
    process::{Command, Stdio},
};

use daemon::ready;
use protocol::Reason;

use crate::{Failure, exit_code, show};

/// Runs this program with `words` in the background. Prints its ready line, or reports why it did not get ready.
pub fn start(words: &[impl AsRef<OsStr>], what: &str, log: &Path) -> Result<(), Failure> {
    if let Some(folder) = log.parent() {
        fs::create_dir_all(folder).map_err(|error| Failure::local("make the folder", folder, &error))?;
    }
    // What the one before said may be why there is one now.
    let before = log.with_extension("log.1");
    match fs::rename(log, &before) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            return Err(Failure::local("put aside", log, &error));
        }
        _ => {}
    }
    let errors = File::create(log).map_err(|error| Failure::local("write", log, &error))?;
    let own = std::env::current_exe().map_err(|error| Failure::failed(format!("cannot find this program: {error}")))?;
    let mut command = Command::new(own);
    command.args(words).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(errors).env(DETACHED, "1");
    let mut child =
        command.spawn().map_err(|error| Failure::failed(format!("cannot start in the background: {error}")))?;
    let stdout = child.stdout.take().ok_or_else(|| Failure::failed("the background process has no output"))?;
    for line in BufReader::new(stdout).lines().map_while(Result::ok) {
        if ready::parse(&line).is_some() {
            show::line(&line);
            return Ok(());
        }
    }
    let code = child.wait().ok().and_then(|status| status.code()).unwrap_or(1);
    let said = fs::read_to_string(log).unwrap_or_default();
    let unsaid = format!("{what} did not start");
    let message = said.lines().rev().find_map(|line| line.strip_prefix("sector: ")).unwrap_or(&unsaid);
    Err(Failure::new(reason_of(code), format!("{message} (log: {})", log.display())))
}

/// Leaves the terminal's session, if this process is one in the background.
pub fn leave_terminal() {
    if std::env::var_os(DETACHED).is_some() {
        // Fails only for the leader of a group, which has no terminal to lose.
        let _ = rustix::process::setsid();
    }
}

/// A reason that ends a command with this exit code.
pub fn reason_of(code: i32) -> Reason {
    use Reason::{Busy, Corrupt, Exists, Failed, Invalid, NoRight, NotFound, Unavailable};
    let all = [Invalid, NotFound, NoRight, Unavailable, Corrupt, Exists, Busy];
    all.into_iter().find(|reason| i32::from(exit_code::of(*reason)) == code).unwrap_or(Failed)
}

/// Set for a process in the background.
const DETACHED: &str = "SECTOR_DETACHED";
