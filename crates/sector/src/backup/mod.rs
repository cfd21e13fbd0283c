//! Backups of what the cloud's nodes do not have: the master's journal, and all of the security server
//! (`docs/paths/backup.md`). [`take`] makes one while the roles run, [`verify`] proves that one is whole, and
//! [`restore`] puts it back. Only users who can read a role's folder can take or restore; nothing goes over a
//! network. Half a backup never gets a backup's name. A role's folder is never changed before the whole backup was
//! read, and only files made here are ever deleted.

mod file_copy;
pub(crate) mod manifest;
mod replace_file;
pub(crate) mod restore;
pub(crate) mod take;
pub(crate) mod verify;

use std::{
    io::{self, Read},
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use manifest::Role;
use protocol::Reason;
use terminal::failure::Failure;

/// A person's request to stop.
#[derive(Clone, Debug, Default)]
pub(crate) struct Interrupt(Arc<AtomicBool>);

impl Interrupt {
    /// Requests the stop.
    pub(crate) fn cancel(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    fn is_cancelled(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }

    /// Fails if a stop was requested.
    fn check(&self) -> Result<(), Failure> {
        if self.is_cancelled() { Err(Failure::failed(INTERRUPTED)) } else { Ok(()) }
    }
}

/// Reads from a source that may be slow. It fails when a person asks to stop, or when no bytes came for too long.
struct InterruptibleReader<'a, R> {
    from: R,
    interrupt: &'a Interrupt,
    silent: u32,
}

impl<'a, R: Read> InterruptibleReader<'a, R> {
    fn new(from: R, interrupt: &'a Interrupt) -> Self {
        Self { from, interrupt, silent: 0 }
    }
}

impl<R: Read> Read for InterruptibleReader<'_, R> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        loop {
            if self.interrupt.is_cancelled() {
                return Err(io::Error::other(INTERRUPTED));
            }
            match self.from.read(into) {
                Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut) => {
                    self.silent += 1;
                    if self.silent >= SILENCES_MAX {
                        return Err(io::Error::new(io::ErrorKind::TimedOut, "nothing came for two minutes"));
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                read => {
                    self.silent = 0;
                    return read;
                }
            }
        }
    }
}

/// The roles whose folders these are, or whose folders lie in these as `security` and `master`.
fn roles_in(folders: &[PathBuf]) -> Result<Vec<(Role, PathBuf)>, Failure> {
    let mut found: Vec<(Role, PathBuf)> = Vec::new();
    for folder in folders {
        let folder = std::path::absolute(folder).map_err(|error| Failure::local("use", folder, &error))?;
        std::fs::read_dir(&folder).map_err(|error| Failure::local("look into", &folder, &error))?;
        let here = Role::ALL.map(|role| (role, folder.clone()));
        let below = Role::ALL.map(|role| (role, folder.join(role.as_str())));
        let of = |places: [(Role, PathBuf); 2]| places.into_iter().filter(|(role, at)| is_folder_of(*role, at));
        let mut roles: Vec<_> = of(here).collect();
        if roles.is_empty() {
            roles = of(below).collect();
        }
        if roles.is_empty() {
            let message = format!(
                "neither a master's journal nor a security server's accounts lie in `{}`; name the role's folder with --folder",
                folder.display()
            );
            return Err(Failure::new(Reason::NotFound, message));
        }
        found.extend(roles);
    }
    for role in Role::ALL {
        if found.iter().filter(|(other, _)| *other == role).count() > 1 {
            let message = format!("these are the folders of two roles of one kind ({}); take one each", role.name());
            return Err(Failure::usage(message));
        }
    }
    Ok(found)
}

fn is_folder_of(role: Role, folder: &Path) -> bool {
    folder.join(role.rows_file()).is_file()
}

/// The message after a person stopped it.
const INTERRUPTED: &str = "interrupted; nothing half-done is left";
/// How long a read may wait before checking whether to go on.
const READ_WAIT: Duration = Duration::from_millis(200);
/// This many waits in a row are two minutes: another backup may have its turn first, and a role may wait for its
/// disk.
const SILENCES_MAX: u32 = 600;
