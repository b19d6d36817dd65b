//! The end of a request, and how it is recorded.

use std::convert::Infallible;
use std::future::pending;
use std::sync::{Arc, Mutex};

use axum::Router;
use axum::body::Body;
use axum::http::{Response, StatusCode, header};
use axum::response::sse::{Event, Sse};
use axum::routing::get;
use tidegate::tower::AdmissionLayer;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::{ChannelBody, DONE, DROPPED, WatchedPool, channel_body};
use crate::clients::{RawClient, http1, http2, send};
use crate::support::{Server, until};

/// A server that answers once, with a given response.
async fn serve_response(watched: &WatchedPool, response: Response<Body>) -> Server {
    let response = Arc::new(Mutex::new(Some(response)));
    let handler = move || {
        let response = response.lock().unwrap().take().expect("asked once");
        async { response }
    };
    serve(watched, Router::new().route("/", get(handler))).await
}

async fn serve(watched: &WatchedPool, router: Router) -> Server {
    Server::router(router.layer(AdmissionLayer::new(watched.pool.clone()))).await
}

/// Sends a request on a raw socket, without reading the response.
async fn send_request(server: &Server) -> TcpStream {
    let mut socket = TcpStream::connect(server.address).await.unwrap();
    socket.write_all(b"GET / HTTP/1.1\r\nhost: localhost\r\n\r\n").await.unwrap();
    socket
}

#[tokio::test]
async fn streamed_body_is_in_flight_until_its_last_byte() {
    for client in [http1(), http2()] {
        let watched = WatchedPool::new(1);
        let (writer, body) = channel_body();
        let server = serve_response(&watched, Response::new(body)).await;
        let mut response = client.get(server.url("/")).send().await.unwrap();
        assert_eq!(response.status(), 200);
        for piece in ["some", "more"] {
            writer.send(piece).unwrap();
            assert_eq!(response.chunk().await.unwrap().unwrap(), piece);
            assert_eq!(watched.in_flight(), 1);
        }
        drop(writer);
        assert_eq!(response.bytes().await.unwrap(), "");
        assert_eq!(watched.samples().await, [DONE]);
    }
}

#[tokio::test]
async fn disconnect_during_a_stream_counts_as_dropped() {
    for client in [http1(), http2()] {
        let watched = WatchedPool::new(1);
        let (writer, body) = channel_body();
        let server = serve_response(&watched, Response::new(body)).await;
        let mut response = client.get(server.url("/")).send().await.unwrap();
        writer.send("some").unwrap();
        response.chunk().await.unwrap().unwrap();
        assert_eq!(watched.in_flight(), 1);
        drop((response, client)); // a reset with HTTP/2, the end of the connection without
        // HTTP/1.1 notices a disconnect when it writes.
        until(|| {
            let _ = writer.send("more");
            watched.in_flight() == 0
        })
        .await;
        assert_eq!(watched.samples().await, [DROPPED]);
    }
}

