//! The attacks: each is a burst on a few connections, and ends by itself.
#![allow(clippy::disallowed_methods)] // an attacker waits in real time

use std::io::{self, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::thread;
use std::time::Duration;

use tidegate_testkit::Random;

use crate::serve::faults::malformed::http2::{self, DATA, END_HEADERS, END_STREAM, HEADERS, PING, PREFACE, frame};
use crate::serve::faults::malformed::{http, resp, send_input};
use crate::serve::program::Program;
use crate::serve::resp::command;

/// The ports of the server.
pub(super) struct Target {
    http: SocketAddr,
    grpc: SocketAddr,
    resp: SocketAddr,
}

impl Target {
    pub(super) fn new(program: &Program) -> Self {
        let [http, grpc, resp] = [program.http, program.grpc, program.resp].map(|port| port.expect("a port"));
        Target { http, grpc, resp }
    }

    fn any_port(&self, random: &mut Random) -> SocketAddr {
        random.pick(&[self.http, self.grpc, self.resp])
    }
}

/// Makes one attack.
pub(super) fn attack(target: &Target, random: &mut Random) {
    let attacks: [fn(&Target, &mut Random) -> io::Result<()>; 12] = [
        malformed,
        malformed,
        slow_requests,
        unfinished_bodies,
        whole_batches,
        unread_streams,
        unread_replies,
        pipelined_commands,
        pipelined_requests,
        grpc_calls,
        connections,
        pages,
    ];
    // The server may refuse it at any point.
    let _ = random.pick(&attacks)(target, random);
}

/// A key that is asked for once.
fn random_key(random: &mut Random) -> String {
    format!("{:016x}", random.next())
}

fn random_limit(random: &mut Random) -> &'static str {
    random.pick(&["flood", "flood", "flood-log", "shop.user", "no-such-limit"])
}

fn connect(address: SocketAddr) -> io::Result<TcpStream> {
    let stream = TcpStream::connect(address)?;
    stream.set_read_timeout(Some(Duration::from_secs(2)))?;
    stream.set_write_timeout(Some(Duration::from_secs(2)))?;
    Ok(stream)
}

/// Sends it, and reads what the server answers within two seconds.
fn exchange(address: SocketAddr, bytes: &[u8]) -> io::Result<()> {
    let mut stream = connect(address)?;
    stream.write_all(bytes)?;
    let mut read = [0; 16 << 10];
    while stream.read(&mut read)? > 0 {}
    Ok(())
}

fn post(path: &str, body: &str) -> String {
    format!("POST {path} HTTP/1.1\r\nhost: localhost\r\ncontent-length: {}\r\n\r\n{body}", body.len())
}

/// Malformed input of all kinds, each of which the server must be done with.
fn malformed(target: &Target, random: &mut Random) -> io::Result<()> {
    for _ in 0..20 {
        let (port, bytes) = match random.below(3) {
            0 => (target.http, http::random_input(random)),
            1 => (target.grpc, http2::random_grpc_input(random)),
            _ => (target.resp, resp::random_input(random)),
        };
        send_input(port, &bytes, random)
            .unwrap_or_else(|error| panic!("{error}: {}", bytes[..bytes.len().min(500)].escape_ascii()));
    }
    Ok(())
}

/// Clients that send a byte now and then.
fn slow_requests(target: &Target, random: &mut Random) -> io::Result<()> {
    let halves = [
        (
            target.http,
            b"POST /v1/limit HTTP/1.1\r\nhost: localhost\r\ncontent-length: 40\r\n\r\n{\"limit\":\"sho".to_vec(),
        ),
        (target.http, b"GET /healthz HTTP/1.1\r\nhost: localho".to_vec()),
        (target.grpc, [http2::connection_start(), frame(HEADERS, 0, 1, &http2::request_headers()[..40])].concat()),
        (target.resp, b"*3\r\n$8\r\nTG.LIMIT\r\n$9\r\nshop.u".to_vec()),
    ];
    let mut streams = Vec::new();
    for (port, half) in halves.iter().cycle().take(100) {
        let mut stream = connect(*port)?;
        stream.write_all(half)?;
        streams.push(stream);
    }
    for _ in 0..random.between(1, 20) {
        thread::sleep(Duration::from_millis(50));
        streams.retain_mut(|stream| stream.write_all(b"x").is_ok());
    }
    Ok(())
}

