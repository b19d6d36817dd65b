//! The benchmark of the HTTP API, with `wrk` as the client.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};

use tidegate_servers::{Program, required_env};

use super::contest::{Contestant, LoadResult, compare};
use super::{LARGE_QUOTA, ONE_THREAD, start_own_server, start_throttlecrabs, start_tidegates};

const SCRIPT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/src/serve/post.lua");
const CONNECTIONS: u32 = 50;
const SECONDS: u32 = 1;
/// The seed of the next draw of keys: every round has other keys.
static SEED: AtomicU32 = AtomicU32::new(1);

pub(super) fn run() {
    let config = format!("[limits.api]\nalgorithm = \"token_bucket\"\nrate = {LARGE_QUOTA}\nperiod = \"1m\"\n");
    let ([ours, many], [crab, single], bare) = (
        start_tidegates("http", &[("limits.toml", &config)], "2"),
        start_throttlecrabs("http"),
        start_own_server("bare", &ONE_THREAD),
    );
    let ask = Post { path: "/v1/limit", before: r#"{"limit":"api","key":""#.to_owned(), after: r#""}"#.to_owned() };
    let numbers = format!(r#"","max_burst":{LARGE_QUOTA},"count_per_period":{LARGE_QUOTA},"period":60}}"#);
    let throttle = Post { path: "/throttle", before: r#"{"key":""#.to_owned(), after: numbers };
    println!("\nHTTP, wrk -t 1 -c {CONNECTIONS}; expected: 1.2x of throttlecrab, 0.8x of bare axum");
    compare(&[
        ask.to("tidegate, POST /v1/limit", &ours),
        ask.to("tidegate, a thread for each core", &many),
        throttle.to("throttlecrab, POST /throttle", &crab),
        throttle.to("throttlecrab with one thread", &single),
        ask.to("bare axum, one thread, constant answer", &bare),
    ]);
}

/// A posted request: a body with a key in the middle.
struct Post {
    path: &'static str,
    before: String,
    after: String,
}

impl Post {
    fn to<'a>(&'a self, name: &'a str, server: &'a Program) -> Contestant<'a> {
        let answer = self.once(server);
        assert!(answer.starts_with("HTTP/1.1 200") && answer.contains(r#""allowed":true"#), "{name}: {answer}");
        Contestant { name, server, run_load: Box::new(|| self.wrk(server)) }
    }

    fn wrk(&self, server: &Program) -> LoadResult {
        let mut command = Command::new(required_env("TIDEGATE_WRK"));
        command.args(["-t", "1", "-c", &CONNECTIONS.to_string(), "-d", &format!("{SECONDS}s"), "-s", SCRIPT]);
        command.arg(format!("http://127.0.0.1:{}{}", server.port(), self.path));
        let seed = SEED.fetch_add(1, Ordering::Relaxed).to_string();
        let output = command.args(["--", &self.before, &self.after, &seed]).output().expect("wrk starts");
        let output_text = String::from_utf8_lossy(&output.stdout);
        let is_expected =
            output.status.success() && !output_text.contains("Non-2xx") && !output_text.contains("Socket errors");
        assert!(is_expected, "{output_text}{}", String::from_utf8_lossy(&output.stderr));
        // "  150000 requests in 3.00s, 20.00MB read" and "Requests/sec:  50000.00"
        let requests = output_text.lines().find_map(|line| line.trim().split_once(" requests in ")?.0.parse().ok());
        let per_second = output_text.lines().find_map(|line| line.strip_prefix("Requests/sec:")?.trim().parse().ok());
        match (requests, per_second) {
            (Some(requests), Some(per_second)) => LoadResult { requests, per_second },
            _ => panic!("not what wrk prints: {output_text}"),
        }
    }

    /// Posts once. Returns the whole answer.
    fn once(&self, server: &Program) -> String {
        let body = format!("{}000000{}", self.before, self.after);
        let request = format!(
            "POST {} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\ncontent-type: application/json\r\n\
             content-length: {}\r\n\r\n{body}",
            self.path,
            body.len()
        );
        let mut stream = TcpStream::connect(("127.0.0.1", server.port())).expect("the server listens");
        stream.write_all(request.as_bytes()).expect("the server reads");
        let mut answer = String::new();
        stream.read_to_string(&mut answer).expect("the server answers");
        answer
    }
}
