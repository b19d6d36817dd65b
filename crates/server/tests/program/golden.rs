//! Decisions worked out by hand, for every algorithm.

use crate::{file, simulate};

/// One line of a trace and its decision.
type Case = (&'static str, &'static str);

fn assert_decisions(name: &str, config: &str, cases: &[Case]) {
    let config = file(&format!("golden-{name}.toml"), config);
    let trace: String = cases.iter().map(|(line, _)| format!("{line}\n")).collect();
    let ran = simulate(&config, trace);
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    let decisions: Vec<_> = ran.stdout.lines().collect();
    assert_eq!(decisions.len(), cases.len());
    for (decision, (line, expected)) in decisions.iter().zip(cases) {
        assert_eq!(decision, expected, "{line}");
    }
}

/// A token every 500 ms, three at most.
#[test]
fn token_bucket() {
    let config = "[limits.a]\nalgorithm = 'token_bucket'\nrate = 2\nperiod = '1s'\ncapacity = 3\n";
    assert_decisions(
        "token-bucket",
        config,
        &[
            (
                r#"{"at_ms":0,"op":"limit","limit":"a","key":"u"}"#,
                r#"{"allowed":true,"limit":3,"remaining":2,"retry_after_ms":null,"reset_after_ms":500,"reason":null}"#,
            ),
            (
                r#"{"at_ms":0,"op":"limit","limit":"a","key":"u","cost":2}"#,
                r#"{"allowed":true,"limit":3,"remaining":0,"retry_after_ms":null,"reset_after_ms":1500,"reason":null}"#,
            ),
            (
                r#"{"at_ms":0,"op":"limit","limit":"a","key":"u","cost":1}"#,
                r#"{"allowed":false,"limit":3,"remaining":0,"retry_after_ms":500,"reset_after_ms":1500,"reason":"rate"}"#,
            ),
            (
                r#"{"at_ms":499,"op":"limit","limit":"a","key":"u"}"#,
                r#"{"allowed":false,"limit":3,"remaining":0,"retry_after_ms":1,"reset_after_ms":1001,"reason":"rate"}"#,
            ),
            (
                r#"{"at_ms":500,"op":"limit","limit":"a","key":"u"}"#,
                r#"{"allowed":true,"limit":3,"remaining":0,"retry_after_ms":null,"reset_after_ms":1500,"reason":null}"#,
            ),
            (
                r#"{"at_ms":500,"op":"limit","limit":"a","key":"u","cost":4}"#,
                r#"{"allowed":false,"limit":3,"remaining":0,"retry_after_ms":null,"reset_after_ms":1500,"reason":"cost_exceeds_capacity"}"#,
            ),
            // 0.2 are there; 1.8 owed, at 500 ms each.
            (
                r#"{"at_ms":600,"op":"reserve","limit":"a","key":"u","cost":2}"#,
                r#"{"allowed":true,"limit":3,"remaining":0,"retry_after_ms":900,"reset_after_ms":2400,"reason":null}"#,
            ),
            (
                r#"{"at_ms":600,"op":"refund","limit":"a","key":"u","cost":2}"#,
                r#"{"allowed":true,"limit":3,"remaining":0,"retry_after_ms":null,"reset_after_ms":1400,"reason":null}"#,
            ),
            (
                r#"{"at_ms":600,"op":"check","limit":"a","key":"u"}"#,
                r#"{"allowed":false,"limit":3,"remaining":0,"retry_after_ms":400,"reset_after_ms":1400,"reason":"rate"}"#,
            ),
            (
                r#"{"at_ms":600,"op":"limit","limit":"a","key":"somebody else","cost":3}"#,
                r#"{"allowed":true,"limit":3,"remaining":0,"retry_after_ms":null,"reset_after_ms":1500,"reason":null}"#,
            ),
            (
                r#"{"at_ms":600,"op":"reset","limit":"a","key":"u"}"#,
                r#"{"allowed":true,"limit":3,"remaining":3,"retry_after_ms":null,"reset_after_ms":0,"reason":null}"#,
            ),
        ],
    );
}

