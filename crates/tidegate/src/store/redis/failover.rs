//! Failover: closes and reopens a connection whose server has become a replica.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use redis::RedisError;

use super::Connection;
use crate::clock::{Clock, SystemClock};

/// The shortest time between two repairs of one kind, in microseconds: the next one may not help, either.
const MIN_INTERVAL: u64 = 1_000_000;

/// The time at which a connection was last closed for a failover. Clones share it.
#[derive(Clone, Default)]
pub(super) struct Failover(Arc<AtomicU64>);

impl Failover {
    /// Closes a connection that reconnects by itself, if the error says that the server is a replica now. A replica
    /// answers on and takes no writes. Only a new connection helps, made to the server that the name leads to then.
    pub(super) async fn close_if_replica<C: Connection>(&self, connection: &C, error: &RedisError) {
        if C::RECONNECTS && error.code() == Some("READONLY") && begin_interval(&self.0) {
            // The server closes the connection upon this. Whether it still answers does not matter.
            let _ = connection.send("", &redis::cmd("QUIT")).await;
        }
    }
}

/// Whether the interval that began at `last` is over; then another one begins now.
pub(super) fn begin_interval(last: &AtomicU64) -> bool {
    let now = SystemClock.now().as_micros();
    let next = |last: u64| (now.abs_diff(last) >= MIN_INTERVAL).then_some(now);
    last.try_update(Ordering::Relaxed, Ordering::Relaxed, next).is_ok()
}
