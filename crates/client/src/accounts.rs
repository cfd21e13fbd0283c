//! Users, groups, tokens and sessions (doors 1 and 2): what `sector user`, `group`, `session` and `whoami` do, for
//! programs. The master passes every request on to the security server, which decides. This file never decides who may
//! do what.

use protocol::{
    CredentialId, UserName,
    message::{
        accounts::{
            AccountsReply, AccountsRequest, GroupStatus, NewSession, NewUser, Password, SessionStatus, TokenStatus,
            UserChange, UserStatus,
        },
        client_master::{ClientReply, ClientRequest},
        master_security::KnownUser,
    },
};

use crate::{Client, ClientError};

/// Sends a request about accounts and takes the one reply that fits.
macro_rules! ask {
    ($client:expr, $name:literal, $request:expr, $pattern:pat => $value:expr) => {
        match $client.ask(ClientRequest::Accounts($request)).await? {
            ClientReply::Accounts($pattern) => Ok($value),
            _ => Err(ClientError::Unexpected { who: "master", request: $name }),
        }
    };
}

/// Asks for page after page.
macro_rules! ask_pages {
    ($client:expr, $name:literal, $after:ident => $request:expr, $field:ident: $variant:ident, $last:expr) => {{
        let (mut all, mut $after) = (Vec::new(), None);
        loop {
            let page = ask!($client, $name, $request, AccountsReply::$variant { $field, more } => ($field, more));
            let (page, more) = page?;
            $after = page.last().map($last);
            let is_last = !more || page.is_empty();
            all.extend(page);
            if is_last {
                return Ok(all);
            }
        }
    }};
}

impl Client {
    /// Who is logged in, as the security server sees it now.
    pub async fn who_am_i(&self) -> Result<KnownUser, ClientError> {
        ask!(self, "who am i", AccountsRequest::WhoAmI, AccountsReply::You(you) => you)
    }

    /// All users, by name. For administrators.
    pub async fn users(&self) -> Result<Vec<UserStatus>, ClientError> {
        ask_pages!(self, "users", after => AccountsRequest::Users { after: after.take() },
            users: Users, |user: &UserStatus| user.user.clone())
    }

    /// Adds a user. For administrators.
    ///
    /// ```no_run
    /// use client::{Client, NewUser, Password, Profile, UserChange, UserName};
    ///
    /// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
    /// let cloud = Client::connect(&Profile::load(&Profile::default_file()?)?).await?;
    /// let alice = UserName::new("alice")?;
    /// cloud.add_group("astro").await?;
    /// let password = Some(Password("correct horse battery".into()));
    /// let (user, groups) = (alice.clone(), vec!["astro".into()]);
    /// cloud.add_user(NewUser { user, password, groups, admin: false, addresses: vec![], service: false }).await?;
    /// // Within ten seconds nobody reads or writes as alice any more.
    /// cloud.change_user(&alice, UserChange::Enabled(false)).await?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// Exists (7) if there is such a user. Usage (2) for a password that is too short or contains the name. NotFound
    /// (3) for a group that does not exist.
    pub async fn add_user(&self, new: NewUser) -> Result<(), ClientError> {
        self.change_accounts("add user", AccountsRequest::AddUser(new)).await
    }

    /// Removes a user with tokens and sessions; the user's files stay. For administrators.
    ///
    /// # Errors
    /// Refused (4) for the last administrator.
    pub async fn remove_user(&self, user: &UserName) -> Result<(), ClientError> {
        self.change_accounts("remove user", AccountsRequest::RemoveUser(user.clone())).await
    }

    /// Changes what a user may do. For administrators.
    ///
    /// # Errors
    /// Refused (4) if no one would be left to administer the cloud.
    pub async fn change_user(&self, user: &UserName, change: UserChange) -> Result<(), ClientError> {
        self.change_accounts("change user", AccountsRequest::ChangeUser { user: user.clone(), change }).await
    }

