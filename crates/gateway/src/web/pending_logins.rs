//! Logins that have begun and are not finished. Each is good for a quarter of an hour, and once. It never logs anyone in.

use std::{
    collections::HashMap,
    sync::Arc,
    time::{Duration, Instant},
};

use client::{ClientError, Profile, Reason, Refusal};

use super::{secret::new_secret, sessions::SessionKey};

/// What came of a login in a browser; nothing while the person is at it.
pub(super) type Outcome = Arc<tokio::sync::Mutex<Option<Result<Profile, ClientError>>>>;

/// Logins that have begun and are not finished: links, and those in a provider's browser page.
#[derive(Default)]
pub(super) struct PendingLogins {
    links: HashMap<SessionKey, (Instant, Profile)>,
    in_browser: HashMap<String, (Instant, Outcome)>,
}

impl PendingLogins {
    /// A code that logs in with this profile, once, within [`LINK_LIFE`].
    pub(super) fn make_link(&mut self, profile: Profile) -> String {
        self.forget_old();
        if self.links.len() >= PENDING_MAX {
            // The oldest is the likeliest to be forgotten.
            if let Some(oldest) = self.links.iter().min_by_key(|(_, (made, _))| *made).map(|(key, _)| *key) {
                self.links.remove(&oldest);
            }
        }
        let code = new_secret();
        self.links.insert(SessionKey::of_cookie(&code), (Instant::now(), profile));
        code
    }

    pub(super) fn take_link(&mut self, code: &str) -> Option<Profile> {
        self.forget_old();
        self.links.remove(&SessionKey::of_cookie(code)).map(|(_, profile)| profile)
    }

    /// A login in a browser, under this id.
    pub(super) fn begin_in_browser(&mut self, id: String, outcome: Outcome) -> Result<(), Refusal> {
        self.forget_old();
        if self.in_browser.len() >= PENDING_MAX {
            let message = "too many logins wait for a browser; try again in a minute";
            return Err(Refusal::new(Reason::LimitReached, message));
        }
        self.in_browser.insert(id, (Instant::now(), outcome));
        Ok(())
    }

    /// What came of it, if it is known.
    pub(super) fn in_browser(&self, id: &str) -> Option<Outcome> {
        self.in_browser.get(id).map(|(_, outcome)| Arc::clone(outcome))
    }

    pub(super) fn end_in_browser(&mut self, id: &str) {
        self.in_browser.remove(id);
    }

    fn forget_old(&mut self) {
        self.links.retain(|_, (made, _)| made.elapsed() < LINK_LIFE);
        self.in_browser.retain(|_, (made, _)| made.elapsed() < LINK_LIFE);
    }
}

/// How long a link or a login in the browser waits for its person.
pub(crate) const LINK_LIFE: Duration = Duration::from_secs(900);
/// Of each kind.
const PENDING_MAX: usize = 256;
