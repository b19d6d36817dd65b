//! Runs the program `redis-benchmark` and reads the rate that it reports.

use std::ffi::OsStr;
use std::process::Command;

/// The load of `redis-benchmark`.
#[derive(Clone, Copy)]
pub(crate) struct Load {
    /// The number of values for `__rand_int__`.
    pub(crate) keys: u64,
    pub(crate) connections: u64,
    /// The requests in flight on each connection.
    pub(crate) pipelined: u64,
    pub(crate) requests: u64,
}

/// Measures the requests a second that the server at `url` answers.
pub(crate) fn measure_rate<S: AsRef<OsStr>>(
    program: &str,
    url: &str,
    load: Load,
    arguments: impl IntoIterator<Item = S>,
) -> f64 {
    let mut command = Command::new(program);
    command.args(["-u", url, "--csv", "-r", &load.keys.to_string(), "-c", &load.connections.to_string()]);
    command.args(["-P", &load.pipelined.to_string(), "-n", &load.requests.to_string()]).args(arguments);
    let output = command.output().expect("redis-benchmark starts");
    // It exits with an error if the server answers with one.
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    // The columns: the command, which may have commas; requests a second; and six columns of latency.
    let line = String::from_utf8_lossy(&output.stdout);
    let rate = line.rsplit(',').nth(6).and_then(|rate| rate.trim_matches('"').parse().ok());
    rate.unwrap_or_else(|| panic!("not what redis-benchmark prints: {line}"))
}
