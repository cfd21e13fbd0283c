//! How another process queries and changes a running testbed: through a socket in its folder, with one line of JSON
//! in each direction. Only root can access the folder and its contents. One conversation runs at a time, bounded in
//! length and time, so that a client that breaks off never keeps others out.

use std::{
    fs,
    io::{self, BufRead, BufReader, Read, Write},
    os::{
        fd::AsFd,
        unix::{
            fs::PermissionsExt,
            net::{UnixListener, UnixStream},
        },
    },
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::Duration,
};

use rustix::net::{Shutdown, shutdown};
use serde::{Deserialize, Serialize};

use crate::{error::TestbedError, network::NetworkStatus, plan::Scope, rules::PathChange, testbed::Controls};

/// A request.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ControlRequest {
    /// Change how paths behave.
    Set {
        /// Which paths.
        scope: Scope,
        /// The change.
        change: PathChange,
    },
    /// Report the state of the testbed.
    Status,
}

/// A reply.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ControlReply {
    /// This many paths were changed.
    Changed(usize),
    /// The state of the testbed.
    Status(NetworkStatus),
    /// The request was refused, with the reason.
    Refused(protocol::Refusal),
}

/// The listening end; it stops when it is dropped.
#[derive(Debug)]
pub struct ControlServer {
    listener: Arc<UnixListener>,
    file: PathBuf,
    is_ending: Arc<AtomicBool>,
    thread: Option<thread::JoinHandle<()>>,
}

impl ControlServer {
    /// Listens at `file`, replacing a socket that a dead process left there.
    pub fn open(file: &Path, controls: Controls) -> Result<Self, TestbedError> {
        if let Err(error) = fs::remove_file(file)
            && error.kind() != io::ErrorKind::NotFound
        {
            return Err(TestbedError::system("remove an old control socket", error));
        }
        let listener =
            UnixListener::bind(file).map_err(|error| TestbedError::system("listen at its control socket", error))?;
        fs::set_permissions(file, fs::Permissions::from_mode(0o600))
            .map_err(|error| TestbedError::system("keep its control socket to itself", error))?;
        let (listener, is_ending) = (Arc::new(listener), Arc::new(AtomicBool::new(false)));
        let (shared, ending) = (Arc::clone(&listener), Arc::clone(&is_ending));
        let thread = thread::Builder::new().name("control".into()).spawn(move || {
            while let Ok((mut stream, _)) = shared.accept() {
                if ending.load(Ordering::Acquire) {
                    return;
                }
                // A client that breaks off gets no answer; the next one does.
                let _ = serve(&mut stream, &controls);
            }
        });
        let thread = Some(thread.map_err(|error| TestbedError::system("start a thread", error))?);
        Ok(Self { listener, file: file.into(), is_ending, thread })
    }
}

impl Drop for ControlServer {
    fn drop(&mut self) {
        self.is_ending.store(true, Ordering::Release);
        // Wakes the thread, whose `accept` then fails.
        let _ = shutdown(self.listener.as_fd(), Shutdown::Both);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
        let _ = fs::remove_file(&self.file);
    }
}

/// Sends a request to the testbed that listens at `file`; a refusal is an error.
pub fn ask(file: &Path, request: &ControlRequest) -> Result<ControlReply, TestbedError> {
    let failed = |error: io::Error| TestbedError::Control(format!("the testbed does not answer: {error}"));
    let mut stream = UnixStream::connect(file).map_err(failed)?;
    bound(&stream).map_err(failed)?;
    write_line(&mut stream, request).map_err(failed)?;
    match read_line(&mut stream).map_err(failed)? {
        ControlReply::Refused(refusal) => Err(TestbedError::Refused(refusal)),
        answer => Ok(answer),
    }
}

fn serve(stream: &mut UnixStream, controls: &Controls) -> io::Result<()> {
    bound(stream)?;
    let answer = match read_line(stream)? {
        ControlRequest::Status => ControlReply::Status(controls.status()),
        ControlRequest::Set { scope, change } => match controls.change(&scope, &change) {
            Ok(ways) => ControlReply::Changed(ways),
            Err(error) => ControlReply::Refused(error.refusal()),
        },
    };
    write_line(stream, &answer)
}

