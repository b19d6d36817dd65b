//! Whole numbers, read strictly.

use std::fmt;

use serde::Serialize;
use serde::de::{Deserialize, Deserializer, Error, Visitor};

/// How much a request takes: a whole number, at least 1.
#[derive(Debug, Clone, Copy, Serialize)]
pub struct Cost(
    /// How much.
    pub u64,
);

impl Default for Cost {
    fn default() -> Self {
        Cost(1)
    }
}

impl<'de> Deserialize<'de> for Cost {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let expected = "a whole number from 1 to 18446744073709551615";
        deserializer.deserialize_any(Whole { name: "cost", least: 1, most: u64::MAX, expected }).map(Cost)
    }
}

/// A time in a trace, in milliseconds. The last one is in the year 2255, up to which microseconds are exact in every store.
#[derive(Debug, Clone, Copy)]
pub struct Millis(
    /// Since the epoch.
    pub u64,
);

const LAST: u64 = (1 << 53) / 1_000;

impl<'de> Deserialize<'de> for Millis {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let expected = "a whole number of milliseconds from 0 to 9007199254740";
        deserializer.deserialize_any(Whole { name: "at_ms", least: 0, most: LAST, expected }).map(Millis)
    }
}

struct Whole {
    name: &'static str,
    least: u64,
    most: u64,
    expected: &'static str,
}

impl Whole {
    fn refuse<E: Error>(&self, found: impl fmt::Display) -> E {
        E::custom(format_args!("{}: found {found}, expected {}", self.name, self.expected))
    }
}

impl<'de> Visitor<'de> for Whole {
    type Value = u64;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} for `{}`", self.expected, self.name)
    }

    fn visit_u64<E: Error>(self, found: u64) -> Result<u64, E> {
        if (self.least..=self.most).contains(&found) { Ok(found) } else { Err(self.refuse(found)) }
    }

    fn visit_i64<E: Error>(self, found: i64) -> Result<u64, E> {
        Err(self.refuse(found))
    }

    fn visit_f64<E: Error>(self, found: f64) -> Result<u64, E> {
        // Beyond this a float no longer says which whole number was written.
        if found.abs() >= 9e15 {
            Err(self.refuse("a number out of range"))
        } else {
            Err(self.refuse(format_args!("{found:?}")))
        }
    }
}
