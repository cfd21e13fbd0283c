//! Sessions of several users over one cloud: what they share, and that nobody gets a connection of another. The fake
//! nodes refuse a ticket of another holder than proved its key on the connection.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod fake_cloud;

use std::collections::BTreeSet;

use client::{Client, Cloud, CloudSettings, Profile, SectorPath, Status};
use fake_cloud::FakeCloud;

async fn read(client: &Client, path: &SectorPath) -> Result<Vec<u8>, client::ClientError> {
    Ok(client.read(path, None, Vec::new(), &|_| ()).await?.1)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn users_share_a_cloud_and_never_a_connection() {
    let fake = FakeCloud::start(&["n1"]).await;
    let path = fake.add_bytes("/x", b"content".to_vec());
    let cloud = Cloud::open(CloudSettings::of(&fake.profile_of("alice")), Vec::new()).await.unwrap();
    let alice = cloud.log_in(&fake.profile_of("alice")).await.unwrap();
    let bob = cloud.log_in(&fake.profile_of("bob")).await.unwrap();
    assert_eq!((alice.user().as_str(), bob.user().as_str()), ("alice", "bob"));
    for _ in 0..5 {
        // In turn, so that each finds the idle connection of the other.
        assert_eq!(read(&alice, &path).await.unwrap(), b"content");
        assert_eq!(read(&bob, &path).await.unwrap(), b"content");
    }
    let connections = fake.world().connections.clone();
    assert_eq!(connections.len(), 2, "one for each, used again and again");
    assert_eq!(connections.iter().collect::<BTreeSet<_>>().len(), 2, "each with its own key");
    assert!(cloud.round_trip().is_some());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_user_who_logs_out_or_is_forgotten_leaves_the_others_as_they_are() {
    let fake = FakeCloud::start(&["n1"]).await;
    let path = fake.add_bytes("/x", b"content".to_vec());
    let cloud = Cloud::open(CloudSettings::of(&fake.profile_of("alice")), Vec::new()).await.unwrap();
    let mut clients = Vec::new();
    for user in ["alice", "bob", "carol"] {
        clients.push(cloud.log_in(&fake.profile_of(user)).await.unwrap());
        read(clients.last().unwrap(), &path).await.unwrap();
    }
    let [alice, bob, carol]: [Client; 3] = clients.try_into().unwrap();
    alice.logout().await;
    assert_eq!(fake.world().log.iter().filter(|line| line.starts_with("logout")).count(), 1);
    drop(bob);
    assert_eq!(read(&carol, &path).await.unwrap(), b"content");
    assert_eq!(fake.world().connections.len(), 3, "hers is still there");
    let again = cloud.log_in(&fake.profile_of("alice")).await.unwrap();
    assert_eq!(read(&again, &path).await.unwrap(), b"content");
    assert_eq!(fake.world().connections.len(), 4, "a new session has a new key");
}

#[tokio::test]
async fn a_profile_of_another_cloud_is_refused() {
    let (here, there) = (FakeCloud::start(&["n1"]).await, FakeCloud::start(&["n1"]).await);
    let cloud = Cloud::open(CloudSettings::of(&here.profile_of("alice")), Vec::new()).await.unwrap();
    let refused = cloud.log_in(&there.profile_of("alice")).await.unwrap_err();
    assert_eq!(refused.status(), Status::Usage);
    let authority = there.profile_of("alice").authority;
    let refused = cloud.log_in(&Profile { authority, ..here.profile_of("alice") }).await.unwrap_err();
    assert_eq!(refused.status(), Status::Usage, "a stranger who took the address");
}
