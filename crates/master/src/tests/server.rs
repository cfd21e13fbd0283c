//! The master with its real server: sockets on the loopback and a journal on the disk. A security server, a client and
//! a node are stand-ins. The rules are tested elsewhere; these tests cover how they are driven.

#![allow(clippy::unwrap_used)]

use std::{net::SocketAddr, path::Path};

use daemon::{
    settings::{Checked, MasterSettings},
    shutdown::TaskGroup,
};
use net::{
    clock::Clock,
    datagram::bind_udp,
    identity::{Authority, Credentials, TlsIdentity, fingerprint, is_signed},
    messenger::{Messenger, MessengerEvent, SessionKeys, SessionRole},
    transfer::{Carrier, Listener, TcpCarrier},
};
use protocol::{
    Reason,
    message::{
        join::{JoinReply, JoinRequest, KEY_LABEL, Secret},
        master_security::{KnownUser, SecurityReply, SecurityRequest},
        request::{CommitRequest, LocateRequest, LogoutRequest, MakeFolderRequest, NodesRequest, TopologyRequest},
    },
    status::ErrorClass,
    ticket_verifier::TicketVerifier,
};
use tokio::sync::mpsc;

use super::*;
use crate::{MasterError, MasterServer};

/// A cloud's authority and folder, with a security server that lets in `ann` with her password and the node `n1`.
struct Cloud {
    authority: Authority,
    node: Credentials,
    master: Credentials,
    security: SocketAddr,
    folder: tempfile::TempDir,
}

/// A running master.
struct Running {
    address: SocketAddr,
    stop: TaskGroup,
    ended: tokio::task::JoinHandle<Result<(), MasterError>>,
}

/// One end of a session with the master.
struct Talk {
    session: SessionId,
    ticket_keys: TicketKeys,
    messenger: Messenger,
    events: mpsc::Receiver<MessengerEvent>,
}

impl Cloud {
    async fn new() -> Self {
        let authority = Authority::create("test").unwrap();
        let node = authority.issue("n1").unwrap();
        let master = authority.issue("master").unwrap();
        let own = authority.issue("security").unwrap();
        let identity = TlsIdentity::role(authority.certificate_pem(), &own).unwrap();
        let listener = Listener::bind(([127, 0, 0, 1], 0).into(), identity).await.unwrap();
        let security = listener.address();
        let node_print = fingerprint(&node.certificate_pem).unwrap();
        tokio::spawn(guard(listener, node_print));
        Self { authority, node, master, security, folder: tempfile::tempdir().unwrap() }
    }

    fn settings(&self, listen: SocketAddr) -> Checked<MasterSettings> {
        let folder = self.folder.path();
        let write = |name: &str, text: &str| std::fs::write(folder.join(name), text).unwrap();
        write("authority.pem", self.authority.certificate_pem());
        write("certificate.pem", &self.master.certificate_pem);
        write("key.pem", &self.master.key_pem);
        let settings =
            MasterSettings { listen, folder: folder.into(), security: self.security.into(), ..Default::default() };
        Checked::of(settings, Path::new("/")).unwrap()
    }

    async fn start(&self) -> Running {
        self.start_at(([127, 0, 0, 1], 0).into()).await
    }

    async fn start_at(&self, address: SocketAddr) -> Running {
        let server = MasterServer::bind(&self.settings(address)).await.unwrap();
        let (address, stop) = (server.address(), TaskGroup::new());
        let ended = tokio::spawn(server.run(stop.token()));
        Running { address, stop, ended }
    }

    async fn join(&self, master: SocketAddr, identity: TlsIdentity, request: JoinRequest) -> Result<Talk, Refusal> {
        let mut stream = TcpCarrier::new(identity).connect(master, "master").await.unwrap();
        stream.send(&request).await.unwrap();
        match stream.receive::<JoinReply>().await.unwrap() {
            JoinReply::Refused(refusal) => Err(refusal),
            other @ (JoinReply::LoggedIn(_) | JoinReply::Admission(_) | JoinReply::Device(_)) => panic!("{other:?}"),
            JoinReply::Accepted { session, ticket_keys, reset_token: gone_token } => {
                let key = stream.export_key(KEY_LABEL, &session.0.to_be_bytes()).unwrap();
                let socket = bind_udp(([127, 0, 0, 1], 0).into()).await.unwrap();
                let (messenger, events) = Messenger::start(socket, Clock::start());
                messenger.add_session(SessionKeys { session, key, role: SessionRole::Initiator, peer: Some(master) });
                messenger.expect_reset_token(session, gone_token);
                Ok(Talk { session, ticket_keys, messenger, events })
            }
        }
    }

