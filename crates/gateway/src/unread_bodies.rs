//! What a request still sends after its answer is read and thrown away, within bounds. A connection that is closed with
//! bytes unread may lose the answer on its way, and the next request with it. It never holds an answer back.

use std::{
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    task::{Context, Poll},
    time::Duration,
};

use axum::{
    body::{Body, HttpBody},
    extract::Request,
    middleware::Next,
    response::Response,
};
use bytes::Bytes;
use futures_util::StreamExt;
use http::{
    HeaderValue, Version,
    header::{CONNECTION, EXPECT},
};
use http_body::{Frame, SizeHint};
use tokio::{runtime::Handle, time::timeout};

/// The layer around everything that may read a body.
pub(crate) async fn drain(request: Request, next: Next) -> Response {
    // A stream of HTTP/2 ends alone; the connection stays.
    if request.version() >= Version::HTTP_2 || request.body().is_end_stream() {
        return next.run(request).await;
    }
    let is_asking_first = request.headers().contains_key(EXPECT);
    let is_bounded = request.body().size_hint().upper().is_some_and(|bytes| bytes <= DRAINED_MAX);
    let state = Arc::new(State::default());
    let request = request.map(|body| Body::new(Watched { body, state: Arc::clone(&state), is_asking_first }));
    let mut answer = next.run(request).await;
    // A body that was asked for is sent now: it ends by itself. One that was not asked for may never be sent.
    let will_end = is_bounded && (state.is_begun() || !is_asking_first);
    if !state.has_ended() && !will_end {
        answer.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
    }
    answer
}

/// How far a body was read.
#[derive(Default)]
struct State {
    begun: AtomicBool,
    ended: AtomicBool,
}

impl State {
    fn is_begun(&self) -> bool {
        self.begun.load(Ordering::Relaxed)
    }

    fn has_ended(&self) -> bool {
        self.ended.load(Ordering::Relaxed)
    }
}

/// A body whose rest is read by a task of its own when nobody else wants it.
struct Watched {
    body: Body,
    state: Arc<State>,
    is_asking_first: bool,
}

impl HttpBody for Watched {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        self.state.begun.store(true, Ordering::Relaxed);
        let polled = Pin::new(&mut self.body).poll_frame(context);
        if self.body.is_end_stream() || matches!(polled, Poll::Ready(None | Some(Err(_)))) {
            self.state.ended.store(true, Ordering::Relaxed);
        }
        polled
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

impl Drop for Watched {
    fn drop(&mut self) {
        let is_wanted = self.state.is_begun() || !self.is_asking_first;
        // Without a runtime the program ends, and the connection with it.
        if let (false, true, Ok(runtime)) = (self.state.has_ended(), is_wanted, Handle::try_current()) {
            runtime.spawn(read_rest(std::mem::take(&mut self.body)));
        }
    }
}

async fn read_rest(body: Body) {
    let reading = async {
        let (mut pieces, mut bytes) = (body.into_data_stream(), 0);
        while let Some(Ok(piece)) = pieces.next().await {
            bytes += piece.len() as u64;
            if bytes > DRAINED_MAX {
                break;
            }
        }
    };
    // What takes longer is cut.
    let _ = timeout(PATIENCE, reading).await;
}

/// Bytes that are read for nothing.
const DRAINED_MAX: u64 = 16 << 20;
/// How long they may take to arrive.
const PATIENCE: Duration = Duration::from_secs(10);

#[cfg(test)]
mod tests {
    use axum::{Router, middleware, routing::any};
    use http::StatusCode;
    use tokio::{
        io::{AsyncReadExt, AsyncWriteExt},
        net::{TcpListener, TcpStream},
    };

    use super::*;

    /// What a connection says to requests whose bodies come a moment after their heads, and which are refused unread.
    async fn refused(requests: &[(&str, usize)]) -> String {
        let refusing = any(|| async { StatusCode::UNAUTHORIZED });
        let router = Router::new().fallback(refusing).layer(middleware::from_fn(drain));
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let mut connection = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
        let server = tokio::spawn(axum::serve(listener, router).into_future());
        let mut said = String::new();
        for (headers, length) in requests {
            connection.write_all(format!("POST / HTTP/1.1\r\nhost: a\r\n{headers}\r\n").as_bytes()).await.unwrap();
            // The server has seen the head alone, whatever the machine does.
            for _ in 0..100 {
                tokio::task::yield_now().await;
            }
            connection.write_all(&vec![b'x'; *length]).await.unwrap();
            let mut piece = [0; 1_000];
            let length = connection.read(&mut piece).await.unwrap();
            said.push_str(&String::from_utf8_lossy(&piece[..length]).to_ascii_lowercase());
        }
        server.abort();
        said
    }

    #[tokio::test]
    async fn a_refused_request_keeps_its_connection() {
        for length in [2, 3_000_000] {
            let request = (&*format!("content-length: {length}\r\n"), length);
            let said = refused(&[request, request]).await;
            assert_eq!(said.matches("http/1.1 401").count(), 2, "{said}");
            assert!(!said.contains("connection: close"), "{said}");
        }
    }

    #[tokio::test]
    async fn a_client_of_what_will_not_be_read_whole_hears_that_the_connection_ends() {
        for headers in [
            "content-length: 20000000\r\n",
            "transfer-encoding: chunked\r\n",
            "content-length: 2\r\nexpect: 100-continue\r\n",
        ] {
            let said = refused(&[(headers, 0)]).await;
            assert!(said.contains("http/1.1 401") && said.contains("connection: close"), "{headers}: {said}");
            assert!(!said.contains("100 continue"), "{headers}: {said}");
        }
    }
}
