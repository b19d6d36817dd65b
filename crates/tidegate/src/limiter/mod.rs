//! Named limits over one store.

mod acquire;
mod admit;
mod batch;
mod builder;
mod call;
mod deny_list;
mod dispatch;
mod error;
mod limit;
mod normalize;
mod registry;
#[cfg(any(feature = "sqlite", feature = "postgres"))]
mod transaction;

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tidegate_core::{DynStore, Key, Quota, Store};

pub use admit::{AdmitCall, AdmitDecision, AdmitFuture};
pub use builder::LimiterBuilder;
pub use call::{Call, CallFuture};
pub(crate) use call::{CallKind, CallOptions, WindowedDecision};
pub(crate) use deny_list::DenyList;
pub use error::{BuildError, Error, UnknownLimit, Unsupported};
pub use limit::Limit;
pub use normalize::Normalize;
pub(crate) use registry::LimitSummary;

use crate::clock::Sleeper;
use crate::telemetry;
use acquire::Queues;
use admit::LeaseIds;
use registry::{CurrentLimits, Limits};

/// Named limits over one store. Cheap to clone: clones are the same limiter.
///
/// ```
/// use tidegate::{Limiter, Quota, minutes, seconds};
///
/// # async fn example(user_id: String, tenant: String) -> Result<(), Box<dyn std::error::Error>> {
/// let limiter = Limiter::builder()
///     .limit("login", Quota::fixed_window(5, minutes(1))?)
///     .limit("send", Quota::token_bucket(10, seconds(1))?.capacity(20)?)
///     .deny("send", ["198.51.100.7", "203.0.113.0/24"])?
///     .build()?; // memory store
///
/// let decision = limiter.limit("send", &user_id).await?; // cost 1
/// let decision = limiter.limit("send", (&tenant, &user_id)).cost(5).await?;
/// if !decision.allowed() {
///     println!("try again in {:?}", decision.retry_after()); // none: that does not help
/// }
/// # Ok(()) }
/// ```
#[derive(Clone)]
pub struct Limiter {
    inner: Arc<Inner>,
}

struct Inner {
    store: Arc<dyn DynStore>,
    limits: CurrentLimits,
    sleeper: Option<Arc<dyn Sleeper>>,
    queues: Arc<Queues>,
    leases: LeaseIds,
    closed: AtomicBool,
    /// Whether the store was closed, too.
    store_closed: AtomicBool,
    counts_decisions: bool,
}

impl Inner {
    #[inline]
    fn is_closed(&self) -> bool {
        self.closed.load(Ordering::Acquire)
    }
}

impl Limiter {
    /// Returns a builder.
    pub fn builder() -> LimiterBuilder {
        LimiterBuilder::default()
    }

    fn from_parts(
        limits: Limits,
        store: Arc<dyn DynStore>,
        sleeper: Option<Arc<dyn Sleeper>>,
        counts_decisions: bool,
    ) -> Self {
        telemetry::describe_metrics();
        let inner = Inner {
            limits: CurrentLimits::new(limits),
            store,
            sleeper,
            queues: Arc::default(),
            leases: LeaseIds::default(),
            closed: AtomicBool::new(false),
            store_closed: AtomicBool::new(false),
            counts_decisions,
        };
        Limiter { inner: Arc::new(inner) }
    }

    /// Returns whether every call except an `acquire` is decided at the first poll.
    pub(crate) fn is_immediate(&self) -> bool {
        self.inner.store.is_immediate()
    }

