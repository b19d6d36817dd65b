//! A cheap HTTP client: it sends prepared requests and checks only the length and status of responses.

use std::io::Write;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::runtime::Runtime;
use tokio::task::JoinSet;

use crate::workload::{KEYS, Random, key_text};

/// The part of a request before its user.
const REQUEST: &str = "GET / HTTP/1.1\r\nhost: localhost\r\nuser-agent: bench\r\naccept: */*\r\nx-user: ";

/// Open connections that have each sent one request. The first response can differ from all later ones.
pub(super) struct Clients {
    runtime: Runtime,
    connections: Vec<Connection>,
}

impl Clients {
    pub(super) fn connect(address: SocketAddr, connections: usize) -> Self {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
        let connect = async |seed| {
            let mut connection = Connection::new(address, seed).await;
            connection.send().await;
            connection
        };
        let connections = (0..connections).map(|index| runtime.block_on(connect(index as u64))).collect();
        Clients { runtime, connections }
    }

    /// Returns how many requests the server answers in that time, each with that status.
    pub(super) fn run(&mut self, span: Duration, status: &'static str) -> u64 {
        let start = Instant::now();
        let mut tasks = JoinSet::new();
        for mut connection in self.connections.drain(..) {
            let ask = async move {
                let mut answered = 0;
                while start.elapsed() < span {
                    connection.send().await;
                    assert_eq!(&connection.buffer[9..12], status.as_bytes(), "another status");
                    answered += 1;
                }
                (connection, answered)
            };
            tasks.spawn_on(ask, self.runtime.handle());
        }
        let (connections, answered): (_, Vec<u64>) = self.runtime.block_on(tasks.join_all()).into_iter().unzip();
        self.connections = connections;
        answered.into_iter().sum()
    }
}

struct Connection {
    stream: TcpStream,
    request: Vec<u8>,
    users: Random,
    buffer: Vec<u8>,
}

impl Connection {
    async fn new(address: SocketAddr, seed: u64) -> Self {
        let stream = TcpStream::connect(address).await.expect("the server listens");
        stream.set_nodelay(true).expect("a TCP connection");
        let (request, users) = (REQUEST.as_bytes().to_vec(), Random(seed << 32));
        Connection { stream, request, users, buffer: Vec::with_capacity(4_096) }
    }

    /// Sends a request of the next user and reads the whole response.
    async fn send(&mut self) {
        self.request.truncate(REQUEST.len());
        write!(self.request, "{}\r\n\r\n", key_text(self.users.next() % KEYS)).expect("there is room");
        self.stream.write_all(&self.request).await.expect("the server reads");
        self.buffer.clear();
        while !is_whole(&self.buffer) {
            let read = self.stream.read_buf(&mut self.buffer).await.expect("the server answers");
            assert_ne!(read, 0, "the server hung up");
        }
    }
}

/// Returns whether a response is complete, by its `content-length`. It reads each byte of the head once, so that the
/// client's own cost for a longer response stays out of the figures.
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
