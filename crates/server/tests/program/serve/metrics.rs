//! `/metrics`, read by Prometheus's own client library for Python.

use std::collections::BTreeMap;
use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

use serde::Deserialize;
use tidegate_servers::{Redis, variable, wait_until};

use super::{LIMITS, PATIENT, Program, file, get, take};

/// Parses a page with Prometheus' own client, and prints the samples.
const READ: &str = "
import json, sys
from prometheus_client.parser import text_string_to_metric_families as read
families = [
    {'name': family.name, 'kind': family.type, 'help': family.documentation,
     'samples': [{'name': sample.name, 'labels': sample.labels, 'value': sample.value} for sample in family.samples]}
    for family in read(sys.stdin.read())]
json.dump(families, sys.stdout)
";

#[derive(Debug, Deserialize)]
struct Family {
    name: String,
    kind: String,
    help: String,
    samples: Vec<Sample>,
}

#[derive(Debug, Deserialize)]
struct Sample {
    name: String,
    labels: BTreeMap<String, String>,
    value: f64,
}

struct Page(Vec<Family>);

impl Page {
    fn of(program: &Program) -> Self {
        let mut python = Command::new("python3");
        python.args(["-c", READ]).env("PYTHONPATH", variable("TIDEGATE_PROMETHEUS_CLIENT"));
        let mut child = python.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("python3");
        child.stdin.take().expect("piped").write_all(get(program, "/metrics").as_bytes()).expect("read");
        let output = child.wait_with_output().expect("ends");
        assert!(output.status.success(), "the page cannot be read");
        let families: Vec<Family> = serde_json::from_slice(&output.stdout).expect("JSON");
        for family in &families {
            assert!(!family.help.is_empty(), "{} has no help", family.name);
            assert_ne!(family.kind, "unknown", "{} has no type", family.name);
        }
        Page(families)
    }

