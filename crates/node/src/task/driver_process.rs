//! Drivers of detached jobs: this node starts one for each such job that the master assigns (path of a job, "The driver
//! that survives"). A driver is a client in its own process, acting for the user who detached the job, and needs
//! nothing from this node. It reads its order from a pipe and ends when that closes, so it lives no longer than the
//! node. The node never watches the job itself: the driver tells the master, which has another node drive a silent job.

use std::{path::PathBuf, process::Stdio, sync::Arc};

use protocol::{
    message::node_master::{DriveOrder, DriverStart},
    wire::codec,
};
use tokio::{io::AsyncWriteExt, process::Command};

use crate::session::master_location::MasterLocation;

/// How a driver is started, and what each driver is told.
#[derive(Debug)]
pub(crate) struct DriverProgram {
    /// An executable with the hidden command `driver`.
    pub(crate) executable: PathBuf,
    /// Where the master is.
    pub(crate) master: Arc<MasterLocation>,
    /// The certificate of the cloud's authority, PEM.
    pub(crate) authority: String,
}

impl DriverProgram {
    /// Runs a driver for a job until the driver ends. Dropping the future ends the driver.
    pub(crate) async fn run_driver(&self, order: DriveOrder) {
        let job = order.job;
        tracing::info!(%job, user = %order.user, "this node drives a job");
        match self.run(order).await {
            Ok(true) => tracing::info!(%job, "a job's driver has ended"),
            Ok(false) => tracing::warn!(%job, "a job's driver ended before the job, or without its output"),
            Err(error) => tracing::error!(%job, %error, "a job's driver could not be started"),
        }
    }

    async fn run(&self, order: DriveOrder) -> std::io::Result<bool> {
        let unknown = || std::io::Error::other("the node has not joined its master");
        let master = self.master.last_found().ok_or_else(unknown)?;
        let start = DriverStart { order, master, authority: self.authority.clone() };
        let bytes = codec::encode(&start);
        let mut command = Command::new(&self.executable);
        command.arg("driver").stdin(Stdio::piped()).stdout(Stdio::null()).kill_on_drop(true);
        // A terminal asks only this process to stop; this process stops its drivers itself.
        command.process_group(0);
        let mut driver = command.spawn()?;
        let Some(mut pipe) = driver.stdin.take() else { return Ok(false) };
        pipe.write_all(&u32::try_from(bytes.len()).unwrap_or(u32::MAX).to_be_bytes()).await?;
        pipe.write_all(&bytes).await?;
        pipe.flush().await?;
        let ended = driver.wait().await?;
        drop(pipe);
        Ok(ended.success())
    }
}
