//! Whether a peer is on a network of this machine, where bytes need not fear loss. It never sends anything.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};

use protocol::address_range::common_prefix_bits;

/// Whether an address lies in a network of this machine, judged by our own address towards it. Sends nothing.
pub(super) fn is_on_local_network(peer: SocketAddr) -> bool {
    let any = if peer.is_ipv4() { Ipv4Addr::UNSPECIFIED.into() } else { Ipv6Addr::UNSPECIFIED.into() };
    let own = UdpSocket::bind(SocketAddr::new(any, 0)).and_then(|socket| {
        socket.connect(peer)?;
        socket.local_addr()
    });
    own.is_ok_and(|own| share_network(own.ip(), peer.ip()))
}

pub(super) fn share_network(own: IpAddr, peer: IpAddr) -> bool {
    let network_bits = if peer.to_canonical().is_ipv4() { NETWORK_BITS_V4 } else { NETWORK_BITS_V6 };
    common_prefix_bits(own, peer) >= network_bits
}

/// Leading bits, as [`common_prefix_bits`] counts them (four for each of IPv4), that two addresses of one network
/// share: a /24 of IPv4 ...
const NETWORK_BITS_V4: u8 = 96;
/// ... and a /64 of IPv6.
const NETWORK_BITS_V6: u8 = 64;
