//! Clients that never finish a request, or never read a response.

use std::io::Write;
use std::net::{SocketAddr, TcpStream};

use socket2::{Domain, Socket, Type};
use tidegate_servers::wait_until;

use super::malformed::http2::{self, DATA, END_HEADERS, END_STREAM, HEADERS, PING, PREFACE, SETTINGS, frame};
use super::{MOST, clients, connections, ends_well, memory, metric, read_until, serving};
use crate::serve::program::Program;
use crate::serve::resp::command;

/// How many clients send half of something, and how much memory they may take together, in MiB.
const HALVES: usize = 1_000;
const FOR_HALVES: u64 = 48;

/// How many clients never read, how much each would send, and how much memory they may take together, in MiB.
const DEAF: usize = 10;
const MUCH: usize = 32 << 20;
const FOR_DEAF: u64 = 32;

#[test]
fn half_a_request_over_http_pins_little() {
    let program = serving("half-http");
    let whole = "GET /healthz HTTP/1.1\r\nhost: x\r\n\r\n";
    let head = format!("{whole}POST /v1/limit HTTP/1.1\r\nhost: x\r\ncontent-le");
    let body = format!("{whole}POST /v1/limit HTTP/1.1\r\nhost: x\r\ncontent-length: 40\r\n\r\n{{\"limit\":\"sho");
    let halves = [head.as_bytes(), body.as_bytes()];
    thousand(&program, "http", program.http, &halves, b"HTTP/1.1 200", clients::over_http(&program, "good"));
    ends_well(program);
}

#[test]
fn half_a_request_over_grpc_pins_little() {
    let program = serving("half-grpc");
    let ping = |answered| frame(PING, answered, 0, b"are here");
    let head = [http2::start(), ping(0), frame(HEADERS, 0, 1, &http2::question()[..40])].concat();
    let message = frame(DATA, END_STREAM, 1, &http2::message("u"));
    let whole = [http2::start(), frame(HEADERS, END_HEADERS, 1, &http2::question()), ping(0)].concat();
    let body = [&whole, &message[..20]].concat();
    thousand(&program, "grpc", program.grpc, &[&head, &body], &ping(1), clients::over_grpc(&program, "good"));
    ends_well(program);
}

#[test]
fn half_a_command_pins_little() {
    let program = serving("half-resp");
    let half = b"PING\r\n*3\r\n$8\r\nTG.LIMIT\r\n$9\r\nshop.u";
    let line = b"PING\r\nTG.LIMIT shop.user";
    thousand(&program, "resp", program.resp, &[half, line], b"+PONG\r\n", clients::over_resp(&program, "good"));
    ends_well(program);
}

#[test]
fn a_client_that_never_reads_is_not_read_from_over_http() {
    let program = serving("deaf-http");
    let body = r#"{"limit":"shop.user","key":"u"}"#;
    let take = format!("POST /v1/limit HTTP/1.1\r\nhost: x\r\ncontent-length: {}\r\n\r\n{body}", body.len());
    let requests = format!("{take}GET / HTTP/1.1\r\nhost: x\r\n\r\n").repeat(500).into_bytes();
    let sent = deaf(&program, program.http, &requests, MUCH, clients::over_http(&program, "good"));
    assert!(sent.iter().all(|sent| *sent < MUCH), "all of it was read: {sent:?}");
    ends_well(program);
}

#[test]
fn a_client_that_never_reads_is_not_read_from_over_resp() {
    let program = serving("deaf-resp");
    let commands = [command(&["TG.LIMIT", "shop.user", "u"]), command(&["INFO"])].concat().repeat(500);
    let sent = deaf(&program, program.resp, &commands, MUCH, clients::over_resp(&program, "good"));
    assert!(sent.iter().all(|sent| *sent < MUCH), "all of it was read: {sent:?}");
    ends_well(program);
}

/// The client opens the most streams with empty windows, and pings the server again and again.
#[test]
fn a_client_that_never_reads_is_not_read_from_over_grpc() {
    let program = serving("deaf-grpc");
    let no_window = [0, 4, 0, 0, 0, 0];
    let mut requests = [PREFACE, &frame(SETTINGS, 0, 0, &no_window)].concat();
    for stream in (1..400).step_by(2) {
        requests.extend(frame(HEADERS, END_HEADERS, stream, &http2::question()));
        requests.extend(frame(DATA, END_STREAM, stream, &http2::message("u")));
    }
    requests.extend(frame(PING, 0, 0, b"are here").repeat(2_000_000));
    let much = requests.len();
    let sent = deaf(&program, program.grpc, &requests, much, clients::over_grpc(&program, "good"));
    assert!(sent.iter().all(|sent| *sent < much), "all of it was read: {sent:?}");
    ends_well(program);
}

/// Clients that send something whole and half of something, and stay.
fn thousand(
    program: &Program,
    port: &str,
    address: Option<SocketAddr>,
    halves: &[&[u8]],
    answer: &[u8],
    mut good: impl FnMut() -> (bool, u64),
) {
    let (address, before) = (address.expect("a port"), memory(program, "VmRSS"));
    let mut clients: Vec<_> = (0..HALVES).map(|_| TcpStream::connect(address).expect("a connection")).collect();
    for (client, half) in clients.iter_mut().zip(halves.iter().cycle()) {
        client.write_all(half).expect("sent");
    }
    // Once the whole is answered, the half is read: they were sent together.
    clients.iter_mut().for_each(|client| read_until(client, answer));
    assert!(connections(program, port) >= HALVES as f64, "they are kept");
    (1..=100).for_each(|asked| assert_eq!(good(), (true, MOST - asked)));
    let more = memory(program, "VmHWM").saturating_sub(before);
    assert!(more < FOR_HALVES, "{more} MiB more");
    drop((clients, good));
    assert!(wait_until(|| connections(program, port) <= 1.0), "{} stay", connections(program, port));
}

/// Clients that send as many requests for `shop.user` as they can, and never read. Returns how much each could send.
fn deaf(
    program: &Program,
    address: Option<SocketAddr>,
    requests: &[u8],
    much: usize,
    mut good: impl FnMut() -> (bool, u64),
) -> Vec<usize> {
    let (address, before) = (address.expect("a port"), memory(program, "VmRSS"));
    let mut clients: Vec<_> = (0..DEAF).map(|_| (hard_of_hearing(address).expect("a connection"), 0)).collect();
    let (mut asked, mut silent, mut taken) = (0, 0, 0.0);
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
        let then = std::mem::replace(&mut taken, denied(program));
        silent = if some == 0 && taken == then { silent + 1 } else { 0 };
        asked += 1;
        assert_eq!(good(), (true, MOST - asked));
        let more = memory(program, "VmHWM").saturating_sub(before);
        assert!(more < FOR_DEAF, "{more} MiB more");
        silent == 20
    });
    assert!(over, "they can always send more");
    assert!(taken > 0.0, "something was read");
    clients.into_iter().map(|(_, sent)| sent).collect()
}

/// A connection that takes in little by itself, and never waits.
fn hard_of_hearing(address: SocketAddr) -> std::io::Result<TcpStream> {
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, None)?;
    socket.set_recv_buffer_size(16 << 10)?;
    socket.connect(&address.into())?;
    socket.set_nonblocking(true)?;
    Ok(socket.into())
}

/// How often `shop.user` had nothing left.
fn denied(program: &Program) -> f64 {
    metric(program, "tidegate_decisions_total{limit=\"shop.user\",outcome=\"denied\",reason=\"rate\"}")
}
