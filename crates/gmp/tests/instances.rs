//! Instances of one group on this machine: requests, replies, notices, group sends, restarts, and strangers.

#![allow(clippy::unwrap_used, missing_docs)]

use std::{net::SocketAddr, time::Duration};

use gmp::{Group, HostAddress, Inbox, Instance, MESSAGE_BYTES_MAX, NetError};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    task::JoinHandle,
};

const ANY: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(std::net::Ipv4Addr::LOCALHOST), 0);
/// Never reached.
const LONG: Duration = Duration::from_secs(60);

/// A service that answers with its name and the request.
async fn service(group: &Group, name: &'static str, address: SocketAddr) -> (Instance, HostAddress, JoinHandle<()>) {
    let (instance, inbox) = Instance::bind(group, address).await.unwrap();
    let address = instance.address().into();
    (instance, address, tokio::spawn(answer(inbox, name)))
}

async fn answer(mut inbox: Inbox, name: &'static str) {
    while let Some(message) = inbox.next().await {
        let body = [name.as_bytes(), b" ", message.body()].concat();
        message.reply(body).unwrap();
    }
}

async fn client(group: &Group) -> Instance {
    Instance::bind(group, ANY).await.unwrap().0
}

#[tokio::test]
async fn a_request_has_one_reply_and_a_second_one_uses_the_same_session() {
    let group = Group::create("test").unwrap();
    let (_one, address, _serving) = service(&group, "one", ANY).await;
    let client = client(&group).await;
    for body in [b"".to_vec(), b"hello".to_vec(), vec![b'x'; 300_000]] {
        let replied = client.request(&address, body.clone(), LONG).await.unwrap();
        assert!(replied == [b"one ", &body[..]].concat());
    }
    // A hundred at once, of which each has its own.
    let asked = (0..100_u32).map(|number| {
        let (client, address) = (client.clone(), address.clone());
        tokio::spawn(async move { client.request(&address, number.to_string().into(), LONG).await.unwrap() })
    });
    for (number, asked) in asked.collect::<Vec<_>>().into_iter().enumerate() {
        assert_eq!(asked.await.unwrap(), format!("one {number}").into_bytes());
    }
}

#[tokio::test]
async fn a_group_send_reaches_everyone_and_says_who_was_not_reached() {
    let group = Group::create("test").unwrap();
    let (_one, one, _serving_one) = service(&group, "one", ANY).await;
    let (_two, two, _serving_two) = service(&group, "two", ANY).await;
    let gone = client(&group).await;
    let nobody: HostAddress = gone.address().into();
    gone.close().await;
    let client = client(&group).await;
    let all = [two.clone(), nobody.clone(), one.clone(), two.clone()];
    // Once while the sessions open, and once in open sessions.
    for _ in 0..2 {
        let replies = client.request_each(&all, b"tick".to_vec(), LONG).await;
        let [(first, said_two), (second, refused), (third, said_one)] = &replies[..] else { panic!("{replies:?}") };
        assert_eq!((first, second, third), (&two, &nobody, &one));
        assert_eq!(said_two.as_deref().unwrap(), b"two tick");
        assert_eq!(said_one.as_deref().unwrap(), b"one tick");
        assert!(matches!(refused, Err(NetError::Connect { .. })), "{refused:?}");
    }
}

#[tokio::test]
async fn a_notice_arrives_once_and_its_sender_can_be_asked_back() {
    let group = Group::create("test").unwrap();
    let (server, mut inbox) = Instance::bind(&group, ANY).await.unwrap();
    let (asking, address, _serving) = service(&group, "asking", ANY).await;
    asking.notify(&server.address().into(), b"look".to_vec(), LONG).await.unwrap();
    let message = inbox.next().await.unwrap();
    assert_eq!((message.body(), message.is_request()), (&b"look"[..], false));
    assert_eq!(HostAddress::from(message.from()), address);
    assert_eq!(server.request(&message.from().into(), b"who?".to_vec(), LONG).await.unwrap(), b"asking who?");
}

