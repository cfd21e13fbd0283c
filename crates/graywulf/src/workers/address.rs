//! Where a worker is, as people write it. It never looks a name up.

use std::{fmt, net::IpAddr, str::FromStr};

use url::{Host, Url};

/// The address of a worker.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct WorkerAddress(Url);

impl WorkerAddress {
    /// As the engine wants it.
    pub(super) fn url(&self) -> &Url {
        &self.0
    }

    /// Whether what is sent there is enciphered.
    pub(super) fn is_tls(&self) -> bool {
        self.0.scheme() == "https"
    }

    /// Whether it is on this machine.
    pub(super) fn is_here(&self) -> bool {
        match self.0.host() {
            Some(Host::Domain(name)) => name == "localhost",
            Some(Host::Ipv4(address)) => IpAddr::V4(address).is_loopback(),
            Some(Host::Ipv6(address)) => IpAddr::V6(address).is_loopback(),
            None => false,
        }
    }

    /// Its host, as a name or a number.
    pub(super) fn host(&self) -> &str {
        self.0.host_str().unwrap_or_default().trim_matches(['[', ']'])
    }

    /// Its port.
    pub(super) fn port(&self) -> u16 {
        self.0.port_or_known_default().unwrap_or_default()
    }
}

impl From<Url> for WorkerAddress {
    fn from(url: Url) -> Self {
        Self(url)
    }
}

impl FromStr for WorkerAddress {
    type Err = String;

    /// `https://HOST:PORT`, or `HOST:PORT`: without TLS on this machine, with TLS elsewhere.
    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = |why: &str| format!("`{text}` is no address of a worker: {why}");
        let parse = |text: &str| Url::parse(text).map_err(|error| wrong(&error.to_string()));
        let address = if text.contains("://") {
            Self(parse(text)?)
        } else {
            let plain = Self(parse(&format!("http://{text}"))?);
            if plain.is_here() { plain } else { Self(parse(&format!("https://{text}"))?) }
        };
        let url = &address.0;
        if !matches!(url.scheme(), "http" | "https") {
            return Err(wrong("it begins with https:// or http://"));
        }
        let port = text.trim_end_matches('/').rsplit_once(':').and_then(|(_, port)| port.parse::<u16>().ok());
        if url.host().is_none() || port.is_none_or(|port| port == 0) {
            return Err(wrong("it ends with a port, as in node7:7083"));
        }
        let is_bare = url.username().is_empty() && url.password().is_none() && url.query().is_none();
        if !is_bare || url.path() != "/" || url.fragment().is_some() {
            return Err(wrong("it has nothing but a host and a port"));
        }
        Ok(address)
    }
}

impl fmt::Display for WorkerAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0.as_str().trim_end_matches('/'))
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn an_address_without_a_scheme_is_enciphered_beyond_this_machine() {
        for (text, shown) in [
            ("127.0.0.1:7083", "http://127.0.0.1:7083"),
            ("localhost:7083", "http://localhost:7083"),
            ("[::1]:7083", "http://[::1]:7083"),
            ("node7:7083", "https://node7:7083"),
            ("192.168.1.7:7083", "https://192.168.1.7:7083"),
            ("https://node7:443", "https://node7"),
            ("http://node7:7083", "http://node7:7083"),
        ] {
            assert_eq!(text.parse::<WorkerAddress>().unwrap().to_string(), shown, "{text}");
        }
        let far: WorkerAddress = "https://[2001:db8::1]:99".parse().unwrap();
        assert_eq!((far.host(), far.port(), far.is_here(), far.is_tls()), ("2001:db8::1", 99, false, true));
    }

    #[test]
    fn what_is_no_address_is_refused() {
        for text in [
            "",
            "node7",
            "https://node7",
            "ftp://node7:21",
            "https://u:p@node7:1",
            "https://node7:1/x",
            "node7:0",
            "node7:70000",
            "a b:1",
        ] {
            assert!(text.parse::<WorkerAddress>().is_err(), "{text}");
        }
    }
}
