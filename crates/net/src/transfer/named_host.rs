//! Connections to a host that has a name: its numbers are asked for at each connect, and tried in turn. So a server may
//! move, and may have several addresses. A name never replaces the certificate: that is of the role.

use std::{io, net::SocketAddr};

use protocol::HostAddress;

use super::{Carrier, TransferStream};
use crate::NetError;

/// The numbers of a host, in the order in which they should be tried.
///
/// # Errors
/// [`NetError::Unresolved`] when its name has none.
pub async fn resolve(address: &HostAddress) -> Result<Vec<SocketAddr>, NetError> {
    let (name, port) = match address {
        HostAddress::Ip(address) => return Ok(vec![*address]),
        HostAddress::Name(name, port) => (name.as_str(), *port),
    };
    let unresolved = |source| NetError::Unresolved { name: name.to_owned(), source };
    let mut found: Vec<SocketAddr> = Vec::new();
    for address in tokio::net::lookup_host((name, port)).await.map_err(unresolved)? {
        if !found.contains(&address) {
            found.push(address);
        }
    }
    if found.is_empty() { Err(unresolved(io::ErrorKind::NotFound.into())) } else { Ok(found) }
}

/// Connects to the first number of the host that answers.
///
/// # Errors
/// As [`Carrier::connect`], of the last number; [`NetError::Unresolved`] when the name has none.
pub async fn connect_to_host<C: Carrier>(
    carrier: &C,
    address: &HostAddress,
    server: &str,
) -> Result<TransferStream, NetError> {
    let mut numbers = resolve(address).await?.into_iter().peekable();
    loop {
        // There is at least one.
        let Some(number) = numbers.next() else {
            let source = io::ErrorKind::NotFound.into();
            return Err(NetError::Unresolved { name: address.to_string(), source });
        };
        match carrier.connect(number, server).await {
            // Another number may be that of another machine, which is not the one that is meant.
            Err(error) if numbers.peek().is_some() => tracing::debug!(%error, "the next address is tried"),
            ended => return ended,
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use protocol::Reason;

    use super::*;
    use crate::{
        identity::{Authority, TlsIdentity},
        transfer::{Listener, QuicSettings, TcpCarrier},
    };

    #[tokio::test]
    async fn all_numbers_of_a_name_are_tried_until_one_answers() {
        let authority = Authority::create("test").unwrap();
        let master = TlsIdentity::role(authority.certificate_pem(), &authority.issue("master").unwrap()).unwrap();
        // `localhost` is often `::1` first, where nobody listens.
        let address = SocketAddr::from(([127, 0, 0, 1], 0));
        let listener = Listener::bind_both(address, master, QuicSettings::default()).await.unwrap();
        let port = listener.address().port();
        let carrier = TcpCarrier::new(TlsIdentity::client(authority.certificate_pem()).unwrap());
        let name: HostAddress = format!("localhost:{port}").parse().unwrap();
        for host in [name, HostAddress::from(listener.address())] {
            let accepting = async { listener.accept().await.unwrap().handshake().await };
            let (connected, _) = tokio::join!(connect_to_host(&carrier, &host, "master"), accepting);
            assert_eq!(connected.unwrap().peer(), listener.address());
        }
    }

    #[tokio::test]
    async fn a_name_without_a_number_is_said_in_one_sentence() {
        let error = resolve(&"nothing.invalid:7400".parse().unwrap()).await.unwrap_err();
        assert_eq!(error.refusal().reason, Reason::Unavailable);
        assert!(error.to_string().starts_with("cannot find the address of `nothing.invalid`: "), "{error}");
        assert!(!error.to_string().contains('\n'), "{error}");
    }
}
