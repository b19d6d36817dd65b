//! Tests of configs in both syntaxes.

use std::future::{Future, IntoFuture};
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use tidegate_core::{OnStoreError, Quota, days, millis, minutes, seconds};
use tidegate_testkit::{FaultyStore, Random};

use super::{Config, ConfigErrors, HeaderStyle, LegacyReset, Syntax, TrustProxy};
use crate::limiter::{Limit, Normalize};
use crate::{ManualClock, MemoryStore};

fn toml(text: &str) -> Result<Config, ConfigErrors> {
    Config::parse(text, Syntax::Toml, "t.toml")
}

fn yaml(text: &str) -> Result<Config, ConfigErrors> {
    Config::parse(text, Syntax::Yaml, "t.yaml")
}

/// The errors, as displayed.
#[track_caller]
fn errors_of(result: Result<Config, ConfigErrors>) -> String {
    result.expect_err("a config with something wrong in it").to_string()
}

/// A config with every field.
const FULL: &str = r#"
[limits.login]
algorithm = "fixed_window"
rate = 5
period = "1m"
capacity = 10
start = "30s"
max_debt = 3
shards = 2
shard_by = "key"
on_store_error = "closed"
deny = ["198.51.100.7", "203.0.113.0/24", "mallory"]
shadow = true
normalize = "ip"

[limits.search]
algorithm = "sliding_window"
rate = 100
period = "10s"
buckets = 10

[limits."a.b"]
algorithm = "sliding_log"
rate = 2
period = "1d"
normalize = "lowercase"

[limits.api]
algorithm = "token_bucket"
rate = 50
period = "1s"
capacity = 100

[defaults]
deny = ["192.0.2.0/24"]
on_store_error = "local"
prefix = "shop"
expected_replicas = 3
store_timeout = "20ms"

[envoy]
configs = ["ratelimit.yaml"]

[http]
trust_proxy = ["10.0.0.0/8", "::1"]
headers = ["ietf", "legacy"]
legacy_reset = "epoch"
client_header = "X-Real-IP"
ipv6_prefix = 56
"#;

/// [`FULL`], in YAML.
const FULL_YAML: &str = r#"
limits:
  login:
    algorithm: fixed_window
    rate: 5
    period: 1m
    capacity: 10
    start: "30s"
    max_debt: 0x3
    shards: 2
    shard_by: key
    on_store_error: closed
    deny: [198.51.100.7, 203.0.113.0/24, mallory]
    shadow: true
    normalize: ip
  search: &search
    algorithm: sliding_window
    rate: 100
    period: 10s
    buckets: 10
  "a.b": {algorithm: sliding_log, rate: 2, period: 1d, normalize: lowercase}
  api:
    algorithm: token_bucket
    rate: 50
    period: 1s
    capacity: 100
defaults:
  deny:
    - 192.0.2.0/24
  on_store_error: local
  prefix: shop
  expected_replicas: 3
  store_timeout: 20ms
envoy:
  configs: [ratelimit.yaml]
http:
  trust_proxy: [10.0.0.0/8, "::1"]
  headers: [ietf, legacy]
  legacy_reset: epoch
  client_header: X-Real-IP
  ipv6_prefix: 56
"#;

