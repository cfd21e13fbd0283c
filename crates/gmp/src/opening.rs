//! Opens a session between two members: one TLS handshake, at the TCP port of the same number, and from then on
//! datagrams alone. Each end proves that it holds the group's key. It never carries a message.

use std::net::SocketAddr;

use net::{
    NetError,
    identity::random,
    transfer::{Incoming, TcpCarrier, TransferStream, connect_to_host},
};
use protocol::{SessionId, host_address::HostAddress, wire::datagram::RESET_TOKEN_BYTES};
use serde::{Deserialize, Serialize};

use crate::group::MEMBER;

/// The first word of the member that opens the session.
#[derive(Serialize, Deserialize)]
struct Opening {
    version: u16,
    /// Where it listens itself.
    port: u16,
}

/// The answer.
#[derive(Serialize, Deserialize)]
struct Opened {
    session: SessionId,
    reset_token: [u8; RESET_TOKEN_BYTES],
}

/// A session as one end knows it.
pub(crate) struct OpenedSession {
    pub(crate) session: SessionId,
    pub(crate) key: [u8; 32],
    pub(crate) reset_token: [u8; RESET_TOKEN_BYTES],
    /// Where the other end listens.
    pub(crate) peer: SocketAddr,
}

/// Asks the member at `host` for a session, on behalf of one that listens at `port`.
pub(crate) async fn open(carrier: &TcpCarrier, host: &HostAddress, port: u16) -> Result<OpenedSession, NetError> {
    let mut stream = connect_to_host(carrier, host, MEMBER).await?;
    stream.send(&Opening { version: VERSION, port }).await?;
    let Opened { session, reset_token } = stream.receive_at_most(OPENING_BYTES_MAX).await?;
    let opened = OpenedSession { session, key: key(&stream, session)?, reset_token, peer: stream.peer() };
    stream.close().await;
    Ok(opened)
}

/// The other side: checks the caller, and has `begin` put the keys in place before the caller hears of the session.
pub(crate) async fn accept(
    incoming: Incoming,
    reset_token: impl Fn(SessionId) -> [u8; RESET_TOKEN_BYTES],
    begin: impl FnOnce(&OpenedSession),
) -> Result<(), NetError> {
    let mut stream = incoming.handshake().await?;
    let peer = stream.peer();
    let refused = |why: &str| NetError::Handshake { peer: peer.to_string(), why: why.to_owned() };
    if !stream.peer_certificate().is_some_and(|shown| shown.is_of(MEMBER)) {
        return Err(refused("it is not a member of the group"));
    }
    let Opening { version, port } = stream.receive_at_most(OPENING_BYTES_MAX).await?;
    if version != VERSION {
        return Err(refused("it speaks another version"));
    }
    stream.admit();
    let session = SessionId(u64::from_be_bytes(random()));
    let peer = SocketAddr::new(peer.ip().to_canonical(), port);
    let opened = OpenedSession { session, key: key(&stream, session)?, reset_token: reset_token(session), peer };
    begin(&opened);
    stream.send(&Opened { session, reset_token: opened.reset_token }).await?;
    stream.close().await;
    Ok(())
}

fn key(stream: &TransferStream, session: SessionId) -> Result<[u8; 32], NetError> {
    stream.export_key(KEY_LABEL, &session.0.to_be_bytes())
}

const VERSION: u16 = 1;
const KEY_LABEL: &[u8] = b"sector gmp group";
/// Far more than either word has.
const OPENING_BYTES_MAX: usize = 256;
