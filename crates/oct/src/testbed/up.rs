//! `sector oct testbed up`: the process that holds sites, links and the cloud over them. They are children and open
//! descriptors of this process, so the links and the cloud never outlive it, however it ends.

use std::{fs, path::Path};

use daemon::{ready, shutdown::Signals};
use protocol::Reason;
use terminal::{Failure, Global, background};
use testbed::{RttMatrix, Testbed, TestbedPlan, control::ControlServer};

use super::{
    refused,
    running_testbed::{self, RunningTestbed, control_socket, make_private, profile_file},
    testbed_cloud::TestbedCloud,
};
use crate::arguments::TestbedUp;

/// `sector oct testbed up`.
pub(super) async fn up(up: TestbedUp, global: &Global) -> Result<(), Failure> {
    let folder = running_testbed::folder()?;
    if let Some(running) = RunningTestbed::running(&folder)? {
        let pid = running.process.pid;
        return Err(Failure::new(
            Reason::Exists,
            format!("a testbed runs already (process {pid}); stop it with `sector oct testbed down`"),
        ));
    }
    // Before it goes to the background: errors in the arguments are reported here.
    let plan = plan(&up)?;
    make_private(&folder)?;
    if up.detach {
        let words: Vec<_> = std::env::args_os().skip(1).filter(|word| word != "--detach").collect();
        background::start(&words, "the testbed", &folder.join("testbed.log"))?;
        say_what_to_do(global, &plan);
        return Ok(());
    }
    background::leave_terminal();
    // Before anything starts, so that no signal is lost.
    let mut signals = Signals::listen()?;
    // The profile of an earlier testbed would lead programs to a cloud that no longer exists.
    let _ = fs::remove_file(profile_file(&folder));
    let running = Testbed::start(plan.clone(), !up.no_offload).map_err(refused)?;
    if running.is_slow_with_datagrams() && !up.no_offload && !global.quiet {
        terminal::say!(
            "sector: this kernel hands over UDP datagrams one by one (Linux 6.2 is the first that does not): fast \
                   links take more of the processors"
        );
    }
    let door = ControlServer::open(&control_socket(&folder), running.controls().clone()).map_err(refused)?;
    RunningTestbed::here(plan.sites(), &running.namespace_fds()).save(&folder)?;
    let result = serve(&up, &plan, &folder, global, &mut signals).await;
    RunningTestbed::forget(&folder);
    drop(door);
    result
}

/// Runs from the start of the network to its end.
async fn serve(
    up: &TestbedUp,
    plan: &TestbedPlan,
    folder: &Path,
    global: &Global,
    signals: &mut Signals,
) -> Result<(), Failure> {
    let sites = plan.sites();
    let cloud = match up.nodes_per_site {
        0 => None,
        _ => Some(TestbedCloud::start(plan, up.data.as_deref(), folder, global)?),
    };
    let Some(mut cloud) = cloud else {
        terminal::show::mark_output();
        ready::announce(format_args!("testbed of {}", sites.join(", ")))?;
        say_what_to_do(global, plan);
        signals.next().await;
        return Ok(());
    };
    let result = tokio::select! {
        address = cloud.ready() => address,
        _ = signals.next() => Err(Failure::failed("stopped before the cloud was up")),
    };
    let result = match result {
        Ok(address) => {
            terminal::show::mark_output();
            ready::announce(format_args!("{address} over {}", sites.join(", ")))?;
            say_what_to_do(global, plan);
            tokio::select! {
                _ = signals.next() => Ok(()),
                ended = cloud.ended() => Err(ended),
            }
        }
        Err(failure) => Err(failure),
    };
    cloud.stop().await;
    result
}

fn plan(up: &TestbedUp) -> Result<TestbedPlan, Failure> {
    let rules = up.link.rules();
    let Some(file) = &up.rtt_matrix else {
        return TestbedPlan::new(up.sites, up.nodes_per_site, &rules, up.seed).map_err(refused);
    };
    let text = fs::read_to_string(file).map_err(|error| Failure::local("read", file, &error))?;
    let matrix = RttMatrix::parse(&text).map_err(refused)?;
    TestbedPlan::of_matrix(&matrix, up.nodes_per_site, &rules, up.seed).map_err(refused)
}

fn say_what_to_do(global: &Global, plan: &TestbedPlan) {
    if global.quiet {
        return;
    }
    let site = &plan.sites()[1];
    let example = match plan.nodes_per_site() {
        0 => format!("sector oct testbed run {site} PROGRAM` (site N has the address 10.77.N.1)"),
        _ => format!("sector oct testbed run {site} sector put FILE /`"),
    };
    terminal::say!(
        "now: `{example}, `sector oct testbed status`, `sector oct testbed set --loss 0.1%`; stop: `sector oct testbed down`"
    );
}
