//! How machines come into a cloud: what is done at the security server ([`security`]), at the machine that comes
//! ([`join`]), and by an administrator about nodes ([`node_admission`]).

pub(super) mod join;
pub(super) mod node_admission;
pub(super) mod security;
