//! `/metrics`, read by Prometheus's own client library for Python.

use std::collections::BTreeMap;
use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

use serde::Deserialize;
use tidegate_servers::{Redis, required_env, wait_until};

use super::{LIMITS, LONG_STORE_TIMEOUT, Program, get, post_limit, write_file};

/// Parses a page with Prometheus' own client, and prints the samples.
const PARSE_SCRIPT: &str = "
import json, sys
from prometheus_client.parser import text_string_to_metric_families as read
families = [
    {'name': family.name, 'kind': family.type, 'help': family.documentation,
     'samples': [{'name': sample.name, 'labels': sample.labels, 'value': sample.value} for sample in family.samples]}
    for family in read(sys.stdin.read())]
json.dump(families, sys.stdout)
";

#[derive(Debug, Deserialize)]
struct MetricFamily {
    name: String,
    kind: String,
    help: String,
    samples: Vec<MetricSample>,
}

#[derive(Debug, Deserialize)]
struct MetricSample {
    name: String,
    labels: BTreeMap<String, String>,
    value: f64,
}

struct MetricsPage(Vec<MetricFamily>);

impl MetricsPage {
    fn fetch(program: &Program) -> Self {
        let mut python = Command::new("python3");
        python.args(["-c", PARSE_SCRIPT]).env("PYTHONPATH", required_env("TIDEGATE_PROMETHEUS_CLIENT"));
        let mut child = python.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("python3");
        child.stdin.take().expect("piped").write_all(get(program, "/metrics").as_bytes()).expect("read");
        let output = child.wait_with_output().expect("ends");
        assert!(output.status.success(), "the page cannot be read");
        let families: Vec<MetricFamily> = serde_json::from_slice(&output.stdout).expect("JSON");
        for family in &families {
            assert!(!family.help.is_empty(), "{} has no help", family.name);
            assert_ne!(family.kind, "unknown", "{} has no type", family.name);
        }
        MetricsPage(families)
    }

    fn family(&self, name: &str) -> &MetricFamily {
        self.0.iter().find(|family| family.name == name).unwrap_or_else(|| panic!("there is no {name}"))
    }

    /// Returns the value with exactly these labels; 0 without one, as Prometheus sums.
    fn value(&self, name: &str, labels: &[(&str, &str)]) -> f64 {
        let labels: BTreeMap<_, _> = labels.iter().map(|(name, value)| ((*name).into(), (*value).into())).collect();
        let samples = self.0.iter().flat_map(|family| &family.samples);
        samples.filter(|sample| sample.name == name && sample.labels == labels).map(|sample| sample.value).sum()
    }

    fn decisions(&self, limit: &str, outcome: &str, reason: Option<&str>) -> f64 {
        let mut labels = vec![("limit", limit), ("outcome", outcome)];
        labels.extend(reason.map(|reason| ("reason", reason)));
        self.value("tidegate_decisions_total", &labels)
    }

    fn all_decisions(&self) -> f64 {
        self.family("tidegate_decisions").samples.iter().map(|sample| sample.value).sum()
    }
}

/// Seven of `api`, two of them denied; three of `login`, one of them denied; and one on a deny list.
fn send_decisions(program: &Program) {
    (0..7).for_each(|_| drop(post_limit(program, "api", "u1")));
    (0..3).for_each(|_| drop(post_limit(program, "login", "u1")));
    post_limit(program, "login", "mallory");
}

fn assert_each_decision_is_counted_once(page: &MetricsPage) {
    assert_eq!(page.decisions("api", "allowed", None), 5.0);
    assert_eq!(page.decisions("api", "denied", Some("rate")), 2.0);
    assert_eq!(page.decisions("login", "allowed", None), 2.0);
    assert_eq!(page.decisions("login", "denied", Some("rate")), 1.0);
    assert_eq!(page.decisions("login", "denied", Some("deny")), 1.0);
    assert_eq!(page.all_decisions(), 11.0);
    assert_eq!(page.family("tidegate_decisions").kind, "counter");
}

