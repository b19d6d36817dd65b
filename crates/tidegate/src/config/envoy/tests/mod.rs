//! Tests of Envoy rate limit files: accepted and rejected fields, several files, and the examples of the guide.

mod matching;

use std::path::PathBuf;
use std::time::Duration;

use tidegate_core::{Algorithm, Quota, minutes};

use super::{Domains, MatchedLimit, RuleMatch, Unit, is_config};
use crate::config::{Config, Syntax};
use crate::limiter::Limit;

#[track_caller]
fn domains(text: &str) -> Domains {
    Domains::parse(text, "t.yaml").unwrap_or_else(|errors| panic!("{errors}\nin:\n{text}"))
}

/// The errors, as displayed.
#[track_caller]
fn errors_of(text: &str) -> String {
    Domains::parse(text, "t.yaml").expect_err(text).to_string()
}

/// The name of the limit and the text of the key.
fn matched(found: &RuleMatch<'_>) -> String {
    match found {
        RuleMatch::NoRule => "nothing".to_owned(),
        RuleMatch::Unlimited => "unlimited".to_owned(),
        RuleMatch::Limited(limited) => format!("{} {}", limited.limit, limited.key.to_text()),
    }
}

#[track_caller]
fn limited<'a>(domains: &'a Domains, entries: &'a [(&'a str, &'a str)]) -> MatchedLimit<'a> {
    match domains.find("d", entries) {
        RuleMatch::Limited(limited) => limited,
        found => panic!("{found:?} for {entries:?}"),
    }
}

/// The lines of a descriptor, and the limit of a request with the key `k` and value `v`.
#[test]
fn fields_are_read_as_upstream_reads_them() {
    let cases = [
        ("key: k\n  rate_limit: {unit: minute, requests_per_unit: 5}", "d.k v"),
        ("key: k\n  value: v\n  rate_limit: {unit: minute, requests_per_unit: 5}", "d.k_v v"),
        ("key: k\n  value: \"v\"\n  rate_limit: {requests_per_unit: 5, unit: MINUTE}", "d.k_v v"),
        ("key: k\n  value:\n  rate_limit: {unit: Hour, requests_per_unit: 5}", "d.k v"),
        ("key: k\n  value: \"\"\n  rate_limit: {unit: dAy, requests_per_unit: 5}", "d.k v"),
        ("key: k\n  value: ~\n  rate_limit: {unit: second, requests_per_unit: 5}", "d.k v"),
        ("key: k\n  value: v*\n  rate_limit: {unit: second, requests_per_unit: 5}", "d.k_v* v"),
        ("key: k\n  value: '*'\n  rate_limit: {unit: second, requests_per_unit: 5}", "d.k_* v"),
        ("key: k\n  rate_limit: {unit: week, requests_per_unit: 4294967295}", "d.k v"),
        ("key: k\n  rate_limit: {unit: month, requests_per_unit: 1_000_000}", "d.k v"),
        ("key: k\n  rate_limit: {unit: year, requests_per_unit: 0}", "d.k v"),
        ("key: k\n  rate_limit: {unlimited: true}", "unlimited"),
        ("key: k\n  rate_limit: {unlimited: yes, unit: '', requests_per_unit: 7}", "unlimited"),
        ("key: k\n  rate_limit: {unlimited: true, unit: , name: n, replaces: [{name: m}]}", "unlimited"),
        ("key: k\n  rate_limit: {unlimited: false, unit: day, requests_per_unit: 1}", "d.k v"),
        ("key: k\n  rate_limit: {unit: day, requests_per_unit: 1, name: 5, replaces: }", "d.k v"),
        ("key: k\n  rate_limit:", "nothing"),
        ("key: k", "nothing"),
        ("key: k\n  descriptors:", "nothing"),
        ("key: k\n  descriptors: []\n  rate_limit: {unit: day, requests_per_unit: 1}", "d.k v"),
        ("key: k\n  shadow_mode: on\n  quota_mode: no\n  rate_limit: {unit: day, requests_per_unit: 1}", "d.k v"),
        (
            "key: k\n  detailed_metric: true\n  value_to_metric: True\n  rate_limit: {unit: day, requests_per_unit: 1}",
            "d.k v",
        ),
        ("key: k\n  value: v*\n  share_threshold: true\n  rate_limit: {unit: day, requests_per_unit: 1}", "d.k_v* v*"),
        ("key: k\n  share_threshold: false\n  rate_limit: {unit: day, requests_per_unit: 1}", "d.k v"),
        (
            "key: k\n  metadata: {any: [thing, {of: 5}], at: 1.5}\n  rate_limit: {unit: day, requests_per_unit: 1}",
            "d.k v",
        ),
        ("key: k\n  metadata: word\n  rate_limit: {unit: day, requests_per_unit: 1, unit_multiplier: 3}", "d.k v"),
        ("key: k\n  rate_limit: {unit: day, requests_per_unit: 1, algorithm: token_bucket}", "d.k v"),
        ("key: a\n  rate_limit: &r {unit: day, requests_per_unit: 1}\n- key: k\n  rate_limit: *r", "d.k v"),
        (
            "key: a\n  rate_limit: &r {unit: day, requests_per_unit: 1}\n- key: k\n  rate_limit:\n    <<: *r\n    unit: hour",
            "d.k v",
        ),
        ("&a\n  key: a\n  rate_limit: {unit: day, requests_per_unit: 1}\n- <<: [{key: k}, *a]", "d.k v"),
    ];
    for (lines, expected) in cases {
        let text = format!("domain: d\ndescriptors:\n- {lines}\n");
        assert_eq!(matched(&domains(&text).find("d", &[("k", "v")])), expected, "{text}");
    }
}

