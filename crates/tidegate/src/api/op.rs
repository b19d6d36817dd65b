//! What is asked of a limit, as JSON.

use std::fmt;

use serde::de::{Deserialize, Deserializer, Error, Visitor};
use serde::{Serialize, Serializer};
use tidegate_core::Lease;

/// What is asked of a limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Op {
    /// To take.
    Limit,
    /// To look.
    Check,
    /// To take, and go into debt for it.
    Reserve,
    /// To give back.
    Refund,
    /// To forget.
    Reset,
    /// To hold a place.
    Admit(Lease),
    /// To hold on to it.
    Renew(Lease),
    /// To give it back.
    Release(Lease),
}

impl Op {
    /// Whether it asks to take: what is counted, logged and shown.
    pub fn takes(self) -> bool {
        matches!(self, Op::Limit | Op::Reserve | Op::Admit(_))
    }
}

/// The name of an operation, which for some is all there is to it.
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

const NAMES: [(&str, OpName); 8] = [
    ("limit", OpName::Limit),
    ("check", OpName::Check),
    ("reserve", OpName::Reserve),
    ("refund", OpName::Refund),
    ("reset", OpName::Reset),
    ("admit", OpName::Admit),
    ("renew", OpName::Renew),
    ("release", OpName::Release),
];

const EXPECTED: &str = "limit, check, reserve, refund, reset, admit, renew or release";

impl OpName {
    /// The name.
    pub fn as_str(self) -> &'static str {
        let (name, _) = NAMES.iter().find(|(_, op)| *op == self).expect("every operation has a name");
        name
    }

    /// The operation, on the lease that was told beside it; or what is wrong with that.
    pub fn on(self, lease: Option<Lease>) -> Result<Op, String> {
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
        deserializer.deserialize_str(NameVisitor)
    }
}

/// Only a text is an operation; what serde derives would take an object too.
struct NameVisitor;

impl Visitor<'_> for NameVisitor {
    type Value = OpName;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{EXPECTED} for `op`")
    }

    fn visit_str<E: Error>(self, found: &str) -> Result<OpName, E> {
        let known = NAMES.iter().find(|(name, _)| *name == found).map(|(_, op)| *op);
        known.ok_or_else(|| E::custom(format_args!("op: found {found:?}, expected {EXPECTED}")))
    }
}
