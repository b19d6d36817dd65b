//! A thousand connections whose clients leave at random points.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use axum::Router;
use axum::body::Body;
use axum::http::Response;
use axum::routing::get;
use tidegate::concurrency::PerKey;
use tidegate::enforce::ConcurrencyGuards;
use tidegate::http::{RateLimit, keys};
use tidegate::tower::AdmissionLayer;
use tidegate_testkit::Random;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::task::{JoinSet, yield_now};

use super::{DONE, WatchedPool, channel_body};
use crate::support::{Server, until};

const CONNECTIONS: u64 = 1_000;
const LIMIT: u32 = 300;

/// The point at which a client leaves.
#[derive(Debug, Clone, Copy)]
enum LeavePoint {
    DuringRequest,
    BeforeHead,
    DuringBody,
    AfterEnd,
}

const LEAVE_POINTS: [LeavePoint; 4] =
    [LeavePoint::DuringRequest, LeavePoint::BeforeHead, LeavePoint::DuringBody, LeavePoint::AfterEnd];

async fn visit(address: std::net::SocketAddr, seed: u64) -> Option<u16> {
    let mut random = Random::new(seed);
    let leaves = random.pick(&LEAVE_POINTS);
    let mut socket = TcpStream::connect(address).await.unwrap();
    let path = random.pick(&["/stream", "/plain", "/slow", "/fails", "/panics"]);
    let request = format!("GET {path} HTTP/1.1\r\nhost: localhost\r\nx-user: u{}\r\n\r\n", seed % 7);
    let sent = match leaves {
        LeavePoint::DuringRequest => &request.as_bytes()[..random.below(request.len() as u64) as usize],
        _ => request.as_bytes(),
    };
    socket.write_all(sent).await.unwrap();
    for _ in 0..random.below(50) {
        yield_now().await;
    }
    let (mut answer, mut buffer) = (Vec::new(), [0; 64]);
    if matches!(leaves, LeavePoint::DuringRequest | LeavePoint::BeforeHead) {
        return None;
    }
    loop {
        match socket.read(&mut buffer).await {
            Ok(0) | Err(_) => break,
            Ok(read) => answer.extend_from_slice(&buffer[..read]),
        }
        let ended = answer.ends_with(b"0\r\n\r\n") || answer.ends_with(b"plain") || answer.ends_with(b"}");
        if ended || (matches!(leaves, LeavePoint::DuringBody) && random.one_in(3)) {
            break;
        }
    }
    String::from_utf8_lossy(&answer).get(9..12).and_then(|status| status.parse().ok())
}

fn router(inside: Arc<AtomicU32>) -> Router {
    let stream = move || {
        let inside = Arc::clone(&inside);
        async move {
            let (writer, body) = channel_body();
            tokio::spawn(async move {
                inside.fetch_add(1, Ordering::SeqCst);
                for _ in 0..20 {
                    yield_now().await;
                    if writer.send("a piece of a body that is streamed").is_err() {
                        break;
                    }
                }
                inside.fetch_sub(1, Ordering::SeqCst);
            });
            Response::new(body)
        }
    };
    let slow = || async {
        for _ in 0..20 {
            yield_now().await;
        }
        "plain"
    };
    let fails = || async {
        let (writer, body) = channel_body();
        writer.send("some").unwrap();
        writer.send("").unwrap();
        Response::new(body)
    };
    async fn panics() -> Response<Body> {
        std::panic::resume_unwind(Box::new("on purpose"))
    }
    Router::new()
        .route("/stream", get(stream))
        .route("/plain", get(|| async { "plain" }))
        .route("/slow", get(slow))
        .route("/fails", get(fails))
        .route("/panics", get(panics))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn clients_that_leave_at_random_points_leave_nothing_in_flight() {
    let (watched, per_user) = (WatchedPool::new(LIMIT), PerKey::new(100));
    let inside = Arc::default();
    let user = keys::header(tidegate::http::HeaderName::from_static("x-user"));
    let layer = AdmissionLayer::new(ConcurrencyGuards::new().and(watched.pool.clone()).and(per_user.clone()))
        .limits(RateLimit::unlimited().key(user));
    let server = Server::router(router(Arc::clone(&inside)).layer(layer)).await;
    let mut visits = JoinSet::new();
    for seed in 0..CONNECTIONS {
        visits.spawn(visit(server.address, seed));
    }
    let mut statuses = Vec::new();
    while let Some(status) = visits.join_next().await {
        assert!(watched.in_flight() <= LIMIT);
        statuses.extend(status.unwrap());
    }
    until(|| watched.in_flight() == 0 && per_user.keys() == 0 && inside.load(Ordering::SeqCst) == 0).await;
    let count = |status: u16| statuses.iter().filter(|&&seen| seen == status).count();
    assert!(count(200) >= 100, "{} were served, {} turned away", count(200), count(503) + count(429));
    // Dropped work is not certain: it depends on when clients leave.
    assert!(watched.samples.lock().unwrap().contains(&DONE));
    // Nothing has leaked: every permit is free.
    let all: Vec<_> = (0..LIMIT).map(|_| watched.pool.try_acquire().unwrap()).collect();
    assert!(watched.pool.try_acquire().is_err());
    drop(all);
}
