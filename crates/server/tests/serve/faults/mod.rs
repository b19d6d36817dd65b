//! What goes wrong around a server: clients that send anything, read nothing or never finish, configs that change, a store that
//! breaks, and its own end. Those who ask well are answered right all the while.

mod clients;
mod ending;
mod endless;
mod malformed;
mod noise;
mod reload;
mod slow;
mod store;

use std::io::Read;
use std::net::TcpStream;

use crate::program::Program;
use crate::{file, get};

/// How often those who ask well may take.
const MOST: u64 = 1_000_000;

/// Limits that every port knows by the same names, `shop.good` and `shop.user`. Units are years, so that no window ends in the
/// middle of a test.
const RULES: &str = "
domain: shop
descriptors:
  - key: good
    rate_limit: {unit: year, requests_per_unit: 1000000}
  - key: user
    rate_limit: {unit: year, requests_per_unit: 5}
";

/// A server with [`RULES`]. The name is the test's: tests run at the same time.
fn serving(name: &str) -> Program {
    Program::start(&["--config", &file(&format!("faults-{name}.yaml"), RULES)])
}

/// A line of the page of metrics, by how it begins; 0 where there is none.
fn metric(program: &Program, beginning: &str) -> f64 {
    let page = get(program, "/metrics");
    let line = page.lines().find_map(|line| line.strip_prefix(beginning)?.strip_prefix(' '));
    line.map_or(0.0, |value| value.parse().expect("a number"))
}

/// How many connections are open on a port. On that for HTTP, the one that asks is among them.
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
