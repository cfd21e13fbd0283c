//! Landlock: the kernel's own rules on which files the process may touch. They hold for any user, even without a
//! private root. It serves the [sandbox](super). The rules never allow writing outside the scratch folder, except to
//! devices.

use std::path::Path;

use landlock::{
    ABI, Access, AccessFs, AccessNet, Ruleset, RulesetAttr, RulesetCreatedAttr, RulesetError, RulesetStatus, Scope,
    path_beneath_rules,
};

use super::{
    confinement::Confinement,
    root::{DEVICES, LIBRARIES, ZERO},
};

/// Allows reading libraries and the paths in the settings, and everything in `scratch`. Nothing else is allowed: no TCP
/// port, no abstract socket and no signal to the outside. Returns whether the kernel accepted the rules.
pub(super) fn restrict(confinement: &Confinement, scratch: &Path) -> bool {
    rules(confinement, scratch).is_ok_and(|status| status != RulesetStatus::NotEnforced)
}

fn rules(confinement: &Confinement, scratch: &Path) -> Result<RulesetStatus, RulesetError> {
    let read = AccessFs::from_read(KNOWN);
    let readable =
        LIBRARIES.iter().map(Path::new).chain(confinement.read_paths.iter().map(std::path::PathBuf::as_path));
    let status = Ruleset::default()
        .handle_access(AccessFs::from_all(KNOWN))?
        .handle_access(AccessNet::from_all(KNOWN))?
        .scope(Scope::from_all(KNOWN))?
        .create()?
        .add_rules(path_beneath_rules(readable, read))?
        .add_rules(path_beneath_rules(DEVICES, AccessFs::ReadFile | AccessFs::WriteFile))?
        .add_rules(path_beneath_rules([ZERO], AccessFs::ReadFile))?
        .add_rules(path_beneath_rules([scratch], AccessFs::from_all(KNOWN)))?
        .restrict_self()?;
    Ok(status.ruleset)
}

/// The newest rules that were tested here; an older kernel applies those that it knows.
const KNOWN: ABI = ABI::V6;