    async fn log_in(&self, master: SocketAddr, password: &str) -> Result<Talk, Refusal> {
        let identity = TlsIdentity::client(self.authority.certificate_pem()).unwrap();
        let user = UserName::new("ann").unwrap();
        self.join(
            master,
            identity,
            JoinRequest::Client { user, secret: Secret::Password(password.into()), holder: HolderKey([1; 32]) },
        )
        .await
    }

    fn node_identity(&self) -> TlsIdentity {
        TlsIdentity::role(self.authority.certificate_pem(), &self.node).unwrap()
    }

    fn node_request(transfer: &str) -> JoinRequest {
        JoinRequest::Node {
            local: None,
            node: node("n1"),
            place: Place::new("a", "1"),
            transfer: transfer.parse().unwrap(),
            spe_slots: 1,
            pid: 1,
            folder: "/data".into(),
        }
    }
}

impl Running {
    async fn end(self) {
        self.stop.cancel();
        self.ended.await.unwrap().unwrap();
    }
}

impl Talk {
    async fn ask<Q: serde::Serialize, A: serde::de::DeserializeOwned>(&self, question: &Q) -> A {
        let answer = self.messenger.request(self.session, codec::encode(question), seconds(20)).await.unwrap();
        codec::decode(&answer).unwrap()
    }

    async fn ask_master(&self, request: ClientRequest) -> ClientReply {
        self.ask(&request).await
    }

    async fn report(&self, report: Report) {
        assert_eq!(self.ask::<_, Ack>(&report).await, Ack::Done);
    }
}

/// A security server with one user and one node.
async fn guard(listener: Listener, node_print: [u8; 32]) {
    loop {
        let mut stream = listener.accept().await.unwrap().handshake().await.unwrap();
        stream.admit();
        tokio::spawn(async move {
            while let Ok(Some(request)) = stream.receive_or_end::<SecurityRequest>().await {
                let no = SecurityReply::Refused(Refusal::new(Reason::NoRight, "wrong user or password"));
                let reply = match request {
                    SecurityRequest::CheckUser { user, secret, .. } if secret == Secret::Password("right".into()) => {
                        let rights = UserRights { user, groups: Vec::new(), admin: false };
                        SecurityReply::User(KnownUser { rights, credential: CredentialId(0), until_unix_millis: None })
                    }
                    SecurityRequest::CheckNode { fingerprint, .. } if fingerprint == node_print => {
                        SecurityReply::NodeAllowed
                    }
                    _ => no,
                };
                stream.send(&reply).await.unwrap();
            }
        });
    }
}

#[tokio::test]
async fn what_was_answered_is_there_when_the_master_is_started_again() {
    let cloud = Cloud::new().await;
    let master = cloud.start().await;
    let ann = cloud.log_in(master.address, "right").await.unwrap();
    let mkdir = ClientRequest::MakeFolder(MakeFolderRequest { path: path("/d"), parents: false });
    assert_eq!(ann.ask_master(mkdir.clone()).await, ClientReply::Done);
    master.end().await;

    let master = cloud.start().await;
    let ann = cloud.log_in(master.address, "right").await.unwrap();
    let reply = ann.ask_master(mkdir).await;
    assert!(matches!(reply, ClientReply::Refused(refusal) if refusal.status() == Status::Exists));
    assert_eq!(ann.ask_master(ClientRequest::Logout(LogoutRequest)).await, ClientReply::Done);
    master.end().await;
}

