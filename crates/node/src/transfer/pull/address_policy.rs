//! The addresses to which a client may send this node for the bytes of a copy (path `docs/paths/third-party-copy.md`).
//! A node reaches its operator's network and its own machine, which others cannot reach, and must not connect there for
//! them. The policy is pure. It never sees a name: a node is always given an address.

use std::net::{IpAddr, SocketAddr};

/// Decides by the node's own address.
#[derive(Clone, Copy, Debug)]
pub(crate) struct AddressPolicy {
    own: IpAddr,
}

impl AddressPolicy {
    /// The policy of a node that others reach at this address.
    pub(crate) fn of(own: SocketAddr) -> Self {
        Self { own: own.ip().to_canonical() }
    }

    /// Whether the node may connect there. Its own machine and link-local neighbours are allowed only if others reach
    /// the node itself in that way. Multicast, broadcast and unspecified addresses are never allowed.
    pub(crate) fn may_connect_to(self, address: SocketAddr) -> bool {
        let to = address.ip().to_canonical();
        let is_one = !to.is_unspecified() && !to.is_multicast() && !is_nobody(to) && address.port() != 0;
        let is_here = to.is_loopback() && !self.own.is_loopback();
        let is_beside = is_link_local(to) && !is_link_local(self.own);
        is_one && !is_here && !is_beside
    }
}

/// The network 0.0.0.0/8, which systems take for their own machine, and the broadcast address.
fn is_nobody(ip: IpAddr) -> bool {
    match ip {
        IpAddr::V4(ip) => ip.octets()[0] == 0 || ip.is_broadcast(),
        IpAddr::V6(_) => false,
    }
}

fn is_link_local(ip: IpAddr) -> bool {
    match ip {
        IpAddr::V4(ip) => ip.is_link_local(),
        IpAddr::V6(ip) => ip.is_unicast_link_local(),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn may(own: &str, to: &str) -> bool {
        AddressPolicy::of(own.parse().unwrap()).may_connect_to(to.parse().unwrap())
    }

    #[test]
    fn a_node_is_sent_neither_to_its_own_machine_nor_to_its_neighbours_nor_to_nobody() {
        for to in [
            "127.0.0.1:7410",
            "127.9.9.9:80",
            "[::1]:7410",
            "[::ffff:127.0.0.1]:7410",
            "0.0.0.0:7410",
            "0.1.2.3:7410",
            "[::]:7410",
            "[::ffff:0.0.0.0]:7410",
            "169.254.169.254:80",
            "[::ffff:169.254.169.254]:80",
            "[fe80::1]:7410",
            "224.0.0.1:7410",
            "[ff02::1]:7410",
            "255.255.255.255:7410",
            "192.0.2.1:0",
        ] {
            assert!(!may("192.0.2.7:7410", to), "{to}");
            assert!(!may("[2001:db8::7]:7410", to), "{to}");
        }
        for to in ["192.0.2.9:7410", "10.0.0.9:7410", "[2001:db8::9]:7410"] {
            assert!(may("192.0.2.7:7410", to), "{to}");
        }
    }

    #[test]
    fn a_loopback_or_link_local_cloud_may_reach_itself_and_no_wildcard_address() {
        assert!(may("127.0.0.1:7410", "127.0.0.1:7411") && may("[::1]:7410", "127.0.0.1:7411"));
        assert!(may("169.254.3.4:7410", "169.254.3.5:7410") && !may("169.254.3.4:7410", "127.0.0.1:7410"));
        assert!(!may("127.0.0.1:7410", "169.254.3.5:7410"));
        for to in ["0.0.0.0:7411", "224.0.0.1:7411", "255.255.255.255:7411", "127.0.0.1:0"] {
            assert!(!may("127.0.0.1:7410", to), "{to}");
        }
    }
}