#[test]
fn every_field_is_read() {
    let config = toml(FULL).unwrap();
    let login = Quota::fixed_window(5, minutes(1)).unwrap().capacity(10).unwrap();
    let login = Limit::new(login.start(seconds(30)).unwrap().max_debt(3).unwrap());
    let login = login.shards(2).unwrap().on_store_error(OnStoreError::Closed).shadow(true);
    let login = login.normalize(Normalize::Ip { ipv6_prefix: 56 });
    let login = login.deny(["198.51.100.7", "203.0.113.0/24", "mallory"]).unwrap();
    let local = |quota: Quota| Limit::new(quota).on_store_error(OnStoreError::Local);
    let search = local(Quota::sliding_window(100, seconds(10)).unwrap().buckets(10).unwrap());
    let log = local(Quota::sliding_log(2, days(1)).unwrap()).normalize(Normalize::Lowercase);
    let api = local(Quota::token_bucket(50, seconds(1)).unwrap().capacity(100).unwrap());
    let expected = [("login", login), ("search", search), ("a.b", log), ("api", api)];
    assert_eq!(config.limits(), expected.map(|(name, limit)| (name.to_owned(), limit)));

    let defaults = config.defaults();
    assert_eq!(defaults.deny, ["192.0.2.0/24"]);
    assert_eq!(defaults.on_store_error, OnStoreError::Local);
    assert_eq!((defaults.prefix.as_str(), defaults.expected_replicas), ("shop", 3));
    assert_eq!(defaults.store_timeout, Duration::from_millis(20));
    assert_eq!(config.envoy().configs, ["ratelimit.yaml"]);
    let http = config.http();
    let networks = ["10.0.0.0/8", "::1"].map(|network| network.parse().unwrap());
    assert_eq!(http.trust_proxy, TrustProxy::Networks(networks.to_vec()));
    assert_eq!(http.headers, [HeaderStyle::Ietf, HeaderStyle::Legacy]);
    assert_eq!(http.legacy_reset, LegacyReset::Epoch);
    assert_eq!((http.client_header.as_str(), http.ipv6_prefix), ("x-real-ip", 56));
}

#[test]
fn yaml_and_toml_configs_are_equal() {
    assert_eq!(yaml(FULL_YAML).unwrap(), toml(FULL).unwrap());
    assert_eq!(yaml(&FULL_YAML.replace('\n', "\r\n")).unwrap(), toml(&FULL.replace('\n', "\r\n")).unwrap());
    assert_eq!(yaml(&format!("\u{feff}{FULL_YAML}")).unwrap(), toml(&format!("\u{feff}{FULL}")).unwrap());
}

#[test]
fn absent_fields_have_defaults() {
    let config = toml("limits.a = { algorithm = \"token_bucket\", rate = 1, period = \"1ms\" }").unwrap();
    let (name, limit) = &config.limits()[0];
    assert_eq!((name.as_str(), limit), ("a", &Limit::new(Quota::token_bucket(1, Duration::from_millis(1)).unwrap())));
    assert_eq!(config.defaults(), &Default::default());
    assert_eq!(config.defaults().store_timeout, Duration::from_millis(50));
    assert_eq!(config.defaults().expected_replicas, 1);
    assert_eq!(config.http(), &Default::default());
    assert_eq!(config.http().headers, [HeaderStyle::Ietf]);
    assert_eq!((config.http().client_header.as_str(), config.http().ipv6_prefix), ("x-forwarded-for", 64));
    assert_eq!(config.http().trust_proxy, TrustProxy::None);
}

#[test]
fn concurrency_limit_has_capacity_and_ttl() {
    let config = toml("[limits.a]\nalgorithm = \"concurrency\"\ncapacity = 10\nttl = \"30s\"\nshards = 2\n").unwrap();
    let expected = Limit::new(Quota::concurrency(10, seconds(30)).unwrap()).shards(2).unwrap();
    assert_eq!(config.limits(), [("a".to_owned(), expected)]);
}

#[test]
fn config_with_only_envoy_files_is_valid() {
    assert_eq!(toml("[envoy]\nconfigs = [\"a.yaml\"]").unwrap().limits().len(), 0);
    let config = toml("[http]\ntrust_proxy = 2\n[envoy]\nconfigs = [\"a.yaml\"]").unwrap();
    assert_eq!(config.http().trust_proxy, TrustProxy::hops(2));
    assert_eq!(yaml("http:\nlimits:\nenvoy: {configs: [a]}").unwrap().http(), &Default::default());
}

