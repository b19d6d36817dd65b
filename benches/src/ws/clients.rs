//! The measured WebSocket client, and the clients that flood the server.

use std::time::Instant;

use futures_util::{SinkExt, StreamExt};
use tokio::net::TcpStream;
use tokio::runtime::Builder;
use tokio_tungstenite::tungstenite::Message as Frame;
use tokio_tungstenite::{WebSocketStream, client_async};

/// The calls of one round.
const CALLS: usize = 3_000;

/// The latency of calls, in microseconds.
#[derive(Clone, Copy)]
pub(super) struct Latency {
    pub(super) median: f64,
    pub(super) p99: f64,
}

impl Latency {
    pub(super) const WORST: Latency = Latency { median: f64::INFINITY, p99: f64::INFINITY };

    pub(super) fn min(self, other: Self) -> Self {
        Latency { median: self.median.min(other.median), p99: self.p99.min(other.p99) }
    }
}

async fn connect(address: &str, path: &str) -> WebSocketStream<TcpStream> {
    let stream = TcpStream::connect(address).await.expect("the server listens");
    stream.set_nodelay(true).expect("a socket");
    client_async(format!("ws://{address}/{path}"), stream).await.expect("a handshake").0
}

fn call(number: usize) -> Frame {
    Frame::text(format!(r#"{{"type":"ECHO","meta":{{"correlationId":"{number}"}},"payload":{number}}}"#))
}

/// Measures calls one after the other on a connection of its own.
pub(super) fn measure(address: &str) -> Latency {
    let runtime = Builder::new_current_thread().enable_all().build().expect("a runtime");
    let mut took: Vec<f64> = runtime.block_on(async {
        let mut socket = connect(address, "quiet").await;
        let mut took = Vec::with_capacity(CALLS);
        for number in 0..CALLS {
            let start = Instant::now();
            socket.send(call(number)).await.expect("the server reads");
            while !matches!(socket.next().await.expect("an answer").expect("an answer"), Frame::Text(_)) {}
            took.push(start.elapsed().as_secs_f64() * 1e6);
        }
        took
    });
    took.sort_by(f64::total_cmp);
    Latency { median: took[CALLS / 2], p99: took[CALLS * 99 / 100] }
}

/// Sends as fast as it can over that many connections, until the process ends.
pub(crate) fn flood(address: &str, kind: &str, connections: &str) {
    // The lowest priority: on a real network, a flood does not take CPU time from the server's machine.
    let _ = rustix::process::nice(19);
    let connections: usize = connections.parse().expect("a number");
    let runtime = Builder::new_current_thread().enable_all().build().expect("a runtime");
    runtime.block_on(async {
        let mut floods = tokio::task::JoinSet::new();
        for _ in 0..connections {
            let socket = connect(address, "flood").await;
            floods.spawn(flood_one(socket, address.to_owned(), kind.to_owned()));
        }
        println!("ready");
        floods.join_all().await;
    });
}

/// Floods a connection, and opens another when it is closed.
async fn flood_one(mut socket: WebSocketStream<TcpStream>, address: String, kind: String) {
    loop {
        let (mut sink, mut stream) = socket.split();
        let sending = async {
            for number in 0.. {
                let frame = if kind == "noise" { Frame::text("{") } else { call(number) };
                if sink.feed(frame).await.is_err() {
                    break;
                }
            }
        };
        let reading = async {
            if kind == "deaf" {
                std::future::pending::<()>().await;
            }
            while let Some(Ok(_)) = stream.next().await {}
        };
        tokio::select! {
            () = sending => {}
            () = reading => {}
        }
        socket = connect(&address, "flood").await;
    }
}
