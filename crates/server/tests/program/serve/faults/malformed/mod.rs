//! Malformed input: ten thousand inputs on each port, and frames that must not fill the log.

pub(super) mod http;
pub(super) mod http2;
pub(super) mod resp;

use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tidegate_servers::wait_until;
use tidegate_testkit::Random;

use super::{
    GOOD_CLIENT_QUOTA, assert_clean_shutdown, clients, memory_mib, open_connections, read_until, start_server,
};
use crate::serve::program::Program;
use http2::{PING, frame};

const INPUTS: u64 = 10_000;
/// The number of concurrent senders.
const SENDERS: usize = 32;
/// The most memory that they may take in addition, in MiB.
const MAX_GROWTH_MIB: u64 = 32;

/// Unsolicited pongs: the library warns of each, and a log line for every few bytes would fill the disk.
#[test]
fn malformed_frames_are_not_logged() {
    let program = start_server("malformed-frames");
    let ping = |answered| frame(PING, answered, 0, b"are here");
    for port in [program.http, program.grpc] {
        let mut stream = TcpStream::connect(port.expect("a port")).expect("a connection");
        let noise = ping(1).repeat(1_000);
        stream.write_all(&[http2::connection_start(), noise, ping(0)].concat()).expect("sent");
        read_until(&mut stream, &ping(1));
    }
    let (_, log) = program.stop();
    assert!(!log.iter().any(|line| line.to_lowercase().contains("ping")), "{log:?}");
}

#[test]
fn http_survives_ten_thousand_malformed_inputs() {
    let program = start_server("malformed-http");
    assert_survives_flood("http", program.http, http::random_input, clients::http_client(&program, "good"), &program);
    assert_clean_shutdown(program);
}

#[test]
fn grpc_survives_ten_thousand_malformed_inputs() {
    let program = start_server("malformed-grpc");
    assert_survives_flood(
        "grpc",
        program.grpc,
        http2::random_grpc_input,
        clients::grpc_client(&program, "good"),
        &program,
    );
    assert_clean_shutdown(program);
}

#[test]
fn resp_survives_ten_thousand_malformed_inputs() {
    let program = start_server("malformed-resp");
    assert_survives_flood("resp", program.resp, resp::random_input, clients::resp_client(&program, "good"), &program);
    assert_clean_shutdown(program);
}

/// Sends all inputs while a well-behaved client is served.
fn assert_survives_flood(
    port: &str,
    address: Option<SocketAddr>,
    input: fn(&mut Random) -> Vec<u8>,
    mut good: impl FnMut() -> (bool, u64),
    program: &Program,
) {
    let address = address.expect("a port");
    let (before, next) = (memory_mib(program, "VmRSS"), AtomicU64::new(0));
    let mut requests_sent = 0;
    std::thread::scope(|scope| {
        let sender = || {
            while let number @ 0..INPUTS = next.fetch_add(1, Ordering::Relaxed) {
                let mut random = Random::new(number);
                let bytes = input(&mut random);
                send_input(address, &bytes, &mut random).unwrap_or_else(|error| {
                    panic!("input {number} is not done with: {error}: {}", bytes[..bytes.len().min(500)].escape_ascii())
                });
            }
        };
        let senders: Vec<_> = (0..SENDERS).map(|_| scope.spawn(sender)).collect();
        while senders.iter().any(|sender| !sender.is_finished()) {
            requests_sent += 1;
            assert_eq!(good(), (true, GOOD_CLIENT_QUOTA - requests_sent), "nobody else asks for this");
        }
    });
    assert!(requests_sent > 100, "{requests_sent} asked meanwhile");
    drop(good);
    let over = wait_until(|| open_connections(program, port) <= 1.0);
    assert!(over, "{} connections stay", open_connections(program, port));
    let most = memory_mib(program, "VmHWM");
    assert!(most < before + MAX_GROWTH_MIB, "{most} MiB, where {before} were before");
}

/// Sends it on a connection of its own, and waits until the server has closed that; or leaves at once.
pub(super) fn send_input(address: SocketAddr, bytes: &[u8], random: &mut Random) -> std::io::Result<()> {
    let mut stream = TcpStream::connect(address)?;
    stream.set_read_timeout(Some(Duration::from_secs(60)))?;
    stream.set_write_timeout(Some(Duration::from_secs(60)))?;
    let pieces = if random.one_in(4) { random.between(1, 5) as usize } else { 1 };
    let slow = |error: &std::io::Error| matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut);
    for piece in bytes.chunks(bytes.len().div_ceil(pieces).max(1)) {
        match stream.write_all(piece) {
            Err(error) if slow(&error) => return Err(error),
            // The server has already closed it.
            Err(_) => return Ok(()),
            Ok(()) => {}
        }
    }
    if random.one_in(4) || stream.shutdown(Shutdown::Write).is_err() {
        return Ok(());
    }
    let mut read = [0; 4 << 10];
    loop {
        match stream.read(&mut read) {
            Ok(0) => return Ok(()),
            Ok(_) => {}
            Err(error) if slow(&error) => return Err(error),
            Err(_) => return Ok(()),
        }
    }
}

/// Bytes of any kind.
fn random_bytes(random: &mut Random, bits: u64) -> Vec<u8> {
    (0..random.of_bits(1, bits)).map(|_| random.next() as u8).collect()
}

/// Corrupts valid input: truncates it, or changes bytes.
fn corrupt(random: &mut Random, bytes: Vec<u8>) -> Vec<u8> {
    if random.one_in(3) { truncate(random, bytes) } else { mutate(random, bytes) }
}

/// Truncates valid input.
fn truncate(random: &mut Random, mut bytes: Vec<u8>) -> Vec<u8> {
    bytes.truncate(random.below(bytes.len() as u64) as usize);
    bytes
}

/// Changes up to three bytes: too few to turn one name into another.
fn mutate(random: &mut Random, mut bytes: Vec<u8>) -> Vec<u8> {
    for _ in 0..random.between(1, 3) {
        let at = random.below(bytes.len() as u64) as usize;
        bytes[at] = random.next() as u8;
    }
    bytes
}
