//! Tests of matching, of the limits of rules, and of mutated files.

use std::sync::Arc;
use std::time::Duration;

use tidegate_core::{Key, Quota, Timestamp, hours};
use tidegate_testkit::Random;

use super::{domains, limited, matched};
use crate::config::envoy::{Descriptor, Domains, Override, RuleMatch, Unit, is_config};
use crate::config::tests::mutate;
use crate::{Limiter, ManualClock, MemoryStore};

/// A rate limit, for rules of which only the match matters.
const R: &str = "rate_limit: {unit: minute, requests_per_unit: 5}";

#[test]
fn exact_value_beats_wildcards_and_wildcards_beat_the_bare_key() {
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
        // The first match wins, at any length.
        ("k", "abz", "d.k_a* abz"),
        ("k", "z", "d.k_*z z"),
        ("k", "", "d.k %"),
        ("k", "other", "d.k other"),
        // A value that is a pattern matches exactly.
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
        assert_eq!(matched(&domains.find("d", &[(key, value)])), expected, "{key} {value}");
    }
    assert_eq!(matched(&domains.find("other", &[("k", "abc")])), "nothing");
    assert_eq!(matched(&domains.find("d", &[])), "nothing");
}

#[test]
fn descriptor_matches_only_rules_of_its_depth() {
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
        assert_eq!(matched(&domains.find("d", &entries[..count])), *expected, "{count} entries");
    }
    for (entries, expected) in [
        ([("a", "x"), ("b", "y")], "d.a_x.b_y x|y"),
        ([("a", "o"), ("e", "1")], "d.a.e o|1"),
        // The exact value decides, though only the bare key has `e` below it.
        ([("a", "x"), ("e", "1")], "nothing"),
        ([("b", "y"), ("a", "x")], "nothing"),
    ] {
        assert_eq!(matched(&domains.find("d", &entries)), expected, "{entries:?}");
    }
}

/// A rule nested in this many keys, including itself.
fn nested(levels: usize) -> String {
    let mut text = "domain: d\n".to_owned();
    for level in 0..levels {
        let indent = "  ".repeat(level);
        text += &format!("{indent}descriptors:\n{indent}- key: k{level}\n");
    }
    format!("{text}{}{R}\n", "  ".repeat(levels))
}

