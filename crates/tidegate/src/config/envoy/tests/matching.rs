use tidegate_core::{Key, Quota, hours};

use super::{domains, limited, told};
use crate::config::envoy::{Descriptor, Found, Override, Unit};

/// A rate limit, for rules of which only the place matters.
const R: &str = "rate_limit: {unit: minute, requests_per_unit: 5}";

#[test]
fn the_exact_value_goes_before_wildcards_and_they_before_the_bare_key() {
    let text = format!(
        "
domain: d
descriptors:
- {{key: k, {R}}}
- {{key: k, value: a*, {R}}}
- {{key: k, value: ab*, {R}}}
- {{key: k, value: '*z', {R}}}
- {{key: k, value: abc, {R}}}
- {{key: k, value: free}}
- {{key: k, value: f*, {R}}}
- {{key: only, value: x, {R}}}
- {{key: only, value: 'y*y', {R}}}
"
    );
    let domains = domains(&text);
    for (key, value, expected) in [
        ("k", "abc", "d.k_abc abc"),
        ("k", "abcd", "d.k_a* abcd"),
        // The first that matches, however short it is.
        ("k", "abz", "d.k_a* abz"),
        ("k", "z", "d.k_*z z"),
        ("k", "", "d.k %"),
        ("k", "other", "d.k other"),
        // A value that is a pattern is meant exactly.
        ("k", "ab*", "d.k_ab* ab*"),
        // No rate, and nothing else is tried.
        ("k", "free", "nothing"),
        ("k", "freed", "d.k_f* freed"),
        ("only", "x", "d.only_x x"),
        ("only", "yy", "d.only_y*y yy"),
        ("only", "y", "nothing"),
        ("only", "", "nothing"),
        ("other", "x", "nothing"),
        // Keys and values never run together.
        ("k_abc", "", "nothing"),
        ("K", "abc", "nothing"),
        ("k", "ABC", "d.k ABC"),
    ] {
        assert_eq!(told(&domains.find("d", &[(key, value)])), expected, "{key} {value}");
    }
    assert_eq!(told(&domains.find("other", &[("k", "abc")])), "nothing");
    assert_eq!(told(&domains.find("d", &[])), "nothing");
}

#[test]
fn the_depth_is_the_number_of_entries() {
    let text = format!(
        "
domain: d
descriptors:
- key: a
  value: x
  {R}
  descriptors:
  - key: b
    descriptors:
    - {{key: c, value: 'z*', {R}}}
  - {{key: b, value: y, {R}}}
- key: a
  {R}
  descriptors:
  - {{key: e, {R}}}
"
    );
    let domains = domains(&text);
    let entries = [("a", "x"), ("b", "n"), ("c", "zz"), ("d", "w")];
    let expected = ["nothing", "d.a_x x", "nothing", "d.a_x.b.c_z* x|n|zz", "nothing"];
    for (count, expected) in expected.iter().enumerate() {
        assert_eq!(told(&domains.find("d", &entries[..count])), *expected, "{count} entries");
    }
    for (entries, expected) in [
        ([("a", "x"), ("b", "y")], "d.a_x.b_y x|y"),
        ([("a", "o"), ("e", "1")], "d.a.e o|1"),
        // The exact value was the one, though only the bare key goes on to `e`.
        ([("a", "x"), ("e", "1")], "nothing"),
        ([("b", "y"), ("a", "x")], "nothing"),
    ] {
        assert_eq!(told(&domains.find("d", &entries)), expected, "{entries:?}");
    }
}

/// A rule below so many keys, itself included.
fn nested(levels: usize) -> String {
    let mut text = "domain: d\n".to_owned();
    for level in 0..levels {
        let indent = "  ".repeat(level);
        text += &format!("{indent}descriptors:\n{indent}- key: k{level}\n");
    }
    format!("{text}{}{R}\n", "  ".repeat(levels))
}

#[test]
fn rules_may_be_nested_as_deep_as_a_file_can_be() {
    let domains = domains(&nested(15));
    assert_eq!(super::refused(&nested(16)), "t.yaml:33:38: nested too deep");
    let keys: Vec<_> = (0..20).map(|level| format!("k{level}")).collect();
    let entries: Vec<_> = keys.iter().map(|key| (key.as_str(), "v")).collect();
    for count in 0..20 {
        let found = domains.find("d", &entries[..count]);
        assert_eq!(matches!(found, Found::Limited(_)), count == 15, "{count}");
    }
    assert_eq!(limited(&domains, &entries[..15]).key, Key::from_parts(["v"; 15]));
}

#[test]
fn values_that_share_a_threshold_share_a_key() {
    let text = format!(
        "
domain: d
descriptors:
- {{key: files, value: 'files/*', share_threshold: true, {R}}}
- {{key: own, value: 'files/*', {R}}}
- key: path
  value: 'p*th'
  share_threshold: true
  descriptors:
  - {{key: file, value: 'f*', {R}}}
  - {{key: user, {R}}}
- {{key: files, value: files/a, {R}}}
"
    );
    let domains = domains(&text);
    let key = |entries: &[(&str, &str)]| limited(&domains, entries).key.into_owned();
    assert_eq!(key(&[("files", "files/b")]), key(&[("files", "files/c")]));
    assert_ne!(key(&[("own", "files/b")]), key(&[("own", "files/c")]));
    assert_eq!(key(&[("path", "path"), ("user", "1")]), Key::from(("p*th", "1")));
    assert_eq!(key(&[("path", "pith"), ("file", "f1")]), Key::from(("p*th", "f1")));
    assert_eq!(limited(&domains, &[("files", "files/a")]).limit, "d.files_files/a");
}

