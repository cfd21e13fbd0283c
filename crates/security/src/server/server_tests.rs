//! Tests of the server over real connections on the loopback: who is answered, who is not, and how it stops.

#![allow(clippy::unwrap_used)]
use std::{net::Ipv4Addr, path::PathBuf};

use daemon::{DaemonError, settings::CredentialFiles, shutdown::TaskGroup};
use net::{
    NetError,
    identity::Authority,
    transfer::{Carrier, TcpCarrier},
};
use protocol::{
    CredentialId, NodeId, UserName,
    message::{
        accounts::{AccountsReply, AccountsRequest, NewUser as Wanted, Password},
        join::Secret,
        master_security::{Asker, SecurityReply, UserRights},
    },
};
use tempfile::TempDir;

use super::*;
use crate::create_cloud;

/// A cloud with a master, `node-1`, an administrator `root` and a user `alice`, and its security server at work.
struct World {
    root: TempDir,
    address: SocketAddr,
    stop: TaskGroup,
    token: [u8; 32],
}

fn settings(root: &TempDir) -> Checked<SecuritySettings> {
    let settings = SecuritySettings {
        listen: (Ipv4Addr::LOCALHOST, 0).into(),
        folder: "security".into(),
        ..SecuritySettings::default()
    };
    Checked::of(settings, root.path()).unwrap()
}

async fn world() -> World {
    let root = tempfile::tempdir().unwrap();
    let mut cloud = create_cloud(&root.path().join("security"), "home").unwrap();
    cloud.ensure_master(&root.path().join("master")).unwrap();
    cloud.ensure_node(&NodeId::new("node-1").unwrap(), &root.path().join("node-1"), &[]).unwrap();
    let token = cloud.ensure_admin(&UserName::new("root").unwrap()).unwrap().unwrap();
    cloud.add_user(&UserName::new("alice").unwrap(), "correct horse").unwrap();
    drop(cloud);
    let server = SecurityServer::bind(&settings(&root)).await.unwrap();
    let (address, stop) = (server.address(), TaskGroup::new());
    let stopping = stop.token();
    stop.spawn("security", async move { server.run(stopping).await.unwrap() });
    World { root, address, stop, token }
}

impl World {
    fn folder(&self, role: &str) -> PathBuf {
        self.root.path().join(role)
    }

    /// The TLS identity that lies in a role's folder.
    fn identity(&self, role: &str) -> TlsIdentity {
        let texts = CredentialFiles::in_folder(&self.folder(role)).read().unwrap();
        let credentials = Credentials { certificate_pem: texts.certificate_pem, key_pem: texts.key_pem };
        TlsIdentity::role(&texts.authority_pem, &credentials).unwrap()
    }

    async fn connect(&self, identity: TlsIdentity) -> Result<TransferStream, NetError> {
        TcpCarrier::new(identity).connect(self.address, "security").await
    }

    fn login(&self, user: &str, secret: Secret) -> SecurityRequest {
        SecurityRequest::CheckUser { user: user.parse().unwrap(), secret, address: [10, 0, 0, 1].into() }
    }

    /// What one who connects with this identity gets when it asks for the best there is: no reply, whatever the way.
    async fn is_answered(&self, identity: TlsIdentity) -> bool {
        let Ok(mut stream) = self.connect(identity).await else { return false };
        let request = self.login("root", Secret::Token(self.token));
        stream.send(&request).await.is_ok() && stream.receive::<SecurityReply>().await.is_ok()
    }

