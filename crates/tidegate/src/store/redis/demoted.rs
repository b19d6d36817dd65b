//! A server that has become a replica.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use redis::RedisError;

use super::Connection;
use crate::clock::{Clock, SystemClock};

/// How long after a connection was left another one is, in microseconds: the next one may lead to a replica, too.
const PAUSE: u64 = 1_000_000;

/// When a connection was left last. Clones share it.
#[derive(Clone, Default)]
pub(super) struct Demoted(Arc<AtomicU64>);

impl Demoted {
    /// Leaves a connection that comes back by itself, if what failed says that the server is a replica by now. It answers
    /// for as long as it is asked, and takes no writes: only a new connection, made to where the name leads then, helps.
    pub(super) async fn leave<C: Connection>(&self, connection: &mut C, error: &RedisError) {
        if C::COMES_BACK && error.code() == Some("READONLY") && self.is_due() {
            // The server hangs up upon this. Whether it still answers does not matter.
            let _ = redis::cmd("QUIT").exec_async(connection).await;
        }
    }

    fn is_due(&self) -> bool {
        let now = SystemClock.now().as_micros();
        let due = |last: u64| (now.abs_diff(last) >= PAUSE).then_some(now);
        self.0.try_update(Ordering::Relaxed, Ordering::Relaxed, due).is_ok()
    }
}
