//! Newcomers that know the authority by its digest only, and identities that change while they are in use.

use super::{Authority, TcpCarrier, client, fingerprint, listen, meet, role};
use crate::{
    NetError,
    identity::{Credentials, NewKey, ProvedKey, Subject, TlsIdentity, Validity},
};

fn newcomer(authority: Option<[u8; 32]>) -> TcpCarrier {
    TcpCarrier::new(TlsIdentity::with_pinned_authority(authority).unwrap())
}

fn digest(authority: &Authority) -> [u8; 32] {
    fingerprint(authority.certificate_pem()).unwrap()
}

#[tokio::test]
async fn a_newcomer_meets_the_master_of_the_authority_it_was_told_of() {
    let authority = Authority::create("cloud").unwrap();
    let listener = listen(role(&authority, "master")).await;
    for told in [Some(digest(&authority)), None] {
        let (ours, theirs) = meet(&newcomer(told), &listener, "master").await;
        assert_eq!(ours.unwrap().peer_authority(), Some(digest(&authority)));
        assert_eq!(theirs.unwrap().peer_fingerprint(), None);
    }
}

#[tokio::test]
async fn a_newcomer_goes_no_further_where_another_authority_is_shown() {
    let (authority, other) = (Authority::create("cloud").unwrap(), Authority::create("cloud").unwrap());
    let listener = listen(role(&other, "master")).await;
    let (ours, theirs) = meet(&newcomer(Some(digest(&authority))), &listener, "master").await;
    assert!(matches!(ours, Err(NetError::Handshake { .. })));
    assert!(theirs.is_err(), "it has said nothing yet");
}

#[tokio::test]
async fn the_right_authority_is_not_enough_without_its_certificate_for_that_role() {
    let (authority, other) = (Authority::create("cloud").unwrap(), Authority::create("cloud").unwrap());
    let posing = |credentials: &Credentials| TlsIdentity::role(authority.certificate_pem(), credentials).unwrap();
    for identity in [posing(&other.issue("master").unwrap()), posing(&authority.issue("node-1").unwrap())] {
        let listener = listen(identity).await;
        for told in [Some(digest(&authority)), None] {
            let (ours, _) = meet(&newcomer(told), &listener, "master").await;
            assert!(matches!(ours, Err(NetError::Handshake { .. })));
        }
    }
}

#[tokio::test]
async fn a_replaced_identity_shows_its_new_certificate_and_spares_open_connections() {
    let authority = Authority::create("cloud").unwrap();
    let (server, caller) = (role(&authority, "master"), role(&authority, "node-1"));
    let (listener, carrier) = (listen(server.clone()).await, TcpCarrier::new(caller.clone()));
    let (ours, theirs) = meet(&carrier, &listener, "master").await;
    let (mut ours, mut theirs) = (ours.unwrap(), theirs.unwrap());
    let before = (ours.peer_fingerprint(), theirs.peer_fingerprint());
    for (identity, name) in [(&server, "master"), (&caller, "node-1")] {
        identity.replace(authority.certificate_pem(), &authority.issue(name).unwrap()).unwrap();
    }
    let (again, theirs_again) = meet(&carrier, &listener, "master").await;
    let after = (again.unwrap().peer_fingerprint(), theirs_again.unwrap().peer_fingerprint());
    assert!(before.0 != after.0 && before.1 != after.1, "{before:?} {after:?}");
    ours.send(&7u32).await.unwrap();
    assert_eq!(theirs.receive::<u32>().await.unwrap(), 7);
    // What cannot be used changes nothing.
    let other = Authority::create("cloud").unwrap();
    let broken = Credentials { key_pem: other.key_pem(), ..authority.issue("master").unwrap() };
    assert!(server.replace(authority.certificate_pem(), &broken).is_err());
    assert!(meet(&carrier, &listener, "master").await.0.is_ok());
}

#[tokio::test]
async fn a_certificate_for_a_key_made_elsewhere_serves_its_role_under_another_name() {
    let authority = Authority::create("cloud").unwrap();
    let key = NewKey::generate().unwrap();
    let proved = ProvedKey::check(&key.request(None).unwrap(), None).unwrap();
    let subject = Subject { name: "master-2", role: "master" };
    let life = std::time::Duration::from_secs(3_600);
    let certificate_pem = authority.certify(&subject, &proved, life).unwrap();
    assert!(Validity::of(&certificate_pem).unwrap().renew_at() < Validity::of(&certificate_pem).unwrap().until);
    let identity = TlsIdentity::role(authority.certificate_pem(), &key.with_certificate(certificate_pem)).unwrap();
    let listener = listen(identity).await;
    assert!(meet(&TcpCarrier::new(client(&authority)), &listener, "master").await.0.is_ok());
    assert!(meet(&TcpCarrier::new(client(&authority)), &listener, "master-2").await.0.is_err());
}

#[tokio::test]
async fn one_who_has_not_said_who_it_is_may_not_send_a_long_word() {
    let authority = Authority::create("cloud").unwrap();
    let listener = listen(role(&authority, "master")).await;
    let (ours, theirs) = meet(&TcpCarrier::new(client(&authority)), &listener, "master").await;
    let (mut ours, mut theirs) = (ours.unwrap(), theirs.unwrap());
    for (letters, is_taken) in [(900, true), (1_001, false)] {
        ours.send(&"x".repeat(letters)).await.unwrap();
        let taken = theirs.receive_at_most::<String>(1_000).await;
        assert_eq!(taken.is_ok(), is_taken);
        assert!(is_taken || matches!(taken, Err(NetError::TooLong { .. })));
    }
}
