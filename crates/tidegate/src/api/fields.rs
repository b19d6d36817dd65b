//! Field types of requests: keys, costs, timestamps, leases and operations, read strictly.

use std::borrow::Cow;
use std::fmt;

use serde::de::value::MapAccessDeserializer;
use serde::de::{Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Serialize, Serializer};
use tidegate_core::Lease;

use super::Problem;

/// The maximum size of a key in bytes, all parts together.
pub const MAX_KEY_BYTES: usize = 4 << 10;

/// The maximum size of a key's text, in which the separators of parts are escaped. An escaped byte takes at most three.
pub const MAX_KEY_TEXT_BYTES: usize = 3 * MAX_KEY_BYTES;

/// The key of a request: a text, a list of texts, null, or a client address. Borrows from the body where it can.
#[derive(Debug)]
pub enum KeyField<'a> {
    /// One key for all requests.
    Global,
    /// One part.
    One(Cow<'a, str>),
    /// Several parts, in order.
    Parts(Vec<KeyPart<'a>>),
    /// A client address without a key, written as `/v1/auth` counts it: of IPv6, the network.
    Client(Cow<'a, str>),
}

/// One of several parts.
#[derive(Debug, Deserialize)]
pub struct KeyPart<'a>(#[serde(borrow)] Cow<'a, str>);

impl KeyField<'_> {
    /// Returns the size in bytes that counts towards [`MAX_KEY_BYTES`].
    pub fn size(&self) -> usize {
        match self {
            KeyField::Global => 0,
            KeyField::One(part) | KeyField::Client(part) => part.len(),
            // Separators count: many empty parts are not free.
            KeyField::Parts(parts) => parts.iter().map(|part| part.0.len() + 1).sum::<usize>() - 1,
        }
    }

    /// Returns the key.
    pub fn as_key(&self) -> tidegate_core::Key<'_> {
        match self {
            KeyField::Global => tidegate_core::Key::GLOBAL,
            KeyField::One(part) => tidegate_core::Key::from(part.as_ref()),
            KeyField::Client(address) => tidegate_core::Key::from(address.as_ref()).to_fallback(),
            KeyField::Parts(parts) => tidegate_core::Key::from_parts(parts.iter().map(|part| part.0.as_ref())),
        }
    }

    /// Returns the key if it is not too large.
    pub fn checked(&self) -> Result<tidegate_core::Key<'_>, Problem> {
        match self.size() {
            0..=MAX_KEY_BYTES => Ok(self.as_key()),
            found => Err(Problem::bad_request(format!("key: found {found} bytes, expected at most {MAX_KEY_BYTES}"))),
        }
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for KeyField<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(KeyVisitor)
    }
}

/// `{"client": ADDRESS}`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ClientAddressObject<'a> {
    #[serde(borrow)]
    client: KeyPart<'a>,
}

struct KeyVisitor;

impl<'de> Visitor<'de> for KeyVisitor {
    type Value = KeyField<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a text, a list of texts, null or `{\"client\": ...}` for `key`")
    }

    fn visit_borrowed_str<E: Error>(self, part: &'de str) -> Result<KeyField<'de>, E> {
        Ok(KeyField::One(Cow::Borrowed(part)))
    }

    fn visit_str<E: Error>(self, part: &str) -> Result<KeyField<'de>, E> {
        Ok(KeyField::One(Cow::Owned(part.to_owned())))
    }

    fn visit_unit<E: Error>(self) -> Result<KeyField<'de>, E> {
        Ok(KeyField::Global)
    }

    fn visit_map<A: MapAccess<'de>>(self, object: A) -> Result<KeyField<'de>, A::Error> {
        let ClientAddressObject { client } = ClientAddressObject::deserialize(MapAccessDeserializer::new(object))?;
        Ok(KeyField::Client(client.0))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<KeyField<'de>, A::Error> {
        let mut parts = Vec::new();
        while let Some(part) = list.next_element()? {
            parts.push(part);
        }
        if parts.is_empty() {
            // An empty list would be the global key, which must be requested explicitly.
            return Err(A::Error::custom(
                "key: found an empty list, expected at least one text in it (null is everybody)",
            ));
        }
        Ok(KeyField::Parts(parts))
    }
}

/// A cost: a whole number, at least 1.
#[derive(Debug, Clone, Copy, Serialize)]
pub struct CostField(
    /// The cost.
    pub u64,
);

impl Default for CostField {
    fn default() -> Self {
        CostField(1)
    }
}

impl<'de> Deserialize<'de> for CostField {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let expected = "a whole number from 1 to 18446744073709551615";
        deserializer
            .deserialize_any(WholeNumberVisitor { name: "cost", min: 1, max: u64::MAX, expected })
            .map(CostField)
    }
}

/// A timestamp of a trace, in milliseconds. The maximum is in the year 2255; up to it, microseconds are exact in every
/// store.
#[derive(Debug, Clone, Copy)]
pub struct TimestampField(
    /// Milliseconds since the epoch.
    pub u64,
);

const MAX_TIMESTAMP_MS: u64 = (1 << 53) / 1_000;

impl<'de> Deserialize<'de> for TimestampField {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let expected = "a whole number of milliseconds from 0 to 9007199254740";
        deserializer
            .deserialize_any(WholeNumberVisitor { name: "at_ms", min: 0, max: MAX_TIMESTAMP_MS, expected })
            .map(TimestampField)
    }
}

struct WholeNumberVisitor {
    name: &'static str,
    min: u64,
    max: u64,
    expected: &'static str,
}

