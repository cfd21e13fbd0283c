//! `sector driver`: drives a detached job for a node. The node sends the job on standard input, and the driver lives
//! no longer than that pipe is open. People never call it.

use std::{
    io::{self, Read},
    thread,
};

use client::{Client, Profile};
use protocol::{
    limits,
    message::node_master::{DriveOrder, DriverStart},
    wire::codec,
};
use terminal::failure::Failure;

pub(crate) async fn run() -> Result<(), Failure> {
    let start = tokio::task::spawn_blocking(read_start).await;
    let start = start.map_err(|_| Failure::failed("a driver could not read its order"))??;
    // Nothing waits for this thread: it ends with this process, or ends the process.
    thread::spawn(|| {
        let _ = io::copy(&mut io::stdin(), &mut io::sink());
        tracing::warn!("the node of this driver is gone");
        std::process::exit(1);
    });
    let DriverStart { order: DriveOrder { job, user, key, journal }, master, authority } = start;
    let profile = Profile { drives: Some(job), ..Profile::of(master, user, key.0, authority) };
    let cloud = Client::connect(&profile).await?;
    let driven = cloud.drive_job(job, &journal).await;
    cloud.logout().await;
    Ok(driven?)
}

/// Reads the order, which follows its length.
fn read_start() -> Result<DriverStart, Failure> {
    let strange = || Failure::usage("`sector driver` is started by nodes only");
    let mut input = io::stdin().lock();
    let mut length = [0; 4];
    input.read_exact(&mut length).map_err(|_| strange())?;
    let length = u32::from_be_bytes(length) as usize;
    if length > limits::MESSAGE_BYTES_MAX {
        return Err(strange());
    }
    let mut bytes = vec![0; length];
    input.read_exact(&mut bytes).map_err(|_| strange())?;
    codec::decode(&bytes).map_err(|_| strange())
}
