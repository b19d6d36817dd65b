//! The lease of a held permit, and the time until which the store certainly keeps it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tidegate_core::{Key, Timestamp, seconds};
use tokio::sync::Notify;

use crate::Limiter;
use crate::clock::{Sleeper, complete_before};
use crate::resilience::REQUESTS_PER_TIMEOUT;

/// A lease is renewed after this part of its time to live.
const RENEWALS_PER_TTL: u32 = 4;

/// A renewal that failed is repeated after this part of the time to live, counted from when it was sent.
const RETRIES_PER_TTL: u32 = 16;

/// The deadline of a lease that cannot be lost: its permit was released, or its limit is in shadow mode.
const NEVER: Timestamp = Timestamp::from_micros(u64::MAX);

/// A lease to renew.
#[derive(Debug)]
pub(super) struct HeldLease {
    pub(super) key: Key<'static>,
    /// When to renew it.
    pub(super) due: Timestamp,
    pub(super) deadline: Arc<LeaseDeadline>,
    /// The most leases that are renewed in one call with it.
    pub(super) max_batch_len: usize,
}

impl HeldLease {
    pub(super) fn new(key: Key<'static>, due: Timestamp, deadline: Arc<LeaseDeadline>) -> Self {
        HeldLease { key, due, deadline, max_batch_len: REQUESTS_PER_TIMEOUT }
    }

    /// Halves the batch after a call of `len` leases has failed: a slow store may answer for fewer in time. After a
    /// failed call for this lease alone, the batch has its maximum length. So a store that decides but never answers in
    /// time still decides for all leases.
    pub(super) fn shorten_batch(&mut self, len: usize) {
        self.max_batch_len = if len == 1 { REQUESTS_PER_TIMEOUT } else { len / 2 };
    }

    /// Lengthens the batch after a call that succeeded.
    pub(super) fn lengthen_batch(&mut self) {
        self.max_batch_len = REQUESTS_PER_TIMEOUT.min(self.max_batch_len + 1);
    }
}

/// The time at which a lease may expire, shared by its permit and the renewer. A deadline that has passed stays so, even if a
/// later renewal succeeds: the work may have stopped already.
#[derive(Debug)]
pub(super) struct LeaseDeadline {
    micros: AtomicU64,
    /// Wakes waiting tasks when the deadline is set to an earlier time.
    is_earlier: Notify,
}

impl LeaseDeadline {
    pub(super) fn new(at: Timestamp) -> Self {
        LeaseDeadline { micros: AtomicU64::new(at.as_micros()), is_earlier: Notify::new() }
    }

    pub(super) fn has_passed(&self, now: Timestamp) -> bool {
        self.get() <= now
    }

    /// Sets it, unless it has passed by `now`.
    pub(super) fn set(&self, at: Timestamp, now: Timestamp) {
        self.update(|old| if old <= now { old } else { at });
    }

    /// Sets it to `at` if that is earlier.
    pub(super) fn set_earlier(&self, at: Timestamp) {
        self.update(|old| old.min(at));
    }

    /// Lets it never pass.
    pub(super) fn disable(&self) {
        self.update(|_| NEVER);
    }

    /// Waits until it has passed.
    pub(super) async fn passed(&self, sleeper: &dyn Sleeper) {
        loop {
            // Before the deadline is read, so that no change is missed.
            let is_earlier = self.is_earlier.notified();
            let left = self.get().since(sleeper.now());
            if left.is_zero() {
                return;
            }
            complete_before(sleeper.sleep(left), is_earlier).await;
        }
    }

    fn get(&self) -> Timestamp {
        Timestamp::from_micros(self.micros.load(Ordering::Acquire))
    }

    fn update(&self, change: impl Fn(Timestamp) -> Timestamp) {
        let changed = |old| match Timestamp::from_micros(old) {
            NEVER => old,
            at => change(at).as_micros(),
        };
        let old = self.micros.update(Ordering::AcqRel, Ordering::Acquire, changed);
        if changed(old) < old {
            self.is_earlier.notify_waiters();
        }
    }
}

/// The times of the leases of a limit, by its current settings.
#[derive(Clone, Copy)]
pub(super) struct LeaseTimes {
    ttl: Duration,
    is_shadow: bool,
}

impl LeaseTimes {
    pub(super) fn new(limiter: &Limiter, limit: &str) -> Self {
        // A limit that was removed has no leases to renew, and may be added again.
        let ttl = limiter.quota(limit).map_or(seconds(1), |quota| quota.parts().period);
        LeaseTimes { ttl, is_shadow: limiter.summary(limit).is_ok_and(|limit| limit.shadow) }
    }

    /// Returns the time between two renewals.
    pub(super) fn interval(self) -> Duration {
        self.ttl / RENEWALS_PER_TTL
    }

    /// Returns the time between a renewal that failed and the next one.
    pub(super) fn retry_interval(self) -> Duration {
        self.ttl / RETRIES_PER_TTL
    }

    /// Returns the time until which the store certainly keeps a lease that a request sent at `sent` has admitted or
    /// renewed. The store counts from the arrival of the request.
    pub(super) fn deadline(self, sent: Timestamp) -> Timestamp {
        // Shadow mode stops no work.
        if self.is_shadow { NEVER } else { sent.saturating_add(self.ttl) }
    }
}
