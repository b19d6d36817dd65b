use super::{refused, toml, yaml};

const COUNT: &str = "a whole number from 1 to 4294967295";
const TIME: &str = r#"a whole number and a unit (us, ms, s, m, h or d), such as "500ms", "10s" or "1m""#;
const PERIOD: &str = r#"a time from 1ms to 366d, such as "500ms", "10s", "1m", "1h" or "1d""#;
const ALGORITHMS: &str = r#"one of "token_bucket", "fixed_window", "sliding_window", "sliding_log", "concurrency""#;
const ENTRY: &str = r#"a key, an address or a network such as "203.0.113.0/24""#;
const FIELDS: &str = "algorithm, rate, period, capacity, start, buckets, max_debt, ttl, shards, shard_by, on_store_error, \
    deny, shadow, normalize";

#[test]
fn a_rate_is_a_whole_number() {
    for found in ["0", "1.5", "-1", "18446744073709551616", "4294967296", "\"5\"", "true", "1979-05-27", "1e3"] {
        let text = format!("[limits.a]\nalgorithm = \"sliding_log\"\nrate = {found}\nperiod = \"1m\"\n");
        let expected = format!("t.toml:3:8: limits.a.rate: found {found}, expected {COUNT}");
        assert_eq!(refused(toml(&text)), expected);
    }
    for found in ["0", "1.5", "-1", "18446744073709551616", "4294967296", "\"5\"", "true", "1e3"] {
        let text = format!("limits:\n  a:\n    algorithm: sliding_log\n    rate: {found}\n    period: 1m\n");
        let expected = format!("t.yaml:4:11: limits.a.rate: found {found}, expected {COUNT}");
        assert_eq!(refused(yaml(&text)), expected);
    }
}

#[test]
fn a_period_is_a_whole_number_and_a_unit() {
    let cases = [
        ("60", TIME),
        ("\"60\"", TIME),
        ("\"1.5s\"", TIME),
        ("\"-1s\"", TIME),
        ("\"1 m\"", TIME),
        ("\"99999999999999999999d\"", TIME),
        ("\"999us\"", PERIOD),
        ("\"0s\"", PERIOD),
        ("\"367d\"", PERIOD),
    ];
    for (found, expected) in cases {
        let text = format!("[limits.a]\nalgorithm = \"sliding_log\"\nrate = 5\nperiod = {found}\n");
        let expected = format!("limits.a.period: found {found}, expected {expected}");
        assert_eq!(refused(toml(&text)), format!("t.toml:4:10: {expected}"));
        let text = format!("limits:\n  a: {{algorithm: sliding_log, rate: 5, period: {found}}}\n");
        assert_eq!(refused(yaml(&text)), format!("t.yaml:2:48: {expected}"));
    }
}

