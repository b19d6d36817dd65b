//! `tidegate bench` against servers of known behaviour: its report matches the requests they received.

mod bad_input;
mod fake_server;
mod interruptions;
mod reports;

use serde_json::Value;

use crate::cli::{CliOutput, run};
use fake_server::FakeServer;

/// Runs a short test by default, with JSON figures and without a picture.
fn bench(arguments: &[&str]) -> CliOutput {
    let mut all = vec!["bench", "--json", "--picture", "off"];
    all.extend_from_slice(arguments);
    for (name, value) in [("--duration", "300ms"), ("--connections", "4")] {
        if !arguments.contains(&name) {
            all.extend([name, value]);
        }
    }
    run(&all)
}

/// Returns the figures of a successful run.
fn figures(ran: &CliOutput) -> Value {
    assert_eq!((ran.code, ran.stdout.lines().count()), (0, 1), "{}{}", ran.stdout, ran.stderr);
    serde_json::from_str(&ran.stdout).expect("one JSON object")
}

/// Returns the allowed, denied and failed requests of some figures, which are all requests.
fn counts(figures: &Value) -> [u64; 3] {
    let number = |name: &str| figures[name].as_u64().expect(name);
    let counts = ["allowed", "denied", "errors"].map(number);
    assert_eq!(number("requests"), counts.iter().sum::<u64>(), "{figures}");
    counts
}
