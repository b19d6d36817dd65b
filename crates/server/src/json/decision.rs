//! A decision as JSON.

use std::io::{self, Write};

use serde::Serialize;
use tidegate::{Decision, Reason, ceil_millis};

/// A decision as it is written, its fields in this order.
#[derive(Debug, Serialize)]
pub(crate) struct Reply {
    allowed: bool,
    limit: u64,
    remaining: u64,
    retry_after_ms: Option<u64>,
    reset_after_ms: u64,
    reason: Option<&'static str>,
}

impl From<&Decision> for Reply {
    fn from(decision: &Decision) -> Self {
        Reply {
            allowed: decision.allowed(),
            limit: decision.limit(),
            remaining: decision.remaining(),
            retry_after_ms: decision.retry_after().map(ceil_millis),
            reset_after_ms: ceil_millis(decision.reset_after()),
            reason: decision.reason().map(|reason| reason.as_str()),
        }
    }
}

impl Reply {
    /// What is said of a request that no limit holds back: there is no end of what is left.
    pub(crate) fn unlimited() -> Self {
        let most = u32::MAX.into();
        Reply { limit: most, remaining: most, ..Reply::of_nothing(true, None) }
    }

    /// What is said of a limit of nothing at all, which is never asked; in shadow mode it lets everything pass.
    pub(crate) fn of_nothing(allowed: bool, reason: Option<Reason>) -> Self {
        let reason = reason.map(|reason| reason.as_str());
        Reply { allowed, limit: 0, remaining: 0, retry_after_ms: None, reset_after_ms: 0, reason }
    }

    /// Writes it as one line.
    pub(crate) fn write(&self, out: &mut impl Write) -> io::Result<()> {
        serde_json::to_writer(&mut *out, self)?;
        out.write_all(b"\n")
    }
}
