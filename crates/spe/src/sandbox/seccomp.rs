//! Which system calls a confined process may make (seccomp). It serves the [sandbox](super). It lists what is allowed,
//! not what is forbidden, since kernels get new calls each year. The list is what C libraries, Rust, Python and its
//! numeric libraries use to compute, to read and write files and to run threads. A forbidden call never kills the
//! process, because libraries probe.

use std::{collections::BTreeMap, io};

use libc::c_long;
use rustix::process::getpid;
use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter, SeccompRule,
    apply_filter,
};

/// What a process may start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SpawnPolicy {
    /// Only threads.
    Nothing,
    /// The process may turn into another program, which is bound by the same lists.
    Programs,
    /// Processes and programs.
    Processes,
    /// What the SPE itself needs to start programs, and to lock them in further.
    Own,
}

/// Which memory a process may share with others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SharedMemory {
    /// That of files: the writable ones are bounded.
    Files,
    /// None: it may be able to open the device of zeros for writing, whose shared memory is charged to nobody.
    Nothing,
}

/// Installs the lists; returns whether the kernel took them.
///
/// A call that is not listed fails with `ENOSYS`, as on an older kernel, so that libraries fall back. The well-known
/// ways out fail with `EPERM`, which says more to whoever tries.
///
/// Some calls are allowed with certain arguments only:
/// - memory that several processes could share, or that grows like a stack, would not count against the memory limit;
/// - signals go to this process only;
/// - descriptors of slices may belong to the node's own user, so their mode, owner and times must not be changed
///   through them. The same holds for the attributes that `ioctl` and leases set.
pub(super) fn restrict(starts: SpawnPolicy, sharing: SharedMemory) -> io::Result<bool> {
    let refused = refused(starts)?;
    let mut allowed = allowed(sharing)?;
    if starts == SpawnPolicy::Own {
        allowed.insert(libc::SYS_seccomp, Vec::new());
        // The standard library uses it to learn of a program that could not be started. It is connected, like a stream.
        allowed.insert(libc::SYS_socketpair, pairs(&[libc::SOCK_STREAM, libc::SOCK_SEQPACKET])?);
        allowed.insert(libc::SYS_prctl, is_one_of(0, PRCTLS.iter().chain(PRCTLS_OWN))?);
    }
    // The first list does not decide about these.
    for call in refused.keys() {
        allowed.entry(*call).or_default();
    }
    let refused = compile(refused, SeccompAction::Allow, SeccompAction::Errno(libc::EPERM as u32))?;
    let allowed = compile(allowed, SeccompAction::Errno(libc::ENOSYS as u32), SeccompAction::Allow)?;
    // In this order: the second list does not allow installing a filter.
    Ok(apply_filter(&refused).and_then(|()| apply_filter(&allowed)).is_ok())
}

/// Adds to the lists of the process that started this one; returns whether the kernel took it.
pub(super) fn restrict_further(starts: SpawnPolicy) -> io::Result<bool> {
    let mut refused = refused(starts)?;
    // Nothing in here needs another filter.
    refused.insert(libc::SYS_seccomp, Vec::new());
    // The list that it already has knows another process's number as its own.
    let others =
        [0, own_number()].map(|number| Condition { length: SeccompCmpArgLen::Dword, ..Condition::not(0, number) });
    refused.insert(libc::SYS_prlimit64, any_of(vec![others.into()])?);
    let refused = compile(refused, SeccompAction::Allow, SeccompAction::Errno(libc::EPERM as u32))?;
    Ok(apply_filter(&refused).is_ok())
}

type Rules = BTreeMap<c_long, Vec<SeccompRule>>;

fn compile(rules: Rules, otherwise: SeccompAction, on_list: SeccompAction) -> io::Result<BpfProgram> {
    let architecture = std::env::consts::ARCH.try_into().map_err(io::Error::other)?;
    let filter = SeccompFilter::new(rules, otherwise, on_list, architecture).map_err(io::Error::other)?;
    filter.try_into().map_err(io::Error::other)
}

