//! Settings: a TOML file for each role, read once, checked once, and then passed on as [`Checked`]. Unknown keys are
//! refused, and every error names the file, the line and the key. A new key is one paragraph in [`security`],
//! [`master`], [`node`] or [`gateway`], with its entry in `docs/settings.md` and its default. Apart from the role's own certificate
//! files, it never looks at the network or at what a folder holds.

mod checked;
mod credentials;
mod gateway;
mod keys;
mod master;
mod node;
mod providers;
mod reference;
mod sandbox;
mod security;
mod third_party;
mod webhooks;

pub use checked::{Checked, InvalidSetting, Settings};
pub use credentials::{CredentialFiles, CredentialTexts};
pub use gateway::GatewaySettings;
pub use keys::{Key, Keyed, Lines, Unreadable};
pub use master::MasterSettings;
pub use node::NodeSettings;
pub use providers::{LdapSettings, OidcSettings, ProviderSettings, ProviderTables, UserClaim};
pub use reference::reference;
pub use sandbox::{SandboxDemand, UserRange};
pub use security::SecuritySettings;
pub use third_party::ThirdPartyFrom;
pub use webhooks::{WebhookSettings, WebhookTables};
