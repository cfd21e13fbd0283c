//! Test vectors of the messages about accounts. A vector never changes without a new codec version.

use super::{Vectors, known_user, user};
use crate::{
    AddressRange, CredentialId,
    message::{
        accounts::{
            AccessKeyOwner, AccountsReply, AccountsRequest, GroupStatus, NewAccessKey, NewSession, NewUser, Password,
            SessionStatus, TokenStatus, UserChange, UserStatus,
        },
        request::{
            AccessKeyOwnerRequest, AddAccessKeyRequest, AddGroupRequest, AddTokenRequest, ChangeUserRequest,
            GroupsRequest, RemoveGroupRequest, RemoveUserRequest, RevokeSessionRequest, RevokeSessionsOfRequest,
            RevokeTokenRequest, SessionsRequest, SetMemberRequest, SetPasswordRequest, TokensRequest, UsersRequest,
            WhoAmIRequest,
        },
    },
};

#[test]
fn the_words_about_accounts_have_their_bytes() {
    let mut vectors = Vectors::of("accounts", include_str!("../../../tests/vectors/accounts.txt"));
    let new = NewUser {
        user: user(),
        password: Some(Password("correct horse".into())),
        groups: vec!["astro".into()],
        admin: true,
        addresses: addresses(),
        service: false,
    };
    let change = UserChange::Enabled(false);
    let (old, new_password) = (Some(Password("correct horse".into())), Password("battery staple".into()));
    compare!(vectors, AccountsRequest {
        "who-am-i": AccountsRequest::WhoAmI(WhoAmIRequest) => AccountsRequest::WhoAmI(WhoAmIRequest),
        "users": AccountsRequest::Users(_) => AccountsRequest::Users(UsersRequest { after: Some(user()) }),
        "add-user": AccountsRequest::AddUser(_) => AccountsRequest::AddUser(new),
        "remove-user": AccountsRequest::RemoveUser(_) => AccountsRequest::RemoveUser(RemoveUserRequest(user())),
        "change-user": AccountsRequest::ChangeUser(_) => AccountsRequest::ChangeUser(ChangeUserRequest { user: user(), change }),
        "set-password": AccountsRequest::SetPassword(_) =>
            AccountsRequest::SetPassword(SetPasswordRequest { user: user(), old, new: new_password }),
        "groups": AccountsRequest::Groups(_) => AccountsRequest::Groups(GroupsRequest { after: Some("astro".into()) }),
        "add-group": AccountsRequest::AddGroup(_) => AccountsRequest::AddGroup(AddGroupRequest("astro".into())),
        "remove-group": AccountsRequest::RemoveGroup(_) => AccountsRequest::RemoveGroup(RemoveGroupRequest("astro".into())),
        "set-member": AccountsRequest::SetMember(_) =>
            AccountsRequest::SetMember(SetMemberRequest { group: "astro".into(), user: user(), member: true }),
        "add-access-key": AccountsRequest::AddAccessKey(_) =>
            AccountsRequest::AddAccessKey(AddAccessKeyRequest { user: user(), life_seconds: 86_400 }),
        "access-key-owner": AccountsRequest::AccessKeyOwner(_) =>
            AccountsRequest::AccessKeyOwner(AccessKeyOwnerRequest("SKABCDEFGHIJKLMNOPQR".into())),
        "add-token": AccountsRequest::AddToken(_) =>
            AccountsRequest::AddToken(AddTokenRequest { user: user(), name: "nightly".into(), life_seconds: 86_400 }),
        "tokens": AccountsRequest::Tokens(_) => AccountsRequest::Tokens(TokensRequest(user())),
        "revoke-token": AccountsRequest::RevokeToken(_) =>
            AccountsRequest::RevokeToken(RevokeTokenRequest { user: user(), name: "nightly".into() }),
        "sessions": AccountsRequest::Sessions(_) => AccountsRequest::Sessions(SessionsRequest { after: Some(CredentialId(7)) }),
        "revoke-session": AccountsRequest::RevokeSession(_) => AccountsRequest::RevokeSession(RevokeSessionRequest(CredentialId(7))),
        "revoke-sessions-of": AccountsRequest::RevokeSessionsOf(_) => AccountsRequest::RevokeSessionsOf(RevokeSessionsOfRequest(user())),
    });
    compare!(vectors, UserChange {
        "enabled": UserChange::Enabled(_) => UserChange::Enabled(true),
        "admin": UserChange::Admin(_) => UserChange::Admin(true),
        "addresses": UserChange::Addresses(_) => UserChange::Addresses(addresses()),
    });
    vectors.finish();
}

#[test]
fn the_answers_about_accounts_have_their_bytes() {
    let mut vectors = Vectors::of("accounts_reply", include_str!("../../../tests/vectors/accounts_reply.txt"));
    let status = UserStatus {
        user: user(),
        groups: vec![],
        admin: false,
        addresses: addresses(),
        has_password: true,
        tokens: 2,
        service: false,
        enabled: true,
        provider: Some("campus".into()),
    };
    let group = GroupStatus { group: "astro".into(), members: vec![user()] };
    let token = TokenStatus {
        name: "nightly".into(),
        made_unix_millis: 1_800_000_000_000,
        until_unix_millis: Some(1_900_000_000_000),
        used_unix_millis: None,
    };
    let session = SessionStatus {
        session: CredentialId(7),
        user: user(),
        machine: "laptop".into(),
        address: "2001:db8::7".parse().unwrap(),
        began_unix_millis: 1_800_000_000_000,
        until_unix_millis: 1_900_000_000_000,
        used_unix_millis: 1_850_000_000_000,
    };
    compare!(vectors, AccountsReply {
        "done": AccountsReply::Done => AccountsReply::Done,
        "you": AccountsReply::You(_) => AccountsReply::You(known_user()),
        "users": AccountsReply::Users { .. } => AccountsReply::Users { users: vec![status], more: true },
        "groups": AccountsReply::Groups { .. } => AccountsReply::Groups { groups: vec![group], more: false },
        "token": AccountsReply::Token(_) => AccountsReply::Token(new_session()),
        "tokens": AccountsReply::Tokens(_) => AccountsReply::Tokens(vec![token]),
        "access-key": AccountsReply::AccessKey(_) => AccountsReply::AccessKey(NewAccessKey {
            id: "SKABCDEFGHIJKLMNOPQR".into(),
            secret: "s".into(),
            until_unix_millis: 9,
        }),
        "access-key-owner": AccountsReply::AccessKeyOwner(_) => AccountsReply::AccessKeyOwner(AccessKeyOwner {
            user: user(),
            secret: "s".into(),
            token: [7; 32],
        }),
        "sessions": AccountsReply::Sessions { .. } => AccountsReply::Sessions { sessions: vec![session], more: true },
    });
    vectors.finish();
}

pub(super) fn new_session() -> NewSession {
    NewSession { credential: CredentialId(0x77), token: [5; 32], until_unix_millis: 1_900_000_000_000 }
}

fn addresses() -> Vec<AddressRange> {
    vec!["10.0.0.0/8".parse().unwrap()]
}