#[test]
fn numbers_and_booleans_are_texts_where_one_is_expected() {
    for value in ["80", "true", "True", "FALSE", "0x1F", "010", "1.50", "-1", "yes", "2024-01-02", "1_000", "!!str 5"] {
        let text = format!(
            "domain: d\ndescriptors:\n- {{key: 404, value: {value}, rate_limit: {{unit: day, requests_per_unit: 1}}}}\n"
        );
        let value = value.trim_start_matches("!!str ");
        let expected = format!("d.404_{value} {value}");
        assert_eq!(matched(&domains(&text).find("d", &[("404", value)])), expected, "{text}");
    }
    let domains = domains("domain: 7\ndescriptors:\n- {key: off, rate_limit: {unit: day, requests_per_unit: 1}}\n");
    assert_eq!(matched(&domains.find("7", &[("off", "v")])), "7.off v");
}

#[test]
fn domain_without_rules_is_valid() {
    for text in ["domain: d\n", "---\ndomain: d\ndescriptors:\n", "\u{feff}domain: d\r\ndescriptors: []\r\n"] {
        let domains = domains(text);
        assert_eq!(matched(&domains.find("d", &[("k", "v")])), "nothing");
        assert_eq!(domains.limits().map(|(name, _)| name).collect::<Vec<_>>(), ["d.(override)"]);
    }
}

#[test]
fn rate_is_per_unit() {
    let second = 1_000_000_u64;
    let day = 86_400 * second;
    let units = [
        ("second", Unit::Second, second),
        ("minute", Unit::Minute, 60 * second),
        ("hour", Unit::Hour, 3_600 * second),
        ("day", Unit::Day, day),
        ("week", Unit::Week, 7 * day),
        ("month", Unit::Month, 30 * day),
        ("year", Unit::Year, 365 * day),
    ];
    for (word, unit, micros) in units {
        for word in [word.to_owned(), word.to_uppercase()] {
            let text =
                format!("domain: d\ndescriptors:\n- {{key: k, rate_limit: {{unit: {word}, requests_per_unit: 9}}}}\n");
            let domains = domains(&text);
            let found = limited(&domains, &[("k", "v")]);
            assert_eq!((found.unit, found.requests_per_unit, found.quota), (unit, 9, None));
            let (_, limit) = domains.limits().last().unwrap();
            assert_eq!(limit, Limit::new(Quota::fixed_window(9, Duration::from_micros(micros)).unwrap()));
        }
        assert_eq!(unit.to_string(), word);
    }
}