/// Bodies of a mebibyte whose last byte does not come: over HTTP/1.1, and on many streams of one connection.
fn unfinished_bodies(target: &Target, random: &mut Random) -> io::Result<()> {
    let mut streams = Vec::new();
    let head = format!("POST /v1/batch HTTP/1.1\r\nhost: localhost\r\ncontent-length: {}\r\n\r\n", 1 << 20);
    for _ in 0..4 {
        let mut stream = connect(target.http)?;
        stream.write_all(head.as_bytes())?;
        stream.write_all(&vec![b' '; (1 << 20) - 1])?;
        streams.push(stream);
    }
    let mut stream = connect(target.http)?;
    stream.write_all(&http2::connection_start())?;
    for number in 0..20 {
        let head = http2::headers("POST", "/v1/batch", &[]);
        stream.write_all(&frame(HEADERS, END_HEADERS, 2 * number + 1, &head))?;
        stream.write_all(&frame(DATA, 0, 2 * number + 1, &[b' '; 16 << 10]))?;
    }
    thread::sleep(Duration::from_millis(random.below(500)));
    drop((streams, stream));
    Ok(())
}

/// The longest batches, of keys that are asked for once.
fn whole_batches(target: &Target, random: &mut Random) -> io::Result<()> {
    let one = |random: &mut Random| {
        format!("{{\"limit\":\"{}\",\"key\":\"{}\"}}", random.pick(&["flood", "flood-log"]), random_key(random))
    };
    let requests: Vec<_> = (0..1_000).map(|_| one(random)).collect();
    let batch = post("/v1/batch", &format!("{{\"requests\":[{}]}}", requests.join(",")));
    exchange(target.http, batch.repeat(random.between(1, 4) as usize).as_bytes())
}

/// Streams that ask for the longest pages, or for decisions, with closed windows; and resets of them.
fn unread_streams(target: &Target, random: &mut Random) -> io::Result<()> {
    let no_window = [0, 4, 0, 0, 0, 0];
    let (port, mut bytes) = (random.pick(&[target.http, target.grpc]), PREFACE.to_vec());
    bytes.extend(frame(http2::SETTINGS, 0, 0, if random.one_in(2) { &no_window } else { &[] }));
    let resets = random.one_in(2);
    for number in 0..random.between(10, 200) as u32 {
        let (stream, path) = (2 * number + 1, random.pick(&["/v1/limits", "/metrics", "/dashboard/data", "/"]));
        if port == target.http {
            bytes.extend(frame(HEADERS, END_HEADERS | END_STREAM, stream, &http2::headers("GET", path, &[])));
        } else {
            bytes.extend(frame(HEADERS, END_HEADERS, stream, &http2::request_headers()));
            bytes.extend(frame(DATA, END_STREAM, stream, &http2::grpc_message(&random_key(random))));
        }
        if resets {
            bytes.extend(frame(http2::RST_STREAM, 0, stream, &[0, 0, 0, 8]));
        }
    }
    bytes.extend(frame(PING, 0, 0, b"are here").repeat(random.below(1_000) as usize));
    let mut stream = connect(port)?;
    stream.write_all(&bytes)?;
    thread::sleep(Duration::from_millis(random.below(500)));
    Ok(())
}

