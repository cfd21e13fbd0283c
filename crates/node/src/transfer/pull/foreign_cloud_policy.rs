//! Which other clouds this node copies from, and how it reaches them (path `docs/paths/third-party-copy.md`). It never
//! connects to one.

use daemon::settings::ThirdPartyFrom;
use protocol::{CarrierChoice, ControllerKind};

use super::address_policy::AddressPolicy;

/// The operator's rules on copies.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ForeignCloudPolicy {
    pub(crate) from: ThirdPartyFrom,
    pub(crate) addresses: AddressPolicy,
    pub(crate) carrier: CarrierChoice,
    pub(crate) controller: ControllerKind,
}