#[test]
fn yaml_alias_repeats_its_anchor() {
    let text = "limits:\n  a: &a {algorithm: sliding_log, rate: 2, period: 1s}\n  b: *a\n";
    let config = yaml(text).unwrap();
    assert_eq!(config.limits()[0].1, config.limits()[1].1);
}

#[test]
fn limiter_has_the_limits_prefix_and_deny_list() {
    let config = toml(FULL).unwrap();
    let store = Arc::new(MemoryStore::builder().clock(ManualClock::default()).build());
    let limiter = config.limiter().store(Arc::clone(&store)).build().unwrap();
    assert_eq!(limiter.names(), ["a.b", "api", "login", "search"]);
    let denied = limiter.limit("api", "192.0.2.9").try_now().unwrap();
    assert!(!denied.allowed());
    let others = config.limiter().prefix("other").store(store).build().unwrap();
    assert_eq!(limiter.limit("api", "u1").cost(100).try_now().unwrap().remaining(), 0);
    assert_eq!(others.limit("api", "u1").try_now().unwrap().remaining(), 99);
}

#[test]
fn store_timeout_is_measured_on_the_sleeper() {
    let text = "[defaults]\nstore_timeout = \"20ms\"\n[limits.a]\nalgorithm = \"fixed_window\"\nrate = 1\nperiod = \"1m\"\non_store_error = \"closed\"\n";
    let (clock, store) = (ManualClock::default(), FaultyStore::new(MemoryStore::new()));
    store.faults().hang();
    let limiter = toml(text).unwrap().limiter().store(store).sleeper(clock.clone()).build().unwrap();
    let mut call = std::pin::pin!(limiter.limit("a", "u").into_future());
    let mut poll = || call.as_mut().poll(&mut Context::from_waker(Waker::noop()));
    assert!(poll().is_pending());
    clock.advance(millis(19));
    assert!(poll().is_pending());
    clock.advance(millis(1));
    assert!(matches!(poll(), Poll::Ready(Err(_))));
}

#[test]
fn file_extension_selects_the_syntax() {
    let folder = std::env::temp_dir().join(format!("tidegate-config-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    for (name, text) in [("a.toml", FULL), ("a.conf", FULL), ("a.yaml", FULL_YAML), ("a.YML", FULL_YAML)] {
        std::fs::write(folder.join(name), text).unwrap();
        assert_eq!(Config::from_path(folder.join(name)).unwrap(), toml(FULL).unwrap(), "{name}");
    }
    let json =
        "{\n\t\"limits\": {\n\t\t\"api\": {\"algorithm\": \"sliding_log\", \"rate\": 1, \"period\": \"1s\"}\n\t}\n}\n";
    std::fs::write(folder.join("a.json"), json).unwrap();
    assert_eq!(Config::from_path(folder.join("a.json")).unwrap().limits().len(), 1);
    std::fs::write(folder.join("latin1.toml"), b"# one\n# caf\xe9\n").unwrap();
    let file = folder.join("latin1.toml");
    let error = Config::from_path(&file).unwrap_err().to_string();
    assert_eq!(error, format!("{}:2:6: not a text: expected UTF-8", file.display()));
    std::fs::remove_dir_all(&folder).unwrap();
    let error = Config::from_path(&file).unwrap_err();
    assert!(error.to_string().starts_with(&format!("{}: cannot be read: ", file.display())), "{error}");
    assert_eq!(error.iter().next().unwrap().line(), None);
    assert_eq!(Syntax::of_path("x".as_ref()), Syntax::Toml);
}

const COUNT: &str = "a whole number from 1 to 4294967295";
const TIME: &str = r#"a whole number and a unit (us, ms, s, m, h or d), such as "500ms", "10s" or "1m""#;
const PERIOD: &str = r#"a time from 1ms to 366d, such as "500ms", "10s", "1m", "1h" or "1d""#;
const ALGORITHMS: &str = r#"one of "token_bucket", "fixed_window", "sliding_window", "sliding_log", "concurrency""#;
const ENTRY: &str = r#"a key, an address or a network such as "203.0.113.0/24""#;
const FIELDS: &str = "algorithm, rate, period, capacity, start, buckets, max_debt, ttl, shards, shard_by, on_store_error, \
    deny, shadow, normalize";

#[test]
fn rate_must_be_a_whole_number() {
    for found in ["0", "1.5", "-1", "18446744073709551616", "4294967296", "\"5\"", "true", "1979-05-27", "1e3"] {
        let text = format!("[limits.a]\nalgorithm = \"sliding_log\"\nrate = {found}\nperiod = \"1m\"\n");
        let expected = format!("t.toml:3:8: limits.a.rate: found {found}, expected {COUNT}");
        assert_eq!(errors_of(toml(&text)), expected);
    }
    for found in ["0", "1.5", "-1", "18446744073709551616", "4294967296", "\"5\"", "true", "1e3"] {
        let text = format!("limits:\n  a:\n    algorithm: sliding_log\n    rate: {found}\n    period: 1m\n");
        let expected = format!("t.yaml:4:11: limits.a.rate: found {found}, expected {COUNT}");
        assert_eq!(errors_of(yaml(&text)), expected);
    }
}

#[test]
fn period_must_be_a_whole_number_and_a_unit() {
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
        assert_eq!(errors_of(toml(&text)), format!("t.toml:4:10: {expected}"));
        let text = format!("limits:\n  a: {{algorithm: sliding_log, rate: 5, period: {found}}}\n");
        assert_eq!(errors_of(yaml(&text)), format!("t.yaml:2:48: {expected}"));
    }
}