fn allowed(sharing: SharedMemory) -> io::Result<Rules> {
    let mut rules: Rules = ALLOWED
        .iter()
        .chain(ALLOWED_HERE)
        .chain(STARTING)
        .chain(BECOMING)
        .chain(SIGNALLING)
        .map(|call| (*call, Vec::new()))
        .collect();
    let own = own_number();
    let mut allow = |call: c_long, alternatives: Vec<Vec<Condition>>| -> io::Result<()> {
        rules.insert(call, any_of(alternatives)?);
        Ok(())
    };
    let uncounted = (libc::MAP_SHARED | libc::MAP_ANONYMOUS | libc::MAP_GROWSDOWN | libc::MAP_HUGETLB) as u64;
    let kinds: &[i32] = match sharing {
        SharedMemory::Files => &[0, libc::MAP_ANONYMOUS, libc::MAP_SHARED],
        SharedMemory::Nothing => &[0, libc::MAP_ANONYMOUS],
    };
    let kinds = kinds.iter().map(|kind| vec![Condition::masked(3, uncounted, *kind as u64)]);
    allow(libc::SYS_mmap, kinds.collect())?;
    allow(libc::SYS_ioctl, IOCTLS.iter().map(|word| vec![Condition::is(1, *word)]).collect())?;
    allow(libc::SYS_fcntl, FCNTLS.iter().map(|word| vec![Condition::is(1, *word as u64)]).collect())?;
    allow(libc::SYS_prlimit64, vec![vec![Condition::is(0, 0)], vec![Condition::is(0, own)]])?;
    allow(libc::SYS_personality, vec![vec![Condition::is(0, 0xffff_ffff)]])?;
    // A path, and a flag that would let an empty path mean the descriptor.
    let by_path = |path, flags| vec![Condition::not(path, 0), Condition::masked(flags, libc::AT_EMPTY_PATH as u64, 0)];
    allow(libc::SYS_utimensat, vec![by_path(1, 3)])?;
    allow(libc::SYS_clone, vec![vec![Condition::masked(0, NAMESPACES as u64, 0)]])?;
    // A pair of connected streams, with which event loops wake themselves. No other socket, and no datagrams to
    // addresses.
    rules.insert(libc::SYS_socketpair, pairs(&[libc::SOCK_STREAM])?);
    rules.insert(libc::SYS_prctl, is_one_of(0, PRCTLS)?);
    Ok(rules)
}

fn refused(starts: SpawnPolicy) -> io::Result<Rules> {
    let mut rules: Rules = REFUSED.iter().map(|call| (*call, Vec::new())).collect();
    if starts == SpawnPolicy::Nothing {
        rules.extend(BECOMING.iter().map(|call| (*call, Vec::new())));
    }
    if matches!(starts, SpawnPolicy::Nothing | SpawnPolicy::Programs) {
        rules.extend(STARTING.iter().map(|call| (*call, Vec::new())));
        rules.insert(libc::SYS_clone, any_of(vec![vec![Condition::masked(0, libc::CLONE_THREAD as u64, 0)]])?);
        let own = own_number();
        for call in SIGNALLING {
            rules.insert(
                *call,
                any_of(vec![vec![Condition { length: SeccompCmpArgLen::Dword, ..Condition::not(0, own) }]])?,
            );
        }
    }
    Ok(rules)
}

/// This process's number in its own namespace.
fn own_number() -> u64 {
    u64::from(getpid().as_raw_nonzero().get().unsigned_abs())
}

/// A rule for each alternative, all conditions of which must hold.
fn any_of(alternatives: Vec<Vec<Condition>>) -> io::Result<Vec<SeccompRule>> {
    let rule = |conditions: Vec<Condition>| {
        SeccompRule::new(conditions.into_iter().map(Condition::compile).collect::<Result<_, _>>()?)
    };
    alternatives.into_iter().map(rule).collect::<Result<_, _>>().map_err(io::Error::other)
}

/// Pairs of connected Unix sockets of these kinds.
fn pairs(kinds: &[i32]) -> io::Result<Vec<SeccompRule>> {
    let of = |kind: &i32| vec![Condition::is(0, libc::AF_UNIX as u64), Condition::masked(1, 0xf, *kind as u64)];
    any_of(kinds.iter().map(of).collect())
}

fn is_one_of<'a>(argument: u8, words: impl IntoIterator<Item = &'a i32>) -> io::Result<Vec<SeccompRule>> {
    any_of(words.into_iter().map(|word| vec![Condition::is(argument, *word as u64)]).collect())
}

/// A condition on an argument, of which the lower 32 bits count. None of these calls reads more of it, except for
/// pointers.
struct Condition {
    argument: u8,
    length: SeccompCmpArgLen,
    operator: SeccompCmpOp,
    value: u64,
}

