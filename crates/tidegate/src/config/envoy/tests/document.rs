//! The examples of the guide.

use super::{domains, told};
use crate::config::envoy::is_config;

const GUIDE: &str = include_str!("../../../../../../docs/envoy-config.md");

/// The blocks of YAML in the guide.
fn examples() -> Vec<&'static str> {
    GUIDE.split("```yaml\n").skip(1).map(|rest| rest.split("```").next().unwrap()).collect()
}

#[test]
fn its_examples_can_be_read() {
    let examples = examples();
    assert!(examples.len() >= 4, "{}", examples.len());
    for text in examples {
        assert!(is_config(text), "{text}");
        domains(text);
    }
}

#[test]
fn its_first_example_matches_as_it_says() {
    let domains = domains(examples()[0]);
    // Lines such as `| (remote_address, 192.0.2.1) | edge.remote_address |`.
    let mut seen = 0;
    for line in GUIDE.lines().filter(|line| line.starts_with("| `(")) {
        let cells: Vec<_> = line.trim_matches('|').split(" | ").map(|cell| cell.trim().replace('`', "")).collect();
        let entries = cells[0].split(") (").map(|entry| entry.trim_matches(['(', ')']).split_once(", ").unwrap());
        let entries: Vec<_> = entries.collect();
        let found = told(&domains.find("edge", &entries));
        assert_eq!(found.split(' ').next(), Some(&*cells[1]), "{line}");
        seen += 1;
    }
    assert!(seen >= 5, "{seen}");
}
