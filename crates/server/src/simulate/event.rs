//! One line of a trace.

use std::borrow::Cow;

use serde::Deserialize;
use serde_json::error::Category;

use crate::json::{Cost, Key, Lease, MAX_KEY, Millis, Op, OpName};

const EXAMPLE: &str = r#"{"at_ms":0,"op":"limit","limit":"api","key":"u1","cost":1}"#;

/// What one line of a trace asks.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, expecting = "an object")]
pub(super) struct Event<'a> {
    pub(super) at_ms: Millis,
    op: OpName,
    #[serde(borrow)]
    pub(super) limit: Cow<'a, str>,
    #[serde(borrow)]
    pub(super) key: Key<'a>,
    #[serde(default)]
    pub(super) cost: Cost,
    lease: Option<Lease>,
}

/// In which column something is wrong, when that is known, and what.
pub(super) type Wrong = (Option<usize>, String);

impl<'a> Event<'a> {
    /// Reads a line; or says what is wrong with it.
    pub(super) fn parse(line: &'a [u8]) -> Result<Self, Wrong> {
        let event: Event<'a> = read(line, EXAMPLE)?;
        if event.key.size() > MAX_KEY {
            let found = event.key.size();
            return Err((None, format!("key: found {found} bytes, expected at most {MAX_KEY}")));
        }
        Ok(event)
    }

    /// What is asked.
    pub(super) fn op(&self) -> Result<Op, Wrong> {
        self.op.on(self.lease.map(|lease| lease.0)).map_err(|message| (None, message))
    }
}

/// Reads a line that should be like the example.
pub(super) fn read<'a, T: Deserialize<'a>>(line: &'a [u8], example: &str) -> Result<T, Wrong> {
    let line = line.trim_ascii_end();
    // An array would do for serde, with the fields in order; not here.
    if !line.trim_ascii_start().starts_with(b"{") {
        return Err((None, format!("not a JSON object, expected a line such as {example}")));
    }
    serde_json::from_slice(line).map_err(|error| told(&error, line, example))
}

fn told(error: &serde_json::Error, line: &[u8], example: &str) -> Wrong {
    let text = error.to_string();
    // The place is told in front, as it is for configs.
    let message = text.rsplit_once(" at line ").map_or(text.as_str(), |(message, _)| message);
    // What is wrong with a value says what would be right; what is wrong with the line does not.
    let message = match error.classify() {
        Category::Data if message.contains("expected") => message.to_owned(),
        _ => format!("{message}, expected a line such as {example}"),
    };
    // The parser counts bytes; people count characters.
    let before = &line[..error.column().min(line.len())];
    let column = String::from_utf8_lossy(before).chars().count().max(1);
    (Some(column), message)
}
