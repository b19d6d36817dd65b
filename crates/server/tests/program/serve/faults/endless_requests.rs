//! Requests that never end. The server stops reading them at some point, and keeps little until then.

use std::io::Write;
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use super::malformed::http2::{self, CONTINUATION, DATA, END_HEADERS, HEADERS, frame};
use super::{assert_clean_shutdown, clients, memory_mib, start_server};
use crate::serve::program::Program;

/// The most memory that the server may take in addition, in MiB.
const MAX_GROWTH_MIB: u64 = 8;
/// The number of bytes that proves that the server reads without end. A rejected client may send a few more, which the
/// server reads and discards, so that the rejection arrives.
const MAX_SENT_BYTES: usize = 16 << 30;

#[test]
fn endless_http_request_is_cut_off() {
    let program = start_server("endless-http");
    let post = "POST /v1/batch HTTP/1.1\r\nhost: localhost\r\n";
    let cases = [
        ("", "x"),
        ("GET /", "x"),
        ("GET / HTTP/1.1\r\nhost: localhost\r\nx: ", "y"),
        ("GET / HTTP/1.1\r\nhost: localhost\r\n", "x: y\r\n"),
        (&format!("{post}content-length: 18446744073709551615\r\n\r\n{{\"requests\":["), "[[[["),
        (&format!("{post}transfer-encoding: chunked\r\n\r\n"), "1\r\n \r\n"),
        (&format!("{post}transfer-encoding: chunked\r\n\r\n1;"), "x"),
        (&format!("{post}transfer-encoding: chunked\r\n\r\n0\r\n"), "x: y\r\n"),
    ];
    for (start, more) in cases {
        assert_cut_off(&program, program.http, start.as_bytes(), more.as_bytes());
    }
    assert!(clients::http_client(&program, "good")().0);
    assert_clean_shutdown(program);
}

#[test]
fn endless_grpc_request_is_cut_off() {
    let program = start_server("endless-grpc");
    let head = frame(HEADERS, END_HEADERS, 1, &http2::request_headers());
    let endless_head = [http2::connection_start(), frame(HEADERS, 0, 1, &http2::request_headers())].concat();
    let endless_message = [http2::connection_start(), head, frame(DATA, 0, 1, &[0, 0xff, 0xff, 0xff, 0xff])].concat();
    assert_cut_off(&program, program.grpc, &endless_head, &frame(CONTINUATION, 0, 1, &http2::request_headers()));
    assert_cut_off(&program, program.grpc, &endless_message, &frame(DATA, 0, 1, &[7; 10_000]));
    assert!(clients::grpc_client(&program, "good")().0);
    assert_clean_shutdown(program);
}

#[test]
fn endless_redis_command_is_cut_off() {
    let program = start_server("endless-resp");
    let cases = [("", "x"), ("ECHO ", "x "), ("*1\r\n$8000\r\n", "x"), ("*", "1"), ("*1\r\n$", "0")];
    for (start, more) in cases {
        assert_cut_off(&program, program.resp, start.as_bytes(), more.as_bytes());
    }
    assert!(clients::resp_client(&program, "good")().0);
    assert_clean_shutdown(program);
}

fn assert_cut_off(program: &Program, address: Option<SocketAddr>, start: &[u8], more: &[u8]) {
    let before = memory_mib(program, "VmRSS");
    let mut stream = TcpStream::connect(address.expect("a port")).expect("a connection");
    // This ends both a client whose connection is closed and one that the server no longer reads from.
    stream.set_write_timeout(Some(Duration::from_secs(60))).expect("a socket");
    let more = more.repeat((64 << 10) / more.len());
    stream.write_all(start).expect("sent");
    let mut sent = 0;
    while sent < MAX_SENT_BYTES && stream.write_all(&more).is_ok() {
        sent += more.len();
    }
    let name = start.escape_ascii();
    assert!(sent < MAX_SENT_BYTES, "{name}: all of it was read");
    let most = memory_mib(program, "VmHWM");
    assert!(most < before + MAX_GROWTH_MIB, "{name}: {most} MiB, where {before} were before");
}