impl WholeNumberVisitor {
    fn out_of_range<E: Error>(&self, found: impl fmt::Display) -> E {
        E::custom(format_args!("{}: found {found}, expected {}", self.name, self.expected))
    }
}

impl<'de> Visitor<'de> for WholeNumberVisitor {
    type Value = u64;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} for `{}`", self.expected, self.name)
    }

    fn visit_u64<E: Error>(self, found: u64) -> Result<u64, E> {
        if (self.min..=self.max).contains(&found) { Ok(found) } else { Err(self.out_of_range(found)) }
    }

    fn visit_i64<E: Error>(self, found: i64) -> Result<u64, E> {
        Err(self.out_of_range(found))
    }

    fn visit_f64<E: Error>(self, found: f64) -> Result<u64, E> {
        // Beyond this, a float does not identify the whole number that was written.
        if found.abs() >= 9e15 {
            Err(self.out_of_range("a number out of range"))
        } else {
            Err(self.out_of_range(format_args!("{found:?}")))
        }
    }
}

/// A lease ID: a text of 16 hexadecimal digits. A JSON number would lose digits in other languages.
#[derive(Debug, Clone, Copy)]
pub struct LeaseField(
    /// The lease.
    pub Lease,
);

impl<'de> Deserialize<'de> for LeaseField {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_str(LeaseVisitor).map(LeaseField)
    }
}

impl Serialize for LeaseField {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&self.0)
    }
}

struct LeaseVisitor;

const EXPECTED_LEASE: &str = "16 lower-case hexadecimal digits";

impl Visitor<'_> for LeaseVisitor {
    type Value = Lease;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{EXPECTED_LEASE} for `lease`")
    }

    fn visit_str<E: Error>(self, found: &str) -> Result<Lease, E> {
        found.parse().map_err(|_| E::custom(format_args!("lease: found {found:?}, expected {EXPECTED_LEASE}")))
    }
}

/// An operation on a limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Op {
    /// Takes units.
    Limit,
    /// Looks without taking.
    Check,
    /// Takes units, into debt if need be.
    Reserve,
    /// Gives units back.
    Refund,
    /// Forgets a key.
    Reset,
    /// Takes a lease.
    Admit(Lease),
    /// Renews a lease.
    Renew(Lease),
    /// Releases a lease.
    Release(Lease),
}

impl Op {
    /// Returns whether it is counted, logged and shown: when it takes units or a lease, and when a check refuses. A client
    /// whose check is refused goes no further; one that may go on is counted when it takes.
    pub fn is_counted(self, allowed: bool) -> bool {
        match self {
            Op::Limit | Op::Reserve | Op::Admit(_) => true,
            Op::Check => !allowed,
            Op::Refund | Op::Reset | Op::Renew(_) | Op::Release(_) => false,
        }
    }
}

/// The name of an operation, without its lease.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OpName {
    /// [`Op::Limit`].
    Limit,
    /// [`Op::Check`].
    Check,
    /// [`Op::Reserve`].
    Reserve,
    /// [`Op::Refund`].
    Refund,
    /// [`Op::Reset`].
    Reset,
    /// [`Op::Admit`].
    Admit,
    /// [`Op::Renew`].
    Renew,
    /// [`Op::Release`].
    Release,
}

const OP_NAMES: [(&str, OpName); 8] = [
    ("limit", OpName::Limit),
    ("check", OpName::Check),
    ("reserve", OpName::Reserve),
    ("refund", OpName::Refund),
    ("reset", OpName::Reset),
    ("admit", OpName::Admit),
    ("renew", OpName::Renew),
    ("release", OpName::Release),
];

const EXPECTED_OP: &str = "limit, check, reserve, refund, reset, admit, renew or release";

impl OpName {
    /// Returns the name.
    pub fn as_str(self) -> &'static str {
        let (name, _) = OP_NAMES.iter().find(|(_, op)| *op == self).expect("every operation has a name");
        name
    }

    /// Returns the operation on the lease beside it, or an error if the two do not go together.
    pub fn with_lease(self, lease: Option<Lease>) -> Result<Op, String> {
        let name = self.as_str();
        let needed = || lease.ok_or_else(|| format!("lease: missing, expected the lease to {name}"));
        let op = match self {
            OpName::Admit => return needed().map(Op::Admit),
            OpName::Renew => return needed().map(Op::Renew),
            OpName::Release => return needed().map(Op::Release),
            OpName::Limit => Op::Limit,
            OpName::Check => Op::Check,
            OpName::Reserve => Op::Reserve,
            OpName::Refund => Op::Refund,
            OpName::Reset => Op::Reset,
        };
        match lease {
            Some(lease) => Err(format!("lease: found {lease}, expected none beside {name}")),
            None => Ok(op),
        }
    }
}

impl Serialize for OpName {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_str())
    }
}

impl<'de> Deserialize<'de> for OpName {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_str(OpVisitor)
    }
}

/// Accepts only a text. The visitor that serde derives would also accept an object.
struct OpVisitor;

impl Visitor<'_> for OpVisitor {
    type Value = OpName;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{EXPECTED_OP} for `op`")
    }

    fn visit_str<E: Error>(self, found: &str) -> Result<OpName, E> {
        let known = OP_NAMES.iter().find(|(name, _)| *name == found).map(|(_, op)| *op);
        known.ok_or_else(|| E::custom(format_args!("op: found {found:?}, expected {EXPECTED_OP}")))
    }
}
