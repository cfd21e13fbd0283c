//! The disks of a node: opened at its start and checked every second while it runs. It serves every path at its
//! beginning, and where a disk fails. What failed is reported to the log and to the master, which has other copies
//! made. It never stops a node because of one disk: the disks that work go on serving.

pub(crate) mod import;
pub(crate) mod memory_folder;
pub(crate) mod scrub;
pub(crate) mod scrub_statuses;
pub(crate) mod storage;
pub(crate) mod upload_locks;

use std::{
    fs,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use daemon::{
    settings::NodeSettings,
    worker::{BackgroundWork, NextStep, WorkError, Worker},
};
use protocol::{disk::DiskState, names};
use store::{DataFolder, Disk, DiskSet, FailedDisk, write_file_atomically};

use crate::{NodeError, blocking, disks::memory_folder::make_folder, node_context::NodeContext, rules::NodeCompletion};

/// Opens the data folders of a node and, if it can have one, its folder in memory, whose path is returned. Blocks on
/// the disks.
///
/// # Errors
/// When another process has one of the folders, or none can be opened.
pub(crate) fn open(
    settings: &NodeSettings,
    disk: &Arc<dyn Disk>,
) -> Result<(Arc<DiskSet>, Option<PathBuf>), NodeError> {
    let note = settings.folder.join(NOTE_NAME);
    let (known, all) = (read_note(&note), settings.data_folders());
    let data_folder = |folder: &PathBuf| DataFolder {
        disk: Arc::clone(disk),
        folder: folder.clone(),
        known: known.contains(folder),
        memory_bytes: None,
    };
    let memory = make_memory(settings);
    let in_memory = memory.as_ref().map(|memory| DataFolder {
        disk: Arc::clone(disk),
        folder: memory.clone(),
        known: false,
        memory_bytes: Some(settings.memory_bytes),
    });
    let folders = all.iter().map(data_folder).chain(in_memory);
    let (disks, put_aside) = DiskSet::open(folders.collect(), settings.reserve_bytes)?;
    for file in put_aside {
        tracing::error!(file = %file.display(), "a damaged file was put aside; look at it and remove it");
    }
    let statuses = disks.statuses();
    for status in statuses.iter().filter(|status| status.state != DiskState::Ok) {
        let (folder, why) = (&status.folder, &status.why);
        tracing::error!(
            event = names::EVENT_DISK_FAILED,
            folder,
            why,
            "a disk cannot be used; the node goes on without it"
        );
    }
    let now_known = all.iter().zip(&statuses).filter(|(folder, status)| {
        // A folder that could not be opened may hold slices all the same.
        status.state == DiskState::Ok || known.contains(folder)
    });
    write_note(&note, now_known.map(|(folder, _)| folder));
    Ok((disks, memory))
}

fn make_memory(settings: &NodeSettings) -> Option<PathBuf> {
    if settings.memory_bytes == 0 {
        return None;
    }
    let below = &settings.memory_folder;
    match fs::create_dir_all(&settings.folder).and_then(|()| make_folder(below, &settings.folder)) {
        Ok(folder) => Some(folder),
        Err(error) => {
            tracing::warn!(folder = %below.display(), %error, "nothing can be kept in memory; see `memory_folder`");
            None
        }
    }
}

/// Watches the disks while the node runs.
pub(crate) struct DiskWatch {
    context: Arc<NodeContext>,
}

impl DiskWatch {
    pub(crate) fn new(context: Arc<NodeContext>) -> Self {
        Self { context }
    }

    /// Checks once; whoever met an error meanwhile has recorded it.
    pub(crate) async fn check(&mut self) -> Result<(), NodeError> {
        let store = Arc::clone(&self.context.storage.slices);
        for lost in blocking("looking at the disks", move || Ok(store.check_disks())).await? {
            let FailedDisk { folder, why, lost: gone, replaced } = lost;
            tracing::error!(
                event = names::EVENT_DISK_FAILED,
                folder = %folder.display(),
                why,
                slices = gone.len(),
                "a disk has failed; nothing on it is served any more, and the node goes on without it"
            );
            self.context.send_completion(NodeCompletion::SlicesLost(gone)).await;
            for metadata in replaced {
                self.context.send_completion(NodeCompletion::Stored(metadata)).await;
            }
        }
        Ok(())
    }
}

impl BackgroundWork for DiskWatch {
    async fn step(&mut self, _worker: &Worker) -> Result<NextStep, WorkError> {
        self.check().await?;
        Ok(NextStep::IdleFor(LOOK_PERIOD))
    }
}

/// The folders that held slices of this node before, one a line.
fn read_note(note: &Path) -> Vec<PathBuf> {
    let text = fs::read_to_string(note).unwrap_or_default();
    text.lines().filter(|line| !line.starts_with('#')).map(PathBuf::from).collect()
}

/// Best effort: without the note, a disk that is not mounted at the next start is begun anew, as on the first start.
fn write_note<'a>(note: &Path, folders: impl Iterator<Item = &'a PathBuf>) {
    let lines: Vec<_> = folders.map(|folder| folder.to_string_lossy()).collect();
    let text = format!("# Folders that hold slices of this node; made by `sector node`.\n{}\n", lines.join("\n"));
    if fs::read_to_string(note).is_ok_and(|known| known == text) {
        return;
    }
    if let Err(error) = write_file_atomically(note, text.as_bytes(), 0o600) {
        tracing::warn!(note = %note.display(), %error, "which folders hold slices could not be written down");
    }
}

/// The note's name in the node's main folder.
const NOTE_NAME: &str = "disks";
/// Time between two checks: as often as the master hears from a node.
const LOOK_PERIOD: Duration = Duration::from_secs(1);

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use store::OsDisk;

    use super::*;

    #[test]
    fn a_disk_that_was_there_before_is_waited_for_and_a_new_one_is_begun() {
        let home = tempfile::tempdir().unwrap();
        let further = home.path().join("disk-2");
        let settings = NodeSettings {
            folder: home.path().join("main"),
            folders: Some(vec![further.clone()]),
            reserve_bytes: 0,
            memory_bytes: 0,
            ..NodeSettings::default()
        };
        let os: Arc<dyn Disk> = Arc::new(OsDisk);
        let states = |disks: &DiskSet| disks.statuses().iter().map(|disk| disk.state).collect::<Vec<_>>();
        let open = |settings: &NodeSettings| open(settings, &os).unwrap().0;
        assert_eq!(states(&open(&settings)), [DiskState::Ok, DiskState::Ok]);
        fs::remove_dir_all(&further).unwrap();
        fs::create_dir(&further).unwrap();
        for _ in 0..2 {
            assert_eq!(states(&open(&settings)), [DiskState::Ok, DiskState::Missing]);
        }
        // A disk that was taken out of the settings and put back is a new one.
        let alone = NodeSettings { folders: None, ..settings.clone() };
        assert_eq!(states(&open(&alone)), [DiskState::Ok]);
        assert_eq!(states(&open(&settings)), [DiskState::Ok, DiskState::Ok]);
    }
}
