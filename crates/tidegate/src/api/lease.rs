//! The id of a lease, as JSON.

use std::fmt;

use serde::de::{Deserialize, Deserializer, Error, Visitor};
use serde::{Serialize, Serializer};

/// The id of a lease: a text of 16 hexadecimal digits. A number would lose some of them in other languages.
#[derive(Debug, Clone, Copy)]
pub struct Lease(
    /// The lease.
    pub tidegate_core::Lease,
);

impl<'de> Deserialize<'de> for Lease {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_str(Text).map(Lease)
    }
}

impl Serialize for Lease {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&self.0)
    }
}

struct Text;

const EXPECTED: &str = "16 lower-case hexadecimal digits";

impl Visitor<'_> for Text {
    type Value = tidegate_core::Lease;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{EXPECTED} for `lease`")
    }

    fn visit_str<E: Error>(self, found: &str) -> Result<tidegate_core::Lease, E> {
        found.parse().map_err(|_| E::custom(format_args!("lease: found {found:?}, expected {EXPECTED}")))
    }
}
