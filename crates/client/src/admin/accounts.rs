//! Users, groups, tokens and sessions (doors 1 and 2): what `sector user`, `group`, `session` and `whoami` do, for
//! programs. The master passes every request on to the security server, which decides. This file never decides who may
//! do what.

use protocol::{
    CredentialId, UserName,
    message::{
        accounts::{
            AccessKeyOwner, AccountsPage, GroupStatus, NewAccessKey, NewSession, NewUser, Password, SessionStatus,
            TokenStatus, UserChange, UserStatus,
        },
        master_security::KnownUser,
        request::{
            AccessKeyOwnerRequest, AddAccessKeyRequest, AddGroupRequest, AddTokenRequest, Call, ChangeUserRequest,
            GroupsRequest, RemoveGroupRequest, RemoveUserRequest, RevokeSessionRequest, RevokeSessionsOfRequest,
            RevokeTokenRequest, SessionsRequest, SetMemberRequest, SetPasswordRequest, TokensRequest, UsersRequest,
            WhoAmIRequest,
        },
    },
};

use crate::{Client, ClientError};

impl Client {
    /// Who is logged in, as the security server sees it now.
    pub async fn who_am_i(&self) -> Result<KnownUser, ClientError> {
        self.ask(WhoAmIRequest).await
    }

    /// All users, by name. For administrators.
    pub async fn users(&self) -> Result<Vec<UserStatus>, ClientError> {
        self.all_pages(|after| UsersRequest { after }, |user: &UserStatus| user.user.clone()).await
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
        self.ask(new).await
    }

    /// Removes a user with tokens and sessions; the user's files stay. For administrators.
    ///
    /// # Errors
    /// Refused (4) for the last administrator.
    pub async fn remove_user(&self, user: &UserName) -> Result<(), ClientError> {
        self.ask(RemoveUserRequest(user.clone())).await
    }

    /// Changes what a user may do. For administrators.
    ///
    /// # Errors
    /// Refused (4) if no one would be left to administer the cloud.
    pub async fn change_user(&self, user: &UserName, change: UserChange) -> Result<(), ClientError> {
        self.ask(ChangeUserRequest { user: user.clone(), change }).await
    }

    /// Gives a user a new password, which ends the user's other login sessions. For one's own password, the old one is
    /// needed.
    ///
    /// # Errors
    /// Refused (4) for a wrong old password, for another's password unless the caller is an administrator, and for a
    /// service account.
    pub async fn set_password(&self, user: &UserName, old: Option<Password>, new: Password) -> Result<(), ClientError> {
        self.ask(SetPasswordRequest { user: user.clone(), old, new }).await
    }

    /// All groups with their members, by name. For administrators.
    pub async fn groups(&self) -> Result<Vec<GroupStatus>, ClientError> {
        self.all_pages(|after| GroupsRequest { after }, |group: &GroupStatus| group.group.clone()).await
    }

    /// Adds a group. For administrators.
    pub async fn add_group(&self, group: &str) -> Result<(), ClientError> {
        self.ask(AddGroupRequest(group.into())).await
    }

    /// Removes a group; all its members leave it. For administrators.
    pub async fn remove_group(&self, group: &str) -> Result<(), ClientError> {
        self.ask(RemoveGroupRequest(group.into())).await
    }

    /// Adds a user to a group, or removes the user from it. For administrators.
    pub async fn set_member(&self, group: &str, user: &UserName, member: bool) -> Result<(), ClientError> {
        self.ask(SetMemberRequest { group: group.into(), user: user.clone(), member }).await
    }

    /// Gives a user a token of this name, valid for this many seconds. It is given out once and stored nowhere else.
    ///
    /// # Errors
    /// Refused (4) for another user's unless the caller is an administrator, and if the caller is logged in with a
    /// token.
    pub async fn add_token(&self, user: &UserName, name: &str, life_seconds: u64) -> Result<NewSession, ClientError> {
        let request = AddTokenRequest { user: user.clone(), name: name.into(), life_seconds };
        self.ask(request).await
    }

    /// Gives a user an access key, for doors that check signatures, valid for this many seconds. It is listed and revoked
    /// as the token that it is.
    ///
    /// # Errors
    /// As [`add_token`](Self::add_token).
    pub async fn add_access_key(&self, user: &UserName, life_seconds: u64) -> Result<NewAccessKey, ClientError> {
        self.ask(AddAccessKeyRequest { user: user.clone(), life_seconds }).await
    }

    /// Whose an access key is, for a door that serves what is signed with it. For members of the group `gateways`, and
    /// administrators.
    ///
    /// # Errors
    /// `NotFound` if there is no such key (any more).
    pub async fn access_key_owner(&self, id: &str) -> Result<AccessKeyOwner, ClientError> {
        self.ask(AccessKeyOwnerRequest(id.to_owned())).await
    }

    /// A user's tokens, oldest first. For another user: administrators only.
    pub async fn tokens(&self, user: &UserName) -> Result<Vec<TokenStatus>, ClientError> {
        self.ask(TokensRequest(user.clone())).await
    }

    /// Revokes a token. For another user: administrators only.
    pub async fn revoke_token(&self, user: &UserName, name: &str) -> Result<(), ClientError> {
        self.ask(RevokeTokenRequest { user: user.clone(), name: name.into() }).await
    }

    /// Login sessions, by id: one's own; all for administrators.
    pub async fn sessions(&self) -> Result<Vec<SessionStatus>, ClientError> {
        self.all_pages(|after| SessionsRequest { after }, |session: &SessionStatus| session.session).await
    }

    /// Ends a login session, everywhere within ten seconds. For another user: administrators only.
    pub async fn revoke_session(&self, session: CredentialId) -> Result<(), ClientError> {
        self.ask(RevokeSessionRequest(session)).await
    }

    /// Ends all login sessions of a user. For another user: administrators only.
    pub async fn revoke_sessions_of(&self, user: &UserName) -> Result<(), ClientError> {
        self.ask(RevokeSessionsOfRequest(user.clone())).await
    }

    /// Asks for page after page.
    async fn all_pages<C, T, A>(
        &self,
        page: impl Fn(Option<A>) -> C,
        key: impl Fn(&T) -> A,
    ) -> Result<Vec<T>, ClientError>
    where
        C: Call<Reply = AccountsPage<T>>,
    {
        let mut all: Vec<T> = Vec::new();
        loop {
            let AccountsPage { items, more } = self.ask(page(all.last().map(&key))).await?;
            let is_last = !more || items.is_empty();
            all.extend(items);
            if is_last {
                return Ok(all);
            }
        }
    }
}
