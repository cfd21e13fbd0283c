//! gRPC: tonic, unary calls in plain text over one HTTP/2 connection. The service is written by hand and carries raw
//! bytes. It never encodes anything that the other systems do not encode, and no code is generated.

use std::{
    convert::Infallible,
    net::SocketAddr,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
    time::{Duration, Instant},
};

use bytes::{Buf, BufMut, Bytes};
use http::uri::PathAndQuery;
use tokio::{net::TcpListener, task::JoinSet};
use tonic::{
    Request, Response, Status,
    body::Body,
    client,
    codec::{Codec, DecodeBuf, Decoder, EncodeBuf, Encoder},
    server,
    transport::{Channel, Endpoint, Server, server::TcpIncoming},
};
use tower_service::Service;

use super::{
    latency::{self, LatencyRecorder, MeasurementWindow},
    system::{Announce, BoxFuture, LOOPBACK, MeasureError, PAYLOAD_BYTES, Requester, System, io},
};

pub(super) struct Grpc;

struct GrpcRequester(Channel);

impl System for Grpc {
    fn name(&self) -> &'static str {
        "grpc"
    }

    fn answer(self: Arc<Self>, announce: Announce) -> BoxFuture<()> {
        Box::pin(async move {
            let listener = TcpListener::bind(LOOPBACK).await.map_err(io("binding a TCP port"))?;
            announce.say(listener.local_addr().map_err(io("asking for a port"))?)?;
            let incoming = TcpIncoming::from(listener).with_nodelay(Some(true));
            Server::builder().serve_with_incoming(Echo, incoming).await.map_err(failed)
        })
    }

    fn connect(self: Arc<Self>, peer: SocketAddr) -> BoxFuture<Arc<dyn Requester>> {
        Box::pin(async move {
            let endpoint = Endpoint::from_shared(format!("http://{peer}")).map_err(failed)?.tcp_nodelay(true);
            Ok(Arc::new(GrpcRequester(endpoint.connect().await.map_err(failed)?)) as Arc<dyn Requester>)
        })
    }
}

impl Requester for GrpcRequester {
    fn ask(self: Arc<Self>, course: MeasurementWindow) -> BoxFuture<Vec<Duration>> {
        Box::pin(async move {
            let mut asking = JoinSet::new();
            for _ in 0..course.in_flight {
                let mut client = client::Grpc::new(self.0.clone());
                asking.spawn(async move {
                    let (mut watch, path) =
                        (LatencyRecorder::new(course), PathAndQuery::from_static("/sector.Measure/Echo"));
                    loop {
                        let begun = Instant::now();
                        client.ready().await.map_err(failed)?;
                        let request = Request::new(Bytes::from(vec![1; PAYLOAD_BYTES]));
                        client.unary(request, path.clone(), Plain).await.map_err(failed)?;
                        if !watch.record_answer(begun) {
                            return Ok(watch.times());
                        }
                    }
                });
            }
            latency::collect_times(asking).await
        })
    }
}

/// The service: it answers with what it was asked.
#[derive(Clone)]
struct Echo;

impl Service<http::Request<Body>> for Echo {
    type Response = http::Response<Body>;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Infallible>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: http::Request<Body>) -> Self::Future {
        Box::pin(async move { Ok(server::Grpc::new(Plain).unary(EchoOne, request).await) })
    }
}

/// Its only method.
struct EchoOne;

impl Service<Request<Bytes>> for EchoOne {
    type Response = Response<Bytes>;
    type Error = Status;
    type Future = std::future::Ready<Result<Response<Bytes>, Status>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Status>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Bytes>) -> Self::Future {
        std::future::ready(Ok(Response::new(request.into_inner())))
    }
}

/// A codec that passes bytes through unchanged.
struct Plain;

impl Codec for Plain {
    type Encode = Bytes;
    type Decode = Bytes;
    type Encoder = Self;
    type Decoder = Self;

    fn encoder(&mut self) -> Self {
        Self
    }

    fn decoder(&mut self) -> Self {
        Self
    }
}

impl Encoder for Plain {
    type Item = Bytes;
    type Error = Status;

    fn encode(&mut self, item: Bytes, out: &mut EncodeBuf<'_>) -> Result<(), Status> {
        out.put(item);
        Ok(())
    }
}

impl Decoder for Plain {
    type Item = Bytes;
    type Error = Status;

    fn decode(&mut self, from: &mut DecodeBuf<'_>) -> Result<Option<Bytes>, Status> {
        Ok(Some(from.copy_to_bytes(from.remaining())))
    }
}

fn failed(error: impl std::fmt::Display) -> MeasureError {
    MeasureError::System { system: "grpc", reason: error.to_string() }
}
