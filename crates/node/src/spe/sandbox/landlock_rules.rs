//! Landlock: what files the process may touch, in the kernel's own rules, so that they hold also where the private root
//! could not be made, and for whatever user. It serves the [sandbox](super).

use std::path::Path;

use landlock::{
    ABI, Access, AccessFs, AccessNet, Ruleset, RulesetAttr, RulesetCreatedAttr, RulesetError, RulesetStatus, Scope,
    path_beneath_rules,
};

use super::{
    Confinement,
    root::{DEVICES, LIBRARIES, ZERO},
};

/// Allows reading libraries and what the settings name, and everything in `scratch`; nothing else, no port of TCP, no
/// abstract socket and no signal to the outside. Whether the kernel took the rules.
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

/// The newest rules that were tried here; an older kernel takes those that it knows.
const KNOWN: ABI = ABI::V6;
