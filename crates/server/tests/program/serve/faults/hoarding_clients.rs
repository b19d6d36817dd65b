//! Clients that have the server keep as many bytes for them as it will. All of them together get no more than the budget.

use std::fmt::Write as _;
use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use futures_util::future::select_all;
use h2::{Reason, client};
use http::Request;
use tidegate_servers::wait_until;
use tidegate_testkit::Random;
use tokio::runtime;

use super::malformed::http2::{
    self, CONTINUATION, DATA, END_HEADERS, END_STREAM, HEADERS, PREFACE, SETTINGS, WINDOW_UPDATE, frame,
};
use super::slow_clients::connect_with_small_buffer;
use super::{GOOD_CLIENT_QUOTA, assert_clean_shutdown, clients, memory_mib, metric_value, start_server_with};
use crate::serve::program::Program;
use crate::serve::resp::command;

/// How many connections there are; `cargo xtask deep` sets more.
fn connection_count() -> usize {
    std::env::var("TIDEGATE_HOSTILE_CONNECTIONS").map_or(FEW_CONNECTIONS, |count| count.parse().expect("a number"))
}

const FEW_CONNECTIONS: usize = 200;
/// The budget for each of them: somewhat more than one takes that is silent.
const BYTES_PER_CONNECTION: usize = 26 << 10;
/// How much more memory the program may take than the budget, in MiB: in all, and with few connections beyond its first size.
const SLACK_MIB: u64 = 64;
const FEW_CONNECTIONS_SLACK_MIB: u64 = 40;
/// How long 99 of 100 requests of a well-behaved client may take among many connections.
const MAX_LATENCY: Duration = Duration::from_millis(100);
/// How often closed connections are opened again.
const ROUNDS: usize = 10;
/// How many requests of a well-behaved client are answered in each round.
const REQUESTS_PER_ROUND: u64 = 20;

/// A way to have the server keep bytes: all that a connection sends, or as much of it as the server takes.
struct Hoard {
    name: &'static str,
    bytes: Vec<u8>,
}

#[test]
fn hostile_http_connections_stay_within_the_budget() {
    let hoards =
        http1_hoards().into_iter().chain(http2_hoards(&http2::headers("POST", "/v1/batch", &[]))).collect::<Vec<_>>();
    assert_within_budget(
        "http",
        &hoards,
        |program| program.http,
        |program| Box::new(clients::http_client(program, "good")),
    );
}

#[test]
fn hostile_grpc_connections_stay_within_the_budget() {
    let hoards = http2_hoards(&http2::request_headers());
    assert_within_budget(
        "grpc",
        &hoards,
        |program| program.grpc,
        |program| Box::new(clients::grpc_client(program, "good")),
    );
}

#[test]
fn hostile_redis_connections_stay_within_the_budget() {
    let hoards = resp_hoards();
    assert_within_budget(
        "resp",
        &hoards,
        |program| program.resp,
        |program| Box::new(clients::resp_client(program, "good")),
    );
}

fn http1_hoards() -> [Hoard; 3] {
    let get = "GET / HTTP/1.1\r\nhost: localhost\r\n";
    let post = "POST /v1/batch HTTP/1.1\r\nhost: localhost\r\ncontent-length: 1000000\r\n\r\n";
    [
        Hoard { name: "half a head", bytes: [get.as_bytes(), b"x: ", &[b'y'; 62 << 10]].concat() },
        Hoard { name: "half a body", bytes: [post.as_bytes(), &[b' '; 900 << 10]].concat() },
        Hoard { name: "responses that are not read", bytes: format!("{get}\r\n").repeat(200).into_bytes() },
    ]
}

/// `head` is that of a request with a body.
fn http2_hoards(head: &[u8]) -> [Hoard; 6] {
    let streams = || (1..400).step_by(2);
    let settings = |window: u32| frame(SETTINGS, 0, 0, &[&[0, 4][..], &window.to_be_bytes()].concat());
    let start = |window| [PREFACE, &settings(window)].concat();
    let large_window = frame(WINDOW_UPDATE, 0, 0, &0x7fff_0000_u32.to_be_bytes());
    // As many headers as fit, each of them one byte.
    let headers = [head, &[0x95; 300]].concat();
    let each = |frames: &dyn Fn(u32) -> Vec<u8>| streams().flat_map(frames).collect::<Vec<_>>();
    let get = |path: &str, stream| frame(HEADERS, END_HEADERS | END_STREAM, stream, &http2::headers("GET", path, &[]));
    let open = |stream| frame(HEADERS, END_HEADERS, stream, head);
    [
        Hoard { name: "half a head", bytes: [start(0), frame(HEADERS, 0, 1, &headers)].concat() },
        Hoard {
            name: "half a continued head",
            bytes: [start(0), frame(HEADERS, 0, 1, head), frame(CONTINUATION, 0, 1, &[0x95; 300])].concat(),
        },
        Hoard {
            name: "half bodies",
            bytes: [start(0), each(&|stream| [open(stream), frame(DATA, 0, stream, &[0; 300])].concat())].concat(),
        },
        Hoard {
            name: "bodies in small pieces",
            bytes: [start(0), each(&|stream| [open(stream), frame(DATA, 0, stream, b"x").repeat(20)].concat())]
                .concat(),
        },
        Hoard {
            name: "responses without a window",
            bytes: [start(0), each(&|stream| get(["/v1/limits", "/metrics", "/"][stream as usize % 3], stream))]
                .concat(),
        },
        Hoard {
            name: "responses that are not read",
            bytes: [start(0x7fff_0000), large_window, each(&|stream| get("/", stream))].concat(),
        },
    ]
}

