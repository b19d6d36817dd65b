//! Failover: closes and reopens a connection whose server has become a replica.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use redis::RedisError;

use super::Connection;
use crate::clock::{Clock, SystemClock};

/// The shortest time between two closed connections, in microseconds: the next one may lead to a replica, too.
const MIN_INTERVAL: u64 = 1_000_000;

/// The time at which a connection was last closed for a failover. Clones share it.
#[derive(Clone, Default)]
pub(super) struct Failover(Arc<AtomicU64>);

impl Failover {
    /// Closes a connection that reconnects by itself, if the error says that the server is a replica now. A replica
    /// answers on and takes no writes. Only a new connection helps, made to the server that the name leads to then.
    pub(super) async fn close_if_replica<C: Connection>(&self, connection: &mut C, error: &RedisError) {
        if C::RECONNECTS && error.code() == Some("READONLY") && self.begin_interval() {
            // The server closes the connection upon this. Whether it still answers does not matter.
            let _ = redis::cmd("QUIT").exec_async(connection).await;
        }
    }

    /// Whether the last interval is over; then another one begins now.
    fn begin_interval(&self) -> bool {
        let now = SystemClock.now().as_micros();
        let next = |last: u64| (now.abs_diff(last) >= MIN_INTERVAL).then_some(now);
        self.0.try_update(Ordering::Relaxed, Ordering::Relaxed, next).is_ok()
    }
}
