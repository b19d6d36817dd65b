//! Reloads under load.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use tidegate_servers::wait_until;

use super::{clients, ends_well, metric};
use crate::serve::file;
use crate::serve::program::Program;

const RELOADS: u64 = 30;
/// How many may pass at all.
const ADMITTED: u64 = 3_000;

/// The limit that is taken from stays as it is, and everything around it changes.
fn write(turn: u64, other: u64) -> String {
    let rules = format!(
        "domain: shop\ndescriptors:\n  - {{key: turn{turn}, rate_limit: {{unit: day, requests_per_unit: {turn}}}}}\n  \
         - {{key: user, rate_limit: {{unit: year, requests_per_unit: {ADMITTED}}}}}\n"
    );
    file("faults-reload-rules.yaml", rules);
    let other = format!("[limits.other]\nalgorithm = \"token_bucket\"\nrate = {other}\nperiod = \"1d\"\n");
    file("faults-reload.toml", format!("{other}[envoy]\nconfigs = [\"faults-reload-rules.yaml\"]\n"))
}

#[test]
fn a_reload_under_load_loses_no_decision_and_resets_no_key() {
    let program = Program::start(&["--config", &write(0, 1)]);
    let (asked, allowed, done) = (AtomicU64::new(0), AtomicU64::new(0), AtomicBool::new(false));
    std::thread::scope(|scope| {
        // However this ends, they end.
        let _done = Done(&done);
        for _ in 0..3 {
            let load = |mut ask: Box<dyn FnMut() -> (bool, u64) + Send>| {
                while !done.load(Ordering::Relaxed) {
                    allowed.fetch_add(ask().0.into(), Ordering::Relaxed);
                    asked.fetch_add(1, Ordering::Relaxed);
                }
            };
            let (http, grpc) = (clients::over_http(&program, "user"), clients::over_grpc(&program, "user"));
            let resp = clients::over_resp(&program, "user");
            scope.spawn(move || load(Box::new(http)));
            scope.spawn(move || load(Box::new(grpc)));
            scope.spawn(move || load(Box::new(resp)));
        }
        for turn in 1..=RELOADS {
            // Some while there is something left, and some when there is nothing.
            let enough = turn * ADMITTED * 3 / 2 / RELOADS;
            assert!(wait_until(|| asked.load(Ordering::Relaxed) >= enough), "they are answered");
            let wrong = turn % 7 == 3;
            write(turn, if wrong { 0 } else { turn });
            // Sometimes without SIGHUP: the change is noticed.
            if turn % 10 != 9 {
                program.signal("HUP");
            }
            program.logged(if wrong { "the new config is wrong" } else { "the new config is served" });
        }
    });
    let (asked, allowed) = (asked.into_inner(), allowed.into_inner());
    assert!(asked > ADMITTED, "{asked}");
    assert_eq!(allowed, ADMITTED, "of {asked}");
    let decisions =
        |outcome| metric(&program, &format!("tidegate_decisions_total{{limit=\"shop.user\",outcome={outcome}}}"));
    assert_eq!(decisions("\"allowed\""), ADMITTED as f64);
    assert_eq!(decisions("\"denied\",reason=\"rate\""), (asked - ADMITTED) as f64);
    ends_well(program);
}

/// Stops the clients when it is dropped.
struct Done<'a>(&'a AtomicBool);

impl Drop for Done<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}
