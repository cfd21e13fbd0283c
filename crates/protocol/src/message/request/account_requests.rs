//! Requests about users, groups, tokens and sessions. The security server decides what only administrators may ask,
//! since it knows who is one now: unless stated otherwise, all of it. This file never handles a request.

use serde::{Deserialize, Serialize};

use super::{Need, Properties, TypedRequest, answered_by, request_family};
use crate::{
    CredentialId, UserName,
    message::{
        accounts::{
            AccessKeyOwner, AccountsPage, AccountsReply, GroupStatus, NewAccessKey, NewSession, NewUser, Password,
            SessionStatus, TokenStatus, UserChange, UserStatus,
        },
        client_reply::ClientReply,
        master_security::KnownUser,
    },
};

request_family! {
    /// Questions about accounts. Unless stated otherwise, only administrators may ask.
    AccountsRequest {
        WhoAmI(WhoAmIRequest),
        Users(UsersRequest),
        AddUser(NewUser),
        RemoveUser(RemoveUserRequest),
        ChangeUser(ChangeUserRequest),
        SetPassword(SetPasswordRequest),
        Groups(GroupsRequest),
        AddGroup(AddGroupRequest),
        RemoveGroup(RemoveGroupRequest),
        SetMember(SetMemberRequest),
        AddToken(AddTokenRequest),
        Tokens(TokensRequest),
        RevokeToken(RevokeTokenRequest),
        Sessions(SessionsRequest),
        RevokeSession(RevokeSessionRequest),
        RevokeSessionsOf(RevokeSessionsOfRequest),
        AddAccessKey(AddAccessKeyRequest),
        AccessKeyOwner(AccessKeyOwnerRequest),
    }
}

/// Who am I. Everyone may ask.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WhoAmIRequest;

impl TypedRequest for WhoAmIRequest {
    answered_by!(KnownUser, ClientReply::Accounts(AccountsReply::You(you)) => you);

    fn properties(&self) -> Properties<'_> {
        Properties::new("who am i", Need::Login)
            .repeatable()
            .during_rebuild()
            .without_names()
            .refused_as("change accounts", "")
    }
}

/// A page of the users, by name.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct UsersRequest {
    /// Only what comes after this name (the last of the previous page).
    pub after: Option<UserName>,
}

impl TypedRequest for UsersRequest {
    answered_by!(AccountsPage<UserStatus>, ClientReply::Accounts(AccountsReply::Users { users: items, more }) => AccountsPage { items, more });

    fn properties(&self) -> Properties<'_> {
        Properties::new("users", Need::Login)
            .repeatable()
            .during_rebuild()
            .without_names()
            .refused_as("change accounts", "")
    }
}

impl TypedRequest for NewUser {
    answered_by!((), ClientReply::Accounts(AccountsReply::Done) => ());

    fn properties(&self) -> Properties<'_> {
        Properties::new("add user", Need::Login).during_rebuild().without_names().refused_as("change accounts", "")
    }
}

/// Remove a user with tokens and sessions, but never the last administrator. Files stay.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RemoveUserRequest(pub UserName);

impl TypedRequest for RemoveUserRequest {
    answered_by!((), ClientReply::Accounts(AccountsReply::Done) => ());

    fn properties(&self) -> Properties<'_> {
        Properties::new("remove user", Need::Login).during_rebuild().without_names().refused_as("change accounts", "")
    }
}

/// Change what a user may do.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChangeUserRequest {
    /// Who.
    pub user: UserName,
    /// What becomes of them.
    pub change: UserChange,
}

impl TypedRequest for ChangeUserRequest {
    answered_by!((), ClientReply::Accounts(AccountsReply::Done) => ());

    fn properties(&self) -> Properties<'_> {
        Properties::new("change user", Need::Login)
            .repeatable()
            .during_rebuild()
            .without_names()
            .refused_as("change accounts", "")
    }
}

/// Give a user a new password; all other login sessions of the user end. Everyone may, for themselves, with the old
/// one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SetPasswordRequest {
    /// Who.
    pub user: UserName,
    /// The password so far; administrators need none for others.
    pub old: Option<Password>,
    /// The new one.
    pub new: Password,
}

impl TypedRequest for SetPasswordRequest {
    answered_by!((), ClientReply::Accounts(AccountsReply::Done) => ());

    fn properties(&self) -> Properties<'_> {
        Properties::new("set password", Need::Login).during_rebuild().without_names().refused_as("change accounts", "")
    }
}

/// A page of the groups, by name.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct GroupsRequest {
    /// Only what comes after this name.
    pub after: Option<String>,
}

impl TypedRequest for GroupsRequest {
    answered_by!(AccountsPage<GroupStatus>, ClientReply::Accounts(AccountsReply::Groups { groups: items, more }) => AccountsPage { items, more });

    fn properties(&self) -> Properties<'_> {
        Properties::new("groups", Need::Login)
            .repeatable()
            .during_rebuild()
            .without_names()
            .refused_as("change accounts", "")
    }
}

/// Add a group.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AddGroupRequest(pub String);

impl TypedRequest for AddGroupRequest {
    answered_by!((), ClientReply::Accounts(AccountsReply::Done) => ());

    fn properties(&self) -> Properties<'_> {
        Properties::new("add group", Need::Login).during_rebuild().without_names().refused_as("change accounts", "")
    }
}

