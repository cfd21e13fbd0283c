//! Namespaces and the user: they separate the process from the rest of the machine. It serves the [sandbox](super). As
//! root, the namespaces are made first and the user is changed after the mounts. Otherwise a user namespace comes
//! first, in which an ordinary user may make the others. From outside, the process then still is the node's user; the
//! other layers keep it from that user's files and processes. It never mounts anything.

use std::{fs, io};

use rustix::{
    process::{Gid, Uid, getegid, geteuid},
    thread::{UnshareFlags, set_thread_groups, set_thread_res_gid, set_thread_res_uid},
};

use super::system;

/// Which namespaces the process has to itself.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Namespaces {
    pub(super) mounts: bool,
    pub(super) network: bool,
    pub(super) processes: bool,
    pub(super) ipc: bool,
    /// A user namespace.
    users: bool,
    /// A user number that nobody else has.
    own_user: bool,
    /// The owner of the scratch folder, if that is not the user who makes it.
    pub(super) owner: Option<u32>,
}

impl Namespaces {
    /// Makes as many as the kernel allows. `user` is the user the process will become, if it may choose.
    pub(super) fn enter(user: Option<u32>) -> io::Result<Self> {
        let mut spaces = Self::default();
        if user.is_some() {
            spaces.unshare();
            if spaces.mounts {
                return Ok(Self { owner: user, ..spaces });
            }
            spaces = spaces.become_user(user)?;
        }
        spaces.users = enter_user_namespace()?;
        spaces.unshare();
        Ok(spaces)
    }

    /// Becomes `user`, without any further group, unless that was done before or is not allowed.
    pub(super) fn become_user(self, user: Option<u32>) -> io::Result<Self> {
        let Some(number) = user.filter(|_| !self.own_user && !self.users) else { return Ok(self) };
        let (uid, gid) = (Uid::from_raw(number), Gid::from_raw(number));
        // The groups first, the user last: each step needs the privilege that the last step ends.
        let changed = set_thread_groups(&[])
            .and_then(|()| set_thread_res_gid(gid, gid, gid))
            .and_then(|()| set_thread_res_uid(uid, uid, uid));
        match changed {
            Ok(()) => Ok(Self { own_user: true, ..self }),
            // A half-changed user is an error. A root that may not change users (in some containers) fails at the first
            // step.
            Err(error) if getegid() == gid => Err(error.into()),
            Err(_) => Ok(self),
        }
    }

    /// Whether it is, for all that matters, another user than the node.
    pub(super) fn is_apart(self) -> bool {
        self.own_user || self.users
    }

    /// Whether the kernel counts this process's threads separately from those of the node.
    pub(super) fn counts_threads(self) -> bool {
        self.is_apart()
    }

    fn unshare(&mut self) {
        self.mounts = is_unshared(UnshareFlags::NEWNS);
        self.network = is_unshared(UnshareFlags::NEWNET);
        self.processes = is_unshared(UnshareFlags::NEWPID);
        self.ipc = is_unshared(UnshareFlags::NEWIPC) & is_unshared(UnshareFlags::NEWUTS);
    }
}

/// Each alone: a kernel may have some and not the others.
fn is_unshared(space: UnshareFlags) -> bool {
    system::unshare(space).is_ok()
}

/// A user namespace in which the process keeps its numbers; `false` where the system does not allow one.
fn enter_user_namespace() -> io::Result<bool> {
    let (uid, gid) = (geteuid().as_raw(), getegid().as_raw());
    if !is_unshared(UnshareFlags::NEWUSER) {
        return Ok(false);
    }
    // In this order: the kernel takes a group map of an ordinary user only after it gave up changing its groups.
    fs::write("/proc/self/uid_map", format!("{uid} {uid} 1"))?;
    fs::write("/proc/self/setgroups", "deny")?;
    fs::write("/proc/self/gid_map", format!("{gid} {gid} 1"))?;
    Ok(true)
}
