//! Decisions worked out by hand, for every algorithm: the same on every store.

mod cases;
mod envoy_cases;

use crate::cli::store::TestStore;
use crate::cli::{simulate, simulate_on, write_file};
use cases::GoldenTrace;

fn assert_decisions(name: &str, golden: &GoldenTrace, store: TestStore) {
    // A file for each store, because tests run concurrently.
    let kind = if golden.config.starts_with("domain:") { "yaml" } else { "toml" };
    let config = write_file(&format!("golden-{name}-{}.{kind}", store.name), golden.config);
    let trace: String = golden.cases.iter().map(|(line, _)| format!("{line}\n")).collect();
    let ran = simulate_on(&store, &config, trace);
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    let decisions: Vec<_> = ran.stdout.lines().collect();
    assert_eq!(decisions.len(), golden.cases.len());
    for (decision, (line, expected)) in decisions.iter().zip(golden.cases) {
        assert_eq!(decision, expected, "{line}");
    }
    assert_eq!(store.count_keys(ran.id), 0, "keys are left in {}", store.name);
}

macro_rules! golden_tests {
    ($($store:ident)*) => {$(
        mod $store {
            use super::{assert_decisions, cases, envoy_cases};
            use crate::cli::store::TestStore;

            golden_tests!(
                $store:
                token_bucket_matches_golden cases::TOKEN_BUCKET,
                fractional_tokens_match_golden cases::FRACTIONAL_TOKENS,
                fixed_window_matches_golden cases::FIXED_WINDOW,
                sliding_window_matches_golden cases::SLIDING_WINDOW,
                sliding_log_matches_golden cases::SLIDING_LOG,
                concurrency_matches_golden cases::CONCURRENCY,
                deny_lists_shadow_mode_and_shards_match_golden cases::DENY_LISTS_SHADOW_MODE_AND_SHARDS,
                envoy_requests_match_golden envoy_cases::REQUESTS
            );
        }
    )*};
    ($store:ident: $($name:ident $golden:path),*) => {$(
        #[test]
        fn $name() {
            assert_decisions(stringify!($name), &$golden, TestStore::$store());
        }
    )*};
}

golden_tests!(memory sqlite);
#[cfg(feature = "_real-servers")]
golden_tests!(redis valkey postgres);

#[test]
fn summary_counts_decisions_by_limit() {
    let config = write_file(
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
fn summary_of_envoy_requests_counts_by_rule() {
    let config = write_file("summary-envoy_cases.yaml", envoy_cases::REQUESTS.config);
    let trace: String = envoy_cases::REQUESTS.cases.iter().map(|(line, _)| format!("{line}\n")).collect();
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