#[test]
fn extensions_set_algorithm_and_multiplier() {
    let text = "
domain: d
descriptors:
- {key: a, rate_limit: {unit: minute, requests_per_unit: 20, unit_multiplier: 5}}
- {key: b, rate_limit: {unit: minute, requests_per_unit: 20, algorithm: sliding_log}}
- {key: c, rate_limit: {unit: day, requests_per_unit: 20, algorithm: sliding_window, unit_multiplier: 366}}
- {key: e, rate_limit: {unit: second, requests_per_unit: 20, algorithm: fixed_window, unit_multiplier: 31622400}}
";
    let domains = domains(text);
    let quotas: Vec<_> = domains.limits().skip(1).map(|(_, limit)| *limit.quota()).collect();
    let quota = |algorithm, minutes_long| Quota::new(algorithm, 20, minutes(minutes_long)).unwrap();
    let expected = [
        quota(Algorithm::FixedWindow, 5),
        quota(Algorithm::SlidingLog, 1),
        quota(Algorithm::SlidingWindow, 366 * 1_440),
        quota(Algorithm::FixedWindow, 366 * 1_440),
    ];
    assert_eq!(quotas, expected);
}

const COUNT: &str = "a whole number from 0 to 4294967295";
const UNITS: &str = r#"one of "second", "minute", "hour", "day", "week", "month", "year""#;
const KEY: &str = "a key of one character or more, without `*`: wildcards are for values";
const ALGORITHMS: &str = r#"one of "token_bucket", "fixed_window", "sliding_window", "sliding_log""#;

