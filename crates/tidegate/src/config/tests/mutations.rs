//! No text, however broken, does more than be refused.

use tidegate_testkit::Random;

use super::{FULL, toml, yaml};

const PIECES: [&str; 28] = [
    "\"",
    "'",
    "[",
    "]",
    "{",
    "}",
    "=",
    ".",
    ":",
    "\n",
    "\r\n",
    "#",
    "-",
    "0",
    "9999999999999999999999",
    "-1",
    "1.5",
    "é",
    "\u{feff}",
    "\0",
    "&a ",
    "*a",
    "!!str ",
    "? ",
    "| \n",
    "\t",
    "true",
    "[limits.login]\n",
];

/// A text that was cut, repeated and changed in a few places.
pub(in crate::config) fn mutate(text: &str, pieces: &[&str], random: &mut Random) -> String {
    let mut letters: Vec<char> = text.chars().collect();
    for _ in 0..=random.below(4) {
        let from = random.below(letters.len() as u64 + 1) as usize;
        let to = (from + random.below(12) as usize).min(letters.len());
        match random.below(4) {
            0 => drop(letters.drain(from..to)),
            1 => letters.truncate(from),
            2 => {
                let repeated: Vec<char> = letters[from..to].to_vec();
                letters.splice(to..to, repeated);
            }
            _ => drop(letters.splice(from..from, random.pick(pieces).chars())),
        }
    }
    letters.into_iter().collect()
}

#[test]
fn no_mutation_of_a_config_panics() {
    let yaml_text = FULL.replace("[limits.", "limits_").replace(" = ", ": ");
    let nested =
        "limits:\n  a: &a {algorithm: sliding_log, rate: 2, period: 1s}\n  b: *a\n  c:\n    - 'x'\n    - |\n      y\n";
    let mut random = Random::new(7);
    let mut accepted = 0;
    for round in 0..6_000 {
        let results = match round % 3 {
            0 => [toml(&mutate(FULL, &PIECES, &mut random)), yaml(&mutate(&yaml_text, &PIECES, &mut random))],
            1 => [toml(&mutate(nested, &PIECES, &mut random)), yaml(&mutate(nested, &PIECES, &mut random))],
            _ => [toml(&mutate("", &PIECES, &mut random)), yaml(&mutate(FULL, &PIECES, &mut random))],
        };
        for result in results {
            match result {
                Ok(config) => {
                    accepted += 1;
                    config.limiter().build().expect("a config that was read can be used");
                }
                Err(errors) => {
                    assert!(errors.iter().all(|error| error.line() >= Some(1) && error.column() >= Some(1)));
                    assert!(errors.iter().map(|error| (error.line(), error.column())).is_sorted());
                }
            }
        }
    }
    assert!(accepted > 0, "some mutations change nothing that matters");
}
