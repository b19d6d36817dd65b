use std::sync::Arc;
use std::time::Duration;

use tidegate_core::{OnStoreError, Quota, days, minutes, seconds};

use super::{FULL, toml, yaml};
use crate::config::{Config, HeaderStyle, LegacyReset, Syntax, TrustProxy};
use crate::limiter::{Limit, Normalize, ShardBy};
use crate::{ManualClock, MemoryStore};

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
    shard_by: spread
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
fn everything_is_read() {
    let config = toml(FULL).unwrap();
    let login = Quota::fixed_window(5, minutes(1)).unwrap().capacity(10).unwrap();
    let login = Limit::new(login.start(seconds(30)).unwrap().max_debt(3).unwrap());
    let login = login.shards(2).unwrap().shard_by(ShardBy::Spread).on_store_error(OnStoreError::Closed).shadow(true);
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
fn yaml_says_the_same() {
    assert_eq!(yaml(FULL_YAML).unwrap(), toml(FULL).unwrap());
    assert_eq!(yaml(&FULL_YAML.replace('\n', "\r\n")).unwrap(), toml(&FULL.replace('\n', "\r\n")).unwrap());
    assert_eq!(yaml(&format!("\u{feff}{FULL_YAML}")).unwrap(), toml(&format!("\u{feff}{FULL}")).unwrap());
}

#[test]
fn what_is_left_out_has_defaults() {
    let config = toml("limits.a = { algorithm = \"token_bucket\", rate = 1, period = \"1ms\" }").unwrap();
    let (name, limit) = &config.limits()[0];
    assert_eq!((name.as_str(), limit), ("a", &Limit::new(Quota::token_bucket(1, Duration::from_millis(1)).unwrap())));
    assert_eq!(config.defaults(), &Default::default());
    assert_eq!(config.defaults().store_timeout, Duration::from_millis(50));
    assert_eq!(config.defaults().expected_replicas, 1);
    assert_eq!(config.http(), &Default::default());
    assert_eq!(config.http().headers, [HeaderStyle::Ietf]);
    assert_eq!((config.http().client_header.as_str(), config.http().ipv6_prefix), ("x-forwarded-for", 64));
    assert_eq!(config.http().trust_proxy, TrustProxy::Nobody);
}

#[test]
fn leases_are_a_capacity_and_a_time_to_live() {
    let config = toml("[limits.a]\nalgorithm = \"concurrency\"\ncapacity = 10\nttl = \"30s\"\nshards = 2\n").unwrap();
    let expected = Limit::new(Quota::concurrency(10, seconds(30)).unwrap()).shards(2).unwrap();
    assert_eq!(config.limits(), [("a".to_owned(), expected)]);
}

#[test]
fn a_config_of_envoy_files_alone_is_fine() {
    assert_eq!(toml("[envoy]\nconfigs = [\"a.yaml\"]").unwrap().limits().len(), 0);
    let config = toml("[http]\ntrust_proxy = 2\n[envoy]\nconfigs = [\"a.yaml\"]").unwrap();
    assert_eq!(config.http().trust_proxy, TrustProxy::hops(2));
    assert_eq!(yaml("http:\nlimits:\nenvoy: {configs: [a]}").unwrap().http(), &Default::default());
}

#[test]
fn an_alias_repeats_its_anchor() {
    let text = "limits:\n  a: &a {algorithm: sliding_log, rate: 2, period: 1s}\n  b: *a\n";
    let config = yaml(text).unwrap();
    assert_eq!(config.limits()[0].1, config.limits()[1].1);
}

#[test]
fn a_limiter_has_the_limits_the_prefix_and_the_deny_list() {
    let config = toml(FULL).unwrap();
    let store = Arc::new(MemoryStore::builder().clock(ManualClock::default()).build());
    let limiter = config.limiter().store(Arc::clone(&store)).build().unwrap();
    assert_eq!(limiter.names(), ["a.b", "api", "login", "search"]);
    let denied = limiter.limit("api", "192.0.2.9").now().unwrap().unwrap();
    assert!(!denied.allowed());
    let others = config.limiter().prefix("other").store(store).build().unwrap();
    assert_eq!(limiter.limit("api", "u1").cost(100).now().unwrap().unwrap().remaining(), 0);
    assert_eq!(others.limit("api", "u1").now().unwrap().unwrap().remaining(), 99);
}

#[test]
fn the_ending_of_a_file_says_the_syntax() {
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
