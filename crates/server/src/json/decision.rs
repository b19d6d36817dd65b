//! A decision as JSON.

use std::io::{self, Write};

use serde::Serialize;
use tidegate::{Decision, ceil_millis};

/// The fields, in the order in which they are written.
#[derive(Serialize)]
struct Fields {
    allowed: bool,
    limit: u64,
    remaining: u64,
    retry_after_ms: Option<u64>,
    reset_after_ms: u64,
    reason: Option<&'static str>,
}

/// Writes a decision as one line.
pub(crate) fn write_decision(out: &mut impl Write, decision: &Decision) -> io::Result<()> {
    let fields = Fields {
        allowed: decision.allowed(),
        limit: decision.limit(),
        remaining: decision.remaining(),
        retry_after_ms: decision.retry_after().map(ceil_millis),
        reset_after_ms: ceil_millis(decision.reset_after()),
        reason: decision.reason().map(|reason| reason.as_str()),
    };
    serde_json::to_writer(&mut *out, &fields)?;
    out.write_all(b"\n")
}
