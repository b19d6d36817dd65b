//! When a request has ended, and how.

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

use super::{DONE, DROPPED, Watched, Written, written};
use crate::clients::{Raw, http1, http2, send};
use crate::support::{Server, until};

/// A server whose one answer is given by the test.
async fn answering(watched: &Watched, response: Response<Body>) -> Server {
    let response = Arc::new(Mutex::new(Some(response)));
    let handler = move || {
        let response = response.lock().unwrap().take().expect("asked once");
        async { response }
    };
    serving(watched, Router::new().route("/", get(handler))).await
}

async fn serving(watched: &Watched, router: Router) -> Server {
    Server::router(router.layer(AdmissionLayer::new(watched.pool.clone()))).await
}

/// A request of which nothing more is read than there is of it by then.
async fn begin(server: &Server) -> TcpStream {
    let mut socket = TcpStream::connect(server.address).await.unwrap();
    socket.write_all(b"GET / HTTP/1.1\r\nhost: localhost\r\n\r\n").await.unwrap();
    socket
}

#[tokio::test]
async fn a_streamed_body_is_in_flight_until_its_last_byte_and_not_until_its_head() {
    for client in [http1(), http2()] {
        let watched = Watched::new(1);
        let (writer, body) = written();
        let server = answering(&watched, Response::new(body)).await;
        let mut response = client.get(server.url("/")).send().await.unwrap();
        assert_eq!(response.status(), 200);
        for piece in ["some", "more"] {
            writer.send(piece).unwrap();
            assert_eq!(response.chunk().await.unwrap().unwrap(), piece);
            assert_eq!(watched.in_flight(), 1);
        }
        drop(writer);
        assert_eq!(response.bytes().await.unwrap(), "");
        assert_eq!(watched.told().await, [DONE]);
    }
}

#[tokio::test]
async fn a_client_that_hangs_up_in_the_middle_of_a_stream_has_wasted_the_work() {
    for client in [http1(), http2()] {
        let watched = Watched::new(1);
        let (writer, body) = written();
        let server = answering(&watched, Response::new(body)).await;
        let mut response = client.get(server.url("/")).send().await.unwrap();
        writer.send("some").unwrap();
        response.chunk().await.unwrap().unwrap();
        assert_eq!(watched.in_flight(), 1);
        drop((response, client)); // a reset with HTTP/2, the end of the connection without
        // HTTP/1.1 has to write something to notice.
        until(|| {
            let _ = writer.send("more");
            watched.in_flight() == 0
        })
        .await;
        assert_eq!(watched.told().await, [DROPPED]);
    }
}

