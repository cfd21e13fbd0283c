//! Whose access keys are, and their sessions. The cloud is asked again every ten seconds, so that a key that was revoked
//! opens nothing after that, as a session does. It never keeps a secret on a disk.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};

use client::{Client, ClientError, Cloud, Profile, Reason, is_access_key_id};
use s3s::{
    S3Result,
    auth::{S3Auth, SecretKey},
    s3_error,
};

use crate::errors::of_client;

/// Access keys that requests were signed with lately. Clones are the same.
#[derive(Clone)]
pub(crate) struct KeyRing {
    inner: Arc<Inner>,
}

struct Inner {
    cloud: Cloud,
    /// The one who may learn whose access keys are.
    profile: Profile,
    own: tokio::sync::Mutex<Option<Client>>,
    /// One at a time asks: those that come with the same key would each log in.
    asking: tokio::sync::Mutex<()>,
    known: Mutex<HashMap<String, Known>>,
}

#[derive(Clone)]
struct Known {
    /// The secret and the session; `None`: there is no such key.
    key: Option<(SecretKey, Client)>,
    asked: Instant,
}

impl KeyRing {
    pub(crate) fn new(cloud: Cloud, profile: Profile) -> Self {
        // A profile may know the cloud by another name.
        let settings = cloud.settings();
        let profile = Profile { address: settings.address.clone(), authority: settings.authority.clone(), ..profile };
        let (own, asking) = Default::default();
        Self { inner: Arc::new(Inner { cloud, profile, own, asking, known: Mutex::default() }) }
    }

    /// The cloud with the rights of the user whose key this is.
    pub(crate) async fn client(&self, id: &str) -> S3Result<Client> {
        Ok(self.find(id).await?.1)
    }

    async fn find(&self, id: &str) -> S3Result<(SecretKey, Client)> {
        let unknown = || s3_error!(InvalidAccessKeyId, "no user has this access key; `sector user key add` makes one");
        if !is_access_key_id(id) {
            return Err(unknown());
        }
        let fresh = |known: &Known| known.asked.elapsed() < ASK_AGAIN_AFTER;
        if let Some(known) = self.known(id).filter(fresh) {
            return known.key.ok_or_else(unknown);
        }
        let _asking = self.inner.asking.lock().await;
        let before = self.known(id);
        if let Some(known) = before.clone().filter(fresh) {
            return known.key.ok_or_else(unknown);
        }
        let key = self.ask(id, before.and_then(|known| known.key)).await.map_err(|error| of_client(&error))?;
        let mut known = self.lock();
        if known.len() >= KEYS_MAX {
            let oldest = known.iter().min_by_key(|(_, known)| known.asked).map(|(id, _)| id.clone());
            oldest.and_then(|id| known.remove(&id));
        }
        known.insert(id.to_owned(), Known { key: key.clone(), asked: Instant::now() });
        drop(known);
        key.ok_or_else(unknown)
    }

    /// What the cloud knows of a key, with the session that it had before where that still stands.
    async fn ask(
        &self,
        id: &str,
        before: Option<(SecretKey, Client)>,
    ) -> Result<Option<(SecretKey, Client)>, ClientError> {
        let owner = match self.own_client().await?.access_key_owner(id).await {
            Err(error) if error.reason() == Reason::NotAuthenticated => {
                // Our own session has ended, as it does once a week.
                *self.inner.own.lock().await = None;
                self.own_client().await?.access_key_owner(id).await
            }
            answer => answer,
        };
        let owner = match owner {
            Ok(owner) => owner,
            Err(error) if error.reason() == Reason::NotFound => return Ok(None),
            Err(error) => return Err(error),
        };
        let secret = SecretKey::from(owner.secret);
        if let Some((_, client)) = before.filter(|(_, client)| *client.user() == owner.user) {
            match client.who_am_i().await {
                Ok(_) => return Ok(Some((secret, client))),
                Err(error) if error.reason() == Reason::NotAuthenticated => {}
                Err(error) => return Err(error),
            }
        }
        let settings = self.inner.cloud.settings();
        let profile = Profile::of(settings.address.clone(), owner.user, owner.token, settings.authority.clone());
        Ok(Some((secret, self.inner.cloud.log_in(&profile).await?)))
    }

    async fn own_client(&self) -> Result<Client, ClientError> {
        let mut own = self.inner.own.lock().await;
        if let Some(client) = &*own {
            return Ok(client.clone());
        }
        let client = self.inner.cloud.log_in(&self.inner.profile).await?;
        *own = Some(client.clone());
        Ok(client)
    }

    fn known(&self, id: &str) -> Option<Known> {
        self.lock().get(id).cloned()
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, HashMap<String, Known>> {
        self.inner.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The key ring as `s3s` sees it, which checks signatures.
#[async_trait::async_trait]
impl S3Auth for KeyRing {
    async fn get_secret_key(&self, access_key: &str) -> S3Result<SecretKey> {
        Ok(self.find(access_key).await?.0)
    }
}

/// A revoked key opens nothing any more after so long.
const ASK_AGAIN_AFTER: Duration = Duration::from_secs(10);
/// Keys that are known at once; a session of each costs some kilobytes here and at the master.
const KEYS_MAX: usize = 1_000;