#[tokio::test]
async fn disconnect_before_the_head_counts_as_dropped() {
    let watched = WatchedPool::new(1);
    let server = serve(&watched, Router::new().route("/", get(pending::<&'static str>))).await;
    let socket = send_request(&server).await;
    watched.until_in_flight(1).await;
    drop(socket);
    assert_eq!(watched.samples().await, [DROPPED]);
}

#[tokio::test]
async fn panicking_handler_leaves_nothing_in_flight() {
    async fn panics() -> &'static str {
        std::panic::resume_unwind(Box::new("on purpose"))
    }
    let watched = WatchedPool::new(1);
    let server = serve(&watched, Router::new().route("/", get(panics))).await;
    let mut socket = send_request(&server).await;
    assert_eq!(socket.read(&mut [0]).await.unwrap_or(0), 0, "the connection ends");
    assert_eq!(watched.samples().await, [DROPPED]);
}

#[tokio::test]
async fn failed_body_counts_as_dropped() {
    let watched = WatchedPool::new(1);
    let (writer, body) = channel_body();
    let server = serve_response(&watched, Response::new(body)).await;
    writer.send("some").unwrap();
    writer.send("").unwrap();
    let response = async { http1().get(server.url("/")).send().await?.bytes().await };
    assert!(response.await.is_err());
    assert_eq!(watched.samples().await, [DROPPED]);
}

#[tokio::test]
async fn error_status_counts_as_success_unless_dropped_if_matches() {
    for (status, dropped) in [(500, DONE), (503, DONE), (504, DROPPED), (429, DONE)] {
        let watched = WatchedPool::new(1);
        let status = StatusCode::from_u16(status).unwrap();
        let layer = AdmissionLayer::new(watched.pool.clone()).dropped_if(|status| status == 504);
        let server = Server::router(Router::new().fallback(move || async move { (status, "no") }).layer(layer)).await;
        assert_eq!(send(http1().get(server.url("/"))).await.status, status);
        assert_eq!(watched.samples().await, [dropped], "{status}");
    }
}

/// Servers do not poll these bodies to their end, and they must not count as dropped.
#[tokio::test]
async fn body_that_is_not_polled_to_its_end_counts_as_success() {
    let promised = || {
        let (writer, body) = channel_body();
        writer.send("four").unwrap();
        // The writer never ends, but the head announces only four bytes.
        std::mem::forget(writer);
        Response::builder().header(header::CONTENT_LENGTH, 4).body(body).unwrap()
    };
    // A body that does not know its end, such as one that streams a file.
    let streamed = |pieces: &[&'static str], length: Option<u64>| {
        let (writer, body) = channel_body();
        pieces.iter().for_each(|piece| writer.send(piece).unwrap());
        drop(writer);
        let response = Response::builder();
        match length {
            Some(length) => response.header(header::CONTENT_LENGTH, length),
            None => response,
        }
        .body(body)
        .unwrap()
    };
    let (writer, pieces) = tokio::sync::mpsc::unbounded_channel();
    writer.send("four").unwrap();
    std::mem::forget(writer);
    let sized = Response::new(Body::new(SizedBody(ChannelBody(pieces), 4)));
    let trailed = Response::new(Body::new(http_body_util::BodyExt::with_trailers(
        http_body_util::Full::<axum::body::Bytes>::from("four"),
        async { Some(Ok(Default::default())) },
    )));
    let with = |status: StatusCode, body: Body| Response::builder().status(status).body(body).unwrap();
    let cases = [
        ("GET / HTTP/1.1", Response::new(Body::empty())),
        ("GET / HTTP/1.1", Response::new("text".into())),
        ("GET / HTTP/1.1", promised()),
        ("GET / HTTP/1.1", streamed(&[], Some(0))),
        ("GET / HTTP/1.1", streamed(&["four"], None)),
        ("GET / HTTP/1.1", sized),
        ("GET / HTTP/1.1", trailed),
        ("HEAD / HTTP/1.1", promised()),
        ("HEAD / HTTP/1.1", Response::new("text".into())),
        ("GET / HTTP/1.1", with(StatusCode::NO_CONTENT, "never read".into())),
        ("GET / HTTP/1.1", with(StatusCode::NOT_MODIFIED, "never read".into())),
    ];
    for (index, (line, response)) in cases.into_iter().enumerate() {
        let watched = WatchedPool::new(1);
        let server = serve_response(&watched, response).await;
        let mut socket = TcpStream::connect(server.address).await.unwrap();
        socket.write_all(format!("{line}\r\nhost: localhost\r\n\r\n").as_bytes()).await.unwrap();
        let mut answer = vec![0; 1_024];
        let read = socket.read(&mut answer).await.unwrap();
        assert!(read > 0);
        assert_eq!(watched.samples().await, [DONE], "case {index}");
    }
}

/// A body that knows its length, but not its end.
struct SizedBody(ChannelBody, u64);

impl axum::body::HttpBody for SizedBody {
    type Data = axum::body::Bytes;
    type Error = std::io::Error;

    fn poll_frame(
        mut self: std::pin::Pin<&mut Self>,
        context: &mut std::task::Context<'_>,
    ) -> std::task::Poll<Option<Result<hyper::body::Frame<Self::Data>, Self::Error>>> {
        std::pin::Pin::new(&mut self.0).poll_frame(context)
    }

    fn size_hint(&self) -> hyper::body::SizeHint {
        hyper::body::SizeHint::with_exact(self.1)
    }
}

#[tokio::test]
async fn server_sent_events_are_in_flight_until_their_end() {
    let watched = WatchedPool::new(1);
    let (writer, pieces) = tokio::sync::mpsc::unbounded_channel();
    let events = Arc::new(Mutex::new(Some(EventStream(ChannelBody(pieces)))));
    let handler = move || {
        let events = events.lock().unwrap().take().expect("asked once");
        async { Sse::new(events) }
    };
    let server = serve(&watched, Router::new().route("/", get(handler))).await;
    let mut response = http1().get(server.url("/")).send().await.unwrap();
    writer.send("tide").unwrap();
    assert_eq!(response.chunk().await.unwrap().unwrap(), "data: tide\n\n");
    assert_eq!(watched.in_flight(), 1);
    drop(writer);
    assert_eq!(response.chunk().await.unwrap(), None);
    assert_eq!(watched.samples().await, [DONE]);
}

/// Pieces as events.
struct EventStream(ChannelBody);

impl futures_util::Stream for EventStream {
    type Item = Result<Event, Infallible>;

    fn poll_next(
        mut self: std::pin::Pin<&mut Self>,
        context: &mut std::task::Context<'_>,
    ) -> std::task::Poll<Option<Self::Item>> {
        self.0.0.poll_recv(context).map(|piece| piece.map(|text| Ok(Event::default().data(text))))
    }
}

#[tokio::test]
async fn keep_alive_connection_is_not_in_flight_between_requests() {
    let watched = WatchedPool::new(1);
    let server = serve(&watched, Router::new().route("/", get(|| async { "ok" }))).await;
    let mut connection = RawClient::connect(server.address).await;
    for _ in 0..10 {
        assert_eq!(connection.get("/", &[]).await.status, 200);
    }
    assert_eq!(watched.samples().await, [DONE; 10]);
}
