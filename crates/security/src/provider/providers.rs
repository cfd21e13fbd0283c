//! All providers of the settings, ready to be asked. Serves logins, driven by the [server](crate::server). Every question
//! ends in time, whatever a provider does.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use daemon::settings::{ProviderSettings, SecuritySettings};
use tokio::time::timeout;

use super::{Answer, Failure, Question, ldap::Directory, oidc::OpenId};
use crate::SecurityError;

/// The providers by their names. Clones share them.
#[derive(Clone, Default)]
pub struct Providers(Arc<BTreeMap<String, Provider>>);

enum Provider {
    Ldap(Directory),
    Oidc(OpenId),
}

impl Providers {
    /// Reads the secrets and certificates that the settings name; blocks. Asks nobody yet.
    pub fn open(settings: &SecuritySettings) -> Result<Self, SecurityError> {
        let open = |(name, settings): (&String, &ProviderSettings)| {
            let provider = match settings {
                ProviderSettings::Ldap(ldap) => Provider::Ldap(Directory::open(name, ldap)?),
                ProviderSettings::Oidc(oidc) => Provider::Oidc(OpenId::open(oidc)?),
            };
            Ok((name.clone(), provider))
        };
        let providers: Result<_, SecurityError> = settings.providers.iter().flatten().map(open).collect();
        Ok(Self(Arc::new(providers?)))
    }

    /// Asks a provider.
    pub async fn ask(&self, provider: &str, question: Question) -> Answer {
        let Some(provider) = self.0.get(provider) else {
            return Answer::Failed(Failure::Misconfigured("it is not in the settings".into()));
        };
        let answer = async {
            match (provider, question) {
                (Provider::Ldap(directory), Question::Password { user, password }) => {
                    directory.check(&user, &password).await
                }
                (Provider::Oidc(provider), Question::BeginDevice) => provider.begin().await,
                (Provider::Oidc(provider), Question::PollDevice(grant)) => provider.poll(grant).await,
                // The rules ask each kind for what it can.
                (Provider::Ldap(_), _) | (Provider::Oidc(_), Question::Password { .. }) => {
                    Answer::Failed(Failure::Misconfigured("it is of another kind".into()))
                }
            }
        };
        timeout(ANSWER_MAX, answer).await.unwrap_or_else(|_| {
            Answer::Failed(Failure::Unreachable(format!("it did not answer within {} s", ANSWER_MAX.as_secs())))
        })
    }
}

/// Longest wait for a provider, all its servers together: shorter than a master waits for this server (15 s), so that
/// the sentence that names the provider is the one that arrives.
const ANSWER_MAX: Duration = Duration::from_secs(11);