/// Two in every minute of the clock.
#[test]
fn fixed_window() {
    let config = "[limits.a]\nalgorithm = 'fixed_window'\nrate = 2\nperiod = '1m'\n";
    assert_decisions(
        "fixed-window",
        config,
        &[
            (
                r#"{"at_ms":59000,"op":"limit","limit":"a","key":null}"#,
                r#"{"allowed":true,"limit":2,"remaining":1,"retry_after_ms":null,"reset_after_ms":1000,"reason":null}"#,
            ),
            (
                r#"{"at_ms":59500,"op":"limit","limit":"a","key":null}"#,
                r#"{"allowed":true,"limit":2,"remaining":0,"retry_after_ms":null,"reset_after_ms":500,"reason":null}"#,
            ),
            // Null is everybody, and no text is.
            (
                r#"{"at_ms":59500,"op":"check","limit":"a","key":""}"#,
                r#"{"allowed":true,"limit":2,"remaining":2,"retry_after_ms":null,"reset_after_ms":0,"reason":null}"#,
            ),
            (
                r#"{"at_ms":59999,"op":"limit","limit":"a","key":null}"#,
                r#"{"allowed":false,"limit":2,"remaining":0,"retry_after_ms":1,"reset_after_ms":1,"reason":"rate"}"#,
            ),
            (
                r#"{"at_ms":60000,"op":"limit","limit":"a","key":null}"#,
                r#"{"allowed":true,"limit":2,"remaining":1,"retry_after_ms":null,"reset_after_ms":60000,"reason":null}"#,
            ),
        ],
    );
}

/// Four in ten seconds: what the last bucket had counts less and less.
#[test]
fn sliding_window() {
    let config = "[limits.a]\nalgorithm = 'sliding_window'\nrate = 4\nperiod = '10s'\n";
    assert_decisions(
        "sliding-window",
        config,
        &[
            (
                r#"{"at_ms":0,"op":"limit","limit":"a","key":["t","u"],"cost":4}"#,
                r#"{"allowed":true,"limit":4,"remaining":0,"retry_after_ms":null,"reset_after_ms":20000,"reason":null}"#,
            ),
            // The parts of a key never run together.
            (
                r#"{"at_ms":0,"op":"check","limit":"a","key":"t|u","cost":4}"#,
                r#"{"allowed":true,"limit":4,"remaining":4,"retry_after_ms":null,"reset_after_ms":0,"reason":null}"#,
            ),
            (
                r#"{"at_ms":10000,"op":"limit","limit":"a","key":["t","u"]}"#,
                r#"{"allowed":false,"limit":4,"remaining":0,"retry_after_ms":2500,"reset_after_ms":10000,"reason":"rate"}"#,
            ),
            (
                r#"{"at_ms":12499,"op":"limit","limit":"a","key":["t","u"]}"#,
                r#"{"allowed":false,"limit":4,"remaining":0,"retry_after_ms":1,"reset_after_ms":7501,"reason":"rate"}"#,
            ),
            (
                r#"{"at_ms":12500,"op":"limit","limit":"a","key":["t","u"]}"#,
                r#"{"allowed":true,"limit":4,"remaining":0,"retry_after_ms":null,"reset_after_ms":17500,"reason":null}"#,
            ),
            (
                r#"{"at_ms":15000,"op":"limit","limit":"a","key":["t","u"]}"#,
                r#"{"allowed":true,"limit":4,"remaining":0,"retry_after_ms":null,"reset_after_ms":15000,"reason":null}"#,
            ),
        ],
    );
}

