//! Hosts that somebody else names, for requests that this machine makes for them. Whoever may ask must not reach by this
//! what only this machine reaches. So each address of a name is a public one, or the operator allows its host. It never
//! looks a name up twice: what was looked at is what is connected to.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use ureq::{
    Error,
    config::Config,
    http::Uri,
    unversioned::{
        resolver::{DefaultResolver, ResolvedSocketAddrs, Resolver},
        transport::NextTimeout,
    },
};

/// Looks names up, and refuses those that lead to addresses that are not public.
#[derive(Clone, Debug)]
pub struct PublicResolver {
    allowed: Vec<String>,
}

impl PublicResolver {
    /// One that leads to public addresses, and to these hosts wherever they are.
    ///
    /// # Errors
    /// A host that is written as an address with a path or a login.
    pub fn new(allowed: &[String]) -> Result<Self, String> {
        match allowed.iter().find(|host| host.is_empty() || host.contains(['/', '@'])) {
            Some(wrong) => Err(format!("`{wrong}` is no name of a host")),
            None => Ok(Self { allowed: allowed.to_vec() }),
        }
    }

    /// Whether the operator names this host.
    pub fn names(&self, host: &str) -> bool {
        self.allowed.iter().any(|allowed| allowed.eq_ignore_ascii_case(host.trim_matches(['[', ']'])))
    }

    /// Whether a host may be reached by these addresses.
    pub fn allows(&self, host: &str, found: &[SocketAddr]) -> bool {
        self.names(host) || found.iter().all(|address| is_public(address.ip()))
    }
}

impl Resolver for PublicResolver {
    fn resolve(&self, uri: &Uri, config: &Config, timeout: NextTimeout) -> Result<ResolvedSocketAddrs, Error> {
        let host = uri.host().unwrap_or_default().trim_matches(['[', ']']);
        let found = DefaultResolver::default().resolve(uri, config, timeout)?;
        if !self.allows(host, &found) {
            let message = format!("`{host}` has no public address: the operator may allow it");
            return Err(Error::Io(std::io::Error::new(std::io::ErrorKind::PermissionDenied, message)));
        }
        Ok(found)
    }
}

/// Whether an address is one of the open network.
fn is_public(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => is_public_v4(address),
        IpAddr::V6(address) => match address.to_ipv4_mapped() {
            Some(mapped) => is_public_v4(mapped),
            None => is_public_v6(address),
        },
    }
}

fn is_public_v4(address: Ipv4Addr) -> bool {
    let [a, b, ..] = address.octets();
    let is_shared = a == 100 && (64..128).contains(&b);
    let is_for_tests = (a == 198 && (b == 18 || b == 19)) || address.is_documentation();
    let is_special = a == 0 || a >= 224 || (a == 192 && b == 0);
    !(address.is_loopback()
        || address.is_private()
        || address.is_link_local()
        || is_shared
        || is_for_tests
        || is_special)
}

/// Of the sixth version only global unicast counts, without what leads to the fourth by another way.
fn is_public_v6(address: Ipv6Addr) -> bool {
    let [first, second, ..] = address.segments();
    let is_global = (0x2000..0x4000).contains(&first);
    let is_translated = first == 0x2002 || (first == 0x2001 && second < 0x0200);
    is_global && !is_translated && !(first == 0x2001 && second == 0x0db8)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn only_addresses_of_the_open_network_are_public() {
        for (address, expected) in [
            ("93.184.216.34", true),
            ("127.0.0.1", false),
            ("127.8.8.8", false),
            ("10.1.2.3", false),
            ("172.16.0.1", false),
            ("192.168.1.1", false),
            ("169.254.169.254", false),
            ("100.64.0.1", false),
            ("0.0.0.0", false),
            ("192.0.0.8", false),
            ("198.18.0.1", false),
            ("224.0.0.1", false),
            ("255.255.255.255", false),
            ("::1", false),
            ("::", false),
            ("::ffff:127.0.0.1", false),
            ("::ffff:93.184.216.34", true),
            ("fe80::1", false),
            ("fd00::1", false),
            ("ff02::1", false),
            ("64:ff9b::7f00:1", false),
            ("2002:7f00:1::", false),
            ("2001:0:7f00:1::", false),
            ("2001:db8::1", false),
            ("2606:2800:220:1::", true),
        ] {
            assert_eq!(is_public(address.parse().unwrap()), expected, "{address}");
        }
    }
}
