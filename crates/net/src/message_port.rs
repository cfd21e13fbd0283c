//! A port for messages: UDP for datagrams, and TCP of the same number, where sessions begin. It never reads from
//! either.

use std::{net::SocketAddr, sync::Arc};

use crate::{
    NetError,
    datagram::{DatagramSocket, bind_udp},
    identity::TlsIdentity,
    transfer::Listener,
};

/// Opens TCP and UDP on one port number; port 0 takes one that is free for both.
///
/// # Errors
/// [`NetError::Bind`], which says in words that the port is in use.
pub async fn listen(
    address: SocketAddr,
    identity: &TlsIdentity,
) -> Result<(Listener, Arc<dyn DatagramSocket>), NetError> {
    let mut attempt = 1;
    loop {
        let listener = Listener::bind(address, identity.clone()).await?;
        match bind_udp(listener.address()).await {
            Ok(socket) => return Ok((listener, socket)),
            // Any free TCP port may be taken in UDP; another one will do then.
            Err(error) if address.port() == 0 && attempt < ATTEMPTS_MAX => {
                tracing::debug!(%error, "trying another port");
                attempt += 1;
            }
            Err(error) => return Err(error),
        }
    }
}

/// How many free ports are tried.
const ATTEMPTS_MAX: u32 = 100;
