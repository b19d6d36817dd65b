//! Faults around a server: bad clients, reloads, a broken store, and its shutdown.
//!
//! Well-behaved clients get correct responses all the while.

#[cfg(feature = "_real-servers")]
mod broken_store;
mod clients;
mod endless_requests;
mod hoarding_clients;
mod hostile;
mod malformed;
#[cfg(feature = "_real-servers")]
mod overload;
mod reload;
mod shutdown;
mod slow_clients;

use std::io::Read;
use std::net::TcpStream;

use crate::serve::program::Program;
use crate::serve::{get, write_file};

/// The quota of well-behaved clients.
const GOOD_CLIENT_QUOTA: u64 = 1_000_000;

/// Limits with the same names on every port, `shop.good` and `shop.user`. Units are years, so that no window ends during a
/// test.
const RULES: &str = "
domain: shop
descriptors:
  - key: good
    rate_limit: {unit: year, requests_per_unit: 1000000}
  - key: user
    rate_limit: {unit: year, requests_per_unit: 5}
";

/// A server with [`RULES`]. Each test has its own name, because tests run concurrently.
fn start_server(name: &str) -> Program {
    start_server_with(name, &[])
}

fn start_server_with(name: &str, arguments: &[&str]) -> Program {
    let config = write_file(&format!("faults-{name}.yaml"), RULES);
    Program::start(&[&["--config", &*config], arguments].concat())
}

/// Returns the value of the metric whose line begins with `beginning`; 0 without one.
fn metric_value(program: &Program, beginning: &str) -> f64 {
    let page = get(program, "/metrics");
    let line = page.lines().find_map(|line| line.strip_prefix(beginning)?.strip_prefix(' '));
    line.map_or(0.0, |value| value.parse().expect("a number"))
}

/// Returns the open connections of a port. For HTTP, they include the one of this request.
fn open_connections(program: &Program, port: &str) -> f64 {
    metric_value(program, &format!("tidegate_connections{{port=\"{port}\"}}"))
}

/// Returns the memory of the program in MiB: now (`VmRSS`), or at its peak (`VmHWM`).
fn memory_mib(program: &Program, which: &str) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{}/status", program.id())).expect("it runs");
    let line = status.lines().find_map(|line| line.strip_prefix(which)?.strip_prefix(':')).expect("its memory");
    line.trim().trim_end_matches(" kB").parse::<u64>().expect("a number") >> 10
}

/// Stops the program, and asserts that it exits with success and that no task has panicked.
fn assert_clean_shutdown(program: Program) {
    let (status, log) = program.stop();
    assert!(status.success(), "{status}: {log:?}");
    for wrong in ["panicked", "not everything was finished"] {
        assert!(!log.iter().any(|line| line.contains(wrong)), "{log:?}");
    }
}

/// Reads until `expected` has arrived.
fn read_until(stream: &mut TcpStream, expected: &[u8]) {
    let mut read = Vec::new();
    while !read.windows(expected.len()).any(|part| part == expected) {
        let mut more = [0; 4 << 10];
        let count = stream.read(&mut more).expect("an answer");
        assert!(count > 0, "it was closed behind {}", read.escape_ascii());
        read.extend(&more[..count]);
    }
}
