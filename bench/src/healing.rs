//! How long it takes until all copies are there again after a node's death, beside the disk's own speed.

use std::{
    path::Path,
    thread::sleep,
    time::{Duration, Instant},
};

use crate::{
    cloud::Cloud,
    figures::{print_rate, timed},
    input::{shell, write_random},
};

/// Puts files with two copies each, kills a node for good, and waits until the cloud is healthy again. The time begins
/// when the node dies and includes what the cloud waits before it believes that the node will not return.
pub(crate) fn healing(cloud: &Cloud, folder: &Path, megabytes: u64) -> Result<(), String> {
    let file = folder.join("heal");
    let one_megabytes = megabytes.div_ceil(FILES).max(1);
    write_random(&file, one_megabytes * 1_000_000)?;
    let text = file.to_string_lossy().into_owned();
    let copy = folder.join("copy").to_string_lossy().into_owned();
    for number in 0..FILES {
        cloud.sector(&["put", "-q", "--copies", "2", "--sync-copies", "2", &text, &format!("/heal/{number}")])?;
    }
    let (node, pid, used_bytes) = cloud.fullest_node()?;
    let begun = Instant::now();
    shell(&format!("kill -9 {pid}"))?;
    wait_until("the node to be found lost", || cloud.is_lost(&node))?;
    let found = begun.elapsed().as_secs_f64();
    wait_until("the copies to be made again", || Ok(cloud.under_replicated()? == 0))?;
    let seconds = begun.elapsed().as_secs_f64();
    let lost_megabytes = used_bytes as f64 / 1e6;
    let dd = timed(|| {
        let count = (lost_megabytes / 1.048_576) as u64;
        shell(&format!("dd if=/dev/zero of={copy} bs=1M count={count} conv=fsync status=none && rm {copy}"))
    })?;
    println!("node {node} killed with {lost_megabytes:.0} MB; found lost after {found:.1} s");
    print_rate("until all copies are there again", &[seconds], lost_megabytes, "MB/s");
    print_rate("dd conv=fsync of as many bytes", &[dd], lost_megabytes, "MB/s");
    cloud.sector(&["rm", "-r", "--now", "/heal"]).map(drop)
}

// Another process is watched from outside: there is nothing to wait on but time.
#[allow(clippy::disallowed_methods)]
fn wait_until(what: &str, is_so: impl Fn() -> Result<bool, String>) -> Result<(), String> {
    let deadline = Instant::now() + WAIT_MAX;
    while !is_so()? {
        if Instant::now() > deadline {
            return Err(format!("gave up waiting for {what}"));
        }
        sleep(Duration::from_millis(100));
    }
    Ok(())
}

/// Files that the bytes are cut into: enough that several copies are made at once.
const FILES: u64 = 40;
/// When the measurement is given up.
const WAIT_MAX: Duration = Duration::from_secs(600);
