//! Where a service is reached: its door, and its address as each client knows it. It never looks a name up.

use gateway::{Door, GatewayServer};
use http::{HeaderMap, header};

/// Where a service is reached.
#[derive(Clone)]
pub struct ServiceAddress {
    /// Where it learns who asks.
    pub door: Door,
    /// Where it listens, for clients that do not say how they have reached it: `HOST:PORT`.
    pub address: String,
}

impl ServiceAddress {
    /// That of a server.
    pub fn of(server: &GatewayServer) -> Self {
        Self { door: server.door(), address: server.address().to_string() }
    }

    /// The service's URL as the sender of a request knows it, without a slash at the end.
    pub fn url(&self, headers: &HeaderMap) -> String {
        url_of(self.door.is_tls(), &self.address, headers)
    }
}

fn url_of(is_tls: bool, address: &str, headers: &HeaderMap) -> String {
    let is_name = |text: &&str| text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b".-:[]".contains(&byte));
    let host = headers.get(header::HOST).and_then(|host| host.to_str().ok()).filter(is_name);
    let scheme = if is_tls { "https" } else { "http" };
    format!("{scheme}://{}", host.unwrap_or(address))
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    #[test]
    fn the_url_is_what_the_client_has_reached() {
        let host = |name: &'static str| HeaderMap::from_iter([(header::HOST, HeaderValue::from_static(name))]);
        for (name, url) in [
            ("sky.example.org", "https://sky.example.org"),
            ("[::1]:8080", "https://[::1]:8080"),
            // What is no name would become markup or another path.
            ("sky/evil", "https://127.0.0.1:7081"),
            ("\"><script>", "https://127.0.0.1:7081"),
            ("user@host", "https://127.0.0.1:7081"),
        ] {
            assert_eq!(url_of(true, "127.0.0.1:7081", &host(name)), url, "{name}");
        }
        assert_eq!(url_of(false, "127.0.0.1:7081", &host("a-b")), "http://a-b");
        assert_eq!(url_of(false, "127.0.0.1:7081", &HeaderMap::new()), "http://127.0.0.1:7081");
    }
}