impl Condition {
    fn is(argument: u8, value: u64) -> Self {
        Self { argument, length: SeccompCmpArgLen::Dword, operator: SeccompCmpOp::Eq, value }
    }

    /// For pointers.
    fn not(argument: u8, value: u64) -> Self {
        Self { argument, length: SeccompCmpArgLen::Qword, operator: SeccompCmpOp::Ne, value }
    }

    fn masked(argument: u8, mask: u64, value: u64) -> Self {
        Self { argument, length: SeccompCmpArgLen::Dword, operator: SeccompCmpOp::MaskedEq(mask), value }
    }

    fn compile(self) -> Result<SeccompCondition, seccompiler::BackendError> {
        SeccompCondition::new(self.argument, self.length, self.operator, self.value)
    }
}

/// Allowed with any arguments.
const ALLOWED: &[c_long] = &[
    // Memory.
    libc::SYS_brk,
    libc::SYS_madvise,
    libc::SYS_membarrier,
    libc::SYS_mincore,
    libc::SYS_mlock,
    libc::SYS_mprotect,
    libc::SYS_mremap,
    libc::SYS_msync,
    libc::SYS_munlock,
    libc::SYS_munmap,
    libc::SYS_pkey_alloc,
    libc::SYS_pkey_free,
    libc::SYS_pkey_mprotect,
    // Descriptors.
    libc::SYS_close,
    libc::SYS_close_range,
    libc::SYS_copy_file_range,
    libc::SYS_dup,
    libc::SYS_dup3,
    libc::SYS_epoll_create1,
    libc::SYS_epoll_ctl,
    libc::SYS_epoll_pwait,
    libc::SYS_eventfd2,
    libc::SYS_fadvise64,
    libc::SYS_fallocate,
    libc::SYS_fdatasync,
    libc::SYS_flock,
    libc::SYS_fstat,
    libc::SYS_fstatfs,
    libc::SYS_fsync,
    libc::SYS_ftruncate,
    libc::SYS_getdents64,
    libc::SYS_lseek,
    libc::SYS_pipe2,
    libc::SYS_ppoll,
    libc::SYS_pread64,
    libc::SYS_preadv,
    libc::SYS_preadv2,
    libc::SYS_pselect6,
    libc::SYS_pwrite64,
    libc::SYS_pwritev,
    libc::SYS_pwritev2,
    libc::SYS_read,
    libc::SYS_readv,
    libc::SYS_sendfile,
    libc::SYS_timerfd_create,
    libc::SYS_timerfd_gettime,
    libc::SYS_timerfd_settime,
    libc::SYS_write,
    libc::SYS_writev,
    // Files by name.
    libc::SYS_chdir,
    libc::SYS_faccessat,
    libc::SYS_faccessat2,
    libc::SYS_fchdir,
    libc::SYS_fchmodat,
    libc::SYS_getcwd,
    libc::SYS_linkat,
    libc::SYS_mkdirat,
    libc::SYS_newfstatat,
    libc::SYS_openat,
    libc::SYS_openat2,
    libc::SYS_readlinkat,
    libc::SYS_renameat2,
    libc::SYS_renameat,
    libc::SYS_statfs,
    libc::SYS_statx,
    libc::SYS_symlinkat,
    libc::SYS_truncate,
    libc::SYS_umask,
    libc::SYS_unlinkat,
    // Messages over sockets that it was given.
    libc::SYS_getpeername,
    libc::SYS_getsockname,
    libc::SYS_getsockopt,
    libc::SYS_recvfrom,
    libc::SYS_recvmsg,
    libc::SYS_sendmsg,
    libc::SYS_sendto,
    libc::SYS_shutdown,
    // Itself and its threads.
    libc::SYS_capget,
    libc::SYS_exit,
    libc::SYS_exit_group,
    libc::SYS_futex,
    libc::SYS_get_robust_list,
    libc::SYS_getcpu,
    libc::SYS_getegid,
    libc::SYS_geteuid,
    libc::SYS_getgid,
    libc::SYS_getgroups,
    libc::SYS_getpgid,
    libc::SYS_getpid,
    libc::SYS_getppid,
    libc::SYS_getpriority,
    libc::SYS_getresgid,
    libc::SYS_getresuid,
    libc::SYS_getrlimit,
    libc::SYS_getrusage,
    libc::SYS_getsid,
    libc::SYS_gettid,
    libc::SYS_getuid,
    libc::SYS_restart_syscall,
    libc::SYS_rseq,
    libc::SYS_rt_sigaction,
    libc::SYS_rt_sigpending,
    libc::SYS_rt_sigprocmask,
    libc::SYS_rt_sigreturn,
    libc::SYS_rt_sigsuspend,
    libc::SYS_rt_sigtimedwait,
    libc::SYS_sched_get_priority_max,
    libc::SYS_sched_get_priority_min,
    libc::SYS_sched_getaffinity,
    libc::SYS_sched_getparam,
    libc::SYS_sched_getscheduler,
    libc::SYS_sched_setaffinity,
    libc::SYS_sched_yield,
    libc::SYS_set_robust_list,
    libc::SYS_set_tid_address,
    libc::SYS_setrlimit,
    libc::SYS_sigaltstack,
    libc::SYS_wait4,
    libc::SYS_waitid,
    // Time, random numbers, and its location.
    libc::SYS_clock_getres,
    libc::SYS_clock_gettime,
    libc::SYS_clock_nanosleep,
    libc::SYS_getitimer,
    libc::SYS_getrandom,
    libc::SYS_gettimeofday,
    libc::SYS_nanosleep,
    libc::SYS_setitimer,
    libc::SYS_sysinfo,
    libc::SYS_timer_create,
    libc::SYS_timer_delete,
    libc::SYS_timer_getoverrun,
    libc::SYS_timer_gettime,
    libc::SYS_timer_settime,
    libc::SYS_times,
    libc::SYS_uname,
];