/// Remove a group; nobody is in it any more.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RemoveGroupRequest(pub String);

impl TypedRequest for RemoveGroupRequest {
    answered_by!((), ClientReply::Accounts(AccountsReply::Done) => ());

    fn properties(&self) -> Properties<'_> {
        Properties::new("remove group", Need::Login).during_rebuild().without_names().refused_as("change accounts", "")
    }
}

/// Take a user into a group, or out of it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SetMemberRequest {
    /// The group.
    pub group: String,
    /// The user.
    pub user: UserName,
    /// Whether the user is in it from now on.
    pub member: bool,
}

impl TypedRequest for SetMemberRequest {
    answered_by!((), ClientReply::Accounts(AccountsReply::Done) => ());

    fn properties(&self) -> Properties<'_> {
        Properties::new("set member", Need::Login)
            .repeatable()
            .during_rebuild()
            .without_names()
            .refused_as("change accounts", "")
    }
}

/// Give a user a token. Everyone may for themselves, in a login session.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AddTokenRequest {
    /// Who.
    pub user: UserName,
    /// A name by which people know it.
    pub name: String,
    /// How long it is good, in seconds; at most
    /// [`TOKEN_LIFE_SECONDS_MAX`](crate::message::accounts::TOKEN_LIFE_SECONDS_MAX).
    pub life_seconds: u64,
}

impl TypedRequest for AddTokenRequest {
    answered_by!(NewSession, ClientReply::Accounts(AccountsReply::Token(token)) => token);

    fn properties(&self) -> Properties<'_> {
        Properties::new("add token", Need::Login).during_rebuild().without_names().refused_as("change accounts", "")
    }
}

/// Give a user an access key. Everyone may for themselves, in a login session. It is listed and revoked as the token that
/// it is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AddAccessKeyRequest {
    /// Who.
    pub user: UserName,
    /// How long it is good, in seconds, at most as long as a token.
    pub life_seconds: u64,
}

impl TypedRequest for AddAccessKeyRequest {
    answered_by!(NewAccessKey, ClientReply::Accounts(AccountsReply::AccessKey(key)) => key);

    fn properties(&self) -> Properties<'_> {
        Properties::new("add access key", Need::Login)
            .during_rebuild()
            .without_names()
            .refused_as("change accounts", "")
    }
}

/// Whose an access key is, by its id. Members of the group `gateways` may ask, and administrators.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AccessKeyOwnerRequest(pub String);

impl TypedRequest for AccessKeyOwnerRequest {
    answered_by!(AccessKeyOwner, ClientReply::Accounts(AccountsReply::AccessKeyOwner(owner)) => owner);

    fn properties(&self) -> Properties<'_> {
        Properties::new("access key owner", Need::Login)
            .repeatable()
            .during_rebuild()
            .without_names()
            .refused_as("learn whose access key it is", "")
    }
}

/// A user's tokens. Everyone may ask for their own.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TokensRequest(pub UserName);

impl TypedRequest for TokensRequest {
    answered_by!(Vec<TokenStatus>, ClientReply::Accounts(AccountsReply::Tokens(tokens)) => tokens);

    fn properties(&self) -> Properties<'_> {
        Properties::new("tokens", Need::Login)
            .repeatable()
            .during_rebuild()
            .without_names()
            .refused_as("change accounts", "")
    }
}

/// Make a token worthless. Everyone may, of their own.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RevokeTokenRequest {
    /// Whose.
    pub user: UserName,
    /// Its name.
    pub name: String,
}

impl TypedRequest for RevokeTokenRequest {
    answered_by!((), ClientReply::Accounts(AccountsReply::Done) => ());

    fn properties(&self) -> Properties<'_> {
        Properties::new("revoke token", Need::Login).during_rebuild().without_names().refused_as("change accounts", "")
    }
}

/// A page of login sessions. Other users than administrators see their own.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SessionsRequest {
    /// Only what comes after this one.
    pub after: Option<CredentialId>,
}

impl TypedRequest for SessionsRequest {
    answered_by!(AccountsPage<SessionStatus>, ClientReply::Accounts(AccountsReply::Sessions { sessions: items, more }) => AccountsPage { items, more });

    fn properties(&self) -> Properties<'_> {
        Properties::new("sessions", Need::Login)
            .repeatable()
            .during_rebuild()
            .without_names()
            .refused_as("change accounts", "")
    }
}

/// End a login session. Everyone may end their own.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RevokeSessionRequest(pub CredentialId);

impl TypedRequest for RevokeSessionRequest {
    answered_by!((), ClientReply::Accounts(AccountsReply::Done) => ());

    fn properties(&self) -> Properties<'_> {
        Properties::new("revoke session", Need::Login)
            .during_rebuild()
            .without_names()
            .refused_as("change accounts", "")
    }
}

/// End all login sessions of a user. Everyone may end their own.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RevokeSessionsOfRequest(pub UserName);

impl TypedRequest for RevokeSessionsOfRequest {
    answered_by!((), ClientReply::Accounts(AccountsReply::Done) => ());

    fn properties(&self) -> Properties<'_> {
        Properties::new("revoke sessions", Need::Login)
            .repeatable()
            .during_rebuild()
            .without_names()
            .refused_as("change accounts", "")
    }
}