/// Lines after a valid token bucket, from line 5, and their errors.
#[test]
fn rejected_settings_say_what_is_expected() {
    let cases = [
        ("start = '1s'", "5:9: limits.a.start: found \"1s\", expected no start, which token_bucket does not use (fixed_window or sliding_window does)".to_owned()),
        ("buckets = 2", "5:11: limits.a.buckets: found 2, expected no buckets, which token_bucket does not use (sliding_window does)".to_owned()),
        ("ttl = '1s'", "5:7: limits.a.ttl: found \"1s\", expected no ttl, which token_bucket does not use (concurrency does)".to_owned()),
        ("capacity = 0", format!("5:12: limits.a.capacity: found 0, expected {COUNT}")),
        ("max_debt = -1", "5:12: limits.a.max_debt: found -1, expected a whole number from 0 to 4294967295".to_owned()),
        ("shards = 0", "5:10: limits.a.shards: found 0, expected a whole number from 1 to 1024".to_owned()),
        ("shards = 4294967295", "5:10: limits.a.shards: found 4294967295, expected a whole number from 1 to 1024".to_owned()),
        ("shards = 6", "5:10: limits.a.shards: found 6, expected a whole number from 1 to 5, so that every part gets at least 1".to_owned()),
        ("shard_by = 'user'", "5:12: limits.a.shard_by: found \"user\", expected one of \"key\"".to_owned()),
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
        assert_eq!(errors_of(toml(&text)), format!("t.toml:{expected}"));
    }
}

#[test]
fn unknown_algorithm_lists_the_known_ones() {
    let with = |name: &str| format!("[limits.a]\nalgorithm = \"{name}\"\nrate = 5\nperiod = \"1m\"\n");
    let expected = format!("t.toml:2:13: limits.a.algorithm: found \"leaky\", expected {ALGORITHMS}");
    assert_eq!(errors_of(toml(&with("leaky"))), expected);
    let text = format!("{}capacity = 9\n", with("sliding_log"));
    let expected = "t.toml:5:12: limits.a.capacity: found 9, expected no capacity, which sliding_log does not use \
                    (token_bucket or fixed_window or concurrency does)";
    assert_eq!(errors_of(toml(&text)), expected);
    let text = format!("{}buckets = 7\n", with("sliding_window"));
    let expected =
        "t.toml:5:11: limits.a.buckets: found 7, expected a number that divides the period of 60000000 microseconds";
    assert_eq!(errors_of(toml(&text)), expected);
}

