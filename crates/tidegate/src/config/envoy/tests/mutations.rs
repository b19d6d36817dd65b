//! No text, however broken, does more than be refused.

use std::sync::Arc;

use tidegate_testkit::Random;

use crate::config::envoy::{Descriptor, Domains, is_config};
use crate::config::tests::mutations::mutate;
use crate::{Limiter, MemoryStore};

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
fn no_mutation_of_a_file_panics() {
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
