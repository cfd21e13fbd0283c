//! `sector oct testbed`: sites and links on this machine. One process (`up`) holds them; other commands query and change
//! them through its note and its control socket. It never emulates a link itself: the crate `testbed` does.

mod running_testbed;
mod testbed_cloud;
mod testbed_status;
mod up;

use std::{
    fs::File,
    os::{fd::AsFd, unix::process::CommandExt},
    process::Command,
};

use protocol::Reason;
use terminal::{Failure, Global, show as print};
use testbed::{
    Scope, TestbedError,
    control::{ControlReply, ControlRequest, ask},
};

use self::running_testbed::{RunningTestbed, control_socket, profile_file};
use crate::arguments::{Testbed, TestbedRun, TestbedSet};

/// Runs the command.
pub(crate) async fn run(verb: Testbed, global: &Global) -> Result<(), Failure> {
    match verb {
        Testbed::Up(up) => up::up(*up, global).await,
        Testbed::Run(run) => become_program(&run),
        Testbed::Set(set) => change(&set, global),
        Testbed::Status => testbed_status::status(global),
        Testbed::Down => down(global).await,
    }
}

/// Enters a site and becomes the program. On success it does not return: the program has this process's number, and
/// its exit code is the command's.
fn become_program(run: &TestbedRun) -> Result<(), Failure> {
    let folder = running_testbed::folder()?;
    let note = RunningTestbed::needed(&folder)?;
    let site = note.site(&run.site)?;
    let gone = |error| Failure::local("enter the site through", &note.namespace_path(site), &error);
    let entrance = File::open(note.namespace_path(site)).map_err(gone)?;
    testbed::enter(entrance.as_fd()).map_err(refused)?;
    let Some((program, arguments)) = run.command.split_first() else {
        return Err(Failure::usage("name the program to run"));
    };
    let mut command = Command::new(program);
    command.args(arguments).env("SECTOR_TESTBED_SITE", &site.name);
    let profile = profile_file(&folder);
    if profile.exists() {
        command.env("SECTOR_PROFILE", profile);
    }
    let error = command.exec();
    let reason = if error.kind() == std::io::ErrorKind::NotFound { Reason::NotFound } else { Reason::Failed };
    Err(Failure::new(reason, format!("cannot run `{}`: {error}", program.display())))
}

/// `sector oct testbed set`.
fn change(set: &TestbedSet, global: &Global) -> Result<(), Failure> {
    let change = set.change();
    if change.is_empty() {
        return Err(Failure::usage("say what shall change, such as `--cut` or `--loss 0.1%`"));
    }
    let scope = match (&set.one, &set.other) {
        (Some(one), Some(other)) => Scope::Between(one.clone(), other.clone()),
        (Some(one), None) => Scope::Site(one.clone()),
        _ => Scope::All,
    };
    let folder = running_testbed::folder()?;
    RunningTestbed::needed(&folder)?;
    if let ControlReply::Changed(ways) =
        ask(&control_socket(&folder), &ControlRequest::Set { scope, change }).map_err(refused)?
        && !global.quiet
        && !global.json
    {
        print::line(format!("{ways} link{} changed", if ways == 1 { "" } else { "s" }));
    }
    Ok(())
}

/// `sector oct testbed down`.
async fn down(global: &Global) -> Result<(), Failure> {
    let note = RunningTestbed::needed(&running_testbed::folder()?)?;
    let networks = note.networks();
    note.process.stop().await?;
    if global.quiet || global.json {
        return Ok(());
    }
    print::line("stopped; sites and links are gone");
    let left: Vec<_> = running_testbed::processes_in(&networks).iter().map(i32::to_string).collect();
    if !left.is_empty() {
        terminal::say!(
            "sector: programs that `sector oct testbed run` started still run, without a network: {}",
            left.join(", ")
        );
    }
    Ok(())
}

/// What the testbed refuses.
fn refused(error: TestbedError) -> Failure {
    error.refusal().into()
}
