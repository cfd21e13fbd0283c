//! Privileges and limits of a confined process. It serves the [sandbox](super).

use rustix::{
    fs::Mode,
    process::{Resource, Rlimit, getrlimit, setrlimit, umask},
    thread::{
        CapabilitySet, CapabilitySets, clear_ambient_capability_set, remove_capability_from_bounding_set,
        set_capabilities, set_no_new_privs,
    },
};

use super::{Confinement, system};

/// Takes every capability out of the set of those that a program could give. To be called while that is allowed; where
/// it is not, no program can give any, since [`drop_privileges`] sees to that.
pub(super) fn empty_bounding_set() {
    for number in 0..u64::BITS {
        // Numbers that this kernel does not know are refused, and mean nothing.
        let _ = remove_capability_from_bounding_set(CapabilitySet::from_bits_retain(1 << number));
    }
}

/// Gives up all capabilities and the way to get any; whether that is so.
pub(super) fn drop_privileges() -> bool {
    let none = CapabilitySets {
        effective: CapabilitySet::empty(),
        permitted: CapabilitySet::empty(),
        inheritable: CapabilitySet::empty(),
    };
    // Kernels without ambient capabilities refuse, and have none.
    let _ = clear_ambient_capability_set();
    set_capabilities(None, none).is_ok() && set_no_new_privs(true).is_ok()
}

/// Sets the limits, hard and soft; whether each holds. `counts_threads`: the kernel counts the threads of this user
/// apart from the node's, so that their number can be limited.
pub(super) fn set_limits(confinement: &Confinement, counts_threads: bool) -> bool {
    umask(Mode::RWXG | Mode::RWXO);
    // An output that grows too long is no fault of the function's: it may fit on another node's disk.
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
    // Each is tried, whatever became of the others.
    let set = limits.into_iter().map(|(resource, most)| limit(resource, most)).filter(|is_set| !is_set).count();
    set == 0 && counts_threads
}

fn limit(resource: Resource, most: u64) -> bool {
    // What is lower already stays so: nobody may raise it in here.
    let most = getrlimit(resource).maximum.map_or(most, |maximum| maximum.min(most));
    setrlimit(resource, Rlimit { current: Some(most), maximum: Some(most) }).is_ok()
}

/// Bytes of addresses for each byte of memory: inputs are mapped, and runtimes reserve much that they never use.
/// Whoever reads here and there in all of them makes the kernel keep tables of a 512th part, which is an eighth of the
/// memory.
const ADDRESSES_FOR_MEMORY: u64 = 64;
/// Room for the stack of the first thread: deep recursion is somewhere else's fault.
const STACK_BYTES: u64 = 64 << 20;
/// Memory that may not be swapped out: what some random number libraries ask for.
const LOCKED_BYTES: u64 = 64 << 10;
/// Signals that wait to be taken.
const SIGNALS: u64 = 1_024;