/// Lines after `domain: d` and `descriptors:`, and their errors.
#[test]
fn rejected_rules_have_positions() {
    let descriptors = "descriptors[0]";
    let rate = "descriptors[0].rate_limit";
    let cases = [
        ("- value: v", format!("3:3: {descriptors}.key: missing, expected {KEY}")),
        ("- key: ''", format!("3:8: {descriptors}.key: found \"\", expected {KEY}")),
        ("- key:", format!("3:6: {descriptors}.key: found nothing, expected {KEY}")),
        ("- key: a*", format!("3:8: {descriptors}.key: found \"a*\", expected {KEY}")),
        ("- key: [a]", format!("3:8: {descriptors}.key: found a list, expected {KEY}")),
        ("- key: a\n  value: {b: c}", format!("4:10: {descriptors}.value: found a table, expected a text")),
        ("- a", format!("3:3: {descriptors}: found \"a\", expected a table")),
        ("- key: a\n  vlaue: b", format!("4:3: {descriptors}.vlaue: unknown field, did you mean `value`?")),
        (
            "- key: a\n  requests_per_unit: 5",
            format!(
                "4:3: {descriptors}.requests_per_unit: unknown field, expected one of key, value, rate_limit, \
                 shadow_mode, quota_mode, detailed_metric, value_to_metric, share_threshold, metadata, descriptors"
            ),
        ),
        ("- key: a\n- key: b\n- key: a", "5:8: descriptors[2].key: \"a\" without a value is there twice, first in line 3: expected each key and value once".to_owned()),
        ("- key: a\n  value: '*'\n- value: '*'\n  key: a", "6:8: descriptors[1].key: \"a\" with the value \"*\" is there twice, first in line 3: expected each key and value once".to_owned()),
        ("- key: a\n  value: 80\n- {key: a, value: '80'}", "5:9: descriptors[1].key: \"a\" with the value \"80\" is there twice, first in line 3: expected each key and value once".to_owned()),
        ("- key: a\n  descriptors:\n  - key: b\n  - key: b", "6:10: descriptors[0].descriptors[1].key: \"b\" without a value is there twice, first in line 5: expected each key and value once".to_owned()),
        ("- key: a\n  descriptors:\n  - key: b\n    rate_limit: {unit: eon, requests_per_unit: 1}", format!("6:24: descriptors[0].descriptors[0].rate_limit.unit: found \"eon\", expected {UNITS}")),
        ("- key: a\n  descriptors: {key: b}", format!("4:16: {descriptors}.descriptors: found a table, expected a list of descriptors, such as [{{key: path}}]")),
        ("- key: a\n  share_threshold: true", format!("4:20: {descriptors}.share_threshold: share_threshold is for values with a wildcard: expected a `*` in the value")),
        ("- key: a\n  value: b\n  share_threshold: true", format!("5:20: {descriptors}.share_threshold: share_threshold is for values with a wildcard: expected a `*` in the value")),
        ("- key: a\n  shadow_mode: maybe", format!("4:16: {descriptors}.shadow_mode: found \"maybe\", expected true or false")),
        ("- key: a\n  quota_mode: 1", format!("4:15: {descriptors}.quota_mode: found 1, expected true or false")),
        ("- key: a\n  detailed_metric: []", format!("4:20: {descriptors}.detailed_metric: found a list, expected true or false")),
        ("- key: a\n  value_to_metric: 'true'", format!("4:20: {descriptors}.value_to_metric: found \"true\", expected true or false")),
        ("- key: a\n  rate_limit: 5", format!("4:15: {rate}: found 5, expected a table")),
        ("- key: a\n  rate_limit: {}", format!("4:3: {rate}.unit: missing, expected {UNITS}\nt.yaml:4:3: {rate}.requests_per_unit: missing, expected {COUNT}")),
        ("- key: a\n  rate_limit: {unit: minutes, requests_per_unit: 5}", format!("4:22: {rate}.unit: found \"minutes\", expected {UNITS}")),
        ("- key: a\n  rate_limit: {unit: unknown, requests_per_unit: 5}", format!("4:22: {rate}.unit: found \"unknown\", expected {UNITS}")),
        ("- key: a\n  rate_limit: {unit: 60, requests_per_unit: 5}", format!("4:22: {rate}.unit: found 60, expected {UNITS}")),
        ("- key: a\n  rate_limit: {unit: day, requests_per_unit: -1}", format!("4:46: {rate}.requests_per_unit: found -1, expected {COUNT}")),
        ("- key: a\n  rate_limit: {unit: day, requests_per_unit: 4294967296}", format!("4:46: {rate}.requests_per_unit: found 4294967296, expected {COUNT}")),
        ("- key: a\n  rate_limit: {unit: day, requests_per_unit: 1.5}", format!("4:46: {rate}.requests_per_unit: found 1.5, expected {COUNT}")),
        ("- key: a\n  rate_limit: {unit: day, requests_per_unit: '5'}", format!("4:46: {rate}.requests_per_unit: found \"5\", expected {COUNT}")),
        ("- key: a\n  rate_limit: {unit: day, requests_per_unit: }", format!("4:44: {rate}.requests_per_unit: found nothing, expected {COUNT}")),
        ("- key: a\n  rate_limit: {unlimited: true, unit: day}", format!("4:39: {rate}.unit: found \"day\", expected no unit beside `unlimited: true`")),
        ("- key: a\n  rate_limit: {unlimited: true, algorithm: sliding_log, unit_multiplier: 2}", format!("4:44: {rate}.algorithm: found \"sliding_log\", expected no algorithm beside `unlimited: true`\nt.yaml:4:74: {rate}.unit_multiplier: found 2, expected no unit_multiplier beside `unlimited: true`")),
        ("- key: a\n  rate_limit: {unlimited: true, requests_per_unit: many}", format!("4:52: {rate}.requests_per_unit: found \"many\", expected {COUNT}")),
        ("- key: a\n  rate_limit: {unit: day, requests_per_unit: 5, unit_multiplier: 0}", format!("4:66: {rate}.unit_multiplier: found 0, expected a whole number from 1 to 366")),
        ("- key: a\n  rate_limit: {unit: year, requests_per_unit: 5, unit_multiplier: 2}", format!("4:67: {rate}.unit_multiplier: found 2, expected a whole number from 1 to 1")),
        ("- key: a\n  rate_limit: {unit: week, requests_per_unit: 0, unit_multiplier: 53}", format!("4:67: {rate}.unit_multiplier: found 53, expected a whole number from 1 to 52")),
        ("- key: a\n  rate_limit: {unit: second, requests_per_unit: 5, unit_multiplier: 31622401}", format!("4:69: {rate}.unit_multiplier: found 31622401, expected a whole number from 1 to 31622400")),
        ("- key: a\n  rate_limit: {unit: day, requests_per_unit: 5, algorithm: leaky}", format!("4:60: {rate}.algorithm: found \"leaky\", expected {ALGORITHMS}")),
        ("- key: a\n  rate_limit: {unit: day, requests_per_unit: 5, name: n, replaces: [{name: m}, {name: n}]}", format!("4:87: {rate}.replaces[1].name: found \"n\", expected the name of another rule, not the rule's own")),
        ("- key: a\n  rate_limit: {unit: day, requests_per_unit: 5, replaces: [{name: ''}]}", format!("4:67: {rate}.replaces[0].name: found \"\", expected the name of another rule")),
        ("- key: a\n  rate_limit: {unit: day, requests_per_unit: 5, replaces: [{}]}", format!("4:60: {rate}.replaces[0].name: missing, expected the name of another rule")),
        ("- key: a\n  rate_limit: {unit: day, requests_per_unit: 5, replaces: [m]}", format!("4:60: {rate}.replaces[0]: found \"m\", expected a table")),
        ("- key: a\n  rate_limit: {unit: day, requests_per_unit: 5, replaces: m}", format!("4:59: {rate}.replaces: found \"m\", expected a list of names, such as [{{name: other}}]")),
        ("- key: a\n  rate_limit: {unit: day, requests_per_units: 5}", format!("4:3: {rate}.requests_per_unit: missing, expected {COUNT}\nt.yaml:4:27: {rate}.requests_per_units: unknown field, did you mean `requests_per_unit`?")),
        ("- key: a\n  key: b", format!("4:3: {descriptors}.key: `key` is there twice, first in line 3: expected each name once")),
        ("- key: a\n  <<: 5", format!("4:3: {descriptors}.\"<<\": unknown field, expected one of key, value, rate_limit, shadow_mode, quota_mode, detailed_metric, value_to_metric, share_threshold, metadata, descriptors")),
    ];
    for (lines, expected) in cases {
        let text = format!("domain: d\ndescriptors:\n{lines}\n");
        assert_eq!(errors_of(&text), format!("t.yaml:{expected}"), "{text}");
    }
}