    /// Gives a user a new password, which ends the user's other login sessions. For one's own password, the old one is
    /// needed.
    ///
    /// # Errors
    /// Refused (4) for a wrong old password, for another's password unless the caller is an administrator, and for a
    /// service account.
    pub async fn set_password(&self, user: &UserName, old: Option<Password>, new: Password) -> Result<(), ClientError> {
        self.change_accounts("set password", AccountsRequest::SetPassword { user: user.clone(), old, new }).await
    }

    /// All groups with their members, by name. For administrators.
    pub async fn groups(&self) -> Result<Vec<GroupStatus>, ClientError> {
        ask_pages!(self, "groups", after => AccountsRequest::Groups { after: after.take() },
            groups: Groups, |group: &GroupStatus| group.group.clone())
    }

    /// Adds a group. For administrators.
    pub async fn add_group(&self, group: &str) -> Result<(), ClientError> {
        self.change_accounts("add group", AccountsRequest::AddGroup(group.into())).await
    }

    /// Removes a group; all its members leave it. For administrators.
    pub async fn remove_group(&self, group: &str) -> Result<(), ClientError> {
        self.change_accounts("remove group", AccountsRequest::RemoveGroup(group.into())).await
    }

    /// Adds a user to a group, or removes the user from it. For administrators.
    pub async fn set_member(&self, group: &str, user: &UserName, member: bool) -> Result<(), ClientError> {
        let request = AccountsRequest::SetMember { group: group.into(), user: user.clone(), member };
        self.change_accounts("set member", request).await
    }

    /// Gives a user a token of this name, valid for this many seconds. It is given out once and stored nowhere else.
    ///
    /// # Errors
    /// Refused (4) for another user's unless the caller is an administrator, and if the caller is logged in with a
    /// token.
    pub async fn add_token(&self, user: &UserName, name: &str, life_seconds: u64) -> Result<NewSession, ClientError> {
        let request = AccountsRequest::AddToken { user: user.clone(), name: name.into(), life_seconds };
        ask!(self, "add token", request, AccountsReply::Token(token) => token)
    }

    /// A user's tokens, oldest first. For another user: administrators only.
    pub async fn tokens(&self, user: &UserName) -> Result<Vec<TokenStatus>, ClientError> {
        ask!(self, "tokens", AccountsRequest::Tokens(user.clone()), AccountsReply::Tokens(tokens) => tokens)
    }

    /// Revokes a token. For another user: administrators only.
    pub async fn revoke_token(&self, user: &UserName, name: &str) -> Result<(), ClientError> {
        let request = AccountsRequest::RevokeToken { user: user.clone(), name: name.into() };
        self.change_accounts("revoke token", request).await
    }

    /// Login sessions, by id: one's own; all for administrators.
    pub async fn sessions(&self) -> Result<Vec<SessionStatus>, ClientError> {
        ask_pages!(self, "sessions", after => AccountsRequest::Sessions { after: after.take() },
            sessions: Sessions, |session: &SessionStatus| session.session)
    }

    /// Ends a login session, everywhere within ten seconds. For another user: administrators only.
    pub async fn revoke_session(&self, session: CredentialId) -> Result<(), ClientError> {
        self.change_accounts("revoke session", AccountsRequest::RevokeSession(session)).await
    }

    /// Ends all login sessions of a user. For another user: administrators only.
    pub async fn revoke_sessions_of(&self, user: &UserName) -> Result<(), ClientError> {
        self.change_accounts("revoke sessions", AccountsRequest::RevokeSessionsOf(user.clone())).await
    }

    async fn change_accounts(&self, name: &'static str, request: AccountsRequest) -> Result<(), ClientError> {
        match self.ask(ClientRequest::Accounts(request)).await? {
            ClientReply::Accounts(AccountsReply::Done) => Ok(()),
            _ => Err(ClientError::Unexpected { who: "master", request: name }),
        }
    }
}