#[test]
fn what_a_rule_says_is_told() {
    let text = "
domain: d
descriptors:
- {key: plain, rate_limit: {unit: hour, requests_per_unit: 3}}
- {key: shadow, shadow_mode: true, rate_limit: {unit: hour, requests_per_unit: 3}}
- {key: quota, quota_mode: true, rate_limit: {unit: hour, requests_per_unit: 3}}
- {key: banned, rate_limit: {unit: hour, requests_per_unit: 0}}
- {key: named, rate_limit: {unit: hour, requests_per_unit: 3, name: n, replaces: [{name: a}, {name: b}]}}
";
    let domains = domains(text);
    let told = |key| {
        let entries = [(key, "v")];
        let found = limited(&domains, &entries);
        (found.shadow, found.quota_mode, found.always_over(), found.name.to_owned(), found.replaces.to_vec())
    };
    assert_eq!(told("plain"), (false, false, false, String::new(), vec![]));
    assert_eq!(told("shadow"), (true, false, false, String::new(), vec![]));
    assert_eq!(told("quota"), (false, true, false, String::new(), vec![]));
    assert_eq!(told("banned"), (false, false, true, String::new(), vec![]));
    assert_eq!(told("named"), (false, false, false, "n".to_owned(), vec!["a".into(), "b".into()]));
}

#[test]
fn a_rule_that_replaces_others_switches_them_off_in_its_request() {
    let text = "
domain: d
descriptors:
- {key: read, rate_limit: {unit: hour, requests_per_unit: 3, name: read}}
- {key: more, rate_limit: {unit: hour, requests_per_unit: 9, name: more, replaces: [{name: read}, {name: write}]}}
- {key: most, rate_limit: {unit: hour, requests_per_unit: 99, replaces: [{name: more}]}}
- {key: free, rate_limit: {unlimited: true, name: free, replaces: [{name: read}]}}
- {key: unfree, rate_limit: {unit: hour, requests_per_unit: 1, replaces: [{name: free}]}}
- {key: other, rate_limit: {unit: hour, requests_per_unit: 3}}
";
    let domains = domains(text);
    let asked = |keys: &[&str]| -> Vec<String> {
        let entries: Vec<_> = keys.iter().map(|key| [(*key, "v")]).collect();
        let descriptors: Vec<_> = entries.iter().map(|entries| Descriptor { entries, limit: None }).collect();
        domains.find_all("d", &descriptors).iter().map(told).collect()
    };
    assert_eq!(asked(&["read", "other"]), ["d.read v", "d.other v"]);
    assert_eq!(asked(&["read", "more", "other"]), ["nothing", "d.more v", "d.other v"]);
    assert_eq!(asked(&["more", "read"]), ["d.more v", "nothing"]);
    // What is replaced replaces all the same.
    assert_eq!(asked(&["read", "more", "most"]), ["nothing", "nothing", "d.most v"]);
    assert_eq!(asked(&["read", "free"]), ["nothing", "unlimited"]);
    assert_eq!(asked(&["unfree", "free"]), ["d.unfree v", "unlimited"]);
    assert_eq!(asked(&["none", "read", "read"]), ["nothing", "d.read v", "d.read v"]);
    assert_eq!(asked(&[]), [""; 0]);

    // A descriptor with a limit of its own neither replaces nor is replaced.
    let limit = Some(Override { requests_per_unit: 1, unit: Unit::Day });
    let descriptors = [("more", limit), ("read", None)].map(|(key, limit)| (vec![(key, "v")], limit));
    let descriptors: Vec<_> =
        descriptors.iter().map(|(entries, limit)| Descriptor { entries, limit: *limit }).collect();
    let found = domains.find_all("d", &descriptors);
    assert_eq!(found.iter().map(told).collect::<Vec<_>>(), ["d.(override) more|v|day", "d.read v"]);
}

#[test]
fn a_limit_that_a_descriptor_brings_along_is_its_quota() {
    let domains = domains("domain: d\ndescriptors:\n- {key: k, shadow_mode: true, rate_limit: {unlimited: true}}\n");
    let limit = Override { requests_per_unit: 42, unit: Unit::Hour };
    let entries = [("k", "v"), ("k2", "v|2")];
    let Found::Limited(found) = domains.find_override("d", &entries, limit) else { panic!() };
    assert_eq!((found.limit, &found.key), ("d.(override)", &Key::from_parts(["k", "v", "k2", "v|2", "hour"])));
    assert_eq!(found.quota, Some(Quota::fixed_window(42, hours(1)).unwrap()));
    assert_eq!((found.requests_per_unit, found.unit, found.shadow, found.quota_mode), (42, Unit::Hour, false, false));
    assert_eq!(domains.find_override("unknown", &entries, limit), Found::Nothing);
    let none = Override { requests_per_unit: 0, unit: Unit::Year };
    let Found::Limited(found) = domains.find_override("d", &entries, none) else { panic!() };
    assert_eq!((found.always_over(), found.quota), (true, None));
    for unit in Unit::ALL {
        let most = Override { requests_per_unit: u32::MAX, unit };
        let Found::Limited(found) = domains.find_override("d", &entries, most) else { panic!() };
        assert!(found.quota.is_some(), "{unit}");
    }
}