/// Lines after those of a good token bucket, beginning with line 5, and what is wrong with them.
#[test]
fn settings_are_refused_with_what_is_accepted() {
    let cases = [
        ("start = '1s'", "5:9: limits.a.start: found \"1s\", expected no start, which token_bucket does not use (fixed_window or sliding_window does)".to_owned()),
        ("buckets = 2", "5:11: limits.a.buckets: found 2, expected no buckets, which token_bucket does not use (sliding_window does)".to_owned()),
        ("ttl = '1s'", "5:7: limits.a.ttl: found \"1s\", expected no ttl, which token_bucket does not use (concurrency does)".to_owned()),
        ("capacity = 0", format!("5:12: limits.a.capacity: found 0, expected {COUNT}")),
        ("max_debt = -1", "5:12: limits.a.max_debt: found -1, expected a whole number from 0 to 4294967295".to_owned()),
        ("shards = 0", "5:10: limits.a.shards: found 0, expected a whole number from 1 to 1024".to_owned()),
        ("shards = 4294967295", "5:10: limits.a.shards: found 4294967295, expected a whole number from 1 to 1024".to_owned()),
        ("shards = 6", "5:10: limits.a.shards: found 6, expected a whole number from 1 to 5, so that every part gets at least 1".to_owned()),
        ("shard_by = 'user'", "5:12: limits.a.shard_by: found \"user\", expected one of \"key\", \"spread\"".to_owned()),
        ("on_store_error = 'shut'", "5:18: limits.a.on_store_error: found \"shut\", expected one of \"open\", \"closed\", \"local\"".to_owned()),
        ("deny = 'mallory'", "5:8: limits.a.deny: found \"mallory\", expected a list of keys, addresses and networks, such as [\"203.0.113.0/24\"]".to_owned()),
        ("deny = ['a', '203.0.113.0/33', 5]", format!("5:14: limits.a.deny[1]: found \"203.0.113.0/33\", expected {ENTRY}\nt.toml:5:32: limits.a.deny[2]: found 5, expected {ENTRY}")),
        ("deny = ['']", format!("5:9: limits.a.deny[0]: found \"\", expected {ENTRY}")),
        ("shadow = 'yes'", "5:10: limits.a.shadow: found \"yes\", expected true or false".to_owned()),
        ("normalize = 'upper'", "5:13: limits.a.normalize: found \"upper\", expected one of \"lowercase\", \"trim\", \"ip\"".to_owned()),
        ("rat = 5", "5:1: limits.a.rat: unknown field, did you mean `rate`?".to_owned()),
        ("burst = 5", format!("5:1: limits.a.burst: unknown field, expected one of {FIELDS}")),
        ("[limit.b]", "5:2: limit: unknown field, did you mean `limits`?".to_owned()),
        ("[metrics]", "5:2: metrics: unknown field, expected one of limits, defaults, envoy, http".to_owned()),
        ("[limits.'']\nalgorithm='sliding_log'\nrate=1\nperiod='1s'", "5:9: limits.\"\": expected a name of one character or more, without control characters".to_owned()),
        ("[limits.'b c']", format!("5:9: limits.\"b c\".algorithm: missing, expected {ALGORITHMS}\nt.toml:5:9: limits.\"b c\".rate: missing, expected {COUNT}\nt.toml:5:9: limits.\"b c\".period: missing, expected {PERIOD}")),
        ("[defaults]\nexpected_replicas = 0", format!("6:21: defaults.expected_replicas: found 0, expected {COUNT}")),
        ("[defaults]\nstore_timeout = '0ms'", "6:17: defaults.store_timeout: found \"0ms\", expected a time from 1ms to 1h, such as \"50ms\"".to_owned()),
        ("[defaults]\nprefix = 5", "6:10: defaults.prefix: found 5, expected a text".to_owned()),
        ("[defaults]\ndeny = ['1.2.3.4/40']", format!("6:9: defaults.deny[0]: found \"1.2.3.4/40\", expected {ENTRY}")),
        ("[defaults]\nrate = 1", "6:1: defaults.rate: unknown field, expected one of deny, on_store_error, prefix, expected_replicas, store_timeout".to_owned()),
        ("[http]\ntrust_proxy = true", "6:15: http.trust_proxy: found true, expected false, a number of hops from 1 to 255, or a list of networks such as [\"10.0.0.0/8\"]".to_owned()),
        ("[http]\ntrust_proxy = 0", "6:15: http.trust_proxy: found 0, expected false, a number of hops from 1 to 255, or a list of networks such as [\"10.0.0.0/8\"]".to_owned()),
        ("[http]\ntrust_proxy = ['proxy']", "6:16: http.trust_proxy[0]: found \"proxy\", expected an address or a network such as \"10.0.0.0/8\"".to_owned()),
        ("[http]\nheaders = ['rfc']", "6:12: http.headers[0]: found \"rfc\", expected one of \"ietf\", \"draft03\", \"legacy\"".to_owned()),
        ("[http]\nlegacy_reset = 1", "6:16: http.legacy_reset: found 1, expected one of \"delta\", \"epoch\"".to_owned()),
        ("[http]\nclient_header = 'x y'", "6:17: http.client_header: found \"x y\", expected the name of a header, such as \"x-forwarded-for\"".to_owned()),
        ("[http]\nipv6_prefix = 129", "6:15: http.ipv6_prefix: found 129, expected a whole number from 1 to 128".to_owned()),
        ("[envoy]\nconfigs = 'a.yaml'", "6:11: envoy.configs: found \"a.yaml\", expected a list of files, such as [\"ratelimit.yaml\"]".to_owned()),
        ("[envoy]\nconfigs = ['']", "6:12: envoy.configs[0]: found \"\", expected the path of a file".to_owned()),
        ("[envoy]\nconfig = []", "6:1: envoy.config: unknown field, did you mean `configs`?".to_owned()),
    ];
    for (lines, expected) in cases {
        let text = format!("[limits.a]\nalgorithm = \"token_bucket\"\nrate = 5\nperiod = \"1m\"\n{lines}\n");
        assert_eq!(refused(toml(&text)), format!("t.toml:{expected}"));
    }
}

#[test]
fn an_algorithm_is_one_of_those_there_are() {
    let with = |name: &str| format!("[limits.a]\nalgorithm = \"{name}\"\nrate = 5\nperiod = \"1m\"\n");
    let expected = format!("t.toml:2:13: limits.a.algorithm: found \"leaky\", expected {ALGORITHMS}");
    assert_eq!(refused(toml(&with("leaky"))), expected);
    let text = format!("{}capacity = 9\n", with("sliding_log"));
    let expected = "t.toml:5:12: limits.a.capacity: found 9, expected no capacity, which sliding_log does not use \
                    (token_bucket or fixed_window or concurrency does)";
    assert_eq!(refused(toml(&text)), expected);
    let text = format!("{}buckets = 7\n", with("sliding_window"));
    let expected =
        "t.toml:5:11: limits.a.buckets: found 7, expected a number that divides the period of 60000000 microseconds";
    assert_eq!(refused(toml(&text)), expected);
}