#[cfg(feature = "_real-servers")]
#[test]
fn the_memory_store_is_exported_in_full() {
    let program = Program::start(&["--config", &write_file("metrics-memory.toml", LIMITS)]);
    send_decisions(&program);
    let page = MetricsPage::fetch(&program);
    assert_each_decision_is_counted_once(&page);
    assert_eq!(page.value("tidegate_memory_keys", &[]), 2.0);
    assert!(page.value("tidegate_memory_bytes", &[]) > 0.0);
    assert_eq!(page.family("tidegate_memory_forgotten_busy").samples[0].value, 0.0);
    assert_eq!(page.value("tidegate_limits", &[]), 2.0);
    let version = env!("CARGO_PKG_VERSION");
    assert_eq!(page.value("tidegate_build_info", &[("store", "memory"), ("version", version)]), 1.0);
    assert!(page.value("tidegate_start_time_seconds", &[]) > 1.7e9);
    assert!(page.value("tidegate_uptime_seconds", &[]) > 0.0);
    assert!(page.value("tidegate_connections", &[("port", "http")]) >= 1.0, "the one that asks");
    assert_eq!(page.value("tidegate_connections", &[("port", "resp")]), 0.0);
    let text = get(&program, "/metrics");
    assert!(!text.contains("mallory") && !text.contains("u1"), "a key is in the metrics: {text}");
}

#[test]
fn an_unknown_limit_name_is_no_label() {
    let program = Program::start(&["--config", &write_file("metrics-unknown.toml", LIMITS)]);
    post_limit(&program, "made-up", "u1");
    assert!(!get(&program, "/metrics").contains("made-up"));
}

#[cfg(feature = "_real-servers")]
#[test]
fn a_reload_keeps_the_counts_and_a_failed_one_is_exported() {
    let path = write_file("metrics-reload.toml", LIMITS);
    let program = Program::start(&["--config", &path]);
    send_decisions(&program);
    let reloads = |result| MetricsPage::fetch(&program).value("tidegate_config_reloads_total", &[("result", result)]);
    let first = MetricsPage::fetch(&program).value("tidegate_config_loaded_timestamp_seconds", &[]);

    write_file("metrics-reload.toml", "[limits.other]\nalgorithm = \"sliding_log\"\nrate = 1\nperiod = \"1s\"\n");
    program.signal("HUP");
    assert!(wait_until(|| reloads("ok") >= 1.0));
    assert_each_decision_is_counted_once(&MetricsPage::fetch(&program));
    write_file("metrics-reload.toml", LIMITS);
    program.signal("HUP");
    assert!(wait_until(|| reloads("ok") >= 2.0));
    post_limit(&program, "api", "u2");
    let page = MetricsPage::fetch(&program);
    assert_eq!(page.decisions("api", "allowed", None), 6.0, "it goes on where it was");
    assert_eq!(page.value("tidegate_config_reload_ok", &[]), 1.0);
    assert!(page.value("tidegate_config_loaded_timestamp_seconds", &[]) > first);

    write_file("metrics-reload.toml", "[limits.api]\nrate = \"many\"\n");
    program.signal("HUP");
    assert!(wait_until(|| reloads("failed") >= 1.0));
    assert_eq!(MetricsPage::fetch(&program).value("tidegate_config_reload_ok", &[]), 0.0);
}

/// Starts a server of its own, which the test can break.
fn start_redis() -> Redis {
    let (server, cli) = (required_env("TIDEGATE_REDIS_SERVER"), required_env("TIDEGATE_REDIS_CLI"));
    Redis::start(Path::new(&server), Path::new(&cli), &[]).expect("Redis starts")
}