#[test]
fn rejected_files_have_positions() {
    let list = "expected a list of descriptors, such as [{key: path}]";
    let cases = [
        ("", "1:1: domain: missing, expected the name of the domain".to_owned()),
        ("descriptors: []", "1:1: domain: missing, expected the name of the domain".to_owned()),
        ("domain:", "1:7: domain: found nothing, expected the name of the domain".to_owned()),
        ("domain: ''", "1:9: domain: found \"\", expected the name of the domain".to_owned()),
        ("domain: [a]", "1:9: domain: found a list, expected the name of the domain".to_owned()),
        (
            "domain: a\ndomain: b",
            "2:1: domain: `domain` is there twice, first in line 1: expected each name once".to_owned(),
        ),
        ("domain: a\ndescriptor: []", "2:1: descriptor: unknown field, did you mean `descriptors`?".to_owned()),
        ("domain: a\nlimits: {}", "2:1: limits: unknown field, expected one of domain, descriptors".to_owned()),
        ("domain: a\ndescriptors: 5", format!("2:14: descriptors: found 5, {list}")),
        ("- domain: a", "1:1: found a list, expected a table".to_owned()),
        ("domain: a\n---\ndomain: b", "3:1: a second document: expected one".to_owned()),
        ("domain: 'a", "1:9: while scanning a quoted scalar, found unexpected end of stream".to_owned()),
    ];
    for (text, expected) in cases {
        assert_eq!(errors_of(text), format!("t.yaml:{expected}"), "{text}");
    }
}

