//! `DistributedConcurrency`: permits that several processes share, as leases of a `concurrency` limit.

mod lease;
mod mailbox;
mod renewer;

use std::fmt;
use std::future::pending;
use std::sync::Arc;

use tidegate_core::{BoxFuture, Decision, Key, Lease, Reason};
use tokio::runtime::Handle;
use tokio::sync::oneshot;

use super::permit::{HoldTime, PermitSource, PermitTicket};
use super::{Completion, Permit, RejectReason, Rejected};
use crate::clock::{Sleeper, SteadySleeper};
use crate::{Error, Limiter};
use lease::{HeldLease, LeaseDeadline, LeaseTimes};
use mailbox::{Mailbox, Message};
use renewer::Renewer;

/// A limit on how many may be in flight at once in all processes together. Permits are leases of a `concurrency` limit, on
/// any store. Cheap to clone.
///
/// A lease is renewed in the background while its permit is held, and released with it. When a process dies, its leases
/// expire after the limit's `ttl`, and not before.
///
/// **An outage of the store** loses no lease if it is shorter than three quarters of the `ttl`, minus a margin. The
/// margin is the timeout of a store call or a sixteenth of the `ttl`, whichever is longer. With a `ttl` of 30 seconds,
/// 20 seconds are short enough. The time in which the store answers the renewals of this process counts as outage.
/// Renewals pass an open [circuit breaker](crate::resilience::BreakerStore).
///
/// **A lost lease** is reported by [`Permit::lost`] and [`Permit::is_lost`], no later than it expires: after a longer outage,
/// and after a pause of the process. The work should stop then, because its place may belong to another caller.
///
/// ```
/// use tidegate::concurrency::{Completion, DistributedConcurrency};
/// use tidegate::{Limiter, Quota, seconds};
///
/// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
/// let limiter = Limiter::builder().limit("exports", Quota::concurrency(10, seconds(30))?).build()?;
/// let exports = DistributedConcurrency::new(&limiter, "exports");
///
/// let permit = exports.try_acquire("tenant-1").await?;
/// // The work, however long.
/// permit.release(Completion::Success);
///
/// exports.flush().await; // before the program ends, so that leases are released
/// # Ok(()) }
/// ```
///
/// A tokio task renews and releases leases. It runs on the runtime of the first caller. When that ends, the next caller's
/// runtime takes over, with the leases whose permits are held elsewhere. Until there is a next caller, leases expire.
#[derive(Clone)]
pub struct DistributedConcurrency {
    inner: Arc<Inner>,
}

struct Inner {
    limiter: Limiter,
    limit: Arc<str>,
    sleeper: Arc<dyn Sleeper>,
    mailbox: Arc<Mailbox>,
    hold_time: HoldTime,
}

