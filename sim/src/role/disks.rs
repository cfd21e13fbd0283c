//! The disks of a node: one to three, each a disk in memory with a folder of its own. The real [`DiskSet`] joins them,
//! as in a real node. One may break alone; it is repaired, or an empty one takes its place. It never touches a real
//! disk.

use std::{
    cell::Cell,
    io,
    path::{Path, PathBuf},
    rc::Rc,
    sync::Arc,
};

use protocol::disk::DiskState;
use store::{DataFolder, Disk, DiskFault, DiskSet, MemoryDisk, StoreError};

/// See the module.
#[derive(Clone)]
pub(crate) struct Disks(Vec<NodeDisk>);

#[derive(Clone)]
struct NodeDisk {
    disk: MemoryDisk,
    folder: PathBuf,
    /// Whether slices were kept there before, according to the node's note.
    is_known: bool,
    is_broken: bool,
    /// Whether a fault was caused for which a node may give the disk up.
    is_spoiled: Rc<Cell<bool>>,
    /// Whether a sector of it cannot be read. A second one would count as a failure of the disk.
    has_bad_sector: bool,
    /// Whether the running process uses it.
    is_open: bool,
}

impl Disks {
    pub(crate) fn new(count: usize, seed: u64) -> Self {
        let disk = |number: usize| NodeDisk {
            disk: MemoryDisk::new(seed.wrapping_add(number as u64)),
            folder: PathBuf::from(format!("/disk{number}")),
            is_known: false,
            is_broken: false,
            is_spoiled: Rc::default(),
            has_bad_sector: false,
            is_open: false,
        };
        Self((0..count).map(disk).collect())
    }

    /// Opens them as a node does when it starts.
    ///
    /// # Errors
    /// When none can be opened.
    pub(crate) fn open(&mut self) -> Result<(Arc<DiskSet>, Vec<PathBuf>), StoreError> {
        let folders = self.0.iter().map(|slot| DataFolder {
            disk: Arc::new(slot.disk.clone()),
            folder: slot.folder.clone(),
            known: slot.is_known,
            memory_bytes: None,
        });
        let opened = DiskSet::open(folders.collect(), 0)?;
        for (slot, status) in self.0.iter_mut().zip(opened.0.statuses()) {
            slot.is_open = status.state == DiskState::Ok;
            slot.is_known |= slot.is_open;
        }
        Ok(opened)
    }

    /// All lose their power.
    pub(crate) fn crash(&mut self) {
        self.0.iter_mut().for_each(|slot| slot.disk = slot.disk.crash());
    }

    pub(crate) fn count(&self) -> usize {
        self.0.len()
    }

    pub(crate) fn disk(&self, number: usize) -> &MemoryDisk {
        &self.0[number].disk
    }

    /// Breaks one until it is repaired or replaced.
    pub(crate) fn break_one(&mut self, number: usize, fault: DiskFault) {
        self.0[number].is_broken = true;
        self.0[number].is_spoiled.set(true);
        self.0[number].disk.set_fault(Some(fault));
    }

    pub(crate) fn is_broken(&self, number: usize) -> bool {
        self.0[number].is_broken
    }

    pub(crate) fn is_any_broken(&self) -> bool {
        self.0.iter().any(|slot| slot.is_broken)
    }

    /// Whether no fault was caused that would make a disk fail.
    pub(crate) fn is_sound(&self, folder: &Path) -> bool {
        self.0.iter().any(|slot| slot.folder == folder && !slot.is_spoiled.get())
    }

    /// A change of one will fail once.
    pub(crate) fn fail_one_after(&mut self, number: usize, changes: u64) {
        self.0[number].is_spoiled.set(true);
        self.0[number].disk.fail_one_after(changes);
    }

    /// A broken one works again, with its old content.
    pub(crate) fn repair(&mut self, number: usize) {
        self.0[number].is_broken = false;
        self.0[number].disk.set_fault(None);
    }

    /// An empty one takes the place of another.
    pub(crate) fn replace(&mut self, number: usize, seed: u64) {
        let slot = &mut self.0[number];
        (slot.disk, slot.is_known, slot.is_broken) = (MemoryDisk::new(seed), false, false);
        (slot.is_spoiled, slot.has_bad_sector) = (Rc::default(), false);
    }

    /// Sets the room of each.
    pub(crate) fn set_free_bytes(&self, bytes: u64) {
        self.0.iter().for_each(|slot| slot.disk.set_free_bytes(bytes));
    }

    /// Flips a bit in a file below the folder of whichever disk has it.
    ///
    /// # Errors
    /// If none has it.
    pub(crate) fn flip_bit(&self, below: &Path, offset: u64) -> io::Result<()> {
        let flipped = self.0.iter().any(|slot| slot.disk.flip_bit(&slot.folder.join(below), offset).is_ok());
        if flipped { Ok(()) } else { Err(io::ErrorKind::NotFound.into()) }
    }

    /// Makes a sector of such a file unreadable; returns the number of the disk.
    ///
    /// # Errors
    /// If none has it, or its disk has such a sector already.
    pub(crate) fn set_bad_sector(&mut self, below: &Path, offset: u64) -> io::Result<usize> {
        let spoils = |slot: &NodeDisk| {
            let file = slot.folder.join(below);
            // Another disk may still have a folder of that name.
            let is_there = matches!(slot.disk.bytes(&file), Ok(Some(_)));
            !slot.has_bad_sector && is_there && slot.disk.set_bad_sector(&file, Some(offset)).is_ok()
        };
        let disk = self.0.iter().position(spoils).ok_or(io::ErrorKind::NotFound)?;
        self.0[disk].has_bad_sector = true;
        Ok(disk)
    }

    /// Writes a file of a job, on the disk with its folder.
    ///
    /// # Errors
    /// Those of the disk.
    pub(crate) fn write_file(&self, file: &Path, bytes: &[u8]) -> io::Result<()> {
        let slot = self.0.iter().find(|slot| file.starts_with(&slot.folder));
        let disk = &slot.ok_or(io::ErrorKind::NotFound)?.disk;
        // An earlier try may have left the file.
        let _ = disk.remove_file(file);
        disk.create(file)?.write_all_at(bytes, 0)
    }
}

/// Room on a disk without a fault, in bytes.
pub(crate) const PLENTY_BYTES: u64 = 1 << 50;
