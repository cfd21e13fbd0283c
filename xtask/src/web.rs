//! The web page in a real browser: a cloud of its own, served by the release build, and `tests/web` against it. The
//! browser is Debian's Chromium. It never runs against a cloud that someone uses.

use std::{
    fs,
    io::Write,
    path::PathBuf,
    process::{Command, Stdio},
};

use crate::{
    shell,
    test::{binary, target},
};

/// Starts a cloud with an administrator who has a password, runs the tests, and stops it whatever came of them.
pub(crate) fn run() -> Result<(), String> {
    let mut install = Command::new("npm");
    install.args(["ci", "--no-audit", "--no-fund", "--ignore-scripts", "--prefix", "tests/web"]);
    shell::run(install)?;
    let home = home();
    // What an earlier run has left; there may be nothing.
    let _ = fs::remove_dir_all(&home);
    let up = ["up", "--detach", "--nodes", "4", "--sites", "2", "--port", "0", "--web-port", "0"];
    shell::run(sector(&up))?;
    let result = in_browser();
    shell::run(sector(&["down"]))?;
    result
}

fn in_browser() -> Result<(), String> {
    let mut add = sector(&["user", "add", USER, "--admin", "--password-stdin"]);
    let failed = |error: std::io::Error| error.to_string();
    let mut child = add.stdin(Stdio::piped()).spawn().map_err(failed)?;
    child.stdin.take().ok_or("no pipe")?.write_all(format!("{PASSWORD}\n").as_bytes()).map_err(failed)?;
    if !child.wait().map_err(failed)?.success() {
        return Err(format!("cannot add the user `{USER}`"));
    }
    let link = sector(&["web"]).output().map_err(failed)?;
    let link = String::from_utf8_lossy(&link.stdout).into_owned();
    let (page, _) = link.split_once("/#/").ok_or("`sector web` printed no link")?;
    let mut tests = Command::new("node");
    tests.arg("tests/web/run.js").env("SECTOR_WEB_BASE", page);
    tests.env("SECTOR_WEB_USER", USER).env("SECTOR_WEB_PASSWORD", PASSWORD);
    shell::run(tests)
}

fn sector(arguments: &[&str]) -> Command {
    let mut command = Command::new(binary());
    command.args(arguments).env("SECTOR_HOME", home()).env_remove("SECTOR_PROFILE");
    command
}

/// `$SECTOR_HOME` of the cloud.
fn home() -> PathBuf {
    target().join("web-test")
}

/// The administrator whom the tests log in as.
const USER: &str = "webtest";
const PASSWORD: &str = "correct horse battery";
