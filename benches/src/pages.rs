//! The latency of decisions of `tidegate serve` while clients request its longest pages as fast as they can.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use tidegate_servers::Program;

use crate::machine::pin;
use crate::serve::start_tidegate;
use crate::workload::{key_text, median, next_seed};

const LIMIT_COUNTS: [usize; 2] = [2_000, 100_000];
const PATHS: [&str; 3] = ["/metrics", "/v1/limits", "/dashboard/data"];
/// The number of connections that request pages.
const PAGE_CONNECTIONS: usize = 10;
/// Rounds, alternately with and without page requests.
const ROUNDS: usize = 15;
const ROUND_TIME: Duration = Duration::from_secs(2);
/// The period of decisions. The next one is due even if the last one is not answered.
const DECISION_PERIOD: Duration = Duration::from_millis(1);

pub(crate) fn run() {
    // Clients and server share two cores, even on a larger machine.
    pin([0, 1]);
    println!(
        "\nMilliseconds for a decision of `tidegate serve` over HTTP, one due every millisecond, without and with {PAGE_CONNECTIONS} connections that"
    );
    println!("request {} in turn, as fast as they can, on the same two cores.", PATHS.join(", "));
    println!("Expected: the 99th percentile at most 2 ms later with them.\n");
    println!(
        "{:<9} {:<10} {:>8} {:>8} {:>8} {:>8} {:>9} {:>9} {:>8}",
        "limits", "pages", "p50", "p99", "p99.9", "worst", "pages/s", "refused/s", "MB/s"
    );
    for limit_count in LIMIT_COUNTS {
        measure(limit_count);
    }
}

fn measure(limit_count: usize) {
    let limit =
        |number| format!("[limits.limit-{number}]\nalgorithm = \"token_bucket\"\nrate = 1000000\nperiod = \"1m\"\n");
    let config: String = (0..limit_count).map(limit).collect();
    let server = start_tidegate("http", &[("limits.toml", &config)], &[]);
    decide_for(ROUND_TIME, &server);
    let (mut without, mut with, mut load) = (Vec::new(), Vec::new(), PageCounts::default());
    for _ in 0..ROUNDS {
        without.push(decide_for(ROUND_TIME, &server));
        with.push(load.while_requested(&server, || decide_for(ROUND_TIME, &server)));
    }
    let p99 = |rounds: &[Vec<f64>]| median(rounds.iter().map(|round| quantile(round, 0.99)));
    let later = p99(&with) - p99(&without);
    print_row(limit_count, "none", &without, &PageCounts::default());
    print_row(limit_count, "requested", &with, &load);
    println!("{:<9} p99 later by {later:.2} ms (the median of {ROUNDS} rounds of each)", "");
}

fn print_row(limit_count: usize, pages: &str, rounds: &[Vec<f64>], load: &PageCounts) {
    let mut all = rounds.concat();
    all.sort_by(f64::total_cmp);
    let seconds = ROUND_TIME.as_secs_f64() * ROUNDS as f64;
    let per_second = |count: &AtomicU64| count.load(Ordering::Relaxed) as f64 / seconds;
    let [p50, p99, p999, worst] = [0.5, 0.99, 0.999, 1.0].map(|share| quantile(&all, share));
    println!(
        "{limit_count:<9} {pages:<10} {p50:>8.2} {p99:>8.2} {p999:>8.2} {worst:>8.2} {:>9.0} {:>9.0} {:>8.1}",
        per_second(&load.answered),
        per_second(&load.refused),
        per_second(&load.bytes) / 1e6,
    );
}

/// Returns the quantile of sorted values.
fn quantile(sorted: &[f64], share: f64) -> f64 {
    sorted[((sorted.len() - 1) as f64 * share) as usize]
}

/// Returns the milliseconds of each decision, sorted.
fn decide_for(time: Duration, server: &Program) -> Vec<f64> {
    let mut client = Client::connect(server);
    let (begin, seed) = (Instant::now(), next_seed() << 32);
    let mut took = Vec::new();
    for number in 0.. {
        let due = begin + DECISION_PERIOD * number;
        if due >= begin + time {
            break;
        }
        // A decision that waited for the one before is late because of the server. A delay of this thread is not.
        let now = Instant::now();
        let from = if now < due {
            thread::sleep(due - now);
            Instant::now()
        } else {
            due
        };
        let body = format!("{{\"limit\":\"limit-0\",\"key\":\"{}\"}}", key_text(seed + u64::from(number)));
        let head = format!("POST /v1/limit HTTP/1.1\r\nhost: localhost\r\ncontent-length: {}\r\n\r\n", body.len());
        let (status, _) = client.request(&format!("{head}{body}"));
        assert_eq!(status, 200);
        took.push(from.elapsed().as_secs_f64() * 1e3);
    }
    took.sort_by(f64::total_cmp);
    took
}

/// The counts of answered page requests.
#[derive(Default)]
struct PageCounts {
    answered: AtomicU64,
    refused: AtomicU64,
    bytes: AtomicU64,
}

impl PageCounts {
    /// Requests pages on all connections while `run` runs, and counts the answers.
    fn while_requested<T>(&mut self, server: &Program, run: impl FnOnce() -> T) -> T {
        let (this, has_ended) = (&*self, &AtomicBool::new(false));
        thread::scope(|scope| {
            for first in 0..PAGE_CONNECTIONS {
                scope.spawn(move || this.request_pages(server, first, has_ended));
            }
            let result = run();
            has_ended.store(true, Ordering::Relaxed);
            result
        })
    }

    fn request_pages(&self, server: &Program, first: usize, has_ended: &AtomicBool) {
        // As if on another machine: the deciding client must not wait for this thread.
        let _ = rustix::process::nice(19);
        let mut client = Client::connect(server);
        for number in first.. {
            if has_ended.load(Ordering::Relaxed) {
                break;
            }
            let path = PATHS[number % PATHS.len()];
            let (status, length) = client.request(&format!("GET {path} HTTP/1.1\r\nhost: localhost\r\n\r\n"));
            let count = if status == 200 { &self.answered } else { &self.refused };
            count.fetch_add(1, Ordering::Relaxed);
            self.bytes.fetch_add(length as u64, Ordering::Relaxed);
        }
    }
}

/// A connection.
struct Client {
    stream: BufReader<TcpStream>,
    body: Vec<u8>,
}

impl Client {
    fn connect(server: &Program) -> Self {
        let stream = TcpStream::connect(("127.0.0.1", server.port())).expect("the server listens");
        stream.set_nodelay(true).expect("a socket");
        Client { stream: BufReader::with_capacity(64 << 10, stream), body: vec![0; 64 << 10] }
    }

    /// Returns the status of the answer, and the length of its body.
    fn request(&mut self, request: &str) -> (u16, usize) {
        self.stream.get_mut().write_all(request.as_bytes()).expect("the server reads");
        let (mut status, mut length, mut line) = (0, 0, String::new());
        loop {
            line.clear();
            self.stream.read_line(&mut line).expect("the server answers");
            match line.trim_end().split_once(' ') {
                Some(("HTTP/1.1", rest)) => status = rest[..3].parse().expect("a status"),
                Some(("content-length:", rest)) => length = rest.parse().expect("a length"),
                Some(_) => {}
                None => break,
            }
        }
        let mut left = length;
        while left > 0 {
            let most = left.min(self.body.len());
            let count = self.stream.read(&mut self.body[..most]).expect("the server answers");
            assert!(count > 0, "the server has closed the connection");
            left -= count;
        }
        (status, length)
    }
}