/// The older forms of the same, which only this architecture has.
#[cfg(target_arch = "x86_64")]
const ALLOWED_HERE: &[c_long] = &[
    libc::SYS_access,
    libc::SYS_alarm,
    libc::SYS_arch_prctl,
    libc::SYS_chmod,
    libc::SYS_creat,
    libc::SYS_dup2,
    libc::SYS_epoll_create,
    libc::SYS_epoll_wait,
    libc::SYS_eventfd,
    libc::SYS_getpgrp,
    libc::SYS_link,
    libc::SYS_lstat,
    libc::SYS_mkdir,
    libc::SYS_open,
    libc::SYS_pause,
    libc::SYS_pipe,
    libc::SYS_poll,
    libc::SYS_readlink,
    libc::SYS_rename,
    libc::SYS_rmdir,
    libc::SYS_select,
    libc::SYS_stat,
    libc::SYS_symlink,
    libc::SYS_time,
    libc::SYS_unlink,
];
#[cfg(not(target_arch = "x86_64"))]
const ALLOWED_HERE: &[c_long] = &[];

/// Starting processes: refused, unless the settings allow it.
#[cfg(target_arch = "x86_64")]
const STARTING: &[c_long] = &[libc::SYS_fork, libc::SYS_vfork];
#[cfg(not(target_arch = "x86_64"))]
const STARTING: &[c_long] = &[];

/// Becoming another program: refused to a library, unless it may start processes.
const BECOMING: &[c_long] = &[libc::SYS_execve, libc::SYS_execveat];

/// Signals: to itself only, unless it may have children.
const SIGNALLING: &[c_long] =
    &[libc::SYS_kill, libc::SYS_tgkill, libc::SYS_rt_sigqueueinfo, libc::SYS_rt_tgsigqueueinfo];