fn resp_hoards() -> [Hoard; 2] {
    let half = [&b"*64\r\n"[..], &format!("$8000\r\n{}\r\n", "x".repeat(8_000)).into_bytes().repeat(4)].concat();
    let name = command(&["CLIENT", "SETNAME", &"n".repeat(8_000)]);
    let echo = command(&["ECHO", &"x".repeat(8_000)]);
    [
        Hoard { name: "half a command", bytes: [&name, &half[..31 << 10]].concat() },
        Hoard { name: "replies that are not read", bytes: echo.repeat(500) },
    ]
}

/// Makes an honest client of a program.
type HonestClient = fn(&Program) -> Box<dyn FnMut() -> (bool, u64) + Send>;

/// Each hoard alone, and then all of them at once. With few connections only the latter, which is the quickest.
fn assert_within_budget(
    port: &str,
    hoards: &[Hoard],
    address: fn(&Program) -> Option<SocketAddr>,
    client: HonestClient,
) {
    let silence = Hoard { name: "silence", bytes: Vec::new() };
    let is_long = connection_count() > FEW_CONNECTIONS;
    let alone = hoards.iter().chain([&silence]).filter(|_| is_long).map(|hoard| (hoard.name, vec![hoard]));
    let all = alone.chain([("all", hoards.iter().collect())]);
    let beyond: Vec<_> =
        all.filter_map(|(name, hoards)| run_hoard(port, name, &hoards, address, client).err()).collect();
    assert!(beyond.is_empty(), "{beyond:#?}");
}

/// Returns what was measured; the error is the same of a run that is beyond a bound.
fn run_hoard(
    port: &str,
    name: &str,
    hoards: &[&Hoard],
    address: fn(&Program) -> Option<SocketAddr>,
    client: HonestClient,
) -> Result<String, String> {
    let count = connection_count();
    let budget = count * BYTES_PER_CONNECTION;
    let [budget_text, count_text] = [budget, count + 100].map(|number| number.to_string());
    let arguments = ["--max-buffered-bytes", &*budget_text, "--max-connections", &*count_text];
    let program = start_server_with(&format!("hoard-{port}"), &arguments);
    let (before, mut random) = (memory_mib(&program, "VmRSS"), Random::new(count as u64));
    let mut connections: Vec<_> = (0..count)
        .map(|_| HostileConnection::new(address(&program).expect("a port"), &random.pick(hoards).bytes))
        .collect();
    let (answered, is_over) = (AtomicU64::new(0), AtomicBool::new(false));
    let (mut closed, mut buffered) = (0, 0.0);
    let mut latencies = std::thread::scope(|scope| {
        let good = client(&program);
        let honest = scope.spawn(|| ask_until(&is_over, &answered, good));
        for round in 1..=ROUNDS {
            closed += connections.iter_mut().map(|connection| usize::from(connection.advance())).sum::<usize>();
            let enough = round as u64 * REQUESTS_PER_ROUND;
            assert!(
                wait_until(|| honest.is_finished() || answered.load(Ordering::Relaxed) >= enough),
                "{name}: no answers"
            );
            buffered = f64::max(buffered, metric_value(&program, "tidegate_buffered_bytes"));
        }
        is_over.store(true, Ordering::Relaxed);
        honest.join().expect("every answer is right")
    });
    let refused: f64 = ["request", "connection", "open_connection"]
        .map(|what| metric_value(&program, &format!("tidegate_buffer_refusals_total{{refused=\"{what}\"}}")))
        .iter()
        .sum();
    let most = memory_mib(&program, "VmHWM");
    latencies.sort();
    let quantile = |percent| latencies[(latencies.len() - 1) * percent / 100];
    let mut line =
        format!("{port}, {name}: {count} connections, {} MiB counted of {}", buffered as u64 >> 20, budget >> 20);
    write!(line, ", RSS {before} to {most} MiB, {refused} refused, {closed} opened again, ").expect("text");
    write!(line, "p50 {:?}, p99 {:?}, worst {:?}", quantile(50), quantile(99), quantile(100)).expect("text");
    // For the long run, which keeps the output.
    writeln!(std::io::stderr(), "{line}").expect("written");
    drop(connections);
    assert_clean_shutdown(program);
    let budget_mib = (budget >> 20) as u64;
    let is_within = if count > FEW_CONNECTIONS {
        most <= budget_mib + SLACK_MIB && quantile(99) <= MAX_LATENCY
    } else {
        // Connections that are closed to make room for others are in memory for a moment longer.
        most <= before + 2 * budget_mib + FEW_CONNECTIONS_SLACK_MIB
    };
    if buffered > 0.0 && is_within { Ok(line) } else { Err(line) }
}

