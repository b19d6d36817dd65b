//! Traces that every store decides as memory does.

use super::on_each_store;
use crate::cli::store::TestStore;
use crate::cli::{CliOutput, simulate_on, write_file};

on_each_store!(demo_trace_decides_as_in_memory sharded_limits_decide_as_in_memory long_and_odd_keys_decide_as_in_memory backward_time_decides_as_in_memory summary_counts_decisions_and_removed_keys);

/// Asserts that a store decides as memory does and that no key is left behind.
fn assert_decides_as_memory(store: &TestStore, config: &str, trace: &str) -> CliOutput {
    let (memory, ran) = (simulate_on(&TestStore::memory(), config, trace), simulate_on(store, config, trace));
    assert_eq!((memory.code, ran.code), (0, 0), "{}{}", memory.stderr, ran.stderr);
    assert_eq!(ran.stdout.lines().count(), trace.lines().count());
    for (number, ((decision, expected), line)) in
        ran.stdout.lines().zip(memory.stdout.lines()).zip(trace.lines()).enumerate()
    {
        assert_eq!(decision, expected, "line {}: {line:.200}", number + 1);
    }
    assert_eq!(store.count_keys(ran.id), 0);
    ran
}

fn demo_trace_decides_as_in_memory(store: &TestStore) {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/samples");
    let trace = std::fs::read_to_string(format!("{folder}/demo.jsonl")).unwrap();
    assert_decides_as_memory(store, &format!("{folder}/demo.toml"), &trace);
}

/// The shard of a key follows from a hash, which must be the same for every store.
fn sharded_limits_decide_as_in_memory(store: &TestStore) {
    let limit = |name: &str, algorithm: &str| {
        format!("[limits.{name}]\nalgorithm = '{algorithm}'\nrate = 10\nperiod = '1s'\nshards = 3\n")
    };
    let config = [
        "[defaults]\nprefix = 'shop'\n".to_owned(),
        limit("tokens", "token_bucket"),
        limit("window", "sliding_window"),
        limit("log", "sliding_log"),
    ];
    let config = write_file(&format!("shards-{}.toml", store.name), config.concat());
    let mut random = 7_u64;
    let mut below = |range: u64| {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (random >> 33) % range
    };
    let mut trace = String::new();
    for line in 0..600 {
        let limit = ["tokens", "window", "log"][below(3) as usize];
        let op = ["limit", "limit", "limit", "limit", "check", "refund", "reset"][below(7) as usize];
        let (at, key, cost) = (line * 20 + below(20), below(3), 1 + below(3));
        trace += &format!(r#"{{"at_ms":{at},"op":"{op}","limit":"{limit}","key":"user-{key}","cost":{cost}}}"#);
        trace += "\n";
    }
    let ran = assert_decides_as_memory(store, &config, &trace);
    // In this trace, the shard makes a difference.
    let denied = ran.stdout.matches("\"reason\":\"rate\"").count();
    assert!((50..500).contains(&denied), "{denied}");
}

/// Long names are kept as hashes in some stores, which no prefix would find again.
fn long_and_odd_keys_decide_as_in_memory(store: &TestStore) {
    let config = write_file(
        &format!("odd-{}.toml", store.name),
        "[limits.'a|b c']\nalgorithm = 'sliding_log'\nrate = 2\nperiod = '1m'\n",
    );
    let long = format!("\"{}\"", "x".repeat(4_096));
    let keys = [&long, "null", "\"\"", r#"["a","b"]"#, r#""a|b""#, r#""a\u0000b""#, r#""*?[]{}%_\\'\"""#, r#""é\n""#];
    let line =
        |at: usize, key: &str| format!("{{\"at_ms\":{at},\"op\":\"limit\",\"limit\":\"a|b c\",\"key\":{key}}}\n");
    let trace: String = (0..3).flat_map(|at| keys.map(|key| line(at, key))).collect();
    assert_decides_as_memory(store, &config, &trace);
}

/// Memory may evict a key with a full quota before the time goes back. So no key here ever has one.
fn backward_time_decides_as_in_memory(store: &TestStore) {
    let config = "[limits.a]\nalgorithm = 'token_bucket'\nrate = 5\nperiod = '1h'\n";
    let config = write_file(&format!("back-{}.toml", store.name), config);
    let line = |at: u64| format!("{{\"at_ms\":{at},\"op\":\"limit\",\"limit\":\"a\",\"key\":\"u\"}}\n");
    let ran = assert_decides_as_memory(store, &config, &[9_000, 5_000, 9_000, 0].map(line).concat());
    assert!(ran.stderr.contains("warning: 2 lines go back in time"), "{}", ran.stderr);
}

fn summary_counts_decisions_and_removed_keys(store: &TestStore) {
    let config = "[limits.a]\nalgorithm = 'sliding_log'\nrate = 1\nperiod = '1s'\ndeny = ['mallory']\n";
    let config = write_file(&format!("counts-{}.toml", store.name), config);
    let mut trace = String::new();
    for (op, key) in [("limit", "u"), ("limit", "u"), ("limit", "mallory"), ("check", "v"), ("limit", "w")] {
        trace += &format!("{{\"at_ms\":0,\"op\":\"{op}\",\"limit\":\"a\",\"key\":\"{key}\"}}\n");
    }
    let expected = "\
limit     allowed      denied
a               2           2  rate 1, deny 1; check x1
keys used in the store, and removed again: 2
";
    assert_eq!(assert_decides_as_memory(store, &config, &trace).stderr, expected);
}
