//! Two who write the same slice at once, one of whom fails in the middle: what the other was told is safe stays.

use std::{
    io,
    path::Path,
    sync::{Arc, Mutex},
};

use protocol::SliceId;
use store::{Disk, DiskFile, FolderItem, FolderLock, MemoryDisk, SliceStore, StoreError};

use crate::{FOLDER, bytes, header, open, read, write};

/// What is done just before a file is removed.
type Hook = Box<dyn FnOnce() + Send>;

/// A disk on which something else happens in the moment before a file in `staging/` is removed.
#[derive(Clone)]
struct Interrupted {
    disk: MemoryDisk,
    hook: Arc<Mutex<Option<Hook>>>,
}

impl Disk for Interrupted {
    fn create(&self, path: &Path) -> io::Result<Box<dyn DiskFile>> {
        self.disk.create(path)
    }
    fn open(&self, path: &Path) -> io::Result<Box<dyn DiskFile>> {
        self.disk.open(path)
    }
    fn open_to_read(&self, path: &Path) -> io::Result<Box<dyn DiskFile>> {
        self.disk.open_to_read(path)
    }
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.disk.rename(from, to)
    }
    fn remove_file(&self, path: &Path) -> io::Result<()> {
        if path.starts_with(Path::new(FOLDER).join("staging")) {
            let hook = self.hook.lock().unwrap().take();
            hook.into_iter().for_each(|hook| hook());
        }
        self.disk.remove_file(path)
    }
    fn remove_folder(&self, path: &Path) -> io::Result<()> {
        self.disk.remove_folder(path)
    }
    fn create_folder_all(&self, path: &Path) -> io::Result<()> {
        self.disk.create_folder_all(path)
    }
    fn sync_folder(&self, path: &Path) -> io::Result<()> {
        self.disk.sync_folder(path)
    }
    fn clear_scratch(&self, folder: &Path) -> io::Result<()> {
        self.disk.clear_scratch(folder)
    }

    fn list(&self, folder: &Path) -> io::Result<Vec<FolderItem>> {
        self.disk.list(folder)
    }
    fn bytes(&self, path: &Path) -> io::Result<Option<u64>> {
        self.disk.bytes(path)
    }
    fn free_bytes(&self, folder: &Path) -> io::Result<u64> {
        self.disk.free_bytes(folder)
    }
    fn lock_folder(&self, folder: &Path) -> io::Result<FolderLock> {
        self.disk.lock_folder(folder)
    }
}

// Promise 1.
#[test]
fn a_failing_writer_removes_nothing_of_another_whose_slice_was_acknowledged() {
    let (content, mut met) = (bytes(1, 10_000), 0);
    for step in 0..8 {
        let disk = Interrupted { disk: MemoryDisk::new(step), hook: Arc::default() };
        let (store, _) = SliceStore::open(Arc::new(disk.clone()), Path::new(FOLDER)).unwrap();
        let mut first = store.begin(header(1, "/a", 1)).unwrap();
        first.write(&content).unwrap();
        // The second writer comes in the middle of the first one's clearing up, with the same slice.
        let second: Arc<Mutex<Option<Result<(), StoreError>>>> = Arc::default();
        let (answer, other, same) = (Arc::clone(&second), Arc::clone(&store), content.clone());
        let hook = move || *answer.lock().unwrap() = Some(write(&other, header(1, "/a", 1), &same).map(|_| ()));
        *disk.hook.lock().unwrap() = Some(Box::new(hook));
        disk.disk.fail_one_after(step);
        let failed = first.finish(None).is_err();
        let second = second.lock().unwrap().take();
        met += u32::from(second.is_some());
        let (reopened, _) = open(&disk.disk.crash());
        if matches!(second, Some(Ok(()))) {
            assert_eq!(read(&reopened, 1).unwrap(), content, "step {step}: it was acknowledged");
            continue;
        }
        assert!(second.is_none_or(|refused| matches!(refused, Err(StoreError::BeingFinished(SliceId(1))))));
        assert_eq!(reopened.contains(SliceId(1)), !failed, "step {step}");
        if failed {
            write(&reopened, header(1, "/a", 1), &content).unwrap();
        }
        assert_eq!(read(&reopened, 1).unwrap(), content, "step {step}: the next attempt is let in");
    }
    assert!(met >= 2, "a failed rename and a failed sync both clear up: {met}");
}