#[cfg(feature = "_real-servers")]
#[test]
fn an_external_store_is_exported_with_its_errors() {
    let mut redis = start_redis();
    let shadowed = "[limits.export]\nalgorithm = \"sliding_log\"\nrate = 1\nperiod = \"1d\"\nshadow = true\n";
    let config = write_file("metrics-redis.toml", format!("{LONG_STORE_TIMEOUT}{LIMITS}\n{shadowed}"));
    let program = Program::start(&["--config", &config, "--store", &redis.url()]);
    send_decisions(&program);
    let page = MetricsPage::fetch(&program);
    assert_each_decision_is_counted_once(&page);
    assert_eq!(page.family("tidegate_store_seconds").kind, "histogram");
    let calls = page.0.iter().flat_map(|family| &family.samples);
    let calls: f64 = calls.filter(|one| one.name == "tidegate_store_seconds_count").map(|one| one.value).sum();
    assert_eq!(calls, 10.0, "who is on a list costs no call");
    assert_eq!(page.value("tidegate_breaker_state", &[("store", "redis")]), 0.0);

    // The store fails and the policy admits: counting in both places would count twice.
    (0..3).for_each(|_| drop(post_limit(&program, "export", "u1")));
    let page = MetricsPage::fetch(&program);
    assert_eq!(page.decisions("export", "allowed", None), 1.0);
    assert_eq!(page.decisions("export", "allowed", Some("rate")), 2.0);
    assert_eq!(page.all_decisions(), 14.0);

    // With keys that were not denied before, because a cached denial stays a denial.
    redis.kill();
    assert_eq!(post_limit(&program, "api", "u9")["reason"], "store");
    let page = MetricsPage::fetch(&program);
    assert_eq!(page.decisions("api", "allowed", Some("store")), 1.0);
    assert_eq!(page.all_decisions(), 15.0);
    let errors: f64 = page.family("tidegate_store_errors").samples.iter().map(|sample| sample.value).sum();
    assert!(errors >= 1.0);
    (0..10).for_each(|_| drop(post_limit(&program, "api", "u9")));
    assert_eq!(MetricsPage::fetch(&program).value("tidegate_breaker_state", &[("store", "redis")]), 2.0);
    let (outside, memory) = (MetricsPage::fetch(&program), memory_metrics_page());
    assert_alerts_name_existing_metrics(&outside, &memory);
    assert_guide_names_every_metric(&outside, &memory);
}

fn memory_metrics_page() -> MetricsPage {
    MetricsPage::fetch(&Program::start(&["--config", &write_file("metrics-alerts.toml", LIMITS)]))
}

/// Asserts that every metric of the sample alerts exists by that name on a page.
fn assert_alerts_name_existing_metrics(outside: &MetricsPage, memory: &MetricsPage) {
    let alerts = include_str!("../../../../../deploy/prometheus-alerts.yaml");
    let words = alerts.split(|sign: char| !sign.is_ascii_alphanumeric() && sign != '_');
    let named: Vec<&str> = words.filter(|word| word.starts_with("tidegate_")).collect();
    assert!(named.len() >= 8, "{named:?}");
    for name in named {
        let samples = outside.0.iter().chain(&memory.0).flat_map(|family| &family.samples);
        assert!(samples.into_iter().any(|sample| sample.name == name), "an alert speaks of {name}, which is not there");
    }
}

/// Asserts that the table of the guide has every metric of the pages.
fn assert_guide_names_every_metric(outside: &MetricsPage, memory: &MetricsPage) {
    let guide = include_str!("../../../../../docs/book/src/reference/serve.md");
    let rows: String = guide.lines().filter(|line| line.starts_with("| `tidegate_")).collect();
    for family in outside.0.iter().chain(&memory.0) {
        let mut names = family.samples.iter().map(|sample| sample.name.trim_end_matches("_bucket"));
        let named = names.any(|name| rows.contains(&format!("`{name}`")));
        assert!(named, "docs/book/src/reference/serve.md does not name {}", family.name);
    }
}