#[test]
fn misspelt_algorithm_reports_no_missing_fields() {
    let text = "[limits.a]\nalgorithm = 'concurency'\ncapacity = 5\nttl = '30s'\n";
    let expected = format!("t.toml:2:13: limits.a.algorithm: found \"concurency\", expected {ALGORITHMS}");
    assert!(errors_of(toml(text)).starts_with(&expected) && errors_of(toml(text)).lines().count() == 1);
}

/// Lines after a valid limit of leases, from line 5, and their errors.
#[test]
fn concurrency_limit_rejects_rate_and_period() {
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
    ];
    for (lines, expected) in cases {
        let text = format!("[limits.a]\nalgorithm = \"concurrency\"\ncapacity = 5\nttl = \"30s\"\n{lines}\n");
        assert_eq!(errors_of(toml(&text)), format!("t.toml:{expected}"));
    }
    let missing = format!(
        "t.toml:1:9: limits.a.capacity: missing, expected {COUNT}\nt.toml:1:9: limits.a.ttl: missing, expected {PERIOD}"
    );
    assert_eq!(errors_of(toml("[limits.a]\nalgorithm = \"concurrency\"\n")), missing);
    let text = "[limits.a]\nalgorithm = \"concurrency\"\ncapacity = 0\nttl = \"367d\"\n";
    let expected = format!(
        "t.toml:3:12: limits.a.capacity: found 0, expected {COUNT}\nt.toml:4:7: limits.a.ttl: found \"367d\", expected {PERIOD}"
    );
    assert_eq!(errors_of(toml(text)), expected);
}

#[test]
fn errors_are_in_the_order_of_the_file() {
    let text =
        "[http]\nipv6_prefix = 0\n\n[limits.é]\nalgorithm = \"sliding_log\"\nrate = 0\ncapacity = 2\nshards = 9\n";
    let expected = format!(
        "t.toml:2:15: http.ipv6_prefix: found 0, expected a whole number from 1 to 128\n\
         t.toml:4:9: limits.\"é\".period: missing, expected {PERIOD}\n\
         t.toml:6:8: limits.\"é\".rate: found 0, expected {COUNT}\n\
         t.toml:7:12: limits.\"é\".capacity: found 2, expected no capacity, which sliding_log does not use \
         (token_bucket or fixed_window or concurrency does)"
    );
    assert_eq!(errors_of(toml(&text.replace("limits.é", "limits.\"é\""))), expected.replace("\"é\"", "é"));
    let text = "limits:\n  a: {algorithm: nope, rate: 0, period: 1s, x: 1}\n  b: 5\n";
    let expected = format!(
        "t.yaml:2:18: limits.a.algorithm: found \"nope\", expected {ALGORITHMS}\n\
         t.yaml:2:30: limits.a.rate: found 0, expected {COUNT}\n\
         t.yaml:2:45: limits.a.x: unknown field, expected one of {FIELDS}\n\
         t.yaml:3:6: limits.b: found 5, expected a table"
    );
    assert_eq!(errors_of(yaml(text)), expected);
}

#[test]
fn config_without_limits_says_what_to_write() {
    let message =
        "1:1: limits: missing, expected at least one limit: a table limits.NAME with algorithm, rate and period";
    for text in ["", "# nothing\n", "[limits]\n", "[defaults]\nprefix = 'a'\n", "[envoy]\nconfigs = []\n"] {
        assert_eq!(errors_of(toml(text)), format!("t.toml:{message}"), "{text}");
    }
    for text in ["", "# nothing\n", "---\n", "limits:\n", "limits: {}\n", "http:\n"] {
        assert_eq!(errors_of(yaml(text)), format!("t.yaml:{message}"), "{text}");
    }
}