    /// Creates a call of any kind.
    #[inline]
    pub(crate) fn call<'a>(&'a self, name: &'a str, key: Key<'a>, kind: CallKind) -> Call<'a> {
        Call { limiter: self, name, key, cost: 1, options: CallOptions::default(), kind }
    }

    /// Takes units of the limit `name` for `key`, if the quota admits it. Nothing happens until the call is awaited.
    pub fn limit<'a>(&'a self, name: &'a str, key: impl Into<Key<'a>>) -> Call<'a> {
        self.call(name, key.into(), CallKind::Limit)
    }

    /// Decides as [`Limiter::limit`] would, and takes nothing.
    pub fn check<'a>(&'a self, name: &'a str, key: impl Into<Key<'a>>) -> Call<'a> {
        self.call(name, key.into(), CallKind::Check)
    }

    /// Takes units even into debt, up to the quota's `max_debt`. `retry_after` is the time until the debt has cleared
    /// and the work may start.
    pub fn reserve<'a>(&'a self, name: &'a str, key: impl Into<Key<'a>>) -> Call<'a> {
        self.call(name, key.into(), CallKind::Reserve)
    }

    /// Gives units back, never beyond the capacity. Refunding units that have already been replenished credits them
    /// twice; a [`Budget`](crate::budget::Budget) avoids that. A decision that is not
    /// [unconditional](crate::Decision::is_unconditional) took nothing, so there is nothing to refund.
    pub fn refund<'a>(&'a self, name: &'a str, key: impl Into<Key<'a>>) -> Call<'a> {
        self.call(name, key.into(), CallKind::Refund)
    }

    /// Forgets the key, which is then as good as new. The cost is ignored.
    pub fn reset<'a>(&'a self, name: &'a str, key: impl Into<Key<'a>>) -> Call<'a> {
        self.call(name, key.into(), CallKind::Reset)
    }

    /// Waits until the quota admits the request, for at most `within`, and takes the units. Callers of this limiter
    /// that wait for the same limit and key are served in order.
    ///
    /// A caller is denied if its turn does not come in time. It is denied at once if its turn has come and the wait
    /// would be longer than the time left. Nothing was taken then. If the limit was replaced meanwhile, the new one
    /// applies. If the limiter was closed, the result is [`Error::Closed`].
    pub fn acquire<'a>(&'a self, name: &'a str, key: impl Into<Key<'a>>, within: Duration) -> Call<'a> {
        self.call(name, key.into(), CallKind::Acquire { within })
    }

    /// Returns the quota of a limit.
    pub fn quota(&self, name: &str) -> Result<Quota, Error> {
        Ok(self.inner.limits.load().get(name)?.limit.quota)
    }

    /// Returns a limit with its settings.
    pub fn get(&self, name: &str) -> Result<Limit, Error> {
        Ok(self.inner.limits.load().get(name)?.limit.clone())
    }

    /// Returns the names of the limits, sorted.
    pub fn names(&self) -> Vec<String> {
        self.inner.limits.load().names()
    }

    /// Replaces a limit with all its settings. Keys keep their usage: the available units are the new capacity minus
    /// the used ones. Leases in flight stay, too. With another number of shards all keys are reset. A key that moves
    /// between leases and a rate is reset, too.
    pub fn replace(&self, name: &str, limit: Limit) -> Result<(), Error> {
        self.inner.limits.update(|limits| limits.with(name, |_| Ok(limit.clone())))
    }

    /// Replaces all limits by the limits, deny lists and prefix of `with`; its store is ignored. Every later decision
    /// uses the new limits. Keys of a limit that stays keep their usage, as with [`Limiter::replace`]. With another
    /// prefix all keys are reset.
    ///
    /// ```
    /// # use tidegate::{Limiter, Quota, seconds};
    /// let limiter = Limiter::builder().limit("old", Quota::token_bucket(1, seconds(1))?).build()?;
    /// limiter.replace_all(Limiter::builder().limit("new", Quota::token_bucket(2, seconds(1))?))?;
    /// assert_eq!(limiter.names(), ["new"]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn replace_all(&self, mut with: LimiterBuilder) -> Result<(), BuildError> {
        let limits = with.take_limits()?;
        self.inner.limits.update(|_| Ok(limits.clone()))
    }

    /// Replaces the quota of a limit and keeps its other settings, as [`Limiter::replace`] does.
    pub fn set_quota(&self, name: &str, quota: Quota) -> Result<(), Error> {
        self.inner.limits.update(|limits| limits.with(name, |limit| Ok(limit.clone().with_quota(quota)?)))
    }

    /// Closes the store, and rejects every later call. Idempotent.
    pub async fn close(&self) {
        self.inner.closed.store(true, Ordering::Release);
        // Stored separately from `closed`, because a close may be cancelled and called again.
        if !self.inner.store_closed.load(Ordering::Acquire) {
            self.inner.store.close().await;
            self.inner.store_closed.store(true, Ordering::Release);
        }
    }
}

impl fmt::Debug for Limiter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Limiter").field("limits", &self.names()).finish_non_exhaustive()
    }
}
