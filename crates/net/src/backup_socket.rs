//! A Unix socket in a role's own folder. Only the role's own user on this machine, and root, can read from it; they get
//! its content as one run of bytes. It serves backups (`docs/paths/backup.md`), which hold the cloud's secrets.
//! Therefore nobody can reach it over a network, whatever identity they claim. It never interprets the bytes.

use std::{
    fs::{File, Permissions},
    io::{self, BufWriter, Write},
    net::Shutdown,
    os::{
        fd::AsRawFd,
        unix::{fs::PermissionsExt, net::UnixStream},
    },
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use tokio::{net::UnixListener, task::spawn_blocking, time::sleep};

/// The listening side.
pub struct BackupSocket {
    socket: UnixListener,
    file: PathBuf,
}

/// Writes the content behind the socket. Blocks.
pub type BackupWriter = dyn Fn(&mut dyn Write) -> io::Result<()> + Send + Sync;

impl BackupSocket {
    /// Opens the socket in a folder that no other process serves. A socket file that is already there belongs to a dead
    /// process.
    ///
    /// # Errors
    /// What the operating system says.
    pub fn open(folder: &Path) -> io::Result<Self> {
        let file = folder.join(SOCKET_FILE);
        match std::fs::remove_file(&file) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let at = File::open(folder)?;
        let socket = UnixListener::bind(reachable(&at))?;
        std::fs::set_permissions(&file, Permissions::from_mode(0o600))?;
        Ok(Self { socket, file })
    }

    /// Serves everyone who connects and is allowed to read, one after the other. Runs until the future is dropped; a
    /// reader that is being served then is cut off.
    pub async fn serve(self, tell: Arc<BackupWriter>) {
        loop {
            match self.socket.accept().await {
                Ok((stream, _)) => {
                    let uid = stream.peer_cred().map(|peer| peer.uid());
                    if !uid.as_ref().is_ok_and(|uid| is_allowed(*uid)) {
                        tracing::warn!(?uid, "another user of this machine asked for a backup and was refused");
                        continue;
                    }
                    let told = match stream.into_std() {
                        Ok(stream) => serve_one(stream, Arc::clone(&tell)).await,
                        Err(error) => Err(error),
                    };
                    if let Err(error) = told {
                        tracing::warn!(%error, "a backup was not taken to its end");
                    }
                }
                Err(error) => {
                    tracing::warn!(%error, "cannot take a connection in the role's own folder");
                    sleep(ACCEPT_PAUSE).await;
                }
            }
        }
    }
}

impl Drop for BackupSocket {
    fn drop(&mut self) {
        // Otherwise the next start removes it.
        let _ = std::fs::remove_file(&self.file);
    }
}

/// Connects to the socket in a folder. Blocks while other readers are being served.
///
/// # Errors
/// [`io::ErrorKind::NotFound`] or [`io::ErrorKind::ConnectionRefused`] where nobody serves the folder;
/// [`io::ErrorKind::PermissionDenied`] where it is another user's, or another user listens there.
pub fn connect(folder: &Path) -> io::Result<UnixStream> {
    let at = File::open(folder)?;
    let owner = std::os::unix::fs::MetadataExt::uid(&at.metadata()?);
    let stream = UnixStream::connect(reachable(&at))?;
    let peer = rustix::net::sockopt::socket_peercred(&stream)?.uid.as_raw();
    if peer != owner && !is_allowed(peer) {
        return Err(io::Error::new(io::ErrorKind::PermissionDenied, "another user listens there"));
    }
    Ok(stream)
}

async fn serve_one(stream: UnixStream, tell: Arc<BackupWriter>) -> io::Result<()> {
    stream.set_nonblocking(false)?;
    // A reader that takes nothing for so long keeps the rows of one moment from being forgotten, and makes others wait.
    stream.set_write_timeout(Some(SILENCE_MAX))?;
    let _cut = CutOff(stream.try_clone()?);
    let telling = spawn_blocking(move || {
        let mut out = BufWriter::with_capacity(WRITE_BYTES, stream);
        tell(&mut out).and_then(|()| out.flush())
    });
    telling.await.map_err(io::Error::other)?
}

/// Ends a conversation that a thread serves, once the task that waits for the thread is gone.
struct CutOff(UnixStream);

impl Drop for CutOff {
    fn drop(&mut self) {
        // The conversation may have ended by itself.
        let _ = self.0.shutdown(Shutdown::Both);
    }
}

fn is_allowed(uid: u32) -> bool {
    uid == 0 || uid == rustix::process::geteuid().as_raw()
}

/// A name for the socket in an open folder that is short enough, however deep the folder lies.
fn reachable(folder: &File) -> PathBuf {
    PathBuf::from(format!("/proc/self/fd/{}/{SOCKET_FILE}", folder.as_raw_fd()))
}

/// The socket's name in its folder.
const SOCKET_FILE: &str = "backup.sock";
/// Bytes that go out in one call.
const WRITE_BYTES: usize = 256 * 1024;
/// How long a reader may take nothing. A disk that stalls recovers within that time, or it is broken.
const SILENCE_MAX: Duration = Duration::from_secs(60);
/// Pause after the operating system refused a connection.
const ACCEPT_PAUSE: Duration = Duration::from_millis(200);

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use std::io::Read;

    use super::*;

    #[tokio::test]
    async fn the_own_user_hears_all_and_a_dead_ones_socket_is_no_obstacle() {
        let folder = tempfile::tempdir().unwrap();
        // The folder is deeper than the name of a socket may be long.
        let deep = folder.path().join("d".repeat(120));
        std::fs::create_dir(&deep).unwrap();
        assert_eq!(connect(&deep).unwrap_err().kind(), io::ErrorKind::NotFound);
        drop(std::os::unix::net::UnixListener::bind(reachable(&File::open(&deep).unwrap())).unwrap());
        assert_eq!(connect(&deep).unwrap_err().kind(), io::ErrorKind::ConnectionRefused);
        let door = BackupSocket::open(&deep).unwrap();
        let mode = std::fs::metadata(deep.join(SOCKET_FILE)).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        let serving = tokio::spawn(door.serve(Arc::new(|out| out.write_all(&vec![7; 1_000_000]))));
        for _ in 0..2 {
            let at = deep.clone();
            let heard = spawn_blocking(move || {
                let mut heard = Vec::new();
                connect(&at).unwrap().read_to_end(&mut heard).map(|_| heard)
            });
            assert_eq!(heard.await.unwrap().unwrap(), vec![7; 1_000_000]);
        }
        let own = rustix::process::geteuid().as_raw();
        assert!(is_allowed(own) && is_allowed(0) && !is_allowed(own + 1), "and nobody else");
        serving.abort();
        assert!(serving.await.unwrap_err().is_cancelled());
        assert!(!deep.join(SOCKET_FILE).exists());
    }

    #[tokio::test]
    async fn who_is_being_told_when_the_role_stops_is_cut_off() {
        let folder = tempfile::tempdir().unwrap();
        let door = BackupSocket::open(folder.path()).unwrap();
        let endless = |out: &mut dyn Write| loop {
            out.write_all(&[7; 4096])?;
        };
        let serving = tokio::spawn(door.serve(Arc::new(endless)));
        let at = folder.path().to_owned();
        let mut stream = spawn_blocking(move || {
            let mut stream = connect(&at).unwrap();
            stream.read_exact(&mut [0; 100]).map(|()| stream)
        });
        let mut stream = (&mut stream).await.unwrap().unwrap();
        serving.abort();
        assert!(serving.await.unwrap_err().is_cancelled());
        let rest = spawn_blocking(move || stream.read_to_end(&mut Vec::new()));
        // The reader gets what was on its way, and then the end; a reset is an end too.
        assert!(rest.await.is_ok());
    }
}