#[tokio::test]
async fn a_service_that_was_started_again_is_found_again() {
    let group = Group::create("test").unwrap();
    let (one, address, serving) = service(&group, "before", ANY).await;
    let HostAddress::Ip(at) = address else { panic!("{address}") };
    let client = client(&group).await;
    assert_eq!(client.request(&address, b"a".to_vec(), LONG).await.unwrap(), b"before a");
    // As if its process had died: nobody is told.
    serving.abort();
    assert!(serving.await.unwrap_err().is_cancelled());
    drop(one);
    let (_again, _, _serving) = loop {
        // The old tasks end at their next step.
        match Instance::bind(&group, at).await {
            Ok((instance, inbox)) => break (instance, at, tokio::spawn(answer(inbox, "after"))),
            Err(NetError::Bind { .. }) => tokio::task::yield_now().await,
            Err(error) => panic!("{error}"),
        }
    };
    // The new one proves that it does not know the session. Whether the old one handled this request, nobody knows.
    let lost = client.request(&address, b"b".to_vec(), LONG).await;
    assert!(matches!(lost, Err(NetError::SessionLost { .. })), "{lost:?}");
    assert_eq!(client.request(&address, b"c".to_vec(), LONG).await.unwrap(), b"after c");
}

#[tokio::test]
async fn nobody_of_another_group_and_no_stranger_is_heard() {
    let (group, other) = (Group::create("test").unwrap(), Group::create("test").unwrap());
    let (server, mut inbox) = Instance::bind(&group, ANY).await.unwrap();
    let address: HostAddress = server.address().into();
    let foreign = client(&other).await;
    let refused = foreign.request(&address, b"let me in".to_vec(), LONG).await.unwrap_err();
    assert!(refused.to_string().contains("certificate"), "{refused}");
    // One that speaks no TLS is hung up on.
    let mut stranger = TcpStream::connect(server.address()).await.unwrap();
    stranger.write_all(b"GET / HTTP/1.1\r\n\r\n").await.unwrap();
    let _ = stranger.read_to_end(&mut Vec::new()).await;
    // The first that is heard is a member.
    client(&group).await.notify(&address, b"me".to_vec(), LONG).await.unwrap();
    assert_eq!(inbox.next().await.unwrap().body(), b"me");
}

#[tokio::test]
async fn what_is_too_long_or_comes_too_late_is_said() {
    let group = Group::create("test").unwrap();
    let (server, mut inbox) = Instance::bind(&group, ANY).await.unwrap();
    let (client, address) = (client(&group).await, HostAddress::from(server.address()));
    let long = client.request(&address, vec![0; MESSAGE_BYTES_MAX + 1], LONG).await.unwrap_err();
    assert!(matches!(long, NetError::TooLong { .. }), "{long}");
    let late = client.request(&address, b"a".to_vec(), Duration::from_millis(1)).await.unwrap_err();
    assert!(matches!(late, NetError::Deadline { .. }), "{late}");
    client.notify(&address, b"b".to_vec(), LONG).await.unwrap();
    let message = loop {
        let message = inbox.next().await.unwrap();
        if message.body() == b"b" {
            break message;
        }
    };
    assert!(matches!(message.reply(vec![0; MESSAGE_BYTES_MAX + 1]), Err(NetError::TooLong { .. })));
}

#[tokio::test]
async fn the_inbox_of_an_instance_ends_with_it() {
    let group = Group::create("test").unwrap();
    let (closed, mut its_inbox) = Instance::bind(&group, ANY).await.unwrap();
    let (dropped, mut other_inbox) = Instance::bind(&group, ANY).await.unwrap();
    let waiting = tokio::spawn(async move { (its_inbox.next().await.is_none(), other_inbox.next().await.is_none()) });
    closed.close().await;
    drop(dropped);
    assert_eq!(waiting.await.unwrap(), (true, true));
}

#[tokio::test]
async fn a_port_in_use_is_said_in_words() {
    let group = Group::create("test").unwrap();
    let (instance, _inbox) = Instance::bind(&group, ANY).await.unwrap();
    let error = Instance::bind(&group, instance.address()).await.err().unwrap();
    assert!(error.to_string().contains("the port is in use"), "{error}");
}