/// Sends requests until all is over, checks every answer, and returns how long each took.
#[allow(clippy::disallowed_methods)] // the latency is that of another process
fn ask_until(
    is_over: &AtomicBool,
    answered: &AtomicU64,
    mut good: Box<dyn FnMut() -> (bool, u64) + Send>,
) -> Vec<Duration> {
    let mut latencies = Vec::new();
    while !is_over.load(Ordering::Relaxed) {
        let began = Instant::now();
        let answer = good();
        latencies.push(began.elapsed());
        assert_eq!(answer, (true, GOOD_CLIENT_QUOTA - latencies.len() as u64));
        answered.fetch_add(1, Ordering::Relaxed);
        // Other processes need the cores, too.
        std::thread::yield_now();
    }
    latencies
}

struct HostileConnection<'a> {
    address: SocketAddr,
    bytes: &'a [u8],
    stream: Option<TcpStream>,
    sent: usize,
}

impl<'a> HostileConnection<'a> {
    fn new(address: SocketAddr, bytes: &'a [u8]) -> Self {
        HostileConnection { address, bytes, stream: None, sent: 0 }
    }

    /// Sends as much as the server takes, on a new connection if the server has closed the last one. Returns whether it has.
    fn advance(&mut self) -> bool {
        let is_closed = self.stream.as_ref().is_some_and(is_closed);
        if is_closed || self.stream.is_none() {
            (self.stream, self.sent) = (connect_with_small_buffer(self.address).ok(), 0);
        }
        if let Some(stream) = &mut self.stream {
            while self.sent < self.bytes.len()
                && let Ok(count @ 1..) = stream.write(&self.bytes[self.sent..])
            {
                self.sent += count;
            }
        }
        is_closed
    }
}

/// Whether the server has closed a connection, as far as that shows without reading from it.
fn is_closed(stream: &TcpStream) -> bool {
    if !matches!(stream.take_error(), Ok(None)) {
        return true;
    }
    match stream.peek(&mut [0]) {
        Ok(read) => read == 0,
        Err(error) => error.kind() != ErrorKind::WouldBlock,
    }
}

/// The budget of one client, and more streams than have room in it.
const SMALL_BUDGET: usize = 1 << 20;
const STREAMS: usize = 170;

#[test]
fn streams_beyond_the_budget_are_refused_until_another_client_needs_room() {
    let program = start_server_with("hoard-streams", &["--max-buffered-bytes", &SMALL_BUDGET.to_string()]);
    let address = program.http.expect("a port");
    let runtime = runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().expect("a runtime");
    let (client, connection, first, _bodies) = runtime.block_on(async {
        let stream = tokio::net::TcpStream::connect(address).await.expect("a connection");
        let (mut client, connection) = client::handshake(stream).await.expect("HTTP/2");
        let connection = tokio::spawn(connection);
        let (mut responses, mut bodies) = (Vec::new(), Vec::new());
        for _ in 0..STREAMS {
            client = client.ready().await.expect("open");
            let request = Request::post("http://localhost/v1/batch").body(()).expect("a request");
            let (response, body) = client.send_request(request, false).expect("sent");
            responses.push(response);
            bodies.push(body);
        }
        (client, connection, select_all(responses).await.0, bodies)
    });
    let refusal = first.expect_err("no body was sent");
    assert_eq!(refusal.reason(), Some(Reason::REFUSED_STREAM));

    // Another client is within its share, which this one is beyond.
    let mut other = clients::http_client(&program, "good");
    for requests in 1..=3 {
        assert_eq!(other(), (true, GOOD_CLIENT_QUOTA - requests));
    }
    runtime.block_on(async {
        // The server has closed it, with the streams that it had taken.
        let _ = connection.await.expect("no panic");
        assert!(client.ready().await.is_err());
    });
    assert_clean_shutdown(program);
}

#[test]
fn body_beyond_the_budget_is_refused() {
    let program = start_server_with("hoard-body", &["--max-buffered-bytes", &SMALL_BUDGET.to_string()]);
    let mut stream = TcpStream::connect(program.http.expect("a port")).expect("a connection");
    let head = format!("POST /v1/batch HTTP/1.1\r\nhost: localhost\r\ncontent-length: {}\r\n\r\n", 1 << 20);
    // The server closes the connection without reading all of it.
    let _ = stream.write_all(&[head.as_bytes(), &vec![b' '; 1 << 20]].concat());
    let mut answer = [0; 12];
    stream.read_exact(&mut answer).expect("an answer");
    assert_eq!(answer.escape_ascii().to_string(), "HTTP/1.1 503");
    assert!(metric_value(&program, "tidegate_buffer_refusals_total{refused=\"request\"}") >= 1.0);
    assert!(clients::http_client(&program, "good")().0);
    assert_clean_shutdown(program);
}
