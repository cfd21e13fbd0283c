//! All providers of the settings, ready to be asked at logins by the [server](crate::server). A question never takes
//! longer than [`ANSWER_MAX`], whatever a provider does.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use daemon::settings::{ProviderSettings, SecuritySettings};
use tokio::time::timeout;

use super::{ProviderAnswer, ProviderFailure, ProviderQuestion, ldap::Directory, oidc::OpenId};
use crate::SecurityError;

/// The providers by their names. Clones share them.
#[derive(Clone, Default)]
pub struct Providers(Arc<BTreeMap<String, Provider>>);

enum Provider {
    Ldap(Box<Directory>),
    Oidc(OpenId),
}

impl Providers {
    /// Reads the secrets and certificates that the settings name; blocks. It asks no provider yet.
    pub fn open(settings: &SecuritySettings) -> Result<Self, SecurityError> {
        let open = |(name, settings): (&String, &ProviderSettings)| {
            let provider = match settings {
                ProviderSettings::Ldap(ldap) => Provider::Ldap(Box::new(Directory::open(name, ldap)?)),
                ProviderSettings::Oidc(oidc) => Provider::Oidc(OpenId::open(oidc)?),
            };
            Ok((name.clone(), provider))
        };
        let providers: Result<_, SecurityError> = settings.providers.iter().flatten().map(open).collect();
        Ok(Self(Arc::new(providers?)))
    }

    /// Asks a provider.
    pub async fn ask(&self, provider: &str, question: ProviderQuestion) -> ProviderAnswer {
        let (providers, name) = (self.clone(), provider.to_owned());
        // In a task of its own: whatever goes wrong in it, there is an answer.
        let asked = tokio::spawn(async move { timeout(ANSWER_MAX, providers.ask_one(&name, question)).await });
        let failed = |why: String| ProviderAnswer::Failed(ProviderFailure::Unreachable(why));
        let answer = match asked.await {
            Ok(Ok(answer)) => answer,
            Ok(Err(_)) => failed(format!("it did not answer within {} s", ANSWER_MAX.as_secs())),
            Err(_) => failed("asking it failed; please report it with the log".into()),
        };
        // Logged here, and not where people who log in would read it.
        match &answer {
            ProviderAnswer::Failed(ProviderFailure::Unreachable(why)) => {
                tracing::warn!(provider, why, "cannot be reached")
            }
            ProviderAnswer::Failed(ProviderFailure::Misconfigured(why)) => {
                tracing::error!(provider, why, "cannot be used")
            }
            _ => {}
        }
        answer
    }

    async fn ask_one(&self, provider: &str, question: ProviderQuestion) -> ProviderAnswer {
        let wrong = |why: &str| ProviderAnswer::Failed(ProviderFailure::Misconfigured(why.into()));
        match (self.0.get(provider), question) {
            (Some(Provider::Ldap(directory)), ProviderQuestion::Password { user, password }) => {
                directory.check(&user, &password).await
            }
            (Some(Provider::Ldap(directory)), ProviderQuestion::LookUp { user }) => directory.look_up(&user).await,
            (Some(Provider::Oidc(provider)), ProviderQuestion::BeginDevice) => provider.begin().await,
            (Some(Provider::Oidc(provider)), ProviderQuestion::PollDevice(grant)) => provider.poll(grant).await,
            (None, _) => wrong("it is not in the settings"),
            // A person gave a password for a name of a provider that uses a browser.
            (Some(Provider::Oidc(_)), ProviderQuestion::Password { .. }) => ProviderAnswer::WrongSecret,
            (Some(Provider::Ldap(_)), _) | (Some(Provider::Oidc(_)), ProviderQuestion::LookUp { .. }) => {
                wrong("it is of another kind")
            }
        }
    }
}

/// Longest wait for a provider, all its servers together. It is shorter than a master waits for this server (15 s), so
/// that the message that names the provider arrives first.
const ANSWER_MAX: Duration = Duration::from_secs(11);