    async fn ask(&self, stream: &mut TransferStream, request: &SecurityRequest) -> SecurityReply {
        stream.send(request).await.unwrap();
        stream.receive().await.unwrap()
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_master_gets_one_reply_to_each_request_on_a_kept_connection() {
    let world = world().await;
    let mut stream = world.connect(world.identity("master")).await.unwrap();
    let reply = world.ask(&mut stream, &world.login("root", Secret::Token(world.token))).await;
    assert!(matches!(reply, SecurityReply::User(known) if known.rights.admin && known.rights.user.as_str() == "root"));
    let reply = world.ask(&mut stream, &world.login("alice", Secret::Password("correct horse".into()))).await;
    assert!(matches!(reply, SecurityReply::User(known) if !known.rights.admin));
    let wrong = world.ask(&mut stream, &world.login("alice", Secret::Password("wrong horse".into()))).await;
    let unknown = world.ask(&mut stream, &world.login("nobody", Secret::Token(world.token))).await;
    assert!(matches!(wrong, SecurityReply::Refused(_)));
    assert_eq!(wrong, unknown);
    let certificate = std::fs::read_to_string(world.folder("node-1").join("certificate.pem")).unwrap();
    let fingerprint = net::identity::fingerprint(&certificate).unwrap();
    let node = NodeId::new("node-1").unwrap();
    let join = SecurityRequest::CheckNode { node, fingerprint, address: [10, 0, 0, 1].into() };
    assert_eq!(world.ask(&mut stream, &join).await, SecurityReply::NodeAllowed);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn only_the_registered_master_is_answered() {
    let world = world().await;
    let authority_pem = std::fs::read_to_string(world.folder("master").join("authority.pem")).unwrap();
    let key_pem = std::fs::read_to_string(world.folder("security").join("authority.key")).unwrap();
    let authority = Authority::from_pem(&authority_pem, &key_pem).unwrap();
    let foreign = Authority::create("home").unwrap().issue("master").unwrap();
    let second = authority.issue("master").unwrap();
    assert!(world.is_answered(world.identity("master")).await);
    for (who, identity) in [
        ("without a certificate", TlsIdentity::client(&authority_pem).unwrap()),
        ("of another cloud", TlsIdentity::role(&authority_pem, &foreign).unwrap()),
        ("a node of this cloud", world.identity("node-1")),
        ("a master that is not registered", TlsIdentity::role(&authority_pem, &second).unwrap()),
    ] {
        assert!(!world.is_answered(identity).await, "{who}");
    }
    assert!(world.is_answered(world.identity("master")).await, "strangers must not shut the door");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn connections_of_the_master_are_bounded_and_a_place_is_given_back() {
    let world = world().await;
    let identity = world.identity("master");
    let mut places = Vec::new();
    for _ in 0..MASTER_CONNECTIONS_MAX {
        let mut stream = world.connect(identity.clone()).await.unwrap();
        // The reply shows that the place was taken.
        world.ask(&mut stream, &world.login("nobody", Secret::Token([0; 32]))).await;
        places.push(stream);
    }
    assert!(!world.is_answered(identity.clone()).await);
    places.pop().unwrap().close().await;
    while !world.is_answered(identity.clone()).await {
        task::yield_now().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stop_ends_idle_connections_and_gives_the_accounts_back() {
    let world = world().await;
    let mut stream = world.connect(world.identity("master")).await.unwrap();
    world.ask(&mut stream, &world.login("root", Secret::Token(world.token))).await;
    // Someone who says nothing at all does not hold up the stop either.
    let _silent = tokio::net::TcpStream::connect(world.address).await.unwrap();
    world.stop.finish(STOP_MAX).await.unwrap();
    assert!(matches!(stream.receive_or_end::<SecurityReply>().await, Ok(None)));
    assert!(world.connect(world.identity("master")).await.is_err());
    let cloud = create_cloud(&world.folder("security"), "home").unwrap();
    assert_eq!(cloud.accounts().machines().masters().count(), 1);
}

#[tokio::test]
async fn without_credentials_the_server_fails_to_start_without_a_master_it_waits() {
    let root = tempfile::tempdir().unwrap();
    let error = SecurityServer::bind(&settings(&root)).await.err().unwrap();
    assert!(matches!(error, SecurityError::Daemon(DaemonError::CredentialUnreadable { .. })), "{error}");
    drop(create_cloud(&root.path().join("security"), "home").unwrap());
    drop(SecurityServer::bind(&settings(&root)).await.unwrap());
    std::fs::remove_file(root.path().join("security/authority.key")).unwrap();
    let error = SecurityServer::bind(&settings(&root)).await.err().unwrap();
    assert!(matches!(error, SecurityError::AuthorityLost { .. }), "{error}");
}

// Promise 27.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_user_who_was_added_over_the_door_is_there_after_a_restart() {
    let world = world().await;
    let mut stream = world.connect(world.identity("master")).await.unwrap();
    let rights = UserRights { user: "root".parse().unwrap(), groups: vec![], admin: true };
    let by = Asker { rights, credential: CredentialId(0), address: [10, 0, 0, 1].into() };
    let request = AccountsRequest::AddUser(Wanted {
        user: "bob".parse().unwrap(),
        password: Some(Password("battery staple".into())),
        groups: vec![],
        admin: false,
        addresses: vec![],
        service: false,
    });
    let reply = world.ask(&mut stream, &SecurityRequest::Accounts { by, request }).await;
    assert_eq!(reply, SecurityReply::Accounts(AccountsReply::Done));
    world.stop.finish(STOP_MAX).await.unwrap();
    let cloud = create_cloud(&world.folder("security"), "home").unwrap();
    assert!(cloud.accounts().user(&"bob".parse().unwrap()).is_some_and(|bob| bob.password.is_some()));
}
