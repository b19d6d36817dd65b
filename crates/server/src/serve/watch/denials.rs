//! Denials in the log: a few of them.

use std::sync::atomic::{AtomicU32, Ordering};

use tidegate::{Decision, Key, ceil_millis};
use tracing::info;

use super::keys::Keys;

/// How many are logged a second, of each limit.
const LOGGED: u32 = 5;

/// Denials of one limit in the log: a few a second, and how many were left out.
#[derive(Debug, Default)]
pub(super) struct Denials {
    this_second: AtomicU32,
}

impl Denials {
    /// Logs a denial, unless enough were in this second.
    pub(super) fn log(&self, limit: &str, key: &Key<'_>, id: u64, decision: &Decision, keys: &Keys) {
        if self.this_second.fetch_add(1, Ordering::Relaxed) < LOGGED {
            let reason = decision.reason().map(|reason| reason.as_str());
            let retry_after_ms = decision.retry_after().map(ceil_millis);
            info!(limit, key = keys.logged(key, id), reason, retry_after_ms, "denied");
        }
    }

    /// Ends a second.
    pub(super) fn tick(&self, limit: &str) {
        let left_out = self.this_second.swap(0, Ordering::Relaxed).saturating_sub(LOGGED);
        if left_out > 0 {
            info!(limit, left_out, "denied more than is logged");
        }
    }
}
