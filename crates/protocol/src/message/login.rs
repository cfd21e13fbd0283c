//! Doors 2 and 3: logging in with a browser at an identity provider (device flow, RFC 8628). A client asks its master
//! before it has any session. The master passes the request on to the security server, which alone talks to the
//! provider. The provider's own codes and tokens never travel here.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::{UserName, message::accounts::NewSession};

/// A request of a client that has no session yet.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum DeviceRequest {
    /// Begin: [`DeviceReply::Begun`].
    Begin {
        /// The provider's name; `None` where there is only one.
        provider: Option<String>,
        /// What the machine is called, for people; at most [`MACHINE_BYTES_MAX`](super::join::MACHINE_BYTES_MAX).
        machine: String,
    },
    /// Has the person in the browser finished? [`DeviceReply::Pending`] or [`DeviceReply::Done`].
    Poll {
        /// The login that was begun.
        login: DeviceLogin,
    },
}

/// What the security server answers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum DeviceReply {
    /// A login that the person finishes in a browser.
    Begun {
        /// The name of this login, for polling.
        login: DeviceLogin,
        /// The code to enter.
        user_code: String,
        /// Where to enter it.
        verification_url: String,
        /// Where the code is already filled in.
        complete_url: Option<String>,
        /// Seconds between two questions.
        interval_seconds: u32,
        /// Seconds until the code expires.
        lives_seconds: u32,
    },
    /// Not yet.
    Pending {
        /// Seconds until the next question.
        interval_seconds: u32,
    },
    /// The user is proved, and a login session has begun.
    Done {
        /// Who.
        user: UserName,
        /// Proves the user from now on; belongs in a profile.
        session: NewSession,
    },
}

/// Names a login in a browser. Anyone who has it gets the result, so it is never printed.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct DeviceLogin(pub [u8; 32]);

impl fmt::Debug for DeviceLogin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("DeviceLogin(…)")
    }
}
