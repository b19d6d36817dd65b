use std::time::Duration;

use tidegate_core::{Algorithm, Quota, minutes};

use super::{domains, limited, told};
use crate::config::envoy::Unit;
use crate::limiter::Limit;

/// A descriptor's lines in a file, and which limit a request of `k` with the value `v` meets.
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
        assert_eq!(told(&domains(&text).find("d", &[("k", "v")])), expected, "{text}");
    }
}

#[test]
fn what_looks_like_another_kind_of_value_is_a_text_where_one_is_expected() {
    for value in ["80", "true", "True", "FALSE", "0x1F", "010", "1.50", "-1", "yes", "2024-01-02", "1_000", "!!str 5"] {
        let text = format!(
            "domain: d\ndescriptors:\n- {{key: 404, value: {value}, rate_limit: {{unit: day, requests_per_unit: 1}}}}\n"
        );
        let value = value.trim_start_matches("!!str ");
        let expected = format!("d.404_{value} {value}");
        assert_eq!(told(&domains(&text).find("d", &[("404", value)])), expected, "{text}");
    }
    let domains = domains("domain: 7\ndescriptors:\n- {key: off, rate_limit: {unit: day, requests_per_unit: 1}}\n");
    assert_eq!(told(&domains.find("7", &[("off", "v")])), "7.off v");
}

#[test]
fn a_domain_may_have_no_rules() {
    for text in ["domain: d\n", "---\ndomain: d\ndescriptors:\n", "\u{feff}domain: d\r\ndescriptors: []\r\n"] {
        let domains = domains(text);
        assert_eq!(told(&domains.find("d", &[("k", "v")])), "nothing");
        assert_eq!(domains.limits().map(|(name, _)| name).collect::<Vec<_>>(), ["d.(override)"]);
    }
}

#[test]
fn a_rate_is_per_unit() {
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
fn extensions_say_how_and_how_long() {
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