    fn family(&self, name: &str) -> &Family {
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
fn ask(program: &Program) {
    (0..7).for_each(|_| drop(take(program, "api", "u1")));
    (0..3).for_each(|_| drop(take(program, "login", "u1")));
    take(program, "login", "mallory");
}

fn each_decision_is_counted_once(page: &Page) {
    assert_eq!(page.decisions("api", "allowed", None), 5.0);
    assert_eq!(page.decisions("api", "denied", Some("rate")), 2.0);
    assert_eq!(page.decisions("login", "allowed", None), 2.0);
    assert_eq!(page.decisions("login", "denied", Some("rate")), 1.0);
    assert_eq!(page.decisions("login", "denied", Some("deny")), 1.0);
    assert_eq!(page.all_decisions(), 11.0);
    assert_eq!(page.family("tidegate_decisions").kind, "counter");
}

#[test]
fn the_memory_store_is_exported_in_full() {
    let program = Program::start(&["--config", &file("metrics-memory.toml", LIMITS)]);
    ask(&program);
    let page = Page::of(&program);
    each_decision_is_counted_once(&page);
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
fn an_invented_name_is_no_label() {
    let program = Program::start(&["--config", &file("metrics-unknown.toml", LIMITS)]);
    take(&program, "made-up", "u1");
    assert!(!get(&program, "/metrics").contains("made-up"));
}

#[test]
fn a_reload_keeps_the_counts_and_a_failed_one_is_exported() {
    let path = file("metrics-reload.toml", LIMITS);
    let program = Program::start(&["--config", &path]);
    ask(&program);
    let reloads = |result| Page::of(&program).value("tidegate_config_reloads_total", &[("result", result)]);
    let first = Page::of(&program).value("tidegate_config_loaded_timestamp_seconds", &[]);

    file("metrics-reload.toml", "[limits.other]\nalgorithm = \"sliding_log\"\nrate = 1\nperiod = \"1s\"\n");
    program.signal("HUP");
    assert!(wait_until(|| reloads("ok") >= 1.0));
    each_decision_is_counted_once(&Page::of(&program));
    file("metrics-reload.toml", LIMITS);
    program.signal("HUP");
    assert!(wait_until(|| reloads("ok") >= 2.0));
    take(&program, "api", "u2");
    let page = Page::of(&program);
    assert_eq!(page.decisions("api", "allowed", None), 6.0, "it goes on where it was");
    assert_eq!(page.value("tidegate_config_reload_ok", &[]), 1.0);
    assert!(page.value("tidegate_config_loaded_timestamp_seconds", &[]) > first);

    file("metrics-reload.toml", "[limits.api]\nrate = \"many\"\n");
    program.signal("HUP");
    assert!(wait_until(|| reloads("failed") >= 1.0));
    assert_eq!(Page::of(&program).value("tidegate_config_reload_ok", &[]), 0.0);
}

/// A server of its own, which can be broken.
fn redis() -> Redis {
    let (server, cli) = (variable("TIDEGATE_REDIS_SERVER"), variable("TIDEGATE_REDIS_CLI"));
    Redis::start(Path::new(&server), Path::new(&cli), &[]).expect("Redis starts")
}

#[test]
fn an_outside_store_is_exported_with_its_errors() {
    let mut redis = redis();
    let shadowed = "[limits.export]\nalgorithm = \"sliding_log\"\nrate = 1\nperiod = \"1d\"\nshadow = true\n";
    let config = file("metrics-redis.toml", format!("{PATIENT}{LIMITS}\n{shadowed}"));
    let program = Program::start(&["--config", &config, "--store", &redis.url()]);
    ask(&program);
    let page = Page::of(&program);
    each_decision_is_counted_once(&page);
    assert_eq!(page.family("tidegate_store_seconds").kind, "histogram");
    let calls = page.0.iter().flat_map(|family| &family.samples);
    let calls: f64 = calls.filter(|one| one.name == "tidegate_store_seconds_count").map(|one| one.value).sum();
    assert_eq!(calls, 10.0, "who is on a list costs no call");
    assert_eq!(page.value("tidegate_breaker_state", &[("store", "redis")]), 0.0);

    // The store fails and the policy admits: counting in both places would count twice.
    (0..3).for_each(|_| drop(take(&program, "export", "u1")));
    let page = Page::of(&program);
    assert_eq!(page.decisions("export", "allowed", None), 1.0);
    assert_eq!(page.decisions("export", "allowed", Some("rate")), 2.0);
    assert_eq!(page.all_decisions(), 14.0);

    redis.kill();
    assert_eq!(take(&program, "api", "u1")["reason"], "store");
    let page = Page::of(&program);
    assert_eq!(page.decisions("api", "allowed", Some("store")), 1.0);
    assert_eq!(page.all_decisions(), 15.0);
    let errors: f64 = page.family("tidegate_store_errors").samples.iter().map(|sample| sample.value).sum();
    assert!(errors >= 1.0);
    (0..10).for_each(|_| drop(take(&program, "api", "u1")));
    assert_eq!(Page::of(&program).value("tidegate_breaker_state", &[("store", "redis")]), 2.0);
    let (outside, memory) = (Page::of(&program), memory_page());
    every_alert_is_about_what_there_is(&outside, &memory);
    every_metric_is_in_the_guide(&outside, &memory);
}

fn memory_page() -> Page {
    Page::of(&Program::start(&["--config", &file("metrics-alerts.toml", LIMITS)]))
}

/// Every metric that the sample alerts speak of exists, by the name it has on the page.
fn every_alert_is_about_what_there_is(outside: &Page, memory: &Page) {
    let alerts = include_str!("../../../../../deploy/prometheus-alerts.yaml");
    let words = alerts.split(|sign: char| !sign.is_ascii_alphanumeric() && sign != '_');
    let named: Vec<&str> = words.filter(|word| word.starts_with("tidegate_")).collect();
    assert!(named.len() >= 8, "{named:?}");
    for name in named {
        let samples = outside.0.iter().chain(&memory.0).flat_map(|family| &family.samples);
        assert!(samples.into_iter().any(|sample| sample.name == name), "an alert speaks of {name}, which is not there");
    }
}

/// The guide's table has every metric of the page.
fn every_metric_is_in_the_guide(outside: &Page, memory: &Page) {
    let guide = include_str!("../../../../../docs/serve.md");
    let rows: String = guide.lines().filter(|line| line.starts_with("| `tidegate_")).collect();
    for family in outside.0.iter().chain(&memory.0) {
        let mut names = family.samples.iter().map(|sample| sample.name.trim_end_matches("_bucket"));
        let named = names.any(|name| rows.contains(&format!("`{name}`")));
        assert!(named, "docs/serve.md does not name {}", family.name);
    }
}
