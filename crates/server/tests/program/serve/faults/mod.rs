//! Faults around a server: malformed, slow and silent clients, reloads, a broken store, and its shutdown. Well-behaved clients
//! get right responses all the while.

mod clients;
mod ending;
mod endless;
mod malformed;
mod reload;
mod slow;
mod store;

use std::io::Read;
use std::net::TcpStream;

use crate::serve::program::Program;
use crate::serve::{file, get};

/// The quota of well-behaved clients.
const MOST: u64 = 1_000_000;

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
fn serving(name: &str) -> Program {
    Program::start(&["--config", &file(&format!("faults-{name}.yaml"), RULES)])
}

/// A line of the page of metrics, by how it begins; 0 where there is none.
fn metric(program: &Program, beginning: &str) -> f64 {
    let page = get(program, "/metrics");
    let line = page.lines().find_map(|line| line.strip_prefix(beginning)?.strip_prefix(' '));
    line.map_or(0.0, |value| value.parse().expect("a number"))
}

/// Returns the open connections of a port. For HTTP, they include the one of this request.
fn connections(program: &Program, port: &str) -> f64 {
    metric(program, &format!("tidegate_connections{{port=\"{port}\"}}"))
}

/// How much memory the program has now (`VmRSS`), or had at most (`VmHWM`), in MiB.
fn memory(program: &Program, which: &str) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{}/status", program.id())).expect("it runs");
    let line = status.lines().find_map(|line| line.strip_prefix(which)?.strip_prefix(':')).expect("its memory");
    line.trim().trim_end_matches(" kB").parse::<u64>().expect("a number") >> 10
}

/// Ends it, which has to go well; and nothing has panicked, which a task can without the program's end.
fn ends_well(program: Program) {
    let (status, log) = program.stop();
    assert!(status.success(), "{status}: {log:?}");
    for wrong in ["panicked", "not everything was finished"] {
        assert!(!log.iter().any(|line| line.contains(wrong)), "{log:?}");
    }
}

/// Reads until this has come.
fn read_until(stream: &mut TcpStream, expected: &[u8]) {
    let mut read = Vec::new();
    while !read.windows(expected.len()).any(|part| part == expected) {
        let mut more = [0; 4 << 10];
        let count = stream.read(&mut more).expect("an answer");
        assert!(count > 0, "it was closed behind {}", read.escape_ascii());
        read.extend(&more[..count]);
    }
}
