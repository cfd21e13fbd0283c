//! The UDP socket of a process's QUIC connections, and its keys. With these a restarted node tells its old peers that
//! it no longer knows them. It never makes or accepts a connection itself.

use std::{net::SocketAddr, sync::Arc};

use noq::{Endpoint, EndpointConfig};
use noq_proto::HashedConnectionIdGenerator;
use ring::hmac;
use socket2::{Domain, Protocol, Socket, Type};

use super::{batches::CarefulRuntime, config::DATAGRAM_BYTES_MAX};
use crate::NetError;

/// Opens a UDP socket at `address` for QUIC. `secret`, where there is one, is the same whenever this role starts.
pub(super) fn open(address: SocketAddr, secret: Option<[u8; 32]>) -> Result<Endpoint, NetError> {
    let failed = |source| NetError::Bind { address, source };
    let socket = Socket::new(Domain::for_address(address), Type::DGRAM, Some(Protocol::UDP)).map_err(failed)?;
    if address.is_ipv6() {
        // TCP listens for both families where it listens at all addresses.
        socket.set_only_v6(false).map_err(failed)?;
    }
    socket.set_nonblocking(true).map_err(failed)?;
    // As much as the system gives: its limit is the operator's choice (`sector doctor`).
    let _ = socket.set_recv_buffer_size(SOCKET_BUFFER_BYTES);
    let _ = socket.set_send_buffer_size(SOCKET_BUFFER_BYTES);
    socket.bind(&address.into()).map_err(failed)?;
    Endpoint::new(configuration(secret), None, socket.into(), Arc::new(CarefulRuntime)).map_err(failed)
}

fn configuration(secret: Option<[u8; 32]>) -> EndpointConfig {
    let secret = secret.unwrap_or_else(crate::identity::random);
    let reset = hmac::Key::new(hmac::HMAC_SHA256, &derived(&secret, b"sector quic reset"));
    let mut configuration = EndpointConfig::new(Arc::new(reset));
    let id_key = derived(&secret, b"sector quic connection ids");
    let id_key =
        u64::from_be_bytes([id_key[0], id_key[1], id_key[2], id_key[3], id_key[4], id_key[5], id_key[6], id_key[7]]);
    configuration.cid_generator(Arc::new(move || Box::new(HashedConnectionIdGenerator::from_key(id_key))));
    // The bound is above what noq requires, so this cannot fail; if it did, the smaller default would do.
    let _ = configuration.max_udp_payload_size(DATAGRAM_BYTES_MAX);
    configuration
}

/// A separate key for each use of a secret.
fn derived(secret: &[u8; 32], label: &[u8]) -> [u8; 32] {
    let mut key = [0; 32];
    key.copy_from_slice(hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, secret), label).as_ref());
    key
}

/// Bytes that QUIC asks for in each direction's socket buffer: 25 ms of 10 Gbit/s, in which another task may have the
/// processor. If the system gives less, the excess is lost when it is needed, and sent again.
pub const SOCKET_BUFFER_BYTES: usize = 32 * 1024 * 1024;