#[test]
fn toml_syntax_errors_have_positions() {
    let cases = [
        ("rate = \nx = 1\n", "t.toml:1:8: string values must be quoted, expected literal string"),
        ("[limits\n", "t.toml:1:8: unclosed table, expected `]`"),
        ("a = \"é\" b", "t.toml:1:9: unexpected key or value, expected newline, `#`"),
        ("a = \"é\"\r\nb = \r\n", "t.toml:2:5: string values must be quoted, expected literal string"),
        ("a = 01", "t.toml:1:5: unexpected leading zero, expected nothing"),
    ];
    for (text, expected) in cases {
        assert_eq!(errors_of(toml(text)), expected, "{text}");
    }
}

#[test]
fn yaml_syntax_errors_have_positions() {
    let cases = [
        ("a: *b", "t.yaml:1:4: while parsing node, found unknown anchor"),
        ("limits:\r\n  é: 'ü\r\n", "t.yaml:2:6: while scanning a quoted scalar, found unexpected end of stream"),
        ("limits:\n  é: {rate: [}", "t.yaml:2:14: while parsing a node, did not find expected node content"),
        ("a: 1\n---\nb: 2", "t.yaml:3:1: a second document: expected one"),
        ("a: !!int 5", "t.yaml:1:4: a tag: expected the value itself"),
        ("? [a]\n: 5", "t.yaml:1:3: a name that is not a plain text: expected a name"),
        ("a: &a [*a]", "t.yaml:1:8: an alias of what it is in: expected an anchor before it"),
        ("- a\n", "t.yaml:1:1: found a list, expected a table"),
        ("limits: 5\n", "t.yaml:1:9: limits: found 5, expected a table"),
    ];
    for (text, expected) in cases {
        assert_eq!(errors_of(yaml(text)), expected, "{text}");
    }
}

const LOG: &str = "algorithm = \"sliding_log\"\nrate = 1\nperiod = \"1s\"\n";

#[test]
fn duplicate_names_are_rejected() {
    let twice = format!("[limits.a]\n{LOG}[limits.b]\n{LOG}[limits.a]\n{LOG}[limits.c]\n{LOG}rate = 2\n");
    assert_eq!(
        errors_of(toml(&twice)),
        "t.toml:9:9: `a` is there twice: expected each name once\n\
         t.toml:17:1: `rate` is there twice: expected each name once"
    );
    let log = "{algorithm: sliding_log, rate: 1, period: 1s}";
    let twice = format!("limits:\n  a: {log}\n  b: {log}\n  \"a\": {log}\n  c:\n    rate: 1\n    rate: 2\n");
    let told = errors_of(yaml(&twice));
    let first = "t.yaml:4:3: limits.a: `a` is there twice, first in line 2: expected each name once\n";
    let second = "t.yaml:7:5: limits.c.rate: `rate` is there twice, first in line 6: expected each name once";
    assert!(told.starts_with(first) && told.ends_with(second), "{told}");
}

#[test]
fn columns_count_characters_and_lines_may_end_in_cr_lf() {
    let text = format!("[limits.\"äöü\"]\r\n{}x = {{ \"ß\" = 1 }}\r\n", LOG.replace('\n', "\r\n"));
    let told = errors_of(toml(&text));
    assert!(told.starts_with("t.toml:5:1: limits.äöü.x: unknown field, "), "{told}");
    let told = errors_of(toml("\u{feff}limits.\"ä\" = { rate = 0 } # ä\n"));
    assert!(told.contains("t.toml:1:23: limits.ä.rate: found 0"), "{told}");
    let told = errors_of(yaml("\u{feff}limits: {\"ä\": {rate: 0}} # ä\r\n"));
    assert!(told.contains("t.yaml:1:22: limits.ä.rate: found 0"), "{told}");
}

