//! Decisions worked out by hand, for every algorithm: the same on every store.

mod cases;
mod envoys;

use crate::cli::store::Store;
use crate::cli::{file, simulate, simulate_on};
use cases::Golden;

fn assert_decisions(name: &str, golden: &Golden, store: Store) {
    // A file for each store, because tests run concurrently.
    let kind = if golden.config.starts_with("domain:") { "yaml" } else { "toml" };
    let config = file(&format!("golden-{name}-{}.{kind}", store.name), golden.config);
    let trace: String = golden.cases.iter().map(|(line, _)| format!("{line}\n")).collect();
    let ran = simulate_on(&store, &config, trace);
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    let decisions: Vec<_> = ran.stdout.lines().collect();
    assert_eq!(decisions.len(), golden.cases.len());
    for (decision, (line, expected)) in decisions.iter().zip(golden.cases) {
        assert_eq!(decision, expected, "{line}");
    }
    assert_eq!(store.held(ran.id), 0, "keys are left in {}", store.name);
}

macro_rules! on {
    ($($store:ident)*) => {$(
        mod $store {
            use super::{assert_decisions, cases, envoys};
            use crate::cli::store::Store;

            on!($store: token_bucket cases::TOKEN_BUCKET, thirds cases::THIRDS, fixed_window cases::FIXED_WINDOW,
                sliding_window cases::SLIDING_WINDOW, sliding_log cases::SLIDING_LOG,
                concurrency cases::CONCURRENCY,
                deny_lists_shadow_mode_and_shards cases::DENY_LISTS_SHADOW_MODE_AND_SHARDS,
                envoys_requests envoys::REQUESTS);
        }
    )*};
    ($store:ident: $($name:ident $golden:path),*) => {$(
        #[test]
        fn $name() {
            assert_decisions(stringify!($name), &$golden, Store::$store());
        }
    )*};
}

on!(memory sqlite redis valkey postgres);

#[test]
fn the_summary_counts_what_was_decided() {
    let config = file(
        "summary.toml",
        "\
        [limits.log]\nalgorithm = 'sliding_log'\nrate = 1\nperiod = '1s'\ndeny = ['mallory']\n\
        [limits.shadow]\nalgorithm = 'sliding_log'\nrate = 1\nperiod = '1s'\nshadow = true\n\
        [limits.unused]\nalgorithm = 'sliding_log'\nrate = 1\nperiod = '1s'\n\
        [limits.work]\nalgorithm = 'concurrency'\ncapacity = 1\nttl = '1s'\n",
    );
    let mut trace = String::new();
    for (op, limit, key, cost) in [
        ("limit", "log", "u", 1),
        ("limit", "log", "u", 1),
        ("limit", "log", "u", 2),
        ("limit", "log", "mallory", 1),
        ("check", "log", "u", 1),
        ("refund", "log", "nobody", 1),
        ("limit", "shadow", "u", 1),
        ("limit", "shadow", "u", 1),
        ("reset", "shadow", "u", 1),
    ] {
        trace += &format!("{{\"at_ms\":0,\"op\":\"{op}\",\"limit\":\"{limit}\",\"key\":\"{key}\",\"cost\":{cost}}}\n");
    }
    for (op, lease) in [("admit", 1), ("admit", 2), ("renew", 1), ("renew", 2), ("release", 1)] {
        trace +=
            &format!("{{\"at_ms\":0,\"op\":\"{op}\",\"limit\":\"work\",\"key\":\"u\",\"lease\":\"{lease:016x}\"}}\n");
    }
    let ran = simulate(&config, &trace);
    let expected = "\
limit      allowed      denied
log              1           3  rate 1, deny 1, cost_exceeds_capacity 1; check x1; refund x1
shadow           2           0  shadow: would have denied 1: rate 1; reset x1
unused           0           0
work             1           1  concurrency 1; renew x2; release x1
keys held at the end: 1
";
    assert_eq!(ran.stderr, expected);
}

#[test]
fn the_summary_of_envoys_requests_counts_by_rule() {
    let config = file("summary-envoys.yaml", envoys::REQUESTS.config);
    let trace: String = envoys::REQUESTS.cases.iter().map(|(line, _)| format!("{line}\n")).collect();
    let ran = simulate(&config, trace);
    let expected = "\
limit                allowed      denied
shop.(override)            1           0
shop.path_/login           3           3  rate 3; check x1
shop.user                  2           1  rate 1; refund x1
shop.watched               2           0  shadow: would have denied 1: rate 1
shop.pool                  1           1  rate 1
shop.reserve               2           0
shop.banned                0           1  cost_exceeds_capacity 1
shop.muted                 1           0  shadow: would have denied 1: cost_exceeds_capacity 1
keys held at the end: 6
";
    assert_eq!(ran.stderr, expected);
}
