//! Clients that never finish a request, or never read a response.

use std::io::Write;
use std::net::{SocketAddr, TcpStream};

use socket2::{Domain, Socket, Type};
use tidegate_servers::wait_until;

use super::malformed::http2::{self, DATA, END_HEADERS, END_STREAM, HEADERS, PING, PREFACE, SETTINGS, frame};
use super::{
    GOOD_CLIENT_QUOTA, assert_clean_shutdown, clients, memory_mib, metric_value, open_connections, read_until,
    start_server,
};
use crate::serve::program::Program;
use crate::serve::resp::command;

/// How many clients send half a request, and how much memory they may take together, in MiB.
const HALF_REQUEST_CLIENTS: usize = 1_000;
const HALF_REQUEST_MIB: u64 = 48;

/// How many clients never read, how much each would send, and how much memory they may take together, in MiB.
const NON_READING_CLIENTS: usize = 10;
const MAX_SENT_BYTES: usize = 32 << 20;
const NON_READING_MIB: u64 = 32;

#[test]
fn half_requests_over_http_pin_little_memory() {
    let program = start_server("half-http");
    let whole = "GET /healthz HTTP/1.1\r\nhost: localhost\r\n\r\n";
    let head = format!("{whole}POST /v1/limit HTTP/1.1\r\nhost: localhost\r\ncontent-le");
    let body =
        format!("{whole}POST /v1/limit HTTP/1.1\r\nhost: localhost\r\ncontent-length: 40\r\n\r\n{{\"limit\":\"sho");
    let halves = [head.as_bytes(), body.as_bytes()];
    assert_half_requests_pin_little(
        &program,
        "http",
        program.http,
        &halves,
        b"HTTP/1.1 200",
        clients::http_client(&program, "good"),
    );
    assert_clean_shutdown(program);
}

#[test]
fn half_requests_over_grpc_pin_little_memory() {
    let program = start_server("half-grpc");
    let ping = |answered| frame(PING, answered, 0, b"are here");
    let head = [http2::connection_start(), ping(0), frame(HEADERS, 0, 1, &http2::request_headers()[..40])].concat();
    let message = frame(DATA, END_STREAM, 1, &http2::grpc_message("u"));
    let whole =
        [http2::connection_start(), frame(HEADERS, END_HEADERS, 1, &http2::request_headers()), ping(0)].concat();
    let body = [&whole, &message[..20]].concat();
    assert_half_requests_pin_little(
        &program,
        "grpc",
        program.grpc,
        &[&head, &body],
        &ping(1),
        clients::grpc_client(&program, "good"),
    );
    assert_clean_shutdown(program);
}

#[test]
fn half_commands_pin_little_memory() {
    let program = start_server("half-resp");
    let half = b"PING\r\n*3\r\n$8\r\nTG.LIMIT\r\n$9\r\nshop.u";
    let line = b"PING\r\nTG.LIMIT shop.user";
    assert_half_requests_pin_little(
        &program,
        "resp",
        program.resp,
        &[half, line],
        b"+PONG\r\n",
        clients::resp_client(&program, "good"),
    );
    assert_clean_shutdown(program);
}

#[test]
fn http_stops_reading_from_a_client_that_never_reads() {
    let program = start_server("deaf-http");
    let body = r#"{"limit":"shop.user","key":"u"}"#;
    let take = format!("POST /v1/limit HTTP/1.1\r\nhost: localhost\r\ncontent-length: {}\r\n\r\n{body}", body.len());
    let requests = format!("{take}GET / HTTP/1.1\r\nhost: localhost\r\n\r\n").repeat(500).into_bytes();
    let sent =
        send_without_reading(&program, program.http, &requests, MAX_SENT_BYTES, clients::http_client(&program, "good"));
    assert!(sent.iter().all(|sent| *sent < MAX_SENT_BYTES), "all of it was read: {sent:?}");
    assert_clean_shutdown(program);
}

#[test]
fn resp_stops_reading_from_a_client_that_never_reads() {
    let program = start_server("deaf-resp");
    let commands = [command(&["TG.LIMIT", "shop.user", "u"]), command(&["INFO"])].concat().repeat(500);
    let sent =
        send_without_reading(&program, program.resp, &commands, MAX_SENT_BYTES, clients::resp_client(&program, "good"));
    assert!(sent.iter().all(|sent| *sent < MAX_SENT_BYTES), "all of it was read: {sent:?}");
    assert_clean_shutdown(program);
}

