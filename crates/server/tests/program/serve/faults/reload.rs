//! Reloads under load.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use tidegate_servers::wait_until;

use super::{assert_clean_shutdown, clients, metric_value};
use crate::serve::program::Program;
use crate::serve::write_file;

const RELOADS: u64 = 30;
/// The quota, which must be admitted exactly.
const QUOTA: u64 = 3_000;

/// The limit under test stays as it is, and everything around it changes.
fn write_config(turn: u64, other: u64) -> String {
    let rules = format!(
        "domain: shop\ndescriptors:\n  - {{key: turn{turn}, rate_limit: {{unit: day, requests_per_unit: {turn}}}}}\n  \
         - {{key: user, rate_limit: {{unit: year, requests_per_unit: {QUOTA}}}}}\n"
    );
    write_file("faults-reload-rules.yaml", rules);
    let other = format!("[limits.other]\nalgorithm = \"token_bucket\"\nrate = {other}\nperiod = \"1d\"\n");
    write_file("faults-reload.toml", format!("{other}[envoy]\nconfigs = [\"faults-reload-rules.yaml\"]\n"))
}

#[test]
fn a_reload_under_load_loses_no_decision_and_resets_no_key() {
    let program = Program::start(&["--config", &write_config(0, 1)]);
    let (requests_sent, allowed, done) = (AtomicU64::new(0), AtomicU64::new(0), AtomicBool::new(false));
    std::thread::scope(|scope| {
        // The clients end at every end of this test.
        let _done = StopOnDrop(&done);
        for _ in 0..3 {
            let load = |mut ask: Box<dyn FnMut() -> (bool, u64) + Send>| {
                while !done.load(Ordering::Relaxed) {
                    allowed.fetch_add(ask().0.into(), Ordering::Relaxed);
                    requests_sent.fetch_add(1, Ordering::Relaxed);
                }
            };
            let (http, grpc) = (clients::http_client(&program, "user"), clients::grpc_client(&program, "user"));
            let resp = clients::resp_client(&program, "user");
            scope.spawn(move || load(Box::new(http)));
            scope.spawn(move || load(Box::new(grpc)));
            scope.spawn(move || load(Box::new(resp)));
        }
        for turn in 1..=RELOADS {
            // Some reloads happen while units are left, and some when none are.
            let enough = turn * QUOTA * 3 / 2 / RELOADS;
            assert!(wait_until(|| requests_sent.load(Ordering::Relaxed) >= enough), "they are answered");
            let wrong = turn % 7 == 3;
            write_config(turn, if wrong { 0 } else { turn });
            // Sometimes without SIGHUP: the server notices the change.
            if turn % 10 != 9 {
                program.signal("HUP");
            }
            program.wait_for_log(if wrong { "the new config is wrong" } else { "the new config is served" });
        }
    });
    let (requests_sent, allowed) = (requests_sent.into_inner(), allowed.into_inner());
    assert!(requests_sent > QUOTA, "{requests_sent}");
    assert_eq!(allowed, QUOTA, "of {requests_sent}");
    let decisions =
        |outcome| metric_value(&program, &format!("tidegate_decisions_total{{limit=\"shop.user\",outcome={outcome}}}"));
    assert_eq!(decisions("\"allowed\""), QUOTA as f64);
    assert_eq!(decisions("\"denied\",reason=\"rate\""), (requests_sent - QUOTA) as f64);
    assert_clean_shutdown(program);
}

/// Stops the clients when it is dropped.
struct StopOnDrop<'a>(&'a AtomicBool);

impl Drop for StopOnDrop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}