#[test]
fn rules_can_be_nested_to_the_maximum_depth_of_a_file() {
    let domains = domains(&nested(15));
    assert_eq!(super::errors_of(&nested(16)), "t.yaml:33:38: nested too deep");
    let keys: Vec<_> = (0..20).map(|level| format!("k{level}")).collect();
    let entries: Vec<_> = keys.iter().map(|key| (key.as_str(), "v")).collect();
    for count in 0..20 {
        let found = domains.find("d", &entries[..count]);
        assert_eq!(matches!(found, RuleMatch::Limited(_)), count == 15, "{count}");
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
fn matched_limit_has_the_fields_of_its_rule() {
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
    let fields = |key| {
        let entries = [(key, "v")];
        let found = limited(&domains, &entries);
        (found.shadow, found.quota_mode, found.always_over(), found.name.to_owned(), found.replaces.to_vec())
    };
    assert_eq!(fields("plain"), (false, false, false, String::new(), vec![]));
    assert_eq!(fields("shadow"), (true, false, false, String::new(), vec![]));
    assert_eq!(fields("quota"), (false, true, false, String::new(), vec![]));
    assert_eq!(fields("banned"), (false, false, true, String::new(), vec![]));
    assert_eq!(fields("named"), (false, false, false, "n".to_owned(), vec!["a".into(), "b".into()]));
}

#[test]
fn replacing_rule_disables_others_in_its_request() {
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
        domains.find_all("d", &descriptors).iter().map(matched).collect()
    };
    assert_eq!(asked(&["read", "other"]), ["d.read v", "d.other v"]);
    assert_eq!(asked(&["read", "more", "other"]), ["nothing", "d.more v", "d.other v"]);
    assert_eq!(asked(&["more", "read"]), ["d.more v", "nothing"]);
    // A replaced rule still replaces others.
    assert_eq!(asked(&["read", "more", "most"]), ["nothing", "nothing", "d.most v"]);
    assert_eq!(asked(&["read", "free"]), ["nothing", "unlimited"]);
    assert_eq!(asked(&["unfree", "free"]), ["d.unfree v", "unlimited"]);
    assert_eq!(asked(&["none", "read", "read"]), ["nothing", "d.read v", "d.read v"]);
    assert_eq!(asked(&[]), [""; 0]);

    // A descriptor with an override neither replaces nor is replaced.
    let limit = Some(Override { requests_per_unit: 1, unit: Unit::Day });
    let descriptors = [("more", limit), ("read", None)].map(|(key, limit)| (vec![(key, "v")], limit));
    let descriptors: Vec<_> =
        descriptors.iter().map(|(entries, limit)| Descriptor { entries, limit: *limit }).collect();
    let found = domains.find_all("d", &descriptors);
    assert_eq!(found.iter().map(matched).collect::<Vec<_>>(), ["d.(override) more|v|day", "d.read v"]);
}

#[test]
fn override_is_the_quota_of_its_descriptor() {
    let domains = domains("domain: d\ndescriptors:\n- {key: k, shadow_mode: true, rate_limit: {unlimited: true}}\n");
    let limit = Override { requests_per_unit: 42, unit: Unit::Hour };
    let entries = [("k", "v"), ("k2", "v|2")];
    let RuleMatch::Limited(found) = domains.find_override("d", &entries, limit) else { panic!() };
    assert_eq!((found.limit, &found.key), ("d.(override)", &Key::from_parts(["k", "v", "k2", "v|2", "hour"])));
    assert_eq!(found.quota, Some(Quota::fixed_window(42, hours(1)).unwrap()));
    assert_eq!((found.requests_per_unit, found.unit, found.shadow, found.quota_mode), (42, Unit::Hour, false, false));
    assert_eq!(domains.find_override("unknown", &entries, limit), RuleMatch::NoRule);
    let none = Override { requests_per_unit: 0, unit: Unit::Year };
    let RuleMatch::Limited(found) = domains.find_override("d", &entries, none) else { panic!() };
    assert_eq!((found.always_over(), found.quota), (true, None));
    for unit in Unit::ALL {
        let most = Override { requests_per_unit: u32::MAX, unit };
        let RuleMatch::Limited(found) = domains.find_override("d", &entries, most) else { panic!() };
        assert!(found.quota.is_some(), "{unit}");
    }
}

fn limiter(domains: &Domains, clock: &ManualClock) -> Limiter {
    let store = MemoryStore::builder().clock(clock.clone()).build();
    Limiter::builder().limits(domains.limits()).store(store).build().unwrap()
}

fn names(domains: &Domains) -> Vec<String> {
    domains.limits().map(|(name, _)| name).collect()
}

#[test]
fn names_match_upstream_statistics() {
    let text = "
domain: edge
descriptors:
- key: k
  value: v
  rate_limit: {unit: day, requests_per_unit: 1}
  descriptors:
  - {key: sub, rate_limit: {unit: day, requests_per_unit: 1}}
  - {key: sub, value: 'x*', rate_limit: {unit: day, requests_per_unit: 1}}
- {key: k, rate_limit: {unit: day, requests_per_unit: 1}}
- {key: free, rate_limit: {unlimited: true}}
- {key: banned, rate_limit: {unit: day, requests_per_unit: 0}}
- {key: none}
";
    assert_eq!(names(&domains(text)), ["edge.(override)", "edge.k_v", "edge.k_v.sub", "edge.k_v.sub_x*", "edge.k"]);
}

#[test]
fn rules_with_equal_names_are_numbered() {
    let text = "
domain: d
descriptors:
- {key: a, value: b_c, rate_limit: {unit: day, requests_per_unit: 1}}
- {key: a_b, value: c, rate_limit: {unit: day, requests_per_unit: 2}}
- {key: a.b, rate_limit: {unit: day, requests_per_unit: 3}}
- {key: a, descriptors: [{key: b, rate_limit: {unit: day, requests_per_unit: 4}}]}
- {key: a_b_c (2), rate_limit: {unit: day, requests_per_unit: 5}}
- {key: (override), rate_limit: {unit: day, requests_per_unit: 6}}
";
    let domains = domains(text);
    let expected =
        ["d.(override)", "d.a_b_c", "d.a_b_c (2)", "d.a.b", "d.a.b (2)", "d.a_b_c (2) (2)", "d.(override) (2)"];
    assert_eq!(names(&domains), expected);
    limiter(&domains, &ManualClock::default());
    for (entries, requests) in [
        (&[("a", "b_c")][..], 1),
        (&[("a_b", "c")], 2),
        (&[("a.b", "")], 3),
        (&[("a", ""), ("b", "")], 4),
        (&[("(override)", "v")], 6),
    ] {
        assert_eq!(limited(&domains, entries).requests_per_unit, requests);
    }
}

#[test]
fn limiter_counts_each_key_by_its_rule() {
    let text = "
domain: d
descriptors:
- {key: ip, rate_limit: {unit: minute, requests_per_unit: 2}}
- {key: ip, value: '10.*', share_threshold: true, rate_limit: {unit: minute, requests_per_unit: 1}}
- {key: dark, shadow_mode: true, rate_limit: {unit: minute, requests_per_unit: 1}}
";
    let domains = domains(text);
    let clock = ManualClock::default();
    let limiter = limiter(&domains, &clock);
    let ask = |key, value| {
        let entries = [(key, value)];
        let found = limited(&domains, &entries);
        limiter.limit(found.limit, found.key).try_now().unwrap()
    };
    let allowed = |key, value| ask(key, value).allowed();
    assert_eq!([(); 3].map(|()| allowed("ip", "192.0.2.1")), [true, true, false]);
    assert!(allowed("ip", "192.0.2.2"));
    assert_eq!([allowed("ip", "10.0.0.1"), allowed("ip", "10.0.0.2")], [true, false]);
    let dark = [(); 2].map(|()| ask("dark", "v"));
    assert_eq!(dark.each_ref().map(|decision| (decision.allowed(), decision.remaining())), [(true, 0), (true, 0)]);
    assert!(dark[1].reason().is_some(), "it would have been denied");

    let limit = Override { requests_per_unit: 1, unit: Unit::Second };
    let entries = [("ip", "192.0.2.1")];
    let RuleMatch::Limited(found) = domains.find_override("d", &entries, limit) else { panic!() };
    let quota = found.quota.unwrap();
    let asked = || limiter.limit(found.limit, &found.key).with_quota(&quota).try_now().unwrap().allowed();
    assert_eq!([asked(), asked()], [true, false]);
}

#[test]
fn weeks_begin_on_thursday_like_the_epoch() {
    let domains = domains("domain: d\ndescriptors:\n- {key: k, rate_limit: {unit: week, requests_per_unit: 1}}\n");
    let clock = ManualClock::default();
    let limiter = limiter(&domains, &clock);
    let entries = [("k", "v")];
    let found = limited(&domains, &entries);
    // Wednesday, the 3rd of January 2024, a second before midnight.
    clock.set(Timestamp::from_micros(1_704_326_399_000_000));
    let decision = limiter.limit(found.limit, &found.key).try_now().unwrap();
    assert_eq!((decision.allowed(), decision.reset_after()), (true, Duration::from_secs(1)));
    assert!(!limiter.limit(found.limit, &found.key).try_now().unwrap().allowed());
    clock.advance(Duration::from_secs(1));
    assert!(limiter.limit(found.limit, &found.key).try_now().unwrap().allowed());
}

#[test]
fn thousands_of_rules_are_found() {
    let rules: String = (0..5_000)
        .map(|n| format!("- {{key: tenant, value: t{n}, rate_limit: {{unit: day, requests_per_unit: {}}}}}\n", n + 1))
        .collect();
    let domains = domains(&format!("domain: d\ndescriptors:\n{rules}"));
    let limiter = limiter(&domains, &ManualClock::default());
    for n in 0..5_000_u32 {
        let value = format!("t{n}");
        let entries = [("tenant", value.as_str())];
        let found = limited(&domains, &entries);
        assert_eq!(found.requests_per_unit, n + 1);
        assert_eq!(limiter.quota(found.limit).unwrap().parts().rate, n + 1);
    }
}

const GOOD: &str = "
domain: shop
descriptors:
- key: path
  value: /login*
  share_threshold: true
  rate_limit: &slow {unit: minute, requests_per_unit: 5, name: login, replaces: [{name: all}]}
  metadata: {any: thing}
  descriptors:
  - key: ip
    value: 10.*.7
    rate_limit: {<<: *slow, unit_multiplier: 3, algorithm: sliding_window}
  - key: ip
    rate_limit: *slow
- key: path
  quota_mode: true
  shadow_mode: yes
  rate_limit:
    unit: day
    requests_per_unit: 1_000
    name: all
- key: free
  rate_limit: {unlimited: true}
";

const PIECES: [&str; 24] = [
    "\"",
    "'",
    "[",
    "]",
    "{",
    "}",
    ":",
    "\n",
    "\n- ",
    "#",
    "-",
    "0",
    "99999999999",
    "é",
    "\u{feff}",
    "\0",
    "&a ",
    "*slow",
    "<<: ",
    "? ",
    "*",
    "\t",
    "true",
    "key: ",
];

#[test]
fn mutated_file_never_panics() {
    Domains::parse(GOOD, "good.yaml").unwrap();
    let mut random = Random::new(7);
    let store = Arc::new(MemoryStore::new());
    let mut accepted = 0;
    for _ in 0..6_000 {
        let text = mutate(GOOD, &PIECES, &mut random);
        is_config(&text);
        match Domains::parse(&text, "t.yaml") {
            Ok(domains) => {
                accepted += 1;
                let builder = Limiter::builder().limits(domains.limits()).store(Arc::clone(&store));
                builder.build().expect("rules that were read can be used");
                let entries = [("path", "/login/é"), ("ip", "10.0.7")];
                let descriptors = [1, 2].map(|count| Descriptor { entries: &entries[..count], limit: None });
                assert_eq!(domains.find_all("shop", &descriptors).len(), 2);
            }
            Err(errors) => {
                assert!(errors.iter().all(|error| error.line() >= Some(1) && error.column() >= Some(1)));
                assert!(errors.iter().map(|error| (error.line(), error.column())).is_sorted());
            }
        }
    }
    assert!((300..5_500).contains(&accepted), "{accepted}: some mutations matter and some do not");
}
