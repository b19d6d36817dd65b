//! No text, however broken, does more than be refused.

use super::{FULL, toml, yaml};

/// The same numbers in every run.
pub(in crate::config) struct Numbers(pub(in crate::config) u64);

impl Numbers {
    pub(in crate::config) fn below(&mut self, range: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % range
    }
}

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
pub(in crate::config) fn mutate(text: &str, pieces: &[&str], numbers: &mut Numbers) -> String {
    let mut letters: Vec<char> = text.chars().collect();
    for _ in 0..=numbers.below(4) {
        let from = numbers.below(letters.len() + 1);
        let to = (from + numbers.below(12)).min(letters.len());
        match numbers.below(4) {
            0 => drop(letters.drain(from..to)),
            1 => letters.truncate(from),
            2 => {
                let repeated: Vec<char> = letters[from..to].to_vec();
                letters.splice(to..to, repeated);
            }
            _ => drop(letters.splice(from..from, pieces[numbers.below(pieces.len())].chars())),
        }
    }
    letters.into_iter().collect()
}

#[test]
fn no_mutation_of_a_config_panics() {
    let yaml_text = FULL.replace("[limits.", "limits_").replace(" = ", ": ");
    let nested =
        "limits:\n  a: &a {algorithm: sliding_log, rate: 2, period: 1s}\n  b: *a\n  c:\n    - 'x'\n    - |\n      y\n";
    let mut numbers = Numbers(7);
    let mut accepted = 0;
    for round in 0..6_000 {
        let results = match round % 3 {
            0 => [toml(&mutate(FULL, &PIECES, &mut numbers)), yaml(&mutate(&yaml_text, &PIECES, &mut numbers))],
            1 => [toml(&mutate(nested, &PIECES, &mut numbers)), yaml(&mutate(nested, &PIECES, &mut numbers))],
            _ => [toml(&mutate("", &PIECES, &mut numbers)), yaml(&mutate(FULL, &PIECES, &mut numbers))],
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