#[test]
fn of_a_misspelt_algorithm_nothing_else_is_said_to_be_missing() {
    let text = "[limits.a]\nalgorithm = 'concurency'\ncapacity = 5\nttl = '30s'\n";
    let expected = format!("t.toml:2:13: limits.a.algorithm: found \"concurency\", expected {ALGORITHMS}");
    assert!(refused(toml(text)).starts_with(&expected) && refused(toml(text)).lines().count() == 1);
}

/// Lines after those of a good limit of leases, beginning with line 5, and what is wrong with them.
#[test]
fn leases_have_a_capacity_and_a_time_to_live_and_no_rate() {
    let none = "which concurrency does not use";
    let cases = [
        ("rate = 5", format!("5:8: limits.a.rate: found 5, expected no rate, {none}: set its capacity")),
        ("period = '1m'", format!("5:10: limits.a.period: found \"1m\", expected no period, {none}: set its ttl")),
        (
            "start = '1s'",
            format!(
                "5:9: limits.a.start: found \"1s\", expected no start, {none} (fixed_window or sliding_window does)"
            ),
        ),
        ("buckets = 2", format!("5:11: limits.a.buckets: found 2, expected no buckets, {none} (sliding_window does)")),
        (
            "max_debt = 2",
            format!(
                "5:12: limits.a.max_debt: found 2, expected no max_debt, {none} (token_bucket or fixed_window or sliding_window or sliding_log does)"
            ),
        ),
        (
            "shards = 6",
            "5:10: limits.a.shards: found 6, expected a whole number from 1 to 5, so that every part gets at least 1"
                .to_owned(),
        ),
        (
            "shards = 2\nshard_by = 'spread'",
            "6:12: limits.a.shard_by: found \"spread\", expected \"key\", because concurrency cannot be spread"
                .to_owned(),
        ),
    ];
    for (lines, expected) in cases {
        let text = format!("[limits.a]\nalgorithm = \"concurrency\"\ncapacity = 5\nttl = \"30s\"\n{lines}\n");
        assert_eq!(refused(toml(&text)), format!("t.toml:{expected}"));
    }
    let missing = format!(
        "t.toml:1:9: limits.a.capacity: missing, expected {COUNT}\nt.toml:1:9: limits.a.ttl: missing, expected {PERIOD}"
    );
    assert_eq!(refused(toml("[limits.a]\nalgorithm = \"concurrency\"\n")), missing);
    let text = "[limits.a]\nalgorithm = \"concurrency\"\ncapacity = 0\nttl = \"367d\"\n";
    let expected = format!(
        "t.toml:3:12: limits.a.capacity: found 0, expected {COUNT}\nt.toml:4:7: limits.a.ttl: found \"367d\", expected {PERIOD}"
    );
    assert_eq!(refused(toml(text)), expected);
}

#[test]
fn all_errors_are_told_in_the_order_of_the_file() {
    let text =
        "[http]\nipv6_prefix = 0\n\n[limits.é]\nalgorithm = \"sliding_log\"\nrate = 0\ncapacity = 2\nshards = 9\n";
    let expected = format!(
        "t.toml:2:15: http.ipv6_prefix: found 0, expected a whole number from 1 to 128\n\
         t.toml:4:9: limits.\"é\".period: missing, expected {PERIOD}\n\
         t.toml:6:8: limits.\"é\".rate: found 0, expected {COUNT}\n\
         t.toml:7:12: limits.\"é\".capacity: found 2, expected no capacity, which sliding_log does not use \
         (token_bucket or fixed_window or concurrency does)"
    );
    assert_eq!(refused(toml(&text.replace("limits.é", "limits.\"é\""))), expected.replace("\"é\"", "é"));
    let text = "limits:\n  a: {algorithm: nope, rate: 0, period: 1s, x: 1}\n  b: 5\n";
    let expected = format!(
        "t.yaml:2:18: limits.a.algorithm: found \"nope\", expected {ALGORITHMS}\n\
         t.yaml:2:30: limits.a.rate: found 0, expected {COUNT}\n\
         t.yaml:2:45: limits.a.x: unknown field, expected one of {FIELDS}\n\
         t.yaml:3:6: limits.b: found 5, expected a table"
    );
    assert_eq!(refused(yaml(text)), expected);
}

#[test]
fn a_config_without_limits_is_told_what_to_write() {
    let message =
        "1:1: limits: missing, expected at least one limit: a table limits.NAME with algorithm, rate and period";
    for text in ["", "# nothing\n", "[limits]\n", "[defaults]\nprefix = 'a'\n", "[envoy]\nconfigs = []\n"] {
        assert_eq!(refused(toml(text)), format!("t.toml:{message}"), "{text}");
    }
    for text in ["", "# nothing\n", "---\n", "limits:\n", "limits: {}\n", "http:\n"] {
        assert_eq!(refused(yaml(text)), format!("t.yaml:{message}"), "{text}");
    }
}