/// The ways out, and the ways to more privileges: refused by name.
const REFUSED: &[c_long] = &[
    libc::SYS_accept,
    libc::SYS_accept4,
    libc::SYS_add_key,
    libc::SYS_bind,
    libc::SYS_bpf,
    libc::SYS_capset,
    libc::SYS_chroot,
    libc::SYS_connect,
    libc::SYS_delete_module,
    libc::SYS_fanotify_init,
    libc::SYS_fchmod,
    libc::SYS_fchown,
    libc::SYS_fchownat,
    libc::SYS_finit_module,
    libc::SYS_fremovexattr,
    libc::SYS_fsconfig,
    libc::SYS_fsetxattr,
    libc::SYS_fsmount,
    libc::SYS_fsopen,
    libc::SYS_init_module,
    libc::SYS_io_uring_enter,
    libc::SYS_io_uring_register,
    libc::SYS_io_uring_setup,
    libc::SYS_kcmp,
    libc::SYS_kexec_load,
    libc::SYS_keyctl,
    libc::SYS_listen,
    libc::SYS_memfd_create,
    libc::SYS_memfd_secret,
    libc::SYS_mount,
    libc::SYS_mount_setattr,
    libc::SYS_move_mount,
    libc::SYS_msgget,
    libc::SYS_name_to_handle_at,
    libc::SYS_open_by_handle_at,
    libc::SYS_open_tree,
    libc::SYS_perf_event_open,
    libc::SYS_pidfd_getfd,
    libc::SYS_pidfd_open,
    libc::SYS_pidfd_send_signal,
    libc::SYS_pivot_root,
    libc::SYS_process_madvise,
    libc::SYS_process_vm_readv,
    libc::SYS_process_vm_writev,
    libc::SYS_ptrace,
    libc::SYS_reboot,
    libc::SYS_request_key,
    libc::SYS_semget,
    libc::SYS_setgid,
    libc::SYS_setgroups,
    libc::SYS_sethostname,
    libc::SYS_setns,
    libc::SYS_setpgid,
    libc::SYS_setregid,
    libc::SYS_setresgid,
    libc::SYS_setresuid,
    libc::SYS_setreuid,
    libc::SYS_setsid,
    libc::SYS_settimeofday,
    libc::SYS_setuid,
    libc::SYS_shmget,
    libc::SYS_socket,
    libc::SYS_swapon,
    libc::SYS_syslog,
    libc::SYS_umount2,
    libc::SYS_unshare,
    libc::SYS_userfaultfd,
];

/// Allowed requests on a descriptor: is it a terminal, how much is there to read, does reading wait.
const IOCTLS: &[u64] = &[libc::TCGETS, libc::TIOCGWINSZ, libc::FIONREAD, libc::FIONBIO, libc::FIOCLEX, libc::FIONCLEX];

/// Allowed requests on the process: names of threads and of memory, timer slack, huge pages, and queries of settings.
const PRCTLS: &[i32] = &[
    libc::PR_SET_NAME,
    libc::PR_GET_NAME,
    libc::PR_CAPBSET_READ,
    libc::PR_GET_DUMPABLE,
    libc::PR_GET_NO_NEW_PRIVS,
    libc::PR_GET_SECCOMP,
    libc::PR_SET_TIMERSLACK,
    libc::PR_GET_TIMERSLACK,
    libc::PR_SET_THP_DISABLE,
    libc::PR_SET_VMA,
];

/// What is needed to lock in the processes that an SPE starts. None of them grants anything.
const PRCTLS_OWN: &[i32] = &[libc::PR_SET_NO_NEW_PRIVS, libc::PR_SET_PDEATHSIG];

/// Allowed operations on a descriptor: copies, flags, locks. No leases, no signals on changes.
const FCNTLS: &[i32] = &[
    libc::F_DUPFD,
    libc::F_DUPFD_CLOEXEC,
    libc::F_GETFD,
    libc::F_SETFD,
    libc::F_GETFL,
    libc::F_SETFL,
    libc::F_GETLK,
    libc::F_SETLK,
    libc::F_SETLKW,
    libc::F_OFD_GETLK,
    libc::F_OFD_SETLK,
    libc::F_OFD_SETLKW,
    libc::F_GETPIPE_SZ,
];

/// Flags of `clone` for a namespace of one's own, where the kernel is easier to attack.
const NAMESPACES: i32 = libc::CLONE_NEWNS
    | libc::CLONE_NEWCGROUP
    | libc::CLONE_NEWUTS
    | libc::CLONE_NEWIPC
    | libc::CLONE_NEWUSER
    | libc::CLONE_NEWPID
    | libc::CLONE_NEWNET;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_call_is_both_allowed_and_refused() {
        let allowed = allowed(SharedMemory::Files).unwrap_or_default();
        let both: Vec<_> = REFUSED.iter().filter(|call| allowed.contains_key(call)).collect();
        assert!(both.is_empty() && allowed.len() > 100, "{both:?}");
    }

    #[test]
    fn the_lists_fit_the_kernels_longest_program() {
        let long = |rules| {
            let program = compile(rules, SeccompAction::Errno(libc::ENOSYS as u32), SeccompAction::Allow);
            program.map_or(0, |program| program.len())
        };
        assert!(long(allowed(SharedMemory::Files).unwrap_or_default()) > 300);
        assert!(
            [SpawnPolicy::Nothing, SpawnPolicy::Programs, SpawnPolicy::Processes, SpawnPolicy::Own]
                .map(|starts| long(refused(starts).unwrap_or_default()))
                .iter()
                .all(|length| *length > 100)
        );
    }
}
