//! The door for scrapers: `GET /metrics` over plain HTTP at an address of the settings, and nothing else. It never knows
//! what is counted: it asks the role's own task, as `sector metrics` does.

use std::{io, net::SocketAddr, sync::Arc, time::Duration};

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    sync::{Semaphore, mpsc, oneshot},
    task::JoinSet,
    time::{sleep, timeout},
};

use crate::DaemonError;

/// A scraper that waits for the text of the role's metrics.
pub type MetricsQuestion = oneshot::Sender<String>;

/// A port that is bound, and answers once it [runs](Self::run).
#[derive(Debug)]
pub struct MetricsPort {
    listener: TcpListener,
    address: SocketAddr,
}

impl MetricsPort {
    /// Binds the address of the settings, if there is one.
    ///
    /// # Errors
    /// [`DaemonError::MetricsPort`] if it cannot be listened on.
    pub async fn bind(address: Option<SocketAddr>) -> Result<Option<Self>, DaemonError> {
        let Some(address) = address else { return Ok(None) };
        let failed = |source| DaemonError::MetricsPort { address, source };
        let listener = TcpListener::bind(address).await.map_err(failed)?;
        let address = listener.local_addr().map_err(failed)?;
        tracing::info!(%address, "metrics can be read");
        Ok(Some(Self { listener, address }))
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Passes questions on and sends the answers, until it is dropped or nobody answers any more. Whoever takes the
    /// questions sends a text for each.
    pub async fn run(self, questions: mpsc::Sender<MetricsQuestion>) {
        let (places, mut connections) = (Arc::new(Semaphore::new(CONNECTIONS_MAX)), JoinSet::new());
        // The semaphore is never closed.
        while let Ok(place) = Arc::clone(&places).acquire_owned().await {
            let stream = tokio::select! {
                () = questions.closed() => return,
                accepted = self.listener.accept() => match accepted {
                    Ok((stream, _)) => stream,
                    Err(error) => {
                        tracing::warn!(%error, "a scraper of metrics cannot be accepted");
                        // Out of descriptors, most likely: nothing gets better at once.
                        sleep(ACCEPT_PAUSE).await;
                        continue;
                    }
                },
            };
            while connections.try_join_next().is_some() {}
            let questions = questions.clone();
            connections.spawn(async move {
                match timeout(CONVERSATION_MAX, answer(stream, &questions)).await {
                    Ok(Ok(())) => {}
                    // Peers go away all the time.
                    Ok(Err(error)) => tracing::debug!(%error, "a scraper of metrics went away"),
                    Err(_) => tracing::debug!("a scraper of metrics took too long"),
                }
                drop(place);
            });
        }
    }
}

/// One request, one answer.
async fn answer(mut stream: TcpStream, questions: &mpsc::Sender<MetricsQuestion>) -> io::Result<()> {
    let head = read_head(&mut stream).await?;
    let mut words = head.split(' ');
    let asked = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
    let path = asked.1.split('?').next().unwrap_or_default();
    let (status, text) = match (asked.0, path) {
        ("GET" | "HEAD", "/metrics") => match ask(questions).await {
            Some(text) => ("200 OK", text),
            None => ("503 Service Unavailable", "the role is stopping\n".to_owned()),
        },
        ("GET" | "HEAD", _) => ("404 Not Found", "there is only /metrics here\n".to_owned()),
        _ => ("405 Method Not Allowed", "there is only GET here\n".to_owned()),
    };
    let kind = if status.starts_with("200") { CONTENT_TYPE } else { "text/plain; charset=utf-8" };
    let length = text.len();
    let head = format!(
        "HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {length}\r\nConnection: close\r\n\
         X-Content-Type-Options: nosniff\r\nCache-Control: no-store\r\n\r\n"
    );
    stream.write_all(head.as_bytes()).await?;
    if asked.0 != "HEAD" {
        stream.write_all(text.as_bytes()).await?;
    }
    stream.shutdown().await
}

async fn ask(questions: &mpsc::Sender<MetricsQuestion>) -> Option<String> {
    let (sender, answer) = oneshot::channel();
    questions.send(sender).await.ok()?;
    answer.await.ok()
}

/// The head of the request; what follows it does not matter.
async fn read_head(stream: &mut TcpStream) -> io::Result<String> {
    let mut bytes = Vec::new();
    let mut part = [0; 1024];
    while !bytes.windows(4).any(|window| window == b"\r\n\r\n") {
        if bytes.len() > HEAD_BYTES_MAX {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "the head of a request is too long"));
        }
        let count = stream.read(&mut part).await?;
        if count == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        bytes.extend_from_slice(&part[..count]);
    }
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// Every scraper reads this; what OpenMetrics adds are comments in it.
const CONTENT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";
/// Scrapers at once: a few servers, and someone with `curl`.
const CONNECTIONS_MAX: usize = 16;
/// From the connection to the last byte of the answer.
const CONVERSATION_MAX: Duration = Duration::from_secs(10);
/// Of a request's head, in bytes.
const HEAD_BYTES_MAX: usize = 8 << 10;
/// After a failure to accept.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    /// Sends this to a port whose role counts something, and gives what comes back.
    async fn told(request: &str) -> String {
        let port = MetricsPort::bind(Some(([127, 0, 0, 1], 0).into())).await.unwrap().unwrap();
        let address = port.address();
        let (sender, mut questions) = mpsc::channel::<MetricsQuestion>(1);
        let serving = tokio::spawn(port.run(sender));
        let counting = tokio::spawn(async move {
            while let Some(question) = questions.recv().await {
                question.send("sector_master_sessions 3\n# EOF\n".into()).unwrap();
            }
        });
        let mut stream = TcpStream::connect(address).await.unwrap();
        // A port that hangs up early breaks these off.
        let _ = stream.write_all(request.as_bytes()).await;
        let mut answer = String::new();
        let _ = stream.read_to_string(&mut answer).await;
        serving.abort();
        counting.abort();
        answer
    }

    #[tokio::test]
    async fn a_scraper_reads_the_metrics_and_nothing_else() {
        let answer = told("GET /metrics?x=1 HTTP/1.1\r\nHost: here\r\n\r\n").await;
        assert!(answer.starts_with("HTTP/1.1 200 OK\r\n"), "{answer}");
        assert!(answer.contains("\r\nContent-Type: text/plain; version=0.0.4"), "{answer}");
        assert!(answer.ends_with("\r\n\r\nsector_master_sessions 3\n# EOF\n"), "{answer}");
        let head = told("HEAD /metrics HTTP/1.1\r\n\r\n").await;
        assert!(head.contains("Content-Length: 31\r\n") && head.ends_with("\r\n\r\n"), "{head}");
        assert!(told("GET / HTTP/1.1\r\n\r\n").await.starts_with("HTTP/1.1 404 "));
        assert!(told("GET /metrics/../x HTTP/1.1\r\n\r\n").await.starts_with("HTTP/1.1 404 "));
        assert!(told("POST /metrics HTTP/1.1\r\n\r\n").await.starts_with("HTTP/1.1 405 "));
    }

    #[tokio::test]
    async fn a_head_without_an_end_is_cut_off() {
        let answer = told(&format!("GET /metrics HTTP/1.1\r\nX: {}", "x".repeat(2 * HEAD_BYTES_MAX))).await;
        assert_eq!(answer, "");
    }

    #[tokio::test]
    async fn without_an_address_there_is_no_port_and_a_taken_one_is_named() {
        assert!(MetricsPort::bind(None).await.unwrap().is_none());
        let first = MetricsPort::bind(Some(([127, 0, 0, 1], 0).into())).await.unwrap().unwrap();
        let error = MetricsPort::bind(Some(first.address())).await.unwrap_err();
        assert!(error.to_string().contains("metrics_listen"), "{error}");
    }
}
