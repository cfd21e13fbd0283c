//! Identity providers: where users are known beside the accounts of this server (Sector/Sphere paper, 2.1: the security
//! server "can be LDAP"). It serves logins. Here are the words between the [rules](crate::rules), which decide whom to
//! ask and what an answer is worth, and the [hands](Providers), which ask. A hand never decides who comes in, and no
//! secret is ever printed.

pub mod ldap;
pub mod mapping;
pub mod oidc;
mod registry;
mod secret_file;
mod trust;

use std::{fmt, time::Duration};

pub use mapping::ProviderMapping;
pub use registry::Providers;

/// What a provider is asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ProviderQuestion {
    /// Is this the user's password, and which groups has the user?
    Password {
        /// The user's name at the provider.
        user: String,
        /// The password.
        password: SecretText,
    },
    /// Is there still such a user, and with which groups? Of a directory that a service account may search.
    LookUp {
        /// The user's name at the provider.
        user: String,
    },
    /// Begin a login in a browser.
    BeginDevice,
    /// Has the person in the browser finished?
    PollDevice(DeviceGrant),
}

/// What a provider answers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ProviderAnswer {
    /// The user is proved.
    User(ProviderUser),
    /// The provider does not know this user, or cannot say so.
    NoSuchUser,
    /// The provider knows the user, and this is not what proves the user.
    WrongSecret,
    /// A login in a browser has begun.
    Begun(DeviceBegun),
    /// The person in the browser has not finished.
    Pending {
        /// Whether the provider was asked too often.
        slow_down: bool,
    },
    /// The login in the browser ended without a user, or with one who may not come in: the sentence says why.
    Refused(String),
    /// There was no answer, or none that can be used.
    Failed(ProviderFailure),
}

/// A user as a provider knows them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProviderUser {
    /// The name, as the provider writes it.
    pub name: String,
    /// What the provider never gives to another user, where it has such a thing.
    pub subject: Option<String>,
    /// The groups, as the provider calls them.
    pub groups: Vec<String>,
}

/// A login in a browser that has begun (RFC 8628, 3.2).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeviceBegun {
    /// What the polls go by.
    pub grant: DeviceGrant,
    /// What the person enters.
    pub user_code: String,
    /// Where.
    pub verification_url: String,
    /// Where, with the code in it.
    pub complete_url: Option<String>,
    /// Time between two polls.
    pub interval: Duration,
    /// How long the code is good.
    pub lives_for: Duration,
    /// 32 random bytes by which the one who began is known when they ask again.
    pub login: [u8; 32],
}

/// What the provider knows a login in a browser by. Whoever has it can finish that login.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeviceGrant {
    /// The provider's own code.
    pub code: SecretText,
    /// Sent along at the beginning; a token that has another is for another login.
    pub nonce: String,
}

/// Why a provider gave no answer that can be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ProviderFailure {
    /// It cannot be reached, or did not answer in time: it may be better later.
    Unreachable(String),
    /// It, or what the settings say of it, is wrong: someone must look at it.
    Misconfigured(String),
}

/// A text that is never printed.
#[derive(Clone, PartialEq, Eq)]
pub struct SecretText(pub String);

impl fmt::Debug for SecretText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Concealed(…)")
    }
}

/// Most groups of a user that are looked at; directories with more per user give them in another way than by name.
pub(crate) const GROUPS_MAX: usize = 1_024;
