//! Named limits over one store.

mod acquire;
mod admit;
mod all;
mod any_store;
mod builder;
mod call;
mod current;
mod decides;
mod deny;
mod each;
mod error;
mod limit;
mod limits;
mod look;
mod normalize;
mod outline;
#[cfg(feature = "tower")]
mod plain;
mod question;
mod queue;
mod route;
mod spread;
mod terms;

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tidegate_core::{Key, Quota, Store};

pub use admit::{AdmitCall, AdmitFuture, Admitted};
pub use builder::LimiterBuilder;
pub use call::{Call, CallFuture};
pub(crate) use deny::DenyList;
pub use error::{BuildError, Error, UnknownLimit, Unsupported};
pub use limit::{Limit, ShardBy};
pub use normalize::Normalize;
pub(crate) use outline::Outline;
#[cfg(feature = "tower")]
pub(crate) use plain::Plain;
pub(crate) use question::Question;
pub(crate) use terms::Terms;
#[cfg(any(feature = "sqlite", feature = "postgres"))]
pub(crate) use {all::ask_all, decides::Decides};

use crate::clock::Sleeper;
use admit::LeaseIds;
use any_store::AnyStore;
pub(crate) use call::Kind;
use current::Current;
use limits::Limits;
pub(crate) use limits::Name;
use queue::Queues;
use spread::Generator;

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

/// What every decision looks at comes first.
#[repr(C)]
struct Inner {
    store: AnyStore,
    limits: Current,
    sleeper: Option<Arc<dyn Sleeper>>,
    queues: Arc<Queues>,
    generator: Generator,
    leases: LeaseIds,
    closed: AtomicBool,
    /// The store was closed, too.
    released: AtomicBool,
}

impl Inner {
    #[inline]
    fn is_closed(&self) -> bool {
        self.closed.load(Ordering::Acquire)
    }
}

impl Limiter {
    /// How a limiter is made.
    pub fn builder() -> LimiterBuilder {
        LimiterBuilder::default()
    }

    fn assemble(limits: Limits, store: AnyStore, sleeper: Option<Arc<dyn Sleeper>>, seed: u64) -> Self {
        let inner = Inner {
            limits: Current::new(limits),
            store,
            sleeper,
            queues: Arc::default(),
            generator: Generator::new(seed),
            leases: LeaseIds::default(),
            closed: AtomicBool::new(false),
            released: AtomicBool::new(false),
        };
        Limiter { inner: Arc::new(inner) }
    }

    /// Whether whatever is asked is answered at the first poll, but for an `acquire`.
    pub(crate) fn answers_at_once(&self) -> bool {
        self.inner.store.answers_at_once()
    }

    /// Takes from the limit `name` for `key`, if the quota admits it. Nothing happens until the call is awaited.
    pub fn limit<'a>(&'a self, name: &'a str, key: impl Into<Key<'a>>) -> Call<'a> {
        Call::new(&self.inner, name, key.into(), Kind::Limit)
    }

    /// Answers as [`Limiter::limit`] would, and takes nothing.
    pub fn check<'a>(&'a self, name: &'a str, key: impl Into<Key<'a>>) -> Call<'a> {
        Call::new(&self.inner, name, key.into(), Kind::Check)
    }

    /// Takes even when that means debt, up to the quota's `max_debt`. `retry_after` says when the debt will have
    /// cleared: when the work may start.
    pub fn reserve<'a>(&'a self, name: &'a str, key: impl Into<Key<'a>>) -> Call<'a> {
        Call::new(&self.inner, name, key.into(), Kind::Reserve)
    }

    /// Gives back what was taken, never beyond the capacity. What has come back by itself meanwhile is then given twice: a
    /// [`Budget`](crate::budget::Budget) knows how much that is. And of a yes that is not
    /// [ordinary](crate::Decision::is_ordinary) nothing was taken, so nothing is to be given back.
    pub fn refund<'a>(&'a self, name: &'a str, key: impl Into<Key<'a>>) -> Call<'a> {
        Call::new(&self.inner, name, key.into(), Kind::Refund)
    }

    /// Forgets the key: it is as good as new. Its cost means nothing.
    pub fn reset<'a>(&'a self, name: &'a str, key: impl Into<Key<'a>>) -> Call<'a> {
        Call::new(&self.inner, name, key.into(), Kind::Reset)
    }

    /// Waits until the quota admits it, for `within` at most, and takes. Callers of this limiter that wait for the same
    /// limit and key are served in the order in which they came.
    ///
    /// Answers a denial when its turn does not come within that time, and at once when its turn has come and the wait would
    /// be longer than what is left; nothing was taken then. A limit that is
    /// replaced meanwhile counts as it is when the turn comes, and a limiter that is closed answers that it is.
    pub fn acquire<'a>(&'a self, name: &'a str, key: impl Into<Key<'a>>, within: Duration) -> Call<'a> {
        Call::new(&self.inner, name, key.into(), Kind::Acquire { within })
    }

    /// The quota of a limit.
    pub fn quota(&self, name: &str) -> Result<Quota, Error> {
        Ok(self.inner.limits.load().get(name)?.limit.quota)
    }

    /// A limit with its settings.
    pub fn get(&self, name: &str) -> Result<Limit, Error> {
        Ok(self.inner.limits.load().get(name)?.limit.clone())
    }

    /// The names of the limits, sorted.
    pub fn names(&self) -> Vec<String> {
        self.inner.limits.load().names()
    }

    /// Replaces a limit, settings and all. What keys have used is kept: available becomes the new capacity minus that.
    /// Leases in flight stay, too. (With another number of shards the parts are other keys, and begin anew; so does a key
    /// that goes between leases and a rate.)
    pub fn replace(&self, name: &str, limit: Limit) -> Result<(), Error> {
        self.inner.limits.update(|limits| limits.with(name, |_| Ok(limit.clone())))
    }

    /// Replaces all limits by those of `with`: its limits, deny lists and prefix; its store is not looked at. From one
    /// decision to the next everybody meets the new ones. What keys have used of a limit that stays is kept, as
    /// [`Limiter::replace`] does; with another prefix all keys are others, and begin anew.
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

    /// Answers nothing more from now on, and lets the store give back what it holds. Idempotent.
    pub async fn close(&self) {
        self.inner.closed.store(true, Ordering::Release);
        // After that: who still sees the first limits does not look whether it is closed.
        self.inner.limits.renew();
        // Apart from the above, because a close may be cut short and asked for again.
        if !self.inner.released.load(Ordering::Acquire) {
            self.inner.store.close().await;
            self.inner.released.store(true, Ordering::Release);
        }
    }
}

impl fmt::Debug for Limiter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Limiter").field("limits", &self.names()).finish_non_exhaustive()
    }
}
