//! The folder tree of a confined process: a small file system in memory. It contains the system's libraries
//! (read-only), a few devices that give and take nothing, and a scratch folder. It serves the [sandbox](super). The
//! tree never has a name for the node's data, its keys, `/proc`, `/sys` or anybody's home.

use std::{
    fs, io,
    os::{
        fd::{AsFd, OwnedFd},
        unix::fs::{chown, symlink},
    },
    path::{Path, PathBuf},
};

use rustix::{
    fs::CWD,
    mount::{
        FsMountFlags, FsOpenFlags, MountAttrFlags, MountPropagationFlags, MoveMountFlags, OpenTreeFlags, UnmountFlags,
        fsconfig_create, fsconfig_set_string, fsmount, fsopen, mount_change, move_mount, open_tree, unmount,
    },
    process::{chdir, fchdir, pivot_root},
};

use super::{confinement::Confinement, system};

/// Makes the tree the root of this process and its scratch folder the working folder. `None` if the kernel lacks what
/// that needs; the process is then where it was. `owner` owns the scratch folder, if that is another user.
pub(super) fn change(confinement: &Confinement, owner: Option<u32>) -> io::Result<Option<PathBuf>> {
    let Ok(parts) = RootParts::prepare(confinement) else { return Ok(None) };
    // From here on there is no way back: a failure ends the process.
    parts.assemble(owner)?;
    Ok(Some(SCRATCH.into()))
}

/// Everything that goes into the tree, not yet attached to anything.
struct RootParts {
    root: OwnedFd,
    scratch: OwnedFd,
    trees: Vec<(PathBuf, OwnedFd)>,
    links: Vec<(PathBuf, PathBuf)>,
}

impl RootParts {
    fn prepare(confinement: &Confinement) -> io::Result<Self> {
        // Mounts made in here must not show outside.
        mount_change("/", MountPropagationFlags::PRIVATE | MountPropagationFlags::REC)?;
        let root = memory_folder(ROOT_BYTES, "0755")?;
        let scratch = memory_folder(confinement.scratch_bytes, "0700")?;
        let mut parts = Self { root, scratch, trees: Vec::new(), links: Vec::new() };
        for path in LIBRARIES.iter().map(Path::new).chain(confinement.read_paths.iter().map(PathBuf::as_path)) {
            parts.add(path, false)?;
        }
        for path in DEVICES.iter().chain([&ZERO]) {
            parts.add(Path::new(path), true)?;
        }
        Ok(parts)
    }

    /// Takes a file or folder of the machine; a missing one is left out.
    fn add(&mut self, path: &Path, device: bool) -> io::Result<()> {
        let Ok(metadata) = fs::symlink_metadata(path) else { return Ok(()) };
        if metadata.is_symlink() && !device {
            // `/lib` is `/usr/lib` on most systems. The link's target has its own place here, or none.
            self.links.push((path.into(), fs::read_link(path)?));
            return Ok(());
        }
        let flags = OpenTreeFlags::OPEN_TREE_CLONE | OpenTreeFlags::OPEN_TREE_CLOEXEC | OpenTreeFlags::AT_RECURSIVE;
        let tree = match open_tree(CWD, path, flags) {
            Ok(tree) => tree,
            // What this user may not reach is not for its functions either.
            Err(error) if error == rustix::io::Errno::ACCESS => return Ok(()),
            Err(error) => return Err(error.into()),
        };
        system::make_read_only(tree.as_fd(), device)?;
        self.trees.push((path.into(), tree));
        Ok(())
    }

    fn assemble(self, owner: Option<u32>) -> io::Result<()> {
        // A root must be mounted somewhere: it goes over the working folder, which is of no use in here.
        attach(&self.root, Path::new("."))?;
        fchdir(&self.root)?;
        for (path, tree) in &self.trees {
            let place = inside(path);
            if is_folder(tree)? {
                fs::create_dir_all(place)?;
            } else {
                fs::create_dir_all(place.parent().unwrap_or(Path::new(".")))?;
                fs::File::create(place)?;
            }
            attach(tree, place)?;
        }
        for (path, target) in &self.links {
            let place = inside(path);
            fs::create_dir_all(place.parent().unwrap_or(Path::new(".")))?;
            symlink(target, place)?;
        }
        let scratch = inside(Path::new(SCRATCH));
        fs::create_dir_all(scratch)?;
        if !Path::new("tmp").exists() {
            // Where programs put temporary files.
            symlink(SCRATCH, "tmp")?;
        }
        // The old root ends up over the new one, and is unmounted.
        pivot_root(".", ".")?;
        unmount(".", UnmountFlags::DETACH)?;
        chdir("/")?;
        if owner.is_some() {
            // Before it is attached, nobody else could have put anything there.
            fchdir(&self.scratch)?;
            chown(".", owner, owner)?;
            chdir("/")?;
        }
        system::make_read_only(self.root.as_fd(), true)?;
        attach(&self.scratch, Path::new(SCRATCH))?;
        chdir(SCRATCH)?;
        Ok(())
    }
}

/// An empty file system in memory, not attached anywhere.
fn memory_folder(bytes: u64, mode: &str) -> io::Result<OwnedFd> {
    let system = fsopen("tmpfs", FsOpenFlags::FSOPEN_CLOEXEC)?;
    fsconfig_set_string(&system, "size", bytes.to_string())?;
    fsconfig_set_string(&system, "nr_inodes", FILES_MAX.to_string())?;
    fsconfig_set_string(&system, "mode", mode)?;
    fsconfig_create(&system)?;
    let attributes = MountAttrFlags::MOUNT_ATTR_NOSUID | MountAttrFlags::MOUNT_ATTR_NODEV;
    Ok(fsmount(&system, FsMountFlags::FSMOUNT_CLOEXEC, attributes)?)
}

fn attach(tree: &OwnedFd, place: &Path) -> io::Result<()> {
    Ok(move_mount(tree, "", CWD, place, MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH)?)
}

fn is_folder(tree: &OwnedFd) -> io::Result<bool> {
    let mode = rustix::fs::fstat(tree)?.st_mode;
    Ok(rustix::fs::FileType::from_raw_mode(mode).is_dir())
}

/// An absolute path as seen below the folder that becomes the root.
fn inside(path: &Path) -> &Path {
    path.strip_prefix("/").unwrap_or(path)
}

/// The scratch folder.
const SCRATCH: &str = "/scratch";
/// What the dynamic loader looks at, and where C libraries keep their time zones and locales.
pub(crate) const LIBRARIES: &[&str] = &[
    "/usr/lib",
    "/usr/lib32",
    "/usr/lib64",
    "/usr/local/lib",
    "/usr/share/zoneinfo",
    "/lib",
    "/lib32",
    "/lib64",
    "/etc/ld.so.cache",
    "/etc/localtime",
];
/// Devices that libraries open by name and that hold nobody's data.
pub(super) const DEVICES: &[&str] = &["/dev/null", "/dev/full", "/dev/random", "/dev/urandom"];
/// The device of zeros, for reading only: mapped shared and writable, it is memory that is charged to nobody.
pub(super) const ZERO: &str = "/dev/zero";
/// Room for the folders and empty files on which the others are mounted.
const ROOT_BYTES: u64 = 1 << 20;
/// Most files and folders in the scratch folder: each takes about a kilobyte of the kernel's memory.
const FILES_MAX: u32 = 65_536;