/// Two in any second, exactly.
#[test]
fn sliding_log() {
    let config = "[limits.a]\nalgorithm = 'sliding_log'\nrate = 2\nperiod = '1s'\n";
    assert_decisions(
        "sliding-log",
        config,
        &[
            (
                r#"{"at_ms":0,"op":"limit","limit":"a","key":"u"}"#,
                r#"{"allowed":true,"limit":2,"remaining":1,"retry_after_ms":null,"reset_after_ms":1000,"reason":null}"#,
            ),
            (
                r#"{"at_ms":300,"op":"limit","limit":"a","key":"u"}"#,
                r#"{"allowed":true,"limit":2,"remaining":0,"retry_after_ms":null,"reset_after_ms":1000,"reason":null}"#,
            ),
            (
                r#"{"at_ms":999,"op":"limit","limit":"a","key":"u"}"#,
                r#"{"allowed":false,"limit":2,"remaining":0,"retry_after_ms":1,"reset_after_ms":301,"reason":"rate"}"#,
            ),
            (
                r#"{"at_ms":1000,"op":"limit","limit":"a","key":"u"}"#,
                r#"{"allowed":true,"limit":2,"remaining":0,"retry_after_ms":null,"reset_after_ms":1000,"reason":null}"#,
            ),
            (
                r#"{"at_ms":1000,"op":"refund","limit":"a","key":"u"}"#,
                r#"{"allowed":true,"limit":2,"remaining":1,"retry_after_ms":null,"reset_after_ms":300,"reason":null}"#,
            ),
        ],
    );
}

#[test]
fn deny_lists_shadow_mode_and_shards() {
    let config = "\
        [limits.shadow]\nalgorithm = 'sliding_log'\nrate = 1\nperiod = '1s'\nshadow = true\n\
        [limits.denied]\nalgorithm = 'sliding_log'\nrate = 1\nperiod = '1s'\ndeny = ['203.0.113.0/24']\n\
        [limits.spread]\nalgorithm = 'fixed_window'\nrate = 4\nperiod = '1s'\nshards = 2\nshard_by = 'spread'\n";
    assert_decisions(
        "settings",
        config,
        &[
            (
                r#"{"at_ms":0,"op":"limit","limit":"shadow","key":"u"}"#,
                r#"{"allowed":true,"limit":1,"remaining":0,"retry_after_ms":null,"reset_after_ms":1000,"reason":null}"#,
            ),
            (
                r#"{"at_ms":0,"op":"limit","limit":"shadow","key":"u"}"#,
                r#"{"allowed":true,"limit":1,"remaining":0,"retry_after_ms":null,"reset_after_ms":1000,"reason":"rate"}"#,
            ),
            (
                r#"{"at_ms":0,"op":"limit","limit":"denied","key":"203.0.113.9"}"#,
                r#"{"allowed":false,"limit":1,"remaining":0,"retry_after_ms":null,"reset_after_ms":0,"reason":"deny"}"#,
            ),
            // A check of a spread limit adds its parts up.
            (
                r#"{"at_ms":0,"op":"check","limit":"spread","key":"u"}"#,
                r#"{"allowed":true,"limit":4,"remaining":4,"retry_after_ms":null,"reset_after_ms":0,"reason":null}"#,
            ),
        ],
    );
}

#[test]
fn the_summary_counts_what_was_decided() {
    let config = file(
        "summary.toml",
        "\
        [limits.log]\nalgorithm = 'sliding_log'\nrate = 1\nperiod = '1s'\ndeny = ['mallory']\n\
        [limits.shadow]\nalgorithm = 'sliding_log'\nrate = 1\nperiod = '1s'\nshadow = true\n\
        [limits.unused]\nalgorithm = 'sliding_log'\nrate = 1\nperiod = '1s'\n",
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
    let ran = simulate(&config, &trace);
    let expected = "\
limit      allowed      denied
log              1           3  rate 1, deny 1, cost_exceeds_capacity 1; check x1; refund x1
shadow           2           0  shadow: would have denied 1: rate 1; reset x1
unused           0           0
keys held at the end: 1
";
    assert_eq!(ran.stderr, expected);
}
