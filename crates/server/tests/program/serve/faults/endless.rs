//! Requests that never end: at some point nothing more is read, and until then little is kept.

use std::io::Write;
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use super::malformed::http2::{self, CONTINUATION, DATA, END_HEADERS, HEADERS, frame};
use super::{clients, ends_well, memory, serving};
use crate::serve::program::Program;

/// How much memory it may take, in MiB.
const MORE: u64 = 8;
/// How many bytes prove that the server reads without end. A refused client may send a bit more, which the server reads and
/// discards, so that the refusal arrives.
const MUCH: usize = 16 << 30;

#[test]
fn over_http() {
    let program = serving("endless-http");
    let post = "POST /v1/batch HTTP/1.1\r\nhost: x\r\n";
    let cases = [
        ("", "x"),
        ("GET /", "x"),
        ("GET / HTTP/1.1\r\nhost: x\r\nx: ", "y"),
        ("GET / HTTP/1.1\r\nhost: x\r\n", "x: y\r\n"),
        (&format!("{post}content-length: 18446744073709551615\r\n\r\n{{\"requests\":["), "[[[["),
        (&format!("{post}transfer-encoding: chunked\r\n\r\n"), "1\r\n \r\n"),
        (&format!("{post}transfer-encoding: chunked\r\n\r\n1;"), "x"),
        (&format!("{post}transfer-encoding: chunked\r\n\r\n0\r\n"), "x: y\r\n"),
    ];
    for (start, more) in cases {
        endless(&program, program.http, start.as_bytes(), more.as_bytes());
    }
    assert!(clients::over_http(&program, "good")().0);
    ends_well(program);
}

#[test]
fn over_grpc() {
    let program = serving("endless-grpc");
    let head = frame(HEADERS, END_HEADERS, 1, &http2::question());
    let endless_head = [http2::start(), frame(HEADERS, 0, 1, &http2::question())].concat();
    let endless_message = [http2::start(), head, frame(DATA, 0, 1, &[0, 0xff, 0xff, 0xff, 0xff])].concat();
    endless(&program, program.grpc, &endless_head, &frame(CONTINUATION, 0, 1, &http2::question()));
    endless(&program, program.grpc, &endless_message, &frame(DATA, 0, 1, &[7; 10_000]));
    assert!(clients::over_grpc(&program, "good")().0);
    ends_well(program);
}

#[test]
fn over_resp() {
    let program = serving("endless-resp");
    let cases = [("", "x"), ("ECHO ", "x "), ("*1\r\n$8000\r\n", "x"), ("*", "1"), ("*1\r\n$", "0")];
    for (start, more) in cases {
        endless(&program, program.resp, start.as_bytes(), more.as_bytes());
    }
    assert!(clients::over_resp(&program, "good")().0);
    ends_well(program);
}

fn endless(program: &Program, address: Option<SocketAddr>, start: &[u8], more: &[u8]) {
    let before = memory(program, "VmRSS");
    let mut stream = TcpStream::connect(address.expect("a port")).expect("a connection");
    // A client that is no longer read from is stopped as well as one whose connection is closed.
    stream.set_write_timeout(Some(Duration::from_secs(60))).expect("a socket");
    let more = more.repeat((64 << 10) / more.len());
    stream.write_all(start).expect("sent");
    let mut sent = 0;
    while sent < MUCH && stream.write_all(&more).is_ok() {
        sent += more.len();
    }
    let name = start.escape_ascii();
    assert!(sent < MUCH, "{name}: all of it was read");
    let most = memory(program, "VmHWM");
    assert!(most < before + MORE, "{name}: {most} MiB, where {before} were before");
}