#[test]
fn nesting_is_bounded() {
    let nested = [
        "a = ".to_owned() + &"[".repeat(100_000),
        "a = ".to_owned() + &"[".repeat(50) + &"]".repeat(50),
        "a".to_owned() + &".a".repeat(100_000) + " = 1",
        "a".to_owned() + &".a".repeat(50) + " = 1",
        // Small for a file, and too deep for a stack if parsed.
        format!("a{} = {{", ".a".repeat(70)).repeat(70),
    ];
    for text in nested {
        errors_of(toml(&text));
    }
    for text in ["- ".repeat(50_000), "? ".repeat(50_000), "[".repeat(50_000), "{a: ".repeat(50_000)] {
        errors_of(yaml(&text));
    }
}

#[test]
fn comments_do_not_count_as_nesting() {
    toml(&format!("{}[limits.a]\n{LOG}", "  # [[tables]] {\n".repeat(50))).unwrap();
    let behind_a_text = format!("a = {{b = \"\"\"\n# \"\"\", c = {}", "{a = ".repeat(20));
    assert_eq!(errors_of(toml(&behind_a_text)), "t.toml:2:87: nested too deep");
}

#[test]
fn aliases_are_bounded() {
    let laughs: String = (1..9).map(|n| format!("a{n}: &a{n} [{}]\n", format!("*a{},", n - 1).repeat(9))).collect();
    let told = errors_of(yaml(&format!("a0: &a0 [1]\n{laughs}")));
    assert!(told.ends_with("too many values repeated by aliases"), "{told}");
    // A long text is repeated whole.
    let told = errors_of(yaml(&format!("a: &a {}\nb: [{}]\n", "x".repeat(64 << 10), "*a,".repeat(1_000))));
    assert!(told.ends_with("too many values repeated by aliases"), "{told}");
    let deep: String = (1..99).map(|n| format!("a{n}: &a{n} [*a{}]\n", n - 1)).collect();
    let told = errors_of(yaml(&format!("a0: &a0 [1]\n{deep}")));
    assert!(told.ends_with("nested too deep"), "{told}");
}

const PIECES: [&str; 28] = [
    "\"",
    "'",
    "[",
    "]",
    "{",
    "}",
    "=",
    ".",
    ":",
    "\n",
    "\r\n",
    "#",
    "-",
    "0",
    "9999999999999999999999",
    "-1",
    "1.5",
    "é",
    "\u{feff}",
    "\0",
    "&a ",
    "*a",
    "!!str ",
    "? ",
    "| \n",
    "\t",
    "true",
    "[limits.login]\n",
];

/// Cuts, repeats and changes a text in a few places.
pub(super) fn mutate(text: &str, pieces: &[&str], random: &mut Random) -> String {
    let mut letters: Vec<char> = text.chars().collect();
    for _ in 0..=random.below(4) {
        let from = random.below(letters.len() as u64 + 1) as usize;
        let to = (from + random.below(12) as usize).min(letters.len());
        match random.below(4) {
            0 => drop(letters.drain(from..to)),
            1 => letters.truncate(from),
            2 => {
                let repeated: Vec<char> = letters[from..to].to_vec();
                letters.splice(to..to, repeated);
            }
            _ => drop(letters.splice(from..from, random.pick(pieces).chars())),
        }
    }
    letters.into_iter().collect()
}

/// With a scan of the line for each column, this takes minutes.
#[test]
fn long_list_on_one_line_has_exact_columns() {
    let (entry, count) = ("\"ü\",", 300_000);
    let list = format!("[{}5]", entry.repeat(count));
    let text = format!("[limits.a]\nalgorithm = \"sliding_log\"\nrate = 5\nperiod = \"1m\"\ndeny = {list}\n");
    let expected = format!("t.toml:5:{}: limits.a.deny[{count}]: found 5, expected {ENTRY}", 8 + 1 + 4 * count);
    assert_eq!(errors_of(toml(&text)), expected);
}

