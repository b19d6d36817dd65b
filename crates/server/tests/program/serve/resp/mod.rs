//! The Redis protocol.

mod auth;
mod bounds;
#[cfg(feature = "_real-servers")]
mod clients;
mod stores;
mod tls;
mod wire;

use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};
use std::time::Duration;

use crate::serve::program::Program;

fn start_server(arguments: &[&str]) -> Program {
    Program::start(&[&["--http", "off", "--grpc", "off"], arguments].concat())
}

/// Opens a connection with a read timeout far above any reply.
pub(crate) fn connect(program: &Program) -> TcpStream {
    let stream = TcpStream::connect(program.resp.expect("a port")).expect("it listens");
    stream.set_read_timeout(Some(Duration::from_secs(60))).expect("a timeout");
    stream.set_nodelay(true).expect("a socket");
    stream
}

/// Returns a command in the format of programs.
pub(crate) fn command(words: &[&str]) -> Vec<u8> {
    let word = |word: &&str| format!("${}\r\n{word}\r\n", word.len());
    [format!("*{}\r\n", words.len()), words.iter().map(word).collect()].concat().into_bytes()
}

/// Returns the reply of five integers.
fn five_integers(integers: [i64; 5]) -> String {
    format!("*5\r\n{}", integers.map(|integer| format!(":{integer}\r\n")).concat())
}

/// Sends bytes, and reads as many as expected.
pub(crate) fn exchange(stream: &mut TcpStream, sent: impl AsRef<[u8]>, expected: &str) {
    stream.write_all(sent.as_ref()).expect("sent");
    expect(stream, expected);
}

/// Reads as many bytes as expected, and compares them.
fn expect(stream: &mut TcpStream, expected: &str) {
    let mut found = vec![0; expected.len()];
    stream.read_exact(&mut found).unwrap_or_else(|error| panic!("{error}: expected {expected:?}"));
    assert_eq!(String::from_utf8_lossy(&found), expected);
}

/// Reads until the other end closes.
fn read_to_end(stream: &mut TcpStream) -> String {
    let mut found = Vec::new();
    stream.read_to_end(&mut found).expect("an orderly end");
    String::from_utf8_lossy(&found).into_owned()
}

/// Sends bytes, closes the sending side, and returns all replies.
pub(crate) fn replies(program: &Program, sent: impl AsRef<[u8]>) -> String {
    let mut stream = connect(program);
    stream.write_all(sent.as_ref()).expect("sent");
    stream.shutdown(Shutdown::Write).expect("half closed");
    read_to_end(&mut stream)
}
