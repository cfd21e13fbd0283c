//! What all requests share: the cloud, the sessions, and logins that have begun. It never answers a request.

use std::{
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use client::{Client, ClientError, Cloud, LoginTarget, Profile};

use crate::counts::Counts;

use super::{
    overviews::Overviews,
    pending_logins::PendingLogins,
    sessions::{Sessions, cookie_name},
};

/// What all requests share. Clones are the same.
#[derive(Clone)]
pub(crate) struct Web {
    inner: Arc<Inner>,
}

struct Inner {
    cloud: Cloud,
    /// The one whose rights visitors have.
    public: Option<Profile>,
    public_session: tokio::sync::Mutex<Option<Client>>,
    is_tls: bool,
    /// The name of the cookie that browsers bring.
    cookie_name: String,
    sessions: Sessions,
    logins: Mutex<PendingLogins>,
    overviews: Overviews,
    counts: Counts,
}

/// What the settings say about it.
pub(crate) struct WebSettings {
    /// The one whose rights visitors have.
    pub(crate) public: Option<Profile>,
    pub(crate) port: u16,
    pub(crate) is_tls: bool,
    pub(crate) sessions_max: usize,
}

impl Web {
    pub(crate) fn new(cloud: Cloud, about: WebSettings, counts: Counts) -> Self {
        let WebSettings { public, port, is_tls, sessions_max } = about;
        let inner = Inner {
            cloud,
            public,
            public_session: tokio::sync::Mutex::default(),
            is_tls,
            cookie_name: cookie_name(port, is_tls),
            sessions: Sessions::new(sessions_max),
            logins: Mutex::default(),
            overviews: Overviews::default(),
            counts,
        };
        Self { inner: Arc::new(inner) }
    }

    /// A code that logs in with this profile, once.
    pub(crate) fn make_link(&self, profile: Profile) -> String {
        self.logins().make_link(profile)
    }

    /// Ends all sessions.
    pub(crate) async fn close(&self) {
        for client in self.inner.sessions.take_all() {
            // Best effort: without an answer the session expires by itself.
            let _ = tokio::time::timeout(LOGOUT_MAX, client.logout()).await;
        }
        self.inner.cloud.close().await;
    }

    /// What the gateway counts, as Prometheus reads it.
    pub(crate) fn metrics(&self) -> String {
        self.counts().text(self.sessions().count())
    }

    pub(super) fn counts(&self) -> &Counts {
        &self.inner.counts
    }

    pub(super) fn cloud(&self) -> &Cloud {
        &self.inner.cloud
    }

    pub(super) fn sessions(&self) -> &Sessions {
        &self.inner.sessions
    }

    pub(super) fn overviews(&self) -> &Overviews {
        &self.inner.overviews
    }

    pub(super) fn is_tls(&self) -> bool {
        self.inner.is_tls
    }

    pub(super) fn cookie_name(&self) -> &str {
        &self.inner.cookie_name
    }

    pub(super) fn logins(&self) -> std::sync::MutexGuard<'_, PendingLogins> {
        self.inner.logins.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Where people log in.
    pub(super) fn target(&self) -> LoginTarget {
        let settings = self.cloud().settings();
        LoginTarget {
            address: settings.address.clone(),
            authority: settings.authority.clone(),
            machine: MACHINE.to_owned(),
        }
    }

    /// The session of visitors, if the page is public.
    pub(super) async fn public_session(&self) -> Result<Option<Client>, ClientError> {
        let Some(profile) = &self.inner.public else { return Ok(None) };
        let mut session = self.inner.public_session.lock().await;
        if session.is_none() {
            *session = Some(self.cloud().log_in(&self.at_this_cloud(profile.clone())).await?);
        }
        Ok(session.clone())
    }

    /// A profile, which may know the cloud by another name.
    pub(super) fn at_this_cloud(&self, profile: Profile) -> Profile {
        let settings = self.cloud().settings();
        Profile { address: settings.address.clone(), authority: settings.authority.clone(), ..profile }
    }
}

/// How long a logout may take when the gateway stops.
const LOGOUT_MAX: Duration = Duration::from_secs(1);
/// What the list of sessions calls the machine of people who log in here.
const MACHINE: &str = "web page";