#[tokio::test]
async fn a_client_that_hangs_up_before_the_head_has_wasted_the_work() {
    let watched = Watched::new(1);
    let server = serving(&watched, Router::new().route("/", get(pending::<&'static str>))).await;
    let socket = begin(&server).await;
    watched.until_in_flight(1).await;
    drop(socket);
    assert_eq!(watched.told().await, [DROPPED]);
}

#[tokio::test]
async fn a_handler_that_panics_leaves_nothing_in_flight() {
    async fn panics() -> &'static str {
        std::panic::resume_unwind(Box::new("as it was told"))
    }
    let watched = Watched::new(1);
    let server = serving(&watched, Router::new().route("/", get(panics))).await;
    let mut socket = begin(&server).await;
    assert_eq!(socket.read(&mut [0]).await.unwrap_or(0), 0, "the connection ends");
    assert_eq!(watched.told().await, [DROPPED]);
}

#[tokio::test]
async fn a_body_that_fails_was_wasted() {
    let watched = Watched::new(1);
    let (writer, body) = written();
    let server = answering(&watched, Response::new(body)).await;
    writer.send("some").unwrap();
    writer.send("").unwrap();
    let response = async { http1().get(server.url("/")).send().await?.bytes().await };
    assert!(response.await.is_err());
    assert_eq!(watched.told().await, [DROPPED]);
}

#[tokio::test]
async fn a_quick_error_used_its_capacity_unless_it_is_said_to_be_wasted() {
    for (status, dropped) in [(500, DONE), (503, DONE), (504, DROPPED), (429, DONE)] {
        let watched = Watched::new(1);
        let status = StatusCode::from_u16(status).unwrap();
        let layer = AdmissionLayer::new(watched.pool.clone()).dropped_if(|status| status == 504);
        let server = Server::router(Router::new().fallback(move || async move { (status, "no") }).layer(layer)).await;
        assert_eq!(send(http1().get(server.url("/"))).await.status, status);
        assert_eq!(watched.told().await, [dropped], "{status}");
    }
}

/// Nobody asks these bodies whether there is more: they must not pass for wasted.
#[tokio::test]
async fn a_response_whose_body_is_never_read_to_its_end_is_done_all_the_same() {
    let promised = || {
        let (writer, body) = written();
        writer.send("four").unwrap();
        // The writer goes on for ever, but the head says that four bytes are all.
        std::mem::forget(writer);
        Response::builder().header(header::CONTENT_LENGTH, 4).body(body).unwrap()
    };
    // A body that does not know that it has ended, as one that streams a file does not.
    let streamed = |pieces: &[&'static str], length: Option<u64>| {
        let (writer, body) = written();
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
    let sized = Response::new(Body::new(Sized(Written(pieces), 4)));
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
        ("GET / HTTP/1.1", with(StatusCode::NO_CONTENT, "nobody reads this".into())),
        ("GET / HTTP/1.1", with(StatusCode::NOT_MODIFIED, "nobody reads this".into())),
    ];
    for (index, (line, response)) in cases.into_iter().enumerate() {
        let watched = Watched::new(1);
        let server = answering(&watched, response).await;
        let mut socket = TcpStream::connect(server.address).await.unwrap();
        socket.write_all(format!("{line}\r\nhost: localhost\r\n\r\n").as_bytes()).await.unwrap();
        let mut answer = vec![0; 1_024];
        let read = socket.read(&mut answer).await.unwrap();
        assert!(read > 0);
        assert_eq!(watched.told().await, [DONE], "case {index}");
    }
}

/// A body that knows how long it is, and not when it has ended.
struct Sized(Written, u64);

impl axum::body::HttpBody for Sized {
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
async fn server_sent_events_are_in_flight_while_somebody_listens() {
    let watched = Watched::new(1);
    let (writer, pieces) = tokio::sync::mpsc::unbounded_channel();
    let events = Arc::new(Mutex::new(Some(Events(Written(pieces)))));
    let handler = move || {
        let events = events.lock().unwrap().take().expect("asked once");
        async { Sse::new(events) }
    };
    let server = serving(&watched, Router::new().route("/", get(handler))).await;
    let mut response = http1().get(server.url("/")).send().await.unwrap();
    writer.send("tide").unwrap();
    assert_eq!(response.chunk().await.unwrap().unwrap(), "data: tide\n\n");
    assert_eq!(watched.in_flight(), 1);
    drop(writer);
    assert_eq!(response.chunk().await.unwrap(), None);
    assert_eq!(watched.told().await, [DONE]);
}

/// Pieces as events.
struct Events(Written);

impl futures_util::Stream for Events {
    type Item = Result<Event, Infallible>;

    fn poll_next(
        mut self: std::pin::Pin<&mut Self>,
        context: &mut std::task::Context<'_>,
    ) -> std::task::Poll<Option<Self::Item>> {
        self.0.0.poll_recv(context).map(|piece| piece.map(|text| Ok(Event::default().data(text))))
    }
}

#[tokio::test]
async fn a_connection_that_is_kept_alive_is_not_in_flight_between_requests() {
    let watched = Watched::new(1);
    let server = serving(&watched, Router::new().route("/", get(|| async { "ok" }))).await;
    let mut connection = Raw::connect(server.address).await;
    for _ in 0..10 {
        assert_eq!(connection.get("/", &[]).await.status, 200);
    }
    assert_eq!(watched.told().await, [DONE; 10]);
}
