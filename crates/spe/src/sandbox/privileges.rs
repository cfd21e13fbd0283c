//! Takes all privileges from a confined process. It serves the [sandbox](super). It never adds one.

use rustix::thread::{
    CapabilitySet, CapabilitySets, clear_ambient_capability_set, remove_capability_from_bounding_set, set_capabilities,
    set_no_new_privs,
};

/// Removes every capability from the set that a program could confer. Call it while that is allowed. Otherwise no
/// program can confer any, because [`drop_privileges`] prevents it.
pub(super) fn empty_bounding_set() {
    for number in 0..u64::BITS {
        // Numbers that this kernel does not know are refused, and mean nothing.
        let _ = remove_capability_from_bounding_set(CapabilitySet::from_bits_retain(1 << number));
    }
}

/// Gives up all capabilities and the means to get any; returns whether that worked.
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