/// The error of a caller that gets no permit of a [`DistributedConcurrency`].
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum AcquireError {
    /// Too many are in flight.
    #[error(transparent)]
    Rejected(#[from] Rejected),
    /// The key is on the limit's deny list.
    #[error("on the deny list of the limit")]
    Denied(Decision),
    /// The store failed, and the limit fails closed; or the limit is not a `concurrency` limit.
    #[error(transparent)]
    Failed(#[from] Error),
}

impl DistributedConcurrency {
    /// Creates permits that are leases of the `concurrency` limit `limit`.
    pub fn new(limiter: &Limiter, limit: impl Into<Arc<str>>) -> Self {
        // A clock that cannot be set: the time of day loses no lease.
        DistributedConcurrency::with_sleeper(limiter, limit, SteadySleeper)
    }

    /// Creates permits whose leases are renewed by another clock, for tests.
    pub fn with_sleeper(limiter: &Limiter, limit: impl Into<Arc<str>>, sleeper: impl Sleeper + 'static) -> Self {
        let (limiter, limit, sleeper) = (limiter.clone(), limit.into(), Arc::new(sleeper));
        let (mailbox, hold_time) = (Arc::default(), HoldTime::default());
        DistributedConcurrency { inner: Arc::new(Inner { limiter, limit, sleeper, mailbox, hold_time }) }
    }

    /// Returns a permit for a key, if there is one. It waits only for the store.
    ///
    /// When the store fails and the limit fails open, the permit has no lease. When the call is dropped before it ends, its
    /// lease is released, or expires where it cannot be released.
    ///
    /// # Panics
    ///
    /// Outside a tokio runtime.
    pub async fn try_acquire<'a>(&self, key: impl Into<Key<'a>>) -> Result<Permit, AcquireError> {
        let Inner { limiter, limit, sleeper, mailbox, .. } = &*self.inner;
        let key = key.into();
        Renewer::start(limiter, limit, sleeper, mailbox);
        let call = limiter.admit(limit, &key);
        // Until the answer arrives the store may or may not have given the lease. When this call is dropped, it is released.
        let mut lease = LeaseGuard {
            inner: Arc::clone(&self.inner),
            key: key.borrow().into_owned(),
            lease: Some(call.requested_lease()),
            deadline: None,
        };
        let (times, sent) = (LeaseTimes::new(limiter, limit), sleeper.now());
        match call.await {
            Ok(admitted) if admitted.decision().allowed() => {
                if let Some(admitted) = admitted.lease() {
                    let deadline = Arc::new(LeaseDeadline::new(times.deadline(sent)));
                    lease.deadline = Some(Arc::clone(&deadline));
                    let due = sent.saturating_add(times.interval());
                    mailbox.send(Message::Renew(admitted, HeldLease::new(lease.key.clone(), due, deadline)));
                }
                let decision = admitted.decision();
                let in_flight = u32::try_from(decision.limit() - decision.remaining()).unwrap_or(u32::MAX);
                Ok(Permit::new(Arc::new(lease), PermitTicket::new(sleeper.now(), in_flight)))
            }
            Ok(admitted) => {
                lease.forget();
                Err(self.rejected(admitted.decision(), key == Key::GLOBAL))
            }
            Err(error) if error.is_misuse() => {
                lease.forget();
                Err(error.into())
            }
            Err(error) => Err(error.into()),
        }
    }

    /// Waits until the lease of every permit that was released before this call is released, as far as the store works.
    pub async fn flush(&self) {
        let Inner { limiter, limit, sleeper, mailbox, .. } = &*self.inner;
        if Handle::try_current().is_ok() {
            // The last runtime may have ended before some permits were released.
            Renewer::start(limiter, limit, sleeper, mailbox);
        }
        let (done, flushed) = oneshot::channel();
        mailbox.send(Message::Flush(done));
        // An error means that there is no runtime on which leases could be released.
        let _ = flushed.await;
    }

    fn rejected(&self, decision: &Decision, shared: bool) -> AcquireError {
        if decision.reason() == Some(Reason::Deny) {
            return AcquireError::Denied(*decision);
        }
        let limit = u32::try_from(decision.limit()).unwrap_or(u32::MAX);
        // The sooner of the first lease to expire and the recent duration of work.
        let expires = decision.retry_after().unwrap_or(self.inner.hold_time.retry_after());
        let retry_after = self.inner.hold_time.hint().map_or(expires, |usual| usual.min(expires));
        AcquireError::Rejected(Rejected { reason: RejectReason::Busy, limit, retry_after, shared })
    }
}

/// A lease that the store has given, or may have given. Released when it is dropped.
struct LeaseGuard {
    inner: Arc<Inner>,
    key: Key<'static>,
    /// `None` if the store has certainly not given it.
    lease: Option<Lease>,
    /// `None` until the store has certainly given it.
    deadline: Option<Arc<LeaseDeadline>>,
}

impl LeaseGuard {
    fn forget(mut self) {
        self.lease = None;
    }
}

impl Drop for LeaseGuard {
    fn drop(&mut self) {
        if let Some(deadline) = &self.deadline {
            deadline.disable();
        }
        if let Some(lease) = self.lease.take() {
            self.inner.mailbox.send(Message::Release(self.key.clone(), lease));
        }
    }
}

impl PermitSource for LeaseGuard {
    fn release(&self, ticket: &PermitTicket, completion: Completion) {
        // The drop releases the lease: the permit had the last reference.
        if completion != Completion::Ignored {
            self.inner.hold_time.record(ticket.started, self.inner.sleeper.now());
        }
    }

    fn is_lost(&self) -> bool {
        self.deadline.as_ref().is_some_and(|deadline| deadline.has_passed(self.inner.sleeper.now()))
    }

    fn lost(&self) -> BoxFuture<'static, ()> {
        let (deadline, sleeper) = (self.deadline.clone(), Arc::clone(&self.inner.sleeper));
        Box::pin(async move {
            match deadline {
                Some(deadline) => deadline.passed(&*sleeper).await,
                None => pending().await,
            }
        })
    }
}

impl fmt::Debug for DistributedConcurrency {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DistributedConcurrency").field("limit", &self.inner.limit).finish_non_exhaustive()
    }
}
