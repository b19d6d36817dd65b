use super::refused;

const COUNT: &str = "a whole number from 0 to 4294967295";
const UNITS: &str = r#"one of "second", "minute", "hour", "day", "week", "month", "year""#;
const KEY: &str = "a key of one character or more, without `*`: wildcards are for values";
const ALGORITHMS: &str = r#"one of "token_bucket", "fixed_window", "sliding_window", "sliding_log""#;

/// Lines after `domain: d` and `descriptors:`, and what is wrong with them.
#[test]
fn rules_are_refused_with_their_place() {
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
        assert_eq!(refused(&text), format!("t.yaml:{expected}"), "{text}");
    }
}

#[test]
fn files_are_refused_with_their_place() {
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
        assert_eq!(refused(text), format!("t.yaml:{expected}"), "{text}");
    }
}

#[test]
fn all_errors_are_told_at_once() {
    let text = "descriptors:\n- rate_limit: {unit: x}\n- key: a\n  oops: 1\n  descriptors:\n  - share_threshold: true\n    value: b\n    key: c\n";
    let told = refused(text);
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
