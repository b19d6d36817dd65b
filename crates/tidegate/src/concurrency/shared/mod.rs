//! Permits that several processes share.

mod keeper;

use std::fmt;
use std::sync::{Arc, OnceLock};

use tidegate_core::{Decision, Key, Lease, Reason};
use tokio::sync::mpsc::UnboundedSender;

use super::permit::{Source, Ticket};
use super::{Permit, Refused, Why, Work};
use crate::clock::{Sleeper, TokioSleeper};
use crate::{Error, Limiter};
use keeper::{Keeper, Order};

/// How many may be in flight at once in all processes together: permits that are leases of a `concurrency` limit, on
/// whatever store its limiter has. Cheap to clone.
///
/// A lease is renewed in the background for as long as its permit is held, and released when the permit comes back. Of a
/// process that dies, the leases expire, after the limit's `ttl` and not before. A process that stands still for longer
/// than that loses its leases as well, which its permits cannot know: so a `ttl` should be many times as long as a pause.
///
/// ```
/// use tidegate::concurrency::{Shared, Work};
/// use tidegate::{Limiter, Quota, seconds};
///
/// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
/// let limiter = Limiter::builder().limit("exports", Quota::concurrency(10, seconds(30))?).build()?;
/// let exports = Shared::new(&limiter, "exports");
///
/// let permit = exports.acquire("tenant-1").await?;
/// // The work, however long.
/// permit.release(Work::Done);
/// # Ok(()) }
/// ```
///
/// What renews and releases is a task of tokio's, begun by the first `acquire`.
#[derive(Clone)]
pub struct Shared {
    inner: Arc<Inner>,
}

struct Inner {
    limiter: Limiter,
    limit: Arc<str>,
    sleeper: Arc<dyn Sleeper>,
    orders: OnceLock<UnboundedSender<Order>>,
}

/// Why there is no permit.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum NoPermit {
    /// As many as may be are in flight.
    #[error(transparent)]
    Refused(#[from] Refused),
    /// The key is on the limit's deny list.
    #[error("on the deny list of the limit")]
    Denied(Decision),
    /// The store could not decide, and the limit refuses then; or the limit is no `concurrency` limit.
    #[error(transparent)]
    Failed(#[from] Error),
}

impl Shared {
    /// Permits that are leases of the `concurrency` limit `limit`.
    pub fn new(limiter: &Limiter, limit: impl Into<Arc<str>>) -> Self {
        Shared::on(limiter, limit, TokioSleeper)
    }

    /// The same, renewed by another clock, for tests.
    pub fn on(limiter: &Limiter, limit: impl Into<Arc<str>>, sleeper: impl Sleeper + 'static) -> Self {
        let (limiter, limit, sleeper) = (limiter.clone(), limit.into(), Arc::new(sleeper));
        Shared { inner: Arc::new(Inner { limiter, limit, sleeper, orders: OnceLock::new() }) }
    }

    /// A permit for a key, if there is one.
    ///
    /// Where the store is broken and the limit is open, the permit is held under no lease. A call that is given up in the
    /// middle takes no place: what it may have got is released.
    ///
    /// # Panics
    ///
    /// Outside of a runtime of tokio's.
    pub async fn acquire<'a>(&self, key: impl Into<Key<'a>>) -> Result<Permit, NoPermit> {
        let Inner { limiter, limit, sleeper, .. } = &*self.inner;
        let key = key.into();
        let call = limiter.admit(limit, &key);
        let mut leased =
            Leased { orders: self.orders().clone(), key: key.borrow().into_owned(), lease: Some(call.asked_for()) };
        // Given up here, it is released by whoever drops it.
        let answer = call.await;
        let admitted = match answer {
            Ok(admitted) => admitted,
            Err(error) => {
                // Nobody knows whether a broken store has heard it, but for a mistake that it was never asked about.
                if error.is_misuse() {
                    leased.lease = None;
                }
                return Err(error.into());
            }
        };
        let decision = *admitted.decision();
        leased.lease = admitted.lease();
        if !decision.allowed() {
            return Err(refused(&decision, key == Key::GLOBAL));
        }
        if let Some(lease) = leased.lease {
            leased.order(Order::Keep(leased.key.clone(), lease));
        }
        let in_flight = u32::try_from(decision.limit() - decision.remaining()).unwrap_or(u32::MAX);
        Ok(Permit::new(Arc::new(leased), Ticket { started: sleeper.now(), in_flight }))
    }

    fn orders(&self) -> &UnboundedSender<Order> {
        let Inner { limiter, limit, sleeper, orders } = &*self.inner;
        orders.get_or_init(|| Keeper::start(limiter.clone(), Arc::clone(limit), Arc::clone(sleeper)))
    }
}

fn refused(decision: &Decision, shared: bool) -> NoPermit {
    if decision.reason() == Some(Reason::Deny) {
        return NoPermit::Denied(*decision);
    }
    let limit = u32::try_from(decision.limit()).unwrap_or(u32::MAX);
    let retry_after = decision.retry_after().unwrap_or_default();
    NoPermit::Refused(Refused { why: Why::Busy, limit, retry_after, shared })
}

/// A lease that is held, or may be. Released when it is dropped.
struct Leased {
    orders: UnboundedSender<Order>,
    key: Key<'static>,
    /// None once it is given back, and when the store has none for it.
    lease: Option<Lease>,
}

impl Leased {
    fn order(&self, order: Order) {
        // Nobody is there any more when the runtime has ended: then the lease expires.
        let _ = self.orders.send(order);
    }
}

impl Drop for Leased {
    fn drop(&mut self) {
        if let Some(lease) = self.lease.take() {
            self.order(Order::Release(self.key.clone(), lease));
        }
    }
}

impl Source for Leased {
    fn take_back(&self, _: &Ticket, _: Work) {
        // The permit was the last to hold on to it: what is left to do is done when it is dropped.
    }
}

impl fmt::Debug for Shared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Shared").field("limit", &self.inner.limit).finish_non_exhaustive()
    }
}