#[tokio::test]
async fn who_speaks_into_a_session_of_before_the_restart_hears_at_once_that_it_is_gone() {
    let cloud = Cloud::new().await;
    let master = cloud.start().await;
    let address = master.address;
    let mut ann = cloud.log_in(address, "right").await.unwrap();
    assert!(matches!(ann.ask_master(ClientRequest::Nodes(NodesRequest)).await, ClientReply::Nodes(_)));
    master.end().await;
    let master = cloud.start_at(address).await;
    // Without the master's message the session would not be given up before this time.
    let until = protocol::gmp::UNREACHABLE_AFTER / 2;
    let answer = ann.messenger.request(ann.session, codec::encode(&ClientRequest::Nodes(NodesRequest)), until).await;
    assert!(matches!(answer, Err(net::NetError::SessionLost { .. })), "{answer:?}");
    assert_eq!(ann.events.recv().await, Some(MessengerEvent::SessionLost(ann.session)));
    master.end().await;
}

#[tokio::test]
async fn nobody_comes_in_whom_the_security_server_does_not_know() {
    let cloud = Cloud::new().await;
    let master = cloud.start().await;
    let refused = |joined: Result<Talk, Refusal>| joined.err().expect("refused");
    assert_eq!(refused(cloud.log_in(master.address, "wrong").await).message, "wrong user or password");

    let nameless = TlsIdentity::client(cloud.authority.certificate_pem()).unwrap();
    let request = Cloud::node_request("127.0.0.1:1");
    let refusal = refused(cloud.join(master.address, nameless, request.clone()).await);
    assert!(refusal.message.contains("showed no certificate"), "{refusal}");
    let other = cloud.authority.issue("n1").unwrap();
    let other = TlsIdentity::role(cloud.authority.certificate_pem(), &other).unwrap();
    assert_eq!(refused(cloud.join(master.address, other, request).await).status(), Status::Refused);
    master.end().await;
}

#[tokio::test]
async fn nobody_comes_in_while_the_security_server_is_away() {
    let mut cloud = Cloud::new().await;
    // A port that was free a moment ago, with no listener.
    let closed = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    cloud.security = closed.local_addr().unwrap();
    drop(closed);
    let master = cloud.start().await;
    let refusal = cloud.log_in(master.address, "right").await.err().unwrap();
    assert_eq!(refusal.status(), Status::Unavailable);
    assert!(refusal.message.contains("security server"), "{refusal}");
    master.end().await;
}

#[tokio::test]
async fn a_file_goes_from_create_to_its_place() {
    let cloud = Cloud::new().await;
    let master = cloud.start().await;
    let mut n1 = cloud.join(master.address, cloud.node_identity(), Cloud::node_request("0.0.0.0:7410")).await.unwrap();
    n1.report(Report::Inventory { slices: Vec::new(), last: true }).await;
    n1.report(Report::Status {
        used_bytes: 0,
        free_bytes: 1 << 40,
        transfers: 0,
        spes: 0,
        disks: vec![],
        sandbox_missing: None,
        refused_tickets: BTreeMap::new(),
        links: Vec::new(),
        memory_free_bytes: 0,
    })
    .await;

    let ann = cloud.log_in(master.address, "right").await.unwrap();
    let ClientReply::Created(created) = ann.ask_master(ClientRequest::Create(create("/f"))).await else {
        panic!("not created")
    };
    assert_eq!(created.target.address, "127.0.0.1:7410".parse().unwrap(), "reached where it came from");
    let now = Clock::start().now();
    let mut verifier = TicketVerifier::new(node("n1"), "uic".into(), is_signed);
    verifier.take_keys(now, n1.ticket_keys);
    let TicketRight::Write { header, .. } = verifier.verify(now, &created.target.ticket).unwrap().right else {
        panic!("no write ticket")
    };
    n1.report(Report::Stored(SliceMetadata { header: header.clone(), bytes: 10, digest: digest(10) })).await;
    let commit = ClientRequest::Commit(CommitRequest { lease: created.lease, bytes: 10, digest: digest(10) });
    assert!(matches!(ann.ask_master(commit).await, ClientReply::Entry(entry) if entry.path == path("/f")));

    let delivered = loop {
        let Some(MessengerEvent::Delivered(delivered)) = n1.events.recv().await else { panic!("no order") };
        // Mirror rows come whenever they change.
        if !matches!(codec::decode::<Order>(&delivered.body), Ok(Order::Mirror(_))) {
            break delivered;
        }
    };
    let place = Order::Place { header };
    assert_eq!(codec::decode::<Order>(&delivered.body), Ok(place));
    n1.messenger.reply(n1.session, delivered.request.unwrap(), codec::encode(&Ack::Done));
    let ClientReply::Located(located) = ann.ask_master(ClientRequest::Locate(LocateRequest(path("/f")))).await else {
        panic!("not located")
    };
    let ticket = verifier.verify(Clock::start().now(), &located.sources[0].ticket).unwrap();
    assert_eq!(ticket.right, TicketRight::Read { slice: created.slice, from: 0, until: 10 });
    master.end().await;
}

