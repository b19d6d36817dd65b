//! A client that costs little: the same bytes again and again, and answers that are only measured.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::runtime::Runtime;
use tokio::task::JoinSet;

const REQUEST: &[u8] = b"GET / HTTP/1.1\r\nhost: localhost\r\nuser-agent: bench\r\naccept: */*\r\n\r\n";

/// Connections that are open, each of which has asked once: what the first is told may differ from what all others are.
pub(super) struct Clients {
    runtime: Runtime,
    connections: Vec<Connection>,
}

impl Clients {
    pub(super) fn connect(address: SocketAddr, connections: usize) -> Self {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
        let connect = async || {
            let mut connection = Connection::new(address).await;
            connection.ask().await;
            connection
        };
        let connections = (0..connections).map(|_| runtime.block_on(connect())).collect();
        Clients { runtime, connections }
    }

    /// How many requests the server answers in that time, each with that status.
    pub(super) fn ask(self, span: Duration, status: &'static str) -> u64 {
        let start = Instant::now();
        self.runtime.block_on(async {
            let mut tasks = JoinSet::new();
            for mut connection in self.connections {
                tasks.spawn(async move {
                    let mut answered = 0;
                    while start.elapsed() < span {
                        connection.ask().await;
                        assert_eq!(&connection.buffer[9..12], status.as_bytes(), "another status");
                        answered += 1;
                    }
                    answered
                });
            }
            tasks.join_all().await.into_iter().sum()
        })
    }
}

struct Connection {
    stream: TcpStream,
    buffer: Vec<u8>,
}

impl Connection {
    async fn new(address: SocketAddr) -> Self {
        let stream = TcpStream::connect(address).await.expect("the server listens");
        stream.set_nodelay(true).expect("a TCP connection");
        Connection { stream, buffer: Vec::with_capacity(4_096) }
    }

    /// Sends a request and reads the whole response.
    async fn ask(&mut self) {
        self.stream.write_all(REQUEST).await.expect("the server reads");
        self.buffer.clear();
        while !is_whole(&self.buffer) {
            let read = self.stream.read_buf(&mut self.buffer).await.expect("the server answers");
            assert_ne!(read, 0, "the server hung up");
        }
    }
}

/// Whether a response is there to its last byte, by the length it states. Each byte of the head is looked at once: what the
/// client takes for a longer response is not to be seen in the figures.
fn is_whole(bytes: &[u8]) -> bool {
    let (mut head, mut length) = (0, None);
    for line in bytes.split_inclusive(|byte| *byte == b'\n') {
        head += line.len();
        if line == b"\r\n" {
            return length.is_some_and(|length| bytes.len() >= head + length);
        }
        if let Some(digits) = line.strip_prefix(b"content-length: ") {
            let digits = digits.iter().take_while(|byte| byte.is_ascii_digit());
            length = Some(digits.fold(0, |length, digit| length * 10 + usize::from(digit - b'0')));
        }
    }
    false
}