#[test]
fn all_errors_are_reported_at_once() {
    let text = "descriptors:\n- rate_limit: {unit: x}\n- key: a\n  oops: 1\n  descriptors:\n  - share_threshold: true\n    value: b\n    key: c\n";
    let told = errors_of(text);
    let places: Vec<_> = told.lines().map(|line| line.split(' ').take(2).collect::<Vec<_>>().join(" ")).collect();
    let expected = [
        "t.yaml:1:1: domain:",
        "t.yaml:2:3: descriptors[0].key:",
        "t.yaml:2:3: descriptors[0].rate_limit.requests_per_unit:",
        "t.yaml:2:22: descriptors[0].rate_limit.unit:",
        "t.yaml:4:3: descriptors[1].oops:",
        "t.yaml:6:22: descriptors[1].descriptors[0].share_threshold:",
    ];
    assert_eq!(places, expected);
}

const RULE: &str = "descriptors:\n- {key: k, rate_limit: {unit: day, requests_per_unit: 1}}\n";

/// A temporary folder with these files.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str, files: &[(&str, &[u8])]) -> Self {
        let folder = std::env::temp_dir().join(format!("tidegate-envoy-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        for (name, bytes) in files {
            std::fs::write(folder.join(name), bytes).unwrap();
        }
        Folder(folder)
    }

    fn read(&self, names: &[&str]) -> Result<Domains, String> {
        Domains::from_paths(names.iter().map(|name| self.0.join(name)))
            .map_err(|errors| errors.to_string().replace(&format!("{}/", self.0.display()), ""))
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        drop(std::fs::remove_dir_all(&self.0));
    }
}

#[test]
fn several_files_are_several_domains() {
    let (a, b) = (format!("domain: a\n{RULE}"), format!("domain: a.k\n{RULE}"));
    let folder = Folder::new("several", &[("a.yaml", a.as_bytes()), ("b.yaml", b.as_bytes())]);
    let domains = folder.read(&["a.yaml", "b.yaml"]).unwrap();
    assert_eq!(matched(&domains.find("a", &[("k", "v")])), "a.k v");
    assert_eq!(matched(&domains.find("a.k", &[("k", "v")])), "a.k.k v");
    let names: Vec<_> = domains.limits().map(|(name, _)| name).collect();
    assert_eq!(names, ["a.(override)", "a.k", "a.k.(override)", "a.k.k"]);
    assert_eq!(folder.read(&[]).unwrap(), Domains::default());
}

