//! A short body is read whole before its request is looked at. A request that is refused unread would have its
//! connection closed, perhaps under the next request that is already on its way. It never reads a long body.

use axum::{
    body::{Body, to_bytes},
    extract::Request,
    middleware::Next,
    response::{IntoResponse, Response},
};
use client::{Reason, Refusal};
use http::header::CONTENT_LENGTH;
use tokio::time::timeout;

use super::answer::ApiError;

/// The layer around everything that reads a body.
pub(crate) async fn read_first(request: Request, next: Next) -> Response {
    let length = request.headers().get(CONTENT_LENGTH).and_then(|length| length.to_str().ok()?.parse().ok());
    if !length.is_some_and(|length: usize| (1..=SHORT_MAX).contains(&length)) {
        return next.run(request).await;
    }
    let (head, body) = request.into_parts();
    match timeout(PATIENCE, to_bytes(body, SHORT_MAX)).await {
        Ok(Ok(bytes)) => next.run(Request::from_parts(head, Body::from(bytes))).await,
        Ok(Err(_)) | Err(_) => {
            let message = "the body of the request did not arrive";
            ApiError::from(Refusal::new(Reason::Invalid, message)).into_response()
        }
    }
}

/// Bytes of a body that is read before anybody knows who sends it.
const SHORT_MAX: usize = 16 << 10;
/// How long it may take to arrive.
const PATIENCE: std::time::Duration = std::time::Duration::from_secs(10);

#[cfg(test)]
mod tests {
    use axum::{Router, middleware, routing::any};
    use http::StatusCode;
    use tokio::{
        io::{AsyncReadExt, AsyncWriteExt},
        net::{TcpListener, TcpStream},
    };

    use super::*;

    /// What a connection says to a request whose body comes a moment after its head, twice.
    async fn refused_twice() -> String {
        let refusing = any(|| async { StatusCode::UNAUTHORIZED });
        let router = Router::new().fallback(refusing).layer(middleware::from_fn(read_first));
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let mut connection = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
        let server = tokio::spawn(axum::serve(listener, router).into_future());
        let mut said = String::new();
        for _ in 0..2 {
            connection.write_all(b"POST / HTTP/1.1\r\nhost: a\r\ncontent-length: 2\r\n\r\n").await.unwrap();
            // The server has seen the head alone, whatever the machine does.
            for _ in 0..100 {
                tokio::task::yield_now().await;
            }
            connection.write_all(b"{}").await.unwrap();
            let mut piece = [0; 1_000];
            let length = connection.read(&mut piece).await.unwrap();
            said.push_str(std::str::from_utf8(&piece[..length]).unwrap());
        }
        server.abort();
        said
    }

    #[tokio::test]
    async fn a_refused_request_keeps_its_connection() {
        let said = refused_twice().await;
        assert_eq!(said.matches("HTTP/1.1 401").count(), 2, "{said}");
        assert!(!said.to_ascii_lowercase().contains("connection: close"), "{said}");
    }
}
