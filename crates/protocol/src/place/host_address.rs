//! Where a server is, as people write it: `HOST:PORT`, with a number or a name. A name stays a name: whoever connects
//! asks for its numbers each time, so that a server may move. This file never looks a name up.

use std::{fmt, net::SocketAddr, str::FromStr};

use serde::{Deserialize, Serialize};
use thiserror::Error;

/// `10.0.0.1:7400`, `[2001:db8::1]:7400` or `master.example.org:7400`.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum HostAddress {
    /// A number.
    Ip(SocketAddr),
    /// A name.
    Name(HostName, u16),
}

/// The name of a machine, in small letters.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct HostName(String);

/// Why a text is not an address.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error(
    "`{0}` is no address; give HOST:PORT, such as `10.0.0.1:7400`, `[2001:db8::1]:7400` or `master.example.org:7400`"
)]
pub struct HostAddressError(String);

impl HostAddress {
    /// Its port.
    pub fn port(&self) -> u16 {
        match self {
            Self::Ip(address) => address.port(),
            Self::Name(_, port) => *port,
        }
    }

    /// The same host at another port.
    pub fn with_port(&self, port: u16) -> Self {
        match self {
            Self::Ip(address) => Self::Ip(SocketAddr::new(address.ip(), port)),
            Self::Name(name, _) => Self::Name(name.clone(), port),
        }
    }

    /// Whether no one can connect to it: it is all addresses of a machine, or has no port.
    pub fn is_unreachable(&self) -> bool {
        self.port() == 0 || matches!(self, Self::Ip(address) if address.ip().is_unspecified())
    }

    /// Whether it is certainly the machine of whoever uses it.
    pub fn is_loopback(&self) -> bool {
        match self {
            Self::Ip(address) => address.ip().to_canonical().is_loopback(),
            Self::Name(HostName(name), _) => name == "localhost" || name.ends_with(".localhost"),
        }
    }
}

impl HostName {
    /// A name: letters, digits, `-`, `_` and `.`, and no number in the place of an address.
    pub fn new(name: &str) -> Option<Self> {
        let is_label = |label: &str| {
            (1..=LABEL_BYTES_MAX).contains(&label.len())
                && label.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_')
        };
        let bare = name.strip_suffix('.').unwrap_or(name);
        let last_is_number = bare.rsplit('.').next().is_some_and(|last| last.bytes().all(|byte| byte.is_ascii_digit()));
        let is_name = name.len() <= NAME_BYTES_MAX && bare.split('.').all(is_label) && !last_is_number;
        is_name.then(|| Self(name.to_ascii_lowercase()))
    }

    /// The name.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for HostAddress {
    type Err = HostAddressError;

    fn from_str(text: &str) -> Result<Self, HostAddressError> {
        if let Ok(address) = text.parse() {
            return Ok(Self::Ip(address));
        }
        let named = text.rsplit_once(':').and_then(|(name, port)| {
            // Not `+80`, which the standard library takes for a number.
            let port = port.bytes().all(|byte| byte.is_ascii_digit()).then(|| port.parse().ok())??;
            Some(Self::Name(HostName::new(name)?, port))
        });
        named.ok_or_else(|| HostAddressError(text.chars().take(SHOWN_CHARS_MAX).collect()))
    }
}

impl From<SocketAddr> for HostAddress {
    fn from(address: SocketAddr) -> Self {
        Self::Ip(address)
    }
}

impl TryFrom<String> for HostAddress {
    type Error = HostAddressError;

    fn try_from(text: String) -> Result<Self, HostAddressError> {
        text.parse()
    }
}

impl From<HostAddress> for String {
    fn from(address: HostAddress) -> Self {
        address.to_string()
    }
}

impl fmt::Display for HostAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ip(address) => address.fmt(f),
            Self::Name(name, port) => write!(f, "{}:{port}", name.0),
        }
    }
}

impl fmt::Debug for HostAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl fmt::Debug for HostName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Longest name of a machine (RFC 1035).
pub const NAME_BYTES_MAX: usize = 253;
/// Longest part of one (RFC 1035).
const LABEL_BYTES_MAX: usize = 63;
/// As much of a wrong text is shown.
const SHOWN_CHARS_MAX: usize = 80;

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn numbers_and_names_are_read_and_shown_as_they_were_written() {
        for text in ["10.0.0.1:7400", "[2001:db8::1]:7400", "[::1]:18400", "localhost:1", "a-b.example.org.:7400"] {
            let address: HostAddress = text.parse().unwrap();
            assert_eq!(address.to_string(), text);
            assert_eq!(matches!(address, HostAddress::Ip(_)), text.parse::<SocketAddr>().is_ok());
        }
        assert_eq!("Master.Example:7".parse::<HostAddress>().unwrap().to_string(), "master.example:7");
        assert_eq!("b:7".parse::<HostAddress>().unwrap().with_port(8).to_string(), "b:8");
    }

    #[test]
    fn what_is_no_address_is_refused_with_examples() {
        let long = format!("{}:1", "a.".repeat(200));
        let wrong = ["", "nowhere", ":7400", "a:", "a:b", "a:70000", "a:+7", "::1:7400", "10.0.0:7400", "10.0.0.256:1"];
        for text in wrong.into_iter().chain(["a b:1", "a..b:1", "a/b:1", "[name]:1", &long]) {
            let error = text.parse::<HostAddress>().unwrap_err().to_string();
            assert!(error.contains("is no address") && error.contains("[2001:db8::1]:7400"), "{text}: {error}");
        }
    }

    #[test]
    fn what_nobody_can_connect_to_and_what_is_this_machine_is_told() {
        let is =
            |text: &str| text.parse::<HostAddress>().map(|address| (address.is_unreachable(), address.is_loopback()));
        assert_eq!(is("0.0.0.0:7400"), Ok((true, false)));
        assert_eq!(is("[::]:7400"), Ok((true, false)));
        assert_eq!(is("master:0"), Ok((true, false)));
        assert_eq!(is("master:1"), Ok((false, false)));
        assert_eq!(is("localhost:1"), Ok((false, true)));
        assert_eq!(is("127.0.0.1:1"), Ok((false, true)));
    }
}
