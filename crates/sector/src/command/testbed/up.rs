//! `sector testbed up`: the process that holds sites, links and the cloud over them. They are children and open
//! descriptors of this process, so the links and the cloud never outlive it, however it ends.

use std::{fs, os::unix::fs::DirBuilderExt, path::Path, sync::Arc};

use daemon::{ready, shutdown::Signals};
use protocol::Reason;
use testbed::{RttMatrix, Testbed, TestbedPlan, control::ControlServer};

use super::{
    running_testbed::{self, RunningTestbed, control_socket, profile_file},
    testbed_cloud::TestbedCloud,
};
use crate::{
    arguments::{Global, TestbedUp},
    cloud::background,
    failure::Failure,
};

/// `sector testbed up`.
pub(super) async fn up(up: TestbedUp, global: &Global) -> Result<(), Failure> {
    let folder = running_testbed::folder()?;
    if let Some(running) = RunningTestbed::running(&folder)? {
        let pid = running.process.pid;
        return Err(Failure::new(
            Reason::Exists,
            format!("a testbed runs already (process {pid}); stop it with `sector testbed down`"),
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
    let running = Arc::new(Testbed::start(plan.clone(), !up.no_offload)?);
    if running.is_slow_with_datagrams() && !up.no_offload && !global.quiet {
        crate::show::say!(
            "sector: this kernel hands over UDP datagrams one by one (Linux 6.2 is the first that does not): fast \
                   links take more of the processors"
        );
    }
    let door = ControlServer::open(&control_socket(&folder), running.controls().clone())?;
    RunningTestbed::here(plan.sites(), &running.namespace_fds()).save(&folder)?;
    let result = serve(&up, &plan, &running, &folder, global, &mut signals).await;
    RunningTestbed::forget(&folder);
    drop(door);
    result
}

/// Runs from the start of the network to its end.
async fn serve(
    up: &TestbedUp,
    plan: &TestbedPlan,
    running: &Arc<Testbed>,
    folder: &Path,
    global: &Global,
    signals: &mut Signals,
) -> Result<(), Failure> {
    let sites = plan.sites();
    let cloud = match up.nodes_per_site {
        0 => None,
        _ => Some(TestbedCloud::start(plan, up.data.as_deref(), folder).await?),
    };
    let Some(mut cloud) = cloud else {
        ready::announce(format_args!("testbed of {}", sites.join(", ")))?;
        say_what_to_do(global, plan);
        signals.next().await;
        return Ok(());
    };
    let result = tokio::select! {
        up = cloud.wait(running) => up,
        _ = signals.next() => Err(Failure::failed("stopped before the cloud was up")),
        all_ended = cloud.processes.watch() => Err(all_ended),
    };
    let result = match result {
        Ok(()) => {
            ready::announce(format_args!("sector://{} over {}", cloud.processes.address(), sites.join(", ")))?;
            say_what_to_do(global, plan);
            tokio::select! {
                _ = signals.next() => Ok(()),
                all_ended = cloud.processes.watch() => Err(all_ended),
            }
        }
        Err(failure) => Err(failure),
    };
    cloud.stop().await;
    result
}

fn plan(up: &TestbedUp) -> Result<TestbedPlan, Failure> {
    let rules = up.link.rules();
    let Some(file) = &up.rtt_matrix else { return Ok(TestbedPlan::new(up.sites, up.nodes_per_site, &rules, up.seed)?) };
    let text = fs::read_to_string(file).map_err(|error| Failure::local("read", file, &error))?;
    Ok(TestbedPlan::of_matrix(&RttMatrix::parse(&text)?, up.nodes_per_site, &rules, up.seed)?)
}

/// Makes the testbed's folder, private to its owner.
fn make_private(folder: &Path) -> Result<(), Failure> {
    fs::DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(folder)
        .map_err(|error| Failure::local("make the folder", folder, &error))
}

fn say_what_to_do(global: &Global, plan: &TestbedPlan) {
    if global.quiet {
        return;
    }
    let site = &plan.sites()[1];
    let example = match plan.nodes_per_site() {
        0 => format!("sector testbed run {site} PROGRAM` (site N has the address 10.77.N.1)"),
        _ => format!("sector testbed run {site} sector put FILE /`"),
    };
    crate::show::say!(
        "now: `{example}, `sector testbed status`, `sector testbed set --loss 0.1%`; stop: `sector testbed down`"
    );
}
