//! A peer's server for the length of a measurement. It is started in a process group of its own, awaited at its port, and
//! ended with all its children.

use std::{
    fs::{self, File},
    net::{SocketAddr, TcpListener, TcpStream},
    os::unix::process::CommandExt,
    path::Path,
    process::{Child, Command, Stdio},
    thread::sleep,
    time::{Duration, Instant},
};

use crate::input::shell;

/// A running server; dropping it ends it.
pub(crate) struct Service {
    process: Child,
}

impl Service {
    /// Starts it, with its output in `log`, and waits until `is_ready`.
    pub(crate) fn start(command: &mut Command, log: &Path, is_ready: impl Fn() -> bool) -> Result<Self, String> {
        let failed = |error: std::io::Error| format!("{}: {error}", log.display());
        let out = File::create(log).map_err(failed)?;
        let errors = out.try_clone().map_err(failed)?;
        let command = command.stdin(Stdio::null()).stdout(out).stderr(errors).process_group(0);
        let process = command.spawn().map_err(|error| format!("cannot start {:?}: {error}", command.get_program()))?;
        let mut service = Self { process };
        service.wait_until(is_ready).map_err(|why| {
            let said = fs::read_to_string(log).unwrap_or_default();
            format!("{why}: {}", said.lines().last().unwrap_or("it said nothing"))
        })?;
        Ok(service)
    }

    // Another process is watched from outside: there is nothing to wait on but time.
    #[allow(clippy::disallowed_methods)]
    fn wait_until(&mut self, is_ready: impl Fn() -> bool) -> Result<(), String> {
        let deadline = Instant::now() + START_MAX;
        while !is_ready() {
            if let Ok(Some(status)) = self.process.try_wait() {
                return Err(format!("it ended at its start ({status})"));
            }
            if Instant::now() > deadline {
                return Err("it did not start in time".into());
            }
            sleep(Duration::from_millis(100));
        }
        Ok(())
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        // Its group has its number. It may have ended by itself.
        let _ = shell(&format!(
            "kill -TERM -{0} 2>/dev/null; sleep 2; kill -KILL -{0} 2>/dev/null; true",
            self.process.id()
        ));
        let _ = self.process.wait();
    }
}

/// Whether someone listens at this port of the machine itself.
pub(crate) fn listens(port: u16) -> bool {
    TcpStream::connect_timeout(&SocketAddr::from(([127, 0, 0, 1], port)), Duration::from_secs(1)).is_ok()
}

/// A port that nobody has now.
pub(crate) fn free_port() -> Result<u16, String> {
    let listener = TcpListener::bind(("127.0.0.1", 0)).map_err(|error| error.to_string())?;
    listener.local_addr().map(|address| address.port()).map_err(|error| error.to_string())
}

/// Longest start: a cluster of Hadoop takes half a minute.
const START_MAX: Duration = Duration::from_secs(180);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_that_ends_at_its_start_is_no_server() {
        let log = std::env::temp_dir().join(format!("bench-service-{}", std::process::id()));
        let mut command = Command::new("sh");
        let started = Service::start(command.args(["-c", "echo no port; exit 7"]), &log, || false);
        fs::remove_file(&log).expect("removed");
        assert_eq!(started.map(drop), Err("it ended at its start (exit status: 7): no port".into()));
    }
}