/// As many commands and requests as the server reads from a client that does not read.
fn unread_replies(target: &Target, random: &mut Random) -> io::Result<()> {
    let take = post("/v1/limit", r#"{"limit":"flood","key":"u"}"#);
    let (port, bytes) = match random.one_in(2) {
        true => (target.resp, [command(&["TG.LIMIT", "flood", "u"]), command(&["INFO"])].concat()),
        false => (target.http, format!("{take}GET /metrics HTTP/1.1\r\nhost: localhost\r\n\r\n").into_bytes()),
    };
    let (bytes, mut stream) = (bytes.repeat(500), connect(port)?);
    stream.set_nonblocking(true)?;
    for _ in 0..random.between(1, 40) {
        match stream.write(&bytes) {
            Err(error) if error.kind() != ErrorKind::WouldBlock => return Err(error),
            Ok(_) => {}
            Err(_) => thread::sleep(Duration::from_millis(20)),
        }
    }
    Ok(())
}

/// Pipelined commands, of keys that are asked for once.
fn pipelined_commands(target: &Target, random: &mut Random) -> io::Result<()> {
    let one = |random: &mut Random| {
        let key = random_key(random);
        match random.below(3) {
            0 => command(&["CL.THROTTLE", &key, "15", "30", "60"]),
            1 => command(&["TG.CHECK", random_limit(random), &key]),
            _ => command(&["TG.LIMIT", random_limit(random), &key]),
        }
    };
    let mut commands: Vec<u8> = (0..2_000).flat_map(|_| one(random)).collect();
    commands.extend(command(&["QUIT"]));
    exchange(target.resp, &commands)
}

/// Pipelined requests, of keys that are asked for once.
fn pipelined_requests(target: &Target, random: &mut Random) -> io::Result<()> {
    let one = |random: &mut Random| {
        let (limit, key) = (random_limit(random), random_key(random));
        match random.below(5) {
            0 => format!("GET /v1/auth?limit={limit}&key={key} HTTP/1.1\r\nhost: localhost\r\n\r\n"),
            1 => post("/v1/check", &format!("{{\"limit\":\"{limit}\",\"key\":\"{key}\"}}")),
            2 => post("/v1/admit", &format!("{{\"limit\":\"flood-leases\",\"key\":\"{key}\"}}")),
            _ => post("/v1/limit", &format!("{{\"limit\":\"{limit}\",\"key\":\"{key}\"}}")),
        }
    };
    let mut requests: String = (0..200).map(|_| one(random)).collect();
    requests += "GET /healthz HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n";
    exchange(target.http, requests.as_bytes())
}

/// Calls of Envoy's service, of users that are asked for once. The client hangs up at some point.
fn grpc_calls(target: &Target, random: &mut Random) -> io::Result<()> {
    let mut bytes = http2::connection_start();
    for number in 0..100 {
        bytes.extend(frame(HEADERS, END_HEADERS, 2 * number + 1, &http2::request_headers()));
        bytes.extend(frame(DATA, END_STREAM, 2 * number + 1, &http2::grpc_message(&random_key(random))));
    }
    let mut stream = connect(target.grpc)?;
    stream.write_all(&bytes)?;
    let mut read = [0; 1 << 10];
    for _ in 0..random.below(8) {
        let _ = stream.read(&mut read)?;
    }
    Ok(())
}

/// Many connections at once, most of which say nothing.
fn connections(target: &Target, random: &mut Random) -> io::Result<()> {
    let port = target.any_port(random);
    let mut streams = (0..200).map(|_| connect(port)).collect::<io::Result<Vec<_>>>()?;
    for stream in &mut streams {
        if random.one_in(10) {
            stream.write_all(b"PING\r\n")?;
        }
    }
    thread::sleep(Duration::from_millis(random.below(200)));
    Ok(())
}

/// The longest pages, one after the other.
fn pages(target: &Target, random: &mut Random) -> io::Result<()> {
    let one = |random: &mut Random| {
        let path = random.pick(&["/metrics", "/v1/limits", "/dashboard/data", "/", "/healthz"]);
        format!("GET {path} HTTP/1.1\r\nhost: localhost\r\n\r\n")
    };
    let requests: String = (0..20).map(|_| one(random)).collect();
    let last = "GET /metrics HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n";
    exchange(target.http, format!("{requests}{last}").as_bytes())
}
