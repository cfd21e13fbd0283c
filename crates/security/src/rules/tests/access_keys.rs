//! Tests of access keys: who gets one, who learns its secret, and how it ends.

use protocol::message::{
    accounts::{AccessKeyOwner, NewAccessKey, is_access_key_id},
    request::{
        AccessKeyOwnerRequest, AddAccessKeyRequest, AddGroupRequest, AddTokenRequest, RevokeTokenRequest,
        SetMemberRequest,
    },
};

use super::*;

const DAY: u64 = 24 * 3_600;

fn with_keys(known: &[u8]) -> Security {
    security().with_access_keys(AccessKeySecrets::new(known))
}

fn add(user: &str) -> AccountsRequest {
    AccountsRequest::AddAccessKey(AddAccessKeyRequest { user: user.parse().unwrap(), life_seconds: DAY })
}

fn added(security: &mut Security, by: &str, user: &str) -> NewAccessKey {
    match account(security, by, add(user)) {
        SecurityReply::Accounts(AccountsReply::AccessKey(key)) => key,
        other => panic!("{other:?}"),
    }
}

fn asked_owner(security: &mut Security, now: Now, by: &str, id: &str) -> Result<AccessKeyOwner, Status> {
    let request = AccountsRequest::AccessKeyOwner(AccessKeyOwnerRequest(id.into()));
    match ask(security, now, SecurityRequest::Accounts { by: asker(by), request }).0 {
        SecurityReply::Accounts(AccountsReply::AccessKeyOwner(owner)) => Ok(owner),
        other => Err(status(other)),
    }
}

fn enters(security: &mut Security, token: [u8; 32]) -> bool {
    matches!(ask(security, at(0), login("robot", Secret::Token(token), HOME)).0, SecurityReply::User(_))
}

#[test]
fn a_door_learns_the_secret_and_logs_the_user_in_until_the_key_ends() {
    let mut security = with_keys(b"authority");
    let key = added(&mut security, "alice", "robot");
    assert!(is_access_key_id(&key.id) && key.secret.len() == 40, "{key:?}");
    assert_ne!(added(&mut security, "alice", "robot").secret, key.secret);
    let owner = asked_owner(&mut security, at(0), "alice", &key.id).unwrap();
    assert_eq!((owner.user.as_str(), &owner.secret), ("robot", &key.secret));
    assert!(enters(&mut security, owner.token));
    assert_eq!(asked_owner(&mut security, at(2 * DAY), "alice", &key.id), Err(Status::NotFound));
    let revoke = RevokeTokenRequest { user: "robot".parse().unwrap(), name: key.id.clone() };
    assert_eq!(account(&mut security, "robot", AccountsRequest::RevokeToken(revoke)), DONE);
    assert_eq!(asked_owner(&mut security, at(0), "alice", &key.id), Err(Status::NotFound));
    assert!(!enters(&mut security, owner.token));
}

#[test]
fn only_gateways_and_administrators_learn_whose_a_key_is() {
    let mut security = with_keys(b"authority");
    let key = added(&mut security, "alice", "alice");
    assert_eq!(asked_owner(&mut security, at(0), "robot", &key.id), Err(Status::Refused));
    for request in [
        AccountsRequest::AddGroup(AddGroupRequest("gateways".into())),
        AccountsRequest::SetMember(SetMemberRequest {
            group: "gateways".into(),
            user: "robot".parse().unwrap(),
            member: true,
        }),
    ] {
        assert_eq!(account(&mut security, "alice", request), DONE);
    }
    assert_eq!(asked_owner(&mut security, at(0), "robot", &key.id).unwrap().user.as_str(), "alice");
    for id in ["", "SK", "nightly", "SKAAAAAAAAAAAAAAAAAA"] {
        assert_eq!(asked_owner(&mut security, at(0), "robot", id), Err(Status::NotFound), "{id}");
    }
}

#[test]
fn who_may_give_no_token_gives_no_key_and_no_token_is_called_like_one() {
    let mut security = with_keys(b"authority");
    assert_eq!(status(account(&mut security, "robot", add("alice"))), Status::Refused);
    let with_token = Asker { credential: CredentialId(2), ..asker("robot") };
    let request = SecurityRequest::Accounts { by: with_token, request: add("robot") };
    assert_eq!(status(ask(&mut security, at(0), request).0), Status::Refused);
    let named = |name: &str| AddTokenRequest { user: "robot".parse().unwrap(), name: name.into(), life_seconds: DAY };
    let forged = AccountsRequest::AddToken(named("SKAAAAAAAAAAAAAAAAAA"));
    assert_eq!(status(account(&mut security, "alice", forged)), Status::Usage);
    // Without the authority's key there are none.
    assert_eq!(status(account(&mut super::security(), "alice", add("robot"))), Status::Refused);
}

#[test]
fn secrets_follow_from_the_authority_alone() {
    let [one, same, other] = [&b"one"[..], b"one", b"other"].map(AccessKeySecrets::new);
    assert_eq!(one.secret("SKA"), same.secret("SKA"));
    assert_ne!(one.secret("SKA"), other.secret("SKA"));
    assert_ne!(one.secret("SKA"), one.secret("SKB"));
    assert!(!format!("{one:?}").contains(char::is_numeric));
}