#[tokio::test]
async fn a_message_that_is_not_understood_is_answered_so() {
    let cloud = Cloud::new().await;
    let master = cloud.start().await;
    let ann = cloud.log_in(master.address, "right").await.unwrap();
    for body in [Vec::new(), vec![9, 9, 9], codec::encode(&Report::Inventory { slices: Vec::new(), last: true })] {
        let answer = ann.messenger.request(ann.session, body, seconds(20)).await.unwrap();
        let reply: ClientReply = codec::decode(&answer).unwrap();
        assert!(matches!(&reply, ClientReply::Refused(refusal) if refusal.status() == Status::Usage), "{reply:?}");
    }
    master.end().await;
}

#[tokio::test]
async fn a_port_in_use_and_a_journal_in_use_are_named() {
    let cloud = Cloud::new().await;
    let master = cloud.start().await;
    let other = tempfile::tempdir().unwrap();
    let held = Cloud { folder: other, ..Cloud::new().await };
    let error = MasterServer::bind(&held.settings(master.address)).await.err().unwrap();
    assert!(matches!(error, MasterError::Listen { .. }), "{error}");
    assert!(error.to_string().contains(&master.address.to_string()), "{error}");
    assert_eq!(error.class(), ErrorClass::Refuse);

    let error = MasterServer::bind(&cloud.settings(([127, 0, 0, 1], 0).into())).await.err().unwrap();
    assert!(matches!(error, MasterError::Journal { operation: "open", .. }), "{error}");
    master.end().await;
    // And once it has ended, both are free again.
    let master = cloud.start().await;
    master.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_wrong_topology_stops_the_start_and_a_good_one_says_where_nodes_stand() {
    let cloud = Cloud::new().await;
    let file = cloud.folder.path().join("sites.toml");
    let start = || {
        let settings =
            MasterSettings { topology: Some(file.clone()), ..(*cloud.settings(([127, 0, 0, 1], 0).into())).clone() };
        let settings = Checked::of(settings, Path::new("/")).unwrap();
        async move { MasterServer::bind(&settings).await }
    };
    std::fs::write(&file, "[nodes]\nn1 = \"nowhere\"\n").unwrap();
    let wrong = start().await.err().unwrap();
    assert!(wrong.to_string().contains("sites.toml, line 2: `nowhere` is not a place"), "{wrong}");
    std::fs::write(&file, "[nodes]\nn1 = \"chicago/rack-9\"\n").unwrap();
    let server = start().await.unwrap();
    let (address, stop) = (server.address(), TaskGroup::new());
    let ended = tokio::spawn(server.run(stop.token()));
    let node = cloud.join(address, cloud.node_identity(), Cloud::node_request("127.0.0.1:9")).await.unwrap();
    node.report(Report::Inventory { slices: Vec::new(), last: true }).await;
    let ann = cloud.log_in(address, "right").await.unwrap();
    let ClientReply::Topology(status) =
        ann.ask_master(ClientRequest::Topology(TopologyRequest { reload: false })).await
    else {
        panic!("no topology")
    };
    assert_eq!(status.file.as_deref(), file.to_str());
    assert_eq!(status.places, [(super::node("n1"), Place::new("chicago", "rack-9"))]);
    stop.cancel();
    ended.await.unwrap().unwrap();
}
