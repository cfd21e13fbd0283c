//! Files that a request names by their address (TAP 1.1, 2.7.6). Whoever may ask must not reach by this what only this
//! machine reaches. So each address of a name, at each redirection, is a public one, or the operator allows its host. It
//! never sends a login.

use std::time::Duration;

use daemon::{PublicResolver, http_agent, system_certificates};
use terminal::Failure;
use tokio::task::spawn_blocking;
use ureq::{Agent, Error, unversioned::transport::DefaultConnector};
use vo::Fault;

/// Fetches files. Clones share connections.
#[derive(Clone, Debug)]
pub struct Fetcher {
    agent: Agent,
}

impl Fetcher {
    /// One that reaches public addresses, and these hosts wherever they are.
    ///
    /// # Errors
    /// A host that is written as an address with a port or a path.
    pub fn new(allowed: &[String]) -> Result<Self, Failure> {
        let resolver = PublicResolver::new(allowed).map_err(Failure::usage)?;
        let config = http_agent(&system_certificates(), PATIENCE).max_redirects(REDIRECTS_MAX).build();
        Ok(Self { agent: Agent::with_parts(config, DefaultConnector::default(), resolver) })
    }

    /// The bytes at an address, at most so many.
    ///
    /// # Errors
    /// `Usage` for what cannot be fetched, with why, and `TooLarge`.
    pub async fn fetch(&self, url: &str, bytes_max: usize) -> Result<Vec<u8>, Fault> {
        let (agent, url) = (self.agent.clone(), url.to_owned());
        let fetched = spawn_blocking(move || fetch(&agent, &url, bytes_max)).await;
        fetched.map_err(|error| Fault::Failed(error.to_string()))?
    }
}

fn fetch(agent: &Agent, url: &str, bytes_max: usize) -> Result<Vec<u8>, Fault> {
    let failed = |error: Error| match error {
        Error::BodyExceedsLimit(_) => Fault::TooLarge(format!("`{url}` has more than {bytes_max} bytes")),
        Error::Io(error) if error.kind() == std::io::ErrorKind::PermissionDenied => {
            Fault::Usage(format!("`{url}`: {error}"))
        }
        other => Fault::Usage(format!("`{url}` cannot be fetched: {other}")),
    };
    // A redirection never leads from TLS to readable text.
    let request = agent.get(url).config().https_only(url.starts_with("https:")).build();
    let mut answer = request.call().map_err(failed)?;
    if !answer.status().is_success() {
        return Err(Fault::Usage(format!("`{url}` answers with status {}", answer.status().as_u16())));
    }
    // One more says whether there are more.
    answer.body_mut().with_config().limit(bytes_max as u64 + 1).read_to_vec().map_err(failed)
}

/// How long a file may take.
const PATIENCE: Duration = Duration::from_secs(30);
/// Addresses that lead to others.
const REDIRECTS_MAX: u32 = 3;

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::{
        io::{Read, Write},
        net::TcpListener,
    };

    use super::*;

    /// A server that gives each who comes one answer.
    fn server(answers: Vec<String>) -> u16 {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        std::thread::spawn(move || {
            for answer in answers {
                let (mut stream, _) = listener.accept().unwrap();
                let _ = stream.read(&mut [0; 4096]);
                let _ = stream.write_all(answer.as_bytes());
            }
        });
        port
    }

    #[tokio::test]
    async fn a_host_of_this_machine_is_fetched_from_if_it_is_allowed_alone() {
        let answer = "HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: 5\r\n\r\nhello".to_owned();
        let port = server(vec![answer.clone(), answer]);
        let url = format!("http://127.0.0.1:{port}/a");
        let refused = Fetcher::new(&[]).unwrap().fetch(&url, 100).await.unwrap_err();
        assert!(matches!(&refused, Fault::Usage(why) if why.contains("no public address")), "{refused}");
        let allowed = Fetcher::new(&["127.0.0.1".to_owned()]).unwrap();
        assert_eq!(allowed.fetch(&url, 5).await.unwrap(), b"hello");
        assert!(matches!(allowed.fetch(&url, 3).await.unwrap_err(), Fault::TooLarge(_)));
    }

    #[tokio::test]
    async fn a_redirection_to_another_host_is_looked_at_again() {
        let moved =
            "HTTP/1.1 302 Found\r\nconnection: close\r\nlocation: http://127.0.0.2:9/\r\ncontent-length: 0\r\n\r\n";
        let port = server(vec![moved.to_owned()]);
        let fetcher = Fetcher::new(&["127.0.0.1".to_owned()]).unwrap();
        let refused = fetcher.fetch(&format!("http://127.0.0.1:{port}/"), 100).await.unwrap_err();
        assert!(refused.to_string().contains("`127.0.0.2` has no public address"), "{refused}");
        let other = fetcher.fetch("file:///etc/passwd", 100).await.unwrap_err();
        assert_eq!(other.status(), 400);
        assert!(Fetcher::new(&["a/b".to_owned()]).is_err());
    }
}