/// The client opens the most streams with empty windows, and pings the server again and again.
#[test]
fn grpc_stops_reading_from_a_client_that_never_reads() {
    let program = start_server("deaf-grpc");
    let no_window = [0, 4, 0, 0, 0, 0];
    let mut requests = [PREFACE, &frame(SETTINGS, 0, 0, &no_window)].concat();
    for stream in (1..400).step_by(2) {
        requests.extend(frame(HEADERS, END_HEADERS, stream, &http2::request_headers()));
        requests.extend(frame(DATA, END_STREAM, stream, &http2::grpc_message("u")));
    }
    requests.extend(frame(PING, 0, 0, b"are here").repeat(2_000_000));
    let much = requests.len();
    let sent = send_without_reading(&program, program.grpc, &requests, much, clients::grpc_client(&program, "good"));
    assert!(sent.iter().all(|sent| *sent < much), "all of it was read: {sent:?}");
    assert_clean_shutdown(program);
}

/// Asserts that clients with a complete and half a request stay connected and take little memory.
fn assert_half_requests_pin_little(
    program: &Program,
    port: &str,
    address: Option<SocketAddr>,
    halves: &[&[u8]],
    answer: &[u8],
    mut good: impl FnMut() -> (bool, u64),
) {
    let (address, before) = (address.expect("a port"), memory_mib(program, "VmRSS"));
    let mut clients: Vec<_> =
        (0..HALF_REQUEST_CLIENTS).map(|_| TcpStream::connect(address).expect("a connection")).collect();
    for (client, half) in clients.iter_mut().zip(halves.iter().cycle()) {
        client.write_all(half).expect("sent");
    }
    // Once the whole is answered, the half is read: they were sent together.
    clients.iter_mut().for_each(|client| read_until(client, answer));
    assert!(open_connections(program, port) >= HALF_REQUEST_CLIENTS as f64, "they are kept");
    (1..=100).for_each(|requests_sent| assert_eq!(good(), (true, GOOD_CLIENT_QUOTA - requests_sent)));
    let more = memory_mib(program, "VmHWM").saturating_sub(before);
    assert!(more < HALF_REQUEST_MIB, "{more} MiB more");
    drop((clients, good));
    assert!(wait_until(|| open_connections(program, port) <= 1.0), "{} stay", open_connections(program, port));
}

/// Clients that send as many requests for `shop.user` as they can, and never read. Returns how much each could send.
fn send_without_reading(
    program: &Program,
    address: Option<SocketAddr>,
    requests: &[u8],
    much: usize,
    mut good: impl FnMut() -> (bool, u64),
) -> Vec<usize> {
    let (address, before) = (address.expect("a port"), memory_mib(program, "VmRSS"));
    let mut clients: Vec<_> =
        (0..NON_READING_CLIENTS).map(|_| (connect_with_small_buffer(address).expect("a connection"), 0)).collect();
    let (mut requests_sent, mut silent, mut taken) = (0, 0, 0.0);
    // Until nothing can be sent and nothing is done, many times in a row, while another client is served.
    let over = wait_until(|| {
        let mut some = 0;
        for (client, sent) in &mut clients {
            while *sent < much
                && let Ok(count @ 1..) = client.write(&requests[*sent % requests.len()..])
            {
                *sent += count;
                some += count;
            }
        }
        let then = std::mem::replace(&mut taken, denied_count(program));
        silent = if some == 0 && taken == then { silent + 1 } else { 0 };
        requests_sent += 1;
        assert_eq!(good(), (true, GOOD_CLIENT_QUOTA - requests_sent));
        let more = memory_mib(program, "VmHWM").saturating_sub(before);
        assert!(more < NON_READING_MIB, "{more} MiB more");
        silent == 20
    });
    assert!(over, "they can always send more");
    assert!(taken > 0.0, "something was read");
    clients.into_iter().map(|(_, sent)| sent).collect()
}

/// Opens a non-blocking connection with a small receive buffer.
pub(super) fn connect_with_small_buffer(address: SocketAddr) -> std::io::Result<TcpStream> {
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, None)?;
    socket.set_recv_buffer_size(16 << 10)?;
    socket.connect(&address.into())?;
    socket.set_nonblocking(true)?;
    Ok(socket.into())
}

/// Returns how many requests for `shop.user` were denied.
fn denied_count(program: &Program) -> f64 {
    metric_value(program, "tidegate_decisions_total{limit=\"shop.user\",outcome=\"denied\",reason=\"rate\"}")
}
