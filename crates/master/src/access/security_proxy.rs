//! The questions that wait for the security server, a share for each user. Serves requests about accounts. It never
//! keeps what they say.

use protocol::UserName;

use crate::{access::per_user::PerUser, actions::SessionCaller};

/// The questions that wait for the security server.
#[derive(Debug, Default)]
pub(crate) struct SecurityProxy {
    /// The caller, and the user asked for.
    pub(crate) open: Vec<(SessionCaller, UserName)>,
    pub(crate) per_user: PerUser,
}
