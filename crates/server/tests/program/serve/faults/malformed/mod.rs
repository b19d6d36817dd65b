//! Malformed input: ten thousand inputs on each port, and frames that must not fill the log.

mod grpc;
mod http;
pub(super) mod http2;
mod resp;

use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tidegate_servers::wait_until;
use tidegate_testkit::Random;

use super::{MOST, clients, connections, ends_well, memory, read_until, serving};
use crate::serve::program::Program;
use http2::{PING, frame};

const INPUTS: u64 = 10_000;
/// How many of them are on their way at once.
const SENDERS: usize = 32;
/// How much more memory they may take, in MiB.
const MORE: u64 = 32;

/// Unsolicited answers to pings: the library warns of each, and a log line for every few bytes would fill the disk.
#[test]
fn malformed_frames_are_not_logged() {
    let program = serving("malformed-frames");
    let ping = |answered| frame(PING, answered, 0, b"are here");
    for port in [program.http, program.grpc] {
        let mut stream = TcpStream::connect(port.expect("a port")).expect("a connection");
        let noise = ping(1).repeat(1_000);
        stream.write_all(&[http2::start(), noise, ping(0)].concat()).expect("sent");
        read_until(&mut stream, &ping(1));
    }
    let (_, log) = program.stop();
    assert!(!log.iter().any(|line| line.to_lowercase().contains("ping")), "{log:?}");
}

#[test]
fn ten_thousand_malformed_inputs_over_http() {
    let program = serving("malformed-http");
    flood("http", program.http, http::input, clients::over_http(&program, "good"), &program);
    ends_well(program);
}

#[test]
fn ten_thousand_malformed_inputs_over_grpc() {
    let program = serving("malformed-grpc");
    flood("grpc", program.grpc, grpc::input, clients::over_grpc(&program, "good"), &program);
    ends_well(program);
}

#[test]
fn ten_thousand_malformed_inputs_over_resp() {
    let program = serving("malformed-resp");
    flood("resp", program.resp, resp::input, clients::over_resp(&program, "good"), &program);
    ends_well(program);
}

/// Sends all inputs while a well-behaved client is served.
fn flood(
    port: &str,
    address: Option<SocketAddr>,
    input: fn(&mut Random) -> Vec<u8>,
    mut good: impl FnMut() -> (bool, u64),
    program: &Program,
) {
    let address = address.expect("a port");
    let (before, next) = (memory(program, "VmRSS"), AtomicU64::new(0));
    let mut asked = 0;
    std::thread::scope(|scope| {
        let sender = || {
            while let number @ 0..INPUTS = next.fetch_add(1, Ordering::Relaxed) {
                let mut random = Random::new(number);
                let bytes = input(&mut random);
                send(address, &bytes, &mut random).unwrap_or_else(|error| {
                    panic!("input {number} is not done with: {error}: {}", bytes[..bytes.len().min(500)].escape_ascii())
                });
            }
        };
        let senders: Vec<_> = (0..SENDERS).map(|_| scope.spawn(sender)).collect();
        while senders.iter().any(|sender| !sender.is_finished()) {
            asked += 1;
            assert_eq!(good(), (true, MOST - asked), "nobody else asks for this");
        }
    });
    assert!(asked > 100, "{asked} asked meanwhile");
    drop(good);
    let over = wait_until(|| connections(program, port) <= 1.0);
    assert!(over, "{} connections stay", connections(program, port));
    let most = memory(program, "VmHWM");
    assert!(most < before + MORE, "{most} MiB, where {before} were before");
}

/// Sends it on a connection of its own, and waits until the server has closed that; or leaves at once.
fn send(address: SocketAddr, bytes: &[u8], random: &mut Random) -> std::io::Result<()> {
    let mut stream = TcpStream::connect(address)?;
    stream.set_read_timeout(Some(Duration::from_secs(60)))?;
    stream.set_write_timeout(Some(Duration::from_secs(60)))?;
    let pieces = if random.one_in(4) { random.between(1, 5) as usize } else { 1 };
    let slow = |error: &std::io::Error| matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut);
    for piece in bytes.chunks(bytes.len().div_ceil(pieces).max(1)) {
        match stream.write_all(piece) {
            Err(error) if slow(&error) => return Err(error),
            // It is closed already.
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
fn noise(random: &mut Random, bits: u64) -> Vec<u8> {
    (0..random.of_bits(1, bits)).map(|_| random.next() as u8).collect()
}

/// Corrupts valid input: truncates it, or changes bytes.
fn damaged(random: &mut Random, bytes: Vec<u8>) -> Vec<u8> {
    if random.one_in(3) { cut(random, bytes) } else { mutated(random, bytes) }
}

/// Truncates valid input.
fn cut(random: &mut Random, mut bytes: Vec<u8>) -> Vec<u8> {
    bytes.truncate(random.below(bytes.len() as u64) as usize);
    bytes
}

/// Changes up to three bytes: too few to turn one name into another.
fn mutated(random: &mut Random, mut bytes: Vec<u8>) -> Vec<u8> {
    for _ in 0..random.between(1, 3) {
        let at = random.below(bytes.len() as u64) as usize;
        bytes[at] = random.next() as u8;
    }
    bytes
}
