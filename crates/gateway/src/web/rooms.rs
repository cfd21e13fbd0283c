//! What further rooms of the web door get: who asks, with which rights. They stand beside the page on the same port, with
//! the same logins. A room never sees a password or a token.

use client::{Client, Reason, Refusal, UserName};
use http::HeaderMap;

use super::{Web, caller, secret::new_secret};

/// Tells who asks. Clones are the same.
#[derive(Clone)]
pub struct Door {
    web: Web,
}

/// Who asks, as a room sees it.
#[derive(Clone)]
pub struct DoorCaller {
    /// The cloud, with the caller's rights.
    pub client: Client,
    /// The user; `None` for a visitor of a public door.
    pub user: Option<UserName>,
}

impl Door {
    pub(crate) fn new(web: Web) -> Self {
        Self { web }
    }

    /// The one who sends a request with these headers: by cookie, by token, or as a visitor. Rooms answer visitors only
    /// with what they may read. How often someone may ask is the room's to say.
    ///
    /// # Errors
    /// `NotAuthenticated` without a login where the door is not public, and what a login is refused for.
    pub async fn caller(&self, headers: &HeaderMap) -> Result<DoorCaller, Refusal> {
        if let Some(session) = caller::session_of(&self.web, headers).await? {
            session.note_seen();
            let client = session.client().clone();
            return Ok(DoorCaller { user: Some(client.user().clone()), client });
        }
        match self.web.public_session().await {
            Ok(Some(client)) => Ok(DoorCaller { client, user: None }),
            Ok(None) => Err(Refusal::new(Reason::NotAuthenticated, "log in first")),
            Err(error) => Err(Refusal::new(error.reason(), error.to_string())),
        }
    }

    /// A new name that nobody can guess, for what a visitor owns by knowing it.
    pub fn new_name(&self) -> String {
        new_secret()
    }

    /// Whether browsers reach it by TLS.
    pub fn is_tls(&self) -> bool {
        self.web.is_tls()
    }
}
