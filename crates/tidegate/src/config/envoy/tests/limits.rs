//! Rules as limits of a limiter.

use std::time::Duration;

use tidegate_core::Timestamp;

use super::{domains, limited};
use crate::config::envoy::{Domains, Found, Override, Unit};
use crate::{Limiter, ManualClock, MemoryStore};

fn limiter(domains: &Domains, clock: &ManualClock) -> Limiter {
    let store = MemoryStore::builder().clock(clock.clone()).build();
    Limiter::builder().limits(domains.limits()).store(store).build().unwrap()
}

fn names(domains: &Domains) -> Vec<String> {
    domains.limits().map(|(name, _)| name).collect()
}

#[test]
fn names_are_those_of_upstreams_statistics() {
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
fn rules_whose_names_would_be_the_same_are_told_apart() {
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
fn a_limiter_counts_each_key_by_its_rule() {
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
        limiter.limit(found.limit, found.key).now().unwrap().unwrap()
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
    let Found::Limited(found) = domains.find_override("d", &entries, limit) else { panic!() };
    let quota = found.quota.unwrap();
    let asked = || limiter.limit(found.limit, &found.key).quota(&quota).now().unwrap().unwrap().allowed();
    assert_eq!([asked(), asked()], [true, false]);
}

#[test]
fn weeks_begin_on_thursday_as_the_epoch_did() {
    let domains = domains("domain: d\ndescriptors:\n- {key: k, rate_limit: {unit: week, requests_per_unit: 1}}\n");
    let clock = ManualClock::default();
    let limiter = limiter(&domains, &clock);
    let entries = [("k", "v")];
    let found = limited(&domains, &entries);
    // Wednesday, the 3rd of January 2024, a second before midnight.
    clock.set(Timestamp::from_micros(1_704_326_399_000_000));
    let decision = limiter.limit(found.limit, &found.key).now().unwrap().unwrap();
    assert_eq!((decision.allowed(), decision.reset_after()), (true, Duration::from_secs(1)));
    assert!(!limiter.limit(found.limit, &found.key).now().unwrap().unwrap().allowed());
    clock.advance(Duration::from_secs(1));
    assert!(limiter.limit(found.limit, &found.key).now().unwrap().unwrap().allowed());
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
