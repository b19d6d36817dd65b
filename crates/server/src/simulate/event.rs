//! One line of a trace.

use std::borrow::Cow;
use std::fmt;

use serde::Deserialize;
use serde::de::{Deserializer, Error, Visitor};
use serde_json::error::Category;

use crate::json::{Cost, Key, MAX_KEY, Millis};

const EXAMPLE: &str = r#"{"at_ms":0,"op":"limit","limit":"api","key":"u1","cost":1}"#;

/// What one line of a trace asks.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, expecting = "an object")]
pub(super) struct Event<'a> {
    pub(super) at_ms: Millis,
    pub(super) op: Op,
    #[serde(borrow)]
    pub(super) limit: Cow<'a, str>,
    #[serde(borrow)]
    pub(super) key: Key<'a>,
    #[serde(default)]
    pub(super) cost: Cost,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Op {
    Limit,
    Check,
    Reserve,
    Refund,
    Reset,
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

impl<'a> Event<'a> {
    /// Reads a line; or says in which column something is wrong, when that is known, and what.
    pub(super) fn parse(line: &'a [u8]) -> Result<Self, (Option<usize>, String)> {
        let line = line.trim_ascii_end();
        // An array would do for serde, with the fields in order; not here.
        if !line.trim_ascii_start().starts_with(b"{") {
            return Err((None, format!("not a JSON object, expected a line such as {EXAMPLE}")));
        }
        let event: Event<'a> = serde_json::from_slice(line).map_err(|error| told(&error, line))?;
        if event.key.len() > MAX_KEY {
            let found = event.key.len();
            return Err((None, format!("key: found {found} bytes, expected at most {MAX_KEY}")));
        }
        Ok(event)
    }
}

fn told(error: &serde_json::Error, line: &[u8]) -> (Option<usize>, String) {
    let text = error.to_string();
    // The place is told in front, as it is for configs.
    let message = text.rsplit_once(" at line ").map_or(text.as_str(), |(message, _)| message);
    // What is wrong with a value says what would be right; what is wrong with the line does not.
    let message = match error.classify() {
        Category::Data if message.contains("expected") => message.to_owned(),
        _ => format!("{message}, expected a line such as {EXAMPLE}"),
    };
    // The parser counts bytes; people count characters.
    let before = &line[..error.column().min(line.len())];
    let column = String::from_utf8_lossy(before).chars().count().max(1);
    (Some(column), message)
}
