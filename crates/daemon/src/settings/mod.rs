//! Settings: a TOML file for each role, read once, checked once, and then passed on as [`Checked`], which a role takes
//! for granted. Unknown keys are refused, and every error names the file, the line and the key.
//!
//! What stands here is read before any path begins; nothing here looks at a network or at what a folder holds, but for
//! the role's own certificate files.
//!
//! A new key is one paragraph in [`security`], [`master`] or [`node`]: its comment there is its entry in
//! `docs/settings.md`, its default there is the default.

mod checked;
mod credentials;
mod keys;
mod master;
mod node;
mod providers;
mod reference;
mod sandbox;
mod security;
mod third_party;

pub use checked::{Checked, InvalidSetting, Settings};
pub use credentials::{CredentialFiles, CredentialTexts};
pub use keys::{Key, Keyed, Lines, Unreadable};
pub use master::MasterSettings;
pub use node::NodeSettings;
pub use providers::{LdapSettings, OidcSettings, ProviderSettings, ProviderTables, UserClaim};
pub use reference::reference;
pub use sandbox::{SandboxDemand, UserRange};
pub use security::SecuritySettings;
pub use third_party::ThirdPartyFrom;
