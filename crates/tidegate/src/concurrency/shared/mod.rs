//! Permits that several processes share.

mod desk;
mod keeper;

use std::fmt;
use std::sync::Arc;

use tidegate_core::{Decision, Key, Lease, Reason};
use tokio::runtime::Handle;
use tokio::sync::oneshot;

use super::held::Held;
use super::permit::{Source, Ticket};
use super::{Permit, Refused, Why, Work};
use crate::clock::{Sleeper, TokioSleeper};
use crate::{Error, Limiter};
use desk::{Desk, Order};
use keeper::Keeper;

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
/// let permit = exports.try_acquire("tenant-1").await?;
/// // The work, however long.
/// permit.release(Work::Done);
///
/// exports.settled().await; // before the program ends, so that what was given back is
/// # Ok(()) }
/// ```
///
/// What renews and releases is a task of tokio's, on the runtime that first asks for a permit; when that has ended, on the
/// one that asks next, which takes over what is held on others. Until somebody asks, leases expire.
#[derive(Clone)]
pub struct Shared {
    inner: Arc<Inner>,
}

struct Inner {
    limiter: Limiter,
    limit: Arc<str>,
    sleeper: Arc<dyn Sleeper>,
    desk: Arc<Desk>,
    held: Held,
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
        let (desk, held) = (Arc::default(), Held::default());
        Shared { inner: Arc::new(Inner { limiter, limit, sleeper, desk, held }) }
    }

    /// A permit for a key, if there is one; only the store is waited for.
    ///
    /// Where the store is broken and the limit is open, the permit is held under no lease. What a call that is given up in
    /// the middle may have got is released, and expires where that cannot be done.
    ///
    /// # Panics
    ///
    /// Outside of a runtime of tokio's.
    pub async fn try_acquire<'a>(&self, key: impl Into<Key<'a>>) -> Result<Permit, NoPermit> {
        let Inner { limiter, limit, sleeper, desk, .. } = &*self.inner;
        let key = key.into();
        Keeper::start(limiter, limit, sleeper, desk);
        let call = limiter.admit(limit, &key);
        // Until the answer is there, it may be held or not: whoever gives up releases it.
        let leased =
            Leased { shared: Arc::clone(&self.inner), key: key.borrow().into_owned(), lease: Some(call.asked_for()) };
        match call.await {
            Ok(admitted) if admitted.decision().allowed() => {
                if let Some(lease) = admitted.lease() {
                    desk.give(Order::Keep(leased.key.clone(), lease));
                }
                let decision = admitted.decision();
                let in_flight = u32::try_from(decision.limit() - decision.remaining()).unwrap_or(u32::MAX);
                Ok(Permit::new(Arc::new(leased), Ticket::new(sleeper.now(), in_flight)))
            }
            Ok(admitted) => {
                leased.never_held();
                Err(self.refused(admitted.decision(), key == Key::GLOBAL))
            }
            Err(error) if error.is_misuse() => {
                leased.never_held();
                Err(error.into())
            }
            // A store within `Resilience` has applied the policy already. A bare one leaves that to who asks.
            Err(Error::Store(_)) if limiter.admits_without_store(limit) => {
                Ok(Permit::new(Arc::new(leased), Ticket::new(sleeper.now(), 0)))
            }
            Err(error) => Err(error.into()),
        }
    }

    /// Comes back when everything that has been given back by now is released, as far as the store can be asked.
    pub async fn settled(&self) {
        let Inner { limiter, limit, sleeper, desk, .. } = &*self.inner;
        if Handle::try_current().is_ok() {
            // Somebody to release what was given back since the last runtime ended.
            Keeper::start(limiter, limit, sleeper, desk);
        }
        let (when, told) = oneshot::channel();
        desk.give(Order::Tell(when));
        // An error means that there is no runtime on which anything could be released.
        let _ = told.await;
    }

    fn refused(&self, decision: &Decision, shared: bool) -> NoPermit {
        if decision.reason() == Some(Reason::Deny) {
            return NoPermit::Denied(*decision);
        }
        let limit = u32::try_from(decision.limit()).unwrap_or(u32::MAX);
        // The first lease to expire, or what work takes, if that is sooner.
        let expires = decision.retry_after().unwrap_or(self.inner.held.usual());
        let retry_after = self.inner.held.hint().map_or(expires, |usual| usual.min(expires));
        NoPermit::Refused(Refused { why: Why::Busy, limit, retry_after, shared })
    }
}

/// A lease that is held, or may be. Released when it is dropped.
struct Leased {
    shared: Arc<Inner>,
    key: Key<'static>,
    /// None when it is certain that the store has none for it.
    lease: Option<Lease>,
}

impl Leased {
    fn never_held(mut self) {
        self.lease = None;
    }
}

impl Drop for Leased {
    fn drop(&mut self) {
        if let Some(lease) = self.lease.take() {
            self.shared.desk.give(Order::Release(self.key.clone(), lease));
        }
    }
}

impl Source for Leased {
    fn take_back(&self, ticket: &Ticket, work: Work) {
        // The lease itself goes when this is dropped: the permit was the last to hold on to it.
        if work != Work::Ignore {
            self.shared.held.learn(ticket.started, self.shared.sleeper.now());
        }
    }
}

impl fmt::Debug for Shared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Shared").field("limit", &self.inner.limit).finish_non_exhaustive()
    }
}