fn bound(stream: &UnixStream) -> io::Result<()> {
    stream.set_read_timeout(Some(CONVERSATION_MAX))?;
    stream.set_write_timeout(Some(CONVERSATION_MAX))
}

fn write_line(to: &mut impl Write, message: &impl Serialize) -> io::Result<()> {
    let mut line = serde_json::to_vec(message)?;
    line.push(b'\n');
    to.write_all(&line)
}

fn read_line<T: for<'a> Deserialize<'a>>(from: &mut impl Read) -> io::Result<T> {
    let mut line = Vec::new();
    BufReader::new(from.take(LINE_BYTES_MAX)).read_until(b'\n', &mut line)?;
    if line.last() != Some(&b'\n') {
        return Err(io::Error::new(io::ErrorKind::UnexpectedEof, "the line has no end"));
    }
    Ok(serde_json::from_slice(&line)?)
}

/// The longest line: the state of all paths of the largest testbed, some 700 bytes each.
const LINE_BYTES_MAX: u64 = 1 << 20;
/// How long either end waits for the other.
const CONVERSATION_MAX: Duration = Duration::from_secs(5);

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;
    use crate::{
        link::quantity::{Rate, Share},
        plan::{SITES_MAX, TestbedPlan},
        rules::PathRules,
    };

    fn controls(sites: u32) -> Controls {
        let rules = PathRules::new(Rate(1_000_000), Duration::from_millis(10));
        Controls::without_devices(TestbedPlan::new(sites, 0, &rules, 1).unwrap())
    }

    fn status(file: &Path) -> NetworkStatus {
        match ask(file, &ControlRequest::Status).unwrap() {
            ControlReply::Status(status) => status,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_change_is_made_and_seen_and_a_wrong_one_is_refused_in_its_words() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("control");
        let door = ControlServer::open(&file, controls(3)).unwrap();
        let change = PathChange { loss: Some(Share(0.25)), ..PathChange::default() };
        let set = |site: &str| ControlRequest::Set { scope: Scope::Site(site.into()), change: change.clone() };
        assert!(matches!(ask(&file, &set("site2")), Ok(ControlReply::Changed(2))));
        let losses: Vec<_> = status(&file).ways.iter().map(|way| way.rules.loss).collect();
        assert_eq!(losses, [Share(0.25), Share::NONE, Share(0.25)]);
        let refused = ask(&file, &set("site9")).unwrap_err();
        assert_eq!(refused.refusal().status(), protocol::Status::NotFound);
        assert!(refused.to_string().contains("site9"));
        drop(door);
        assert!(!file.exists());
        assert!(ask(&file, &ControlRequest::Status).is_err());
    }

    #[test]
    fn who_talks_nonsense_or_breaks_off_keeps_nobody_out() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("control");
        let _door = ControlServer::open(&file, controls(2)).unwrap();
        for nonsense in [&b"{\n"[..], b"no end", b"{\"set\":{}}\n", b"\n", b"\xff\n"] {
            UnixStream::connect(&file).unwrap().write_all(nonsense).unwrap();
        }
        assert_eq!(status(&file).ways.len(), 1);
    }

    #[test]
    fn the_state_of_the_largest_testbed_fits_a_line() {
        let mut line = Vec::new();
        write_line(&mut line, &ControlReply::Status(controls(SITES_MAX as u32).status())).unwrap();
        assert!((line.len() as u64) < LINE_BYTES_MAX, "{} bytes", line.len());
        assert!(read_line::<ControlReply>(&mut &line[..]).is_ok());
    }

    #[test]
    fn a_socket_that_a_killed_process_left_is_taken_over() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("control");
        drop(UnixListener::bind(&file).unwrap());
        assert!(file.exists());
        let _door = ControlServer::open(&file, controls(2)).unwrap();
        assert_eq!(status(&file).sites.len(), 2);
    }
}
