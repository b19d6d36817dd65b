//! Malformed commands, unread replies, and too many connections.

use std::io::Write;
use std::net::{Shutdown, TcpStream};
use std::time::Duration;

use tidegate_servers::wait_until;

use super::{connect, exchange, expect, read_to_end, start_server};
use crate::serve::program::Program;

#[test]
fn a_malformed_command_closes_only_its_connection() {
    let program = start_server(&[]);
    let cases: [(&[u8], &str); 5] = [
        (b"*65\r\n", "invalid multibulk length"),
        (b"*1\r\n$999999999\r\n", "invalid bulk length"),
        (b"*1\r\n+PING\r\n", "expected '$', got '+'"),
        (b"echo 'a\r\n", "unbalanced quotes in request"),
        (&[b'x'; 9_000], "too big inline request"),
    ];
    let mut other = connect(&program);
    for (sent, error) in cases {
        let mut stream = connect(&program);
        // Commands before it are answered, and those after it are not.
        stream.write_all(&[b"PING\r\n", sent, b"PING\r\nPING\r\n"].concat()).expect("sent");
        assert_eq!(read_to_end(&mut stream), format!("+PONG\r\n-ERR Protocol error: {error}\r\n"));
        exchange(&mut other, "PING\r\n", "+PONG\r\n");
    }
}

/// Clients that send much and read nothing: the server stops reading from them, serves the others, and answers them when they
/// read.
#[test]
fn clients_that_do_not_read_are_answered_once_they_do() {
    let program = start_server(&[]);
    let before = memory_kib(&program);
    let echo = format!("*2\r\n$4\r\nECHO\r\n$8000\r\n{}\r\n", "x".repeat(8_000));
    let much = 64 << 20;
    std::thread::scope(|scope| {
        let mut streams: Vec<_> = (0..20).map(|_| connect(&program)).collect();
        for stream in &streams {
            let (mut stream, echo) = (stream.try_clone().expect("a socket"), &echo);
            // Blocks until its replies are read, which happens only after every client has sent what it can.
            scope.spawn(move || {
                let mut sent = 0;
                while sent < much && stream.write_all(echo.as_bytes()).is_ok() {
                    sent += echo.len();
                }
            });
        }
        // All of them are blocked until their replies are read.
        assert!(wait_until(|| streams.iter().all(has_unread_bytes)), "replies come");
        exchange(&mut connect(&program), "PING\r\n", "+PONG\r\n");
        let more = memory_kib(&program).saturating_sub(before);
        assert!(more < 16 << 10, "{more} KiB more for clients that do not read");
        for stream in &mut streams {
            expect(stream, &format!("$8000\r\n{}\r\n", "x".repeat(8_000)).repeat(3));
            stream.shutdown(Shutdown::Both).expect("closed");
        }
    });
}

/// Whether bytes have arrived that were not read.
fn has_unread_bytes(stream: &TcpStream) -> bool {
    stream.peek(&mut [0]).is_ok_and(|count| count > 0)
}

/// Returns the memory of the program, in KiB.
fn memory_kib(program: &Program) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{}/status", program.id())).expect("it runs");
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).expect("its memory");
    line.trim().trim_end_matches(" kB").parse().expect("a number")
}

#[test]
fn connections_beyond_the_maximum_wait() {
    let program = start_server(&["--max-connections", "1"]);
    let mut first = connect(&program);
    exchange(&mut first, "PING\r\n", "+PONG\r\n");
    let mut second = connect(&program);
    second.write_all(b"PING\r\n").expect("sent");
    exchange(&mut first, "PING\r\n", "+PONG\r\n");
    assert!(!has_bytes_soon(&second), "nobody serves it yet");
    drop(first);
    expect(&mut second, "+PONG\r\n");
}

/// Whether bytes arrive within 200 ms.
fn has_bytes_soon(stream: &TcpStream) -> bool {
    stream.set_read_timeout(Some(Duration::from_millis(200))).expect("a timeout");
    let came = has_unread_bytes(stream);
    stream.set_read_timeout(Some(Duration::from_secs(60))).expect("a timeout");
    came
}