/// With a scan of the table for each of its fields, this takes a minute.
#[test]
fn fields_of_a_long_duplicate_table_are_one_error() {
    let table = format!("[limits.a]\n{}", (0..20_000).map(|field| format!("f{field} = 1\n")).collect::<String>());
    let errors = toml(&table.repeat(2)).expect_err("a table that is there twice");
    assert!(errors.iter().all(|error| error.line().is_some_and(|line| line <= 101)), "the first errors: {errors}");
    // The unknown fields of the first table, its three missing fields, and the duplicate.
    assert_eq!(errors.iter().count() + errors.more(), 20_000 + 3 + 1);
}

#[test]
fn first_hundred_errors_are_kept_and_the_rest_are_counted() {
    // The duplicates are found first, and are last in the file.
    let fields = |count: usize| (0..count).map(|field| format!("f{field} = 1\n")).collect::<String>();
    for (count, more) in [(99, 0), (100, 1), (1_000, 901)] {
        let text = format!("[limits]\n[defaults]\n{}prefix = 1\nprefix = 1\n", fields(count));
        let errors = toml(&text).unwrap_err();
        assert_eq!((errors.iter().count() + errors.more(), errors.more()), (count + 2, more + 1), "{errors}");
        let first: Vec<_> = errors.iter().take(99).map(|error| error.line()).collect();
        assert_eq!(first, (3..102).map(Some).collect::<Vec<_>>());
        assert!(errors.to_string().ends_with(&format!("\nand {} more errors", more + 1)), "{errors}");
    }
    assert!(!errors_of(toml("")).contains("more"));
}

#[cfg(unix)]
#[test]
fn endless_file_is_refused() {
    let error = Config::from_path("/dev/zero").unwrap_err().to_string();
    assert_eq!(error, "/dev/zero: too large: expected at most 67108864 bytes");
    let error = super::envoy::Domains::from_paths(["/dev/zero"]).unwrap_err().to_string();
    assert_eq!(error, "/dev/zero: not a file");
}

#[test]
fn long_name_is_shortened_in_errors() {
    let name = "x".repeat(1_000);
    let expected = format!("limits.{}....rate: found 0, ", "x".repeat(60));
    let text = format!("[limits.{name}]\nalgorithm = \"sliding_log\"\nrate = 0\nperiod = \"1m\"\n");
    assert!(errors_of(toml(&text)).contains(&expected));
    let text = format!("limits: {{{name}: {{algorithm: sliding_log, rate: 0, period: 1m}}}}\n");
    assert!(errors_of(yaml(&text)).contains(&expected));
}

#[test]
fn mutated_config_never_panics() {
    let yaml_text = FULL.replace("[limits.", "limits_").replace(" = ", ": ");
    let nested =
        "limits:\n  a: &a {algorithm: sliding_log, rate: 2, period: 1s}\n  b: *a\n  c:\n    - 'x'\n    - |\n      y\n";
    let mut random = Random::new(7);
    let mut accepted = 0;
    for round in 0..6_000 {
        let results = match round % 3 {
            0 => [toml(&mutate(FULL, &PIECES, &mut random)), yaml(&mutate(&yaml_text, &PIECES, &mut random))],
            1 => [toml(&mutate(nested, &PIECES, &mut random)), yaml(&mutate(nested, &PIECES, &mut random))],
            _ => [toml(&mutate("", &PIECES, &mut random)), yaml(&mutate(FULL, &PIECES, &mut random))],
        };
        for result in results {
            match result {
                Ok(config) => {
                    accepted += 1;
                    config.limiter().build().expect("a config that was read can be used");
                }
                Err(errors) => {
                    assert!(errors.iter().all(|error| error.line() >= Some(1) && error.column() >= Some(1)));
                    assert!(errors.iter().map(|error| (error.line(), error.column())).is_sorted());
                }
            }
        }
    }
    assert!(accepted > 0, "some mutations change nothing that matters");
}
