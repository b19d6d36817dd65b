//! What is asked of a limit, as JSON.

use std::fmt;

use serde::de::{Deserialize, Deserializer, Error, Visitor};

/// What is asked of a limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Op {
    Limit,
    Check,
    Reserve,
    Refund,
    Reset,
}

impl Op {
    /// Whether it asks to take: what is counted, logged and shown.
    pub(crate) fn takes(self) -> bool {
        matches!(self, Op::Limit | Op::Reserve)
    }
}

impl<'de> Deserialize<'de> for Op {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_str(OpVisitor)
    }
}

/// Only a text is an operation; what serde derives would take an object too.
struct OpVisitor;

impl Visitor<'_> for OpVisitor {
    type Value = Op;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("limit, check, reserve, refund or reset for `op`")
    }

    fn visit_str<E: Error>(self, found: &str) -> Result<Op, E> {
        match found {
            "limit" => Ok(Op::Limit),
            "check" => Ok(Op::Check),
            "reserve" => Ok(Op::Reserve),
            "refund" => Ok(Op::Refund),
            "reset" => Ok(Op::Reset),
            _ => Err(E::custom(format_args!("op: found {found:?}, expected limit, check, reserve, refund or reset"))),
        }
    }
}
