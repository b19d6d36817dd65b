//! Noise that anybody can make who can connect.

use std::io::Write;
use std::net::TcpStream;

use super::malformed::http2::{self, PING, frame};
use super::{read_until, serving};

/// Answers to what nobody has asked: each is a warning of the library's, and a line for a few bytes would fill any disk.
#[test]
fn it_is_not_in_the_log() {
    let program = serving("noise");
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
