//! Ranges of addresses that users and nodes may come from (Sector/Sphere paper, 2.3: "an IP list and/or an IP range").
//! A site is also given by ranges. They serve the login, the joining of nodes and the topology. They are compared and
//! never resolved: no names, no lookups.

use std::{fmt, net::IpAddr, str::FromStr};

use ipnet::IpNet;
use serde::{Deserialize, Serialize};
use thiserror::Error;

/// All addresses that begin with the same bits: `10.0.0.0/8`, `2001:db8::/32`, or a single address.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct AddressRange(IpNet);

/// Why a text is not a range of addresses.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("`{text}` is not a range of addresses: {why}")]
pub struct RangeError {
    text: String,
    why: String,
}

impl AddressRange {
    /// Whether an address lies in the range. An IPv4 address also matches in its IPv6 form (`::ffff:10.0.0.1`), as it
    /// appears on a socket that listens for both.
    pub fn contains(&self, address: IpAddr) -> bool {
        self.0.contains(&address.to_canonical())
    }

    /// How many leading bits all its addresses share: of two ranges that hold an address, the one with more bits is
    /// narrower.
    pub fn prefix_bits(&self) -> u8 {
        self.0.prefix_len()
    }

    /// Whether an address lies in one of the ranges; an empty list allows every address.
    pub fn allows(ranges: &[Self], address: IpAddr) -> bool {
        ranges.is_empty() || ranges.iter().any(|range| range.contains(address))
    }
}

/// How many leading bits two addresses share, out of 128 so that both kinds compare. It is 0 for two of different
/// kinds.
pub fn common_prefix_bits(a: IpAddr, b: IpAddr) -> u8 {
    let leading = match (a.to_canonical(), b.to_canonical()) {
        (IpAddr::V4(a), IpAddr::V4(b)) => (a.to_bits() ^ b.to_bits()).leading_zeros() * 4,
        (IpAddr::V6(a), IpAddr::V6(b)) => (a.to_bits() ^ b.to_bits()).leading_zeros(),
        _ => 0,
    };
    u8::try_from(leading).unwrap_or(128)
}

impl FromStr for AddressRange {
    type Err = RangeError;

    fn from_str(text: &str) -> Result<Self, RangeError> {
        let error = |why: &str| RangeError { text: text.chars().take(64).collect(), why: why.into() };
        let (address, bits) = text.split_once('/').map_or((text, None), |(address, bits)| (address, Some(bits)));
        let first =
            IpAddr::from_str(address).map_err(|_| error("write it like 10.0.0.0/8, 10.1.2.3 or 2001:db8::/32"))?;
        if first != first.to_canonical() {
            return Err(error("write IPv4 addresses as such, not inside IPv6"));
        }
        let alone = IpNet::from(first);
        let range = match bits {
            None => alone,
            Some(bits) => prefix(bits)
                .and_then(|bits| IpNet::new(first, bits).ok())
                .ok_or_else(|| error(&format!("after `/` comes a number from 0 to {}", alone.max_prefix_len())))?,
        };
        let (start, bits) = (range.network(), range.prefix_len());
        // `10.1.2.3/8` is more often a slip for `/32` than a way to write `10.0.0.0/8`.
        if start != first {
            return Err(error(&format!("it starts at {start}; write {start}/{bits}, or {first} alone")));
        }
        Ok(Self(range))
    }
}

/// A number without a sign.
fn prefix(bits: &str) -> Option<u8> {
    bits.bytes().all(|byte| byte.is_ascii_digit()).then(|| bits.parse().ok())?
}

impl fmt::Display for AddressRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl fmt::Debug for AddressRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "AddressRange({self})")
    }
}

impl TryFrom<String> for AddressRange {
    type Error = RangeError;
    fn try_from(text: String) -> Result<Self, RangeError> {
        text.parse()
    }
}

impl From<AddressRange> for String {
    fn from(range: AddressRange) -> Self {
        range.to_string()
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn contains(range: &str, address: &str) -> bool {
        range.parse::<AddressRange>().unwrap().contains(address.parse().unwrap())
    }

    #[test]
    fn a_range_ends_where_its_prefix_ends() {
        assert!(contains("10.0.0.0/8", "10.255.255.255"));
        assert!(!contains("10.0.0.0/8", "11.0.0.0"));
        assert!(contains("192.168.4.0/22", "192.168.7.255"));
        assert!(!contains("192.168.4.0/22", "192.168.8.0"));
        assert!(contains("10.1.2.3", "10.1.2.3"));
        assert!(!contains("10.1.2.3", "10.1.2.2"));
        assert!(contains("2001:db8::/32", "2001:db8:ffff::1"));
        assert!(!contains("2001:db8::/32", "2001:db9::"));
    }

    #[test]
    fn zero_bits_are_every_address_of_the_same_kind() {
        assert!(contains("0.0.0.0/0", "255.255.255.255"));
        assert!(!contains("0.0.0.0/0", "::1"));
        assert!(contains("::/0", "ffff:ffff::"));
        assert!(!contains("::/0", "10.0.0.1"));
    }

    #[test]
    fn an_ipv4_address_inside_ipv6_is_an_ipv4_address() {
        assert!(contains("10.0.0.0/8", "::ffff:10.0.0.1"));
        assert!(!contains("::/0", "::ffff:10.0.0.1"));
    }

    #[test]
    fn no_range_at_all_allows_everyone() {
        let home: AddressRange = "10.0.0.0/8".parse().unwrap();
        let office = "192.0.2.0/24".parse().unwrap();
        let from = |text: &str| text.parse().unwrap();
        assert!(AddressRange::allows(&[], from("203.0.113.9")));
        assert!(AddressRange::allows(&[home, office], from("192.0.2.1")));
        assert!(!AddressRange::allows(&[home, office], from("203.0.113.9")));
    }

    #[test]
    fn what_is_not_a_range_is_refused_with_its_reason() {
        for text in [
            "",
            "/",
            "10.0.0.0/",
            "10.0.0.0/33",
            "10.0.0.0/+8",
            "10.0.0.0/8/8",
            "10.0.0",
            "host",
            "::/129",
            "::ffff:10.0.0.1",
        ] {
            let error = text.parse::<AddressRange>().unwrap_err();
            assert!(error.to_string().contains(text), "{error}");
        }
        let slip = "10.1.2.3/8".parse::<AddressRange>().unwrap_err();
        assert!(slip.to_string().contains("write 10.0.0.0/8, or 10.1.2.3 alone"), "{slip}");
    }

    #[test]
    fn addresses_of_one_network_share_more_bits_than_those_of_two() {
        let bits = |a: &str, b: &str| common_prefix_bits(a.parse().unwrap(), b.parse().unwrap());
        assert_eq!(bits("10.1.2.3", "10.1.2.3"), 128);
        assert!(bits("10.1.2.3", "10.1.9.9") > bits("10.1.2.3", "10.2.2.3"));
        assert_eq!(bits("10.1.2.3", "::ffff:10.1.2.3"), 128);
        assert_eq!(bits("10.1.2.3", "2001:db8::1"), 0);
    }

    #[test]
    fn a_range_prints_as_it_parses() {
        for text in ["10.0.0.0/8", "10.1.2.3/32", "2001:db8::/32", "::/0"] {
            assert_eq!(text.parse::<AddressRange>().unwrap().to_string(), text);
        }
    }
}