#[test]
fn errors_are_reported_per_file() {
    let files: [(&str, &[u8]); 5] = [
        ("a.yaml", b"# ours\ndomain: a\n"),
        ("b.yaml", b"domain: a\ndescriptors: 5\n"),
        ("c.yaml", b"domain: b\noops: 1\n"),
        ("d.yaml", b"domain: b\n"),
        ("e.yaml", b"domain: caf\xe9\n"),
    ];
    let folder = Folder::new("wrong", &files);
    let told = folder.read(&["a.yaml", "b.yaml", "c.yaml", "none.yaml", "d.yaml", "e.yaml"]).unwrap_err();
    let told: Vec<_> = told.lines().map(|line| line.replace(&format!("{}/", folder.0.display()), "")).collect();
    assert_eq!(
        told[0],
        "b.yaml:1:9: domain: the domain \"a\" is there twice, first in a.yaml:2: expected each domain once"
    );
    assert_eq!(told[1], "b.yaml:2:14: descriptors: found 5, expected a list of descriptors, such as [{key: path}]");
    assert_eq!(told[2], "c.yaml:2:1: oops: unknown field, expected one of domain, descriptors");
    assert!(told[3].starts_with("none.yaml: cannot be read: "), "{}", told[3]);
    assert_eq!(
        told[4],
        "d.yaml:1:9: domain: the domain \"b\" is there twice, first in c.yaml:1: expected each domain once"
    );
    assert_eq!(told[5], "e.yaml:1:12: not a text: expected UTF-8");
    assert_eq!(told.len(), 6);
}

#[test]
fn rate_limit_files_and_configs_are_distinguished() {
    for text in [
        "domain: d\n",
        "# a comment\n---\ndescriptors: []\ndomain: d\n",
        "descriptors:\n- key: k\n",
        "\u{feff}\"domain\": d\n",
        "{descriptors: [{key: [a]}], domain: d}",
        "x: {y: z}\nl: [1, 2]\na: &a b\nc: *a\ndomain: d\n",
        // Broken after that.
        "domain: d\ndescriptors: [",
    ] {
        assert!(is_config(text), "{text}");
    }
    let toml = "[limits.domain]\nalgorithm = \"sliding_log\"\nrate = 1\nperiod = \"1s\"\n";
    let yaml = "limits:\n  domain: {algorithm: sliding_log, rate: 1, period: 1s}\nhttp:\n";
    assert!(Config::parse(toml, Syntax::Toml, "t").is_ok() && Config::parse(yaml, Syntax::Yaml, "t").is_ok());
    for text in [
        toml,
        yaml,
        "",
        "domain",
        "- domain: d\n",
        "limits: domain\n",
        "a: [b, domain]\n",
        "? domain: d\n: x\n",
        "a: 1\n---\ndomain: d\n",
        "domain = 'd'\n",
        "\"domain",
        "}{",
    ] {
        assert!(!is_config(text), "{text}");
    }
    assert!(!is_config(&"[".repeat(50_000)) && !is_config(&"{a: ".repeat(50_000)));
}

const GUIDE: &str = include_str!("../../../../../../docs/book/src/reference/envoy-config.md");

/// The YAML blocks of the guide.
fn examples() -> Vec<&'static str> {
    GUIDE.split("```yaml\n").skip(1).map(|rest| rest.split("```").next().unwrap()).collect()
}

#[test]
fn examples_of_the_guide_are_valid() {
    let examples = examples();
    assert!(examples.len() >= 4, "{}", examples.len());
    for text in examples {
        assert!(is_config(text), "{text}");
        domains(text);
    }
}

#[test]
fn first_example_of_the_guide_matches_as_described() {
    let domains = domains(examples()[0]);
    // Lines such as `| (remote_address, 192.0.2.1) | edge.remote_address |`.
    let mut seen = 0;
    for line in GUIDE.lines().filter(|line| line.starts_with("| `(")) {
        let cells: Vec<_> = line.trim_matches('|').split(" | ").map(|cell| cell.trim().replace('`', "")).collect();
        let entries = cells[0].split(") (").map(|entry| entry.trim_matches(['(', ')']).split_once(", ").unwrap());
        let entries: Vec<_> = entries.collect();
        let found = matched(&domains.find("edge", &entries));
        assert_eq!(found.split(' ').next(), Some(&*cells[1]), "{line}");
        seen += 1;
    }
    assert!(seen >= 5, "{seen}");
}
