//! Limits of a confined process: memory, threads, open files, the length of what it writes. It serves the
//! [sandbox](super). It never raises a hard limit.

use rustix::{
    fs::Mode,
    process::{Resource, Rlimit, getrlimit, setrlimit, umask},
};

use super::{confinement::Confinement, system};

/// Sets the limits, hard and soft; returns whether all hold. `counts_threads`: the kernel counts this user's threads
/// separately from the node's, so that their number can be limited.
pub(super) fn set_limits(confinement: &Confinement, counts_threads: bool) -> bool {
    umask(Mode::RWXG | Mode::RWXO);
    // An output that grows too long is not the function's fault: it may fit on another node's disk.
    system::ignore_sigxfsz();
    let mut limits = vec![
        (Resource::Core, 0),
        (Resource::Data, confinement.memory_bytes),
        (Resource::As, confinement.memory_bytes.saturating_mul(ADDRESSES_FOR_MEMORY)),
        (Resource::Fsize, confinement.file_bytes),
        (Resource::Nofile, u64::from(confinement.open_files)),
        (Resource::Stack, STACK_BYTES),
        (Resource::Memlock, LOCKED_BYTES),
        (Resource::Msgqueue, 0),
        (Resource::Sigpending, SIGNALS),
    ];
    if counts_threads {
        limits.push((Resource::Nproc, u64::from(confinement.threads)));
    }
    // Each limit is tried, whether or not the others worked.
    let set = limits.into_iter().map(|(resource, most)| limit(resource, most)).filter(|is_set| !is_set).count();
    set == 0 && counts_threads
}

fn limit(resource: Resource, most: u64) -> bool {
    // A lower limit stays: nobody may raise it in here.
    let most = getrlimit(resource).maximum.map_or(most, |maximum| maximum.min(most));
    setrlimit(resource, Rlimit { current: Some(most), maximum: Some(most) }).is_ok()
}

/// Bytes of address space for each byte of memory: inputs are mapped, and runtimes reserve much that they never use. A
/// process that reads scattered bytes in all of them makes the kernel keep page tables of a 512th part, an eighth of
/// the memory.
const ADDRESSES_FOR_MEMORY: u64 = 64;
/// Room for the stack of the first thread; a function that recurses deeper is itself at fault.
const STACK_BYTES: u64 = 64 << 20;
/// Memory that may not be swapped out: some random number libraries ask for it.
const LOCKED_BYTES: u64 = 64 << 10;
/// Signals that may be pending.
const SIGNALS: u64 = 1_024;
