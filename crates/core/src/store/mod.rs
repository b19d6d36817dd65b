//! The store contract: the interface between a limiter and the storage of its keys.

mod dynamic;
mod error;

use std::future::Future;
use std::num::NonZeroU32;
use std::sync::Arc;

pub use dynamic::{BoxFuture, DynStore, poll_once};
pub use error::{StoreError, StoreErrorKind};

use crate::{Decision, JointDecision, Key, Op, Quota, Scope, Timestamp};

/// The policy of a limit for requests while the store is broken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum OnStoreError {
    /// Admit it, and say so in the decision's reason. A flood that breaks the store then opens the limit.
    Open,
    /// Refuse it as unavailable.
    Closed,
    /// Decide in process, by the quota's share of one replica. The default: an outage neither opens a limit nor stops its callers.
    #[default]
    Local,
}

impl OnStoreError {
    /// Every policy, by precedence when several limits decide together.
    pub const ALL: [OnStoreError; 3] = [OnStoreError::Closed, OnStoreError::Local, OnStoreError::Open];

    /// Returns the name in configs.
    pub const fn as_str(self) -> &'static str {
        match self {
            OnStoreError::Open => "open",
            OnStoreError::Closed => "closed",
            OnStoreError::Local => "local",
        }
    }
}

/// One operation on one key under one quota, and the limit's failure policy for wrappers.
#[derive(Debug, Clone, Copy)]
pub struct Request<'a> {
    /// The namespace of the key: the limiter's prefix and the limit's name.
    pub scope: &'a Scope,
    /// The key to limit.
    pub key: &'a Key<'a>,
    /// The quota that decides.
    pub quota: &'a Quota,
    /// The operation.
    pub op: Op,
    /// The limit's policy for a broken store.
    pub on_store_error: OnStoreError,
}

/// The features of a store beyond the contract's core. The conformance suite runs a case only if the store has the
/// features for it, and lists the others as not applicable.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct Capabilities {
    /// [`Store::apply_all`] is atomic for any keys: no other caller ever sees a part of it.
    pub atomic_all: bool,
    /// The store answers a failed request by its [`Request::on_store_error`]. A limiter wraps a store that does I/O and
    /// lacks this in a timeout, a breaker and that policy.
    pub failure_policy: bool,
    /// The number of calls that the store works on at once; further calls wait. `None` when the store sets no bound.
    pub max_in_flight: Option<NonZeroU32>,
}

impl Capabilities {
    /// Sets whether [`Store::apply_all`] is atomic for any keys.
    #[must_use]
    pub const fn with_atomic_all(mut self, atomic_all: bool) -> Self {
        self.atomic_all = atomic_all;
        self
    }

    /// Sets whether the store answers a failed request by its [`Request::on_store_error`].
    #[must_use]
    pub const fn with_failure_policy(mut self, failure_policy: bool) -> Self {
        self.failure_policy = failure_policy;
        self
    }

    /// Sets how many calls the store works on at once. 0 means no bound.
    #[must_use]
    pub const fn with_max_in_flight(mut self, calls: u32) -> Self {
        self.max_in_flight = NonZeroU32::new(calls);
        self
    }
}

/// A storage of key states. It applies one operation to one key under one quota, atomically.
///
/// # Atomicity
///
/// [`Store::apply`] reads, steps and writes atomically. The decisions of concurrent calls, in this process or another,
/// are those of some order of the calls. [`Store::apply_all`] takes everything or nothing. [`Store::apply_each`] makes
/// one call for each request, in order, in fewer round trips. It is not atomic as a whole.
///
/// # Time
///
/// The store reads its own clock, once a call. Only [`TestableStore`] takes a time from its caller. Time that goes
/// backwards for a key counts as standing still.
///
/// # State
///
/// The decisions are those of [`step`](crate::step), bit for bit. The store first [rebases](crate::State::rebase) a
/// state that another quota wrote. A `check` and a denied request write nothing. A key that is as good as new is
/// equivalent to no key. A store may forget it, and must do so eventually, so that idle keys cost nothing.
///
/// Leases and units do not mix: a key that moves from `concurrency` to a rate, or back, is reset. Stores may differ in
/// one corner. A store that keeps leases and units apart finds the old ones when the key moves back. Another store has
/// forgotten them.
///
/// # Errors
///
/// A denial is a decision, not an error. An error means that the decision is unknown: the request may have been applied
/// or not. The error says whether a retry can help.
///
/// # Wrappers
///
/// A wrapper is a store too. It implements every method by name and passes on everything it does not change, including
/// the capabilities and [`Store::close`]. [`Store::try_apply`] must not bypass the wrapper's effect. A wrapper that may
/// wait where its store does not must return false from [`Store::is_immediate`].
pub trait Store: Send + Sync {
    /// Returns the features of this store beyond the contract's core.
    fn capabilities(&self) -> Capabilities;

    /// Returns whether every future of this store is ready at its first poll, and [`Store::try_apply`] always returns a
    /// decision. Callers then never wait for a wake-up: a future that is not ready is an error. False, the default, is
    /// always correct.
    fn is_immediate(&self) -> bool {
        false
    }

    /// Announces a request for this key. A store in process fetches the key's memory meanwhile, so a caller with
    /// several requests waits for memory once. Nothing is decided, and no request needs to follow. A store that does
    /// I/O has nothing to do.
    fn prefetch(&self, _scope: &Scope, _key: &Key<'_>) {}

    /// The part of the store that this key depends on; parts fail on their own; below 64. A circuit breaker keeps a circuit for
    /// each, so that one server of a cluster can be away alone. [`Store::apply_all`] takes keys of one part only.
    fn partition(&self, _scope: &Scope, _key: &Key<'_>) -> u8 {
        0
    }

    /// Applies one request at once, without waiting; none when this store has to wait for an answer, and then
    /// nothing was done.
    fn try_apply(&self, request: &Request<'_>) -> Option<Result<Decision, StoreError>>;

    /// Applies one request.
    fn apply(&self, request: &Request<'_>) -> impl Future<Output = Result<Decision, StoreError>> + Send;

    /// Takes all requests or nothing, as [`step_all`](crate::step_all) does. Every operation must be [`Op::Limit`], and
    /// all requests for a key must have the same quota. Otherwise the store takes nothing and returns
    /// [`StoreErrorKind::Unsupported`].
    fn apply_all(&self, requests: &[Request<'_>]) -> impl Future<Output = Result<JointDecision, StoreError>> + Send;

    /// Applies every request on its own, in order.
    fn apply_each(&self, requests: &[Request<'_>]) -> impl Future<Output = Vec<Result<Decision, StoreError>>> + Send;

    /// Releases everything that the store holds outside of itself. Idempotent.
    fn close(&self) -> impl Future<Output = ()> + Send;
}

/// A store whose operations also take a time, so that tests can replay a trace.
///
/// It is for tests only: in production, only the store reads a clock. A state written at a given time has no lifetime
/// in real time.
pub trait TestableStore: Store {
    /// Applies one request at the time `at`, as [`Store::apply`] does.
    fn apply_at(
        &self,
        request: &Request<'_>,
        at: Timestamp,
    ) -> impl Future<Output = Result<Decision, StoreError>> + Send;

    /// Takes all requests or nothing at the time `at`, as [`Store::apply_all`] does.
    fn apply_all_at(
        &self,
        requests: &[Request<'_>],
        at: Timestamp,
    ) -> impl Future<Output = Result<JointDecision, StoreError>> + Send;

    /// Removes the keys that are as good as new at `at`. Returns the number of keys left, or `None` when this store
    /// cannot count them.
    fn sweep_at(&self, at: Timestamp) -> impl Future<Output = Option<usize>> + Send;
}

impl<S: Store + ?Sized> Store for Arc<S> {
    fn capabilities(&self) -> Capabilities {
        S::capabilities(self)
    }

    fn is_immediate(&self) -> bool {
        S::is_immediate(self)
    }

    fn prefetch(&self, scope: &Scope, key: &Key<'_>) {
        S::prefetch(self, scope, key);
    }

    fn partition(&self, scope: &Scope, key: &Key<'_>) -> u8 {
        S::partition(self, scope, key)
    }

    fn try_apply(&self, request: &Request<'_>) -> Option<Result<Decision, StoreError>> {
        S::try_apply(self, request)
    }

    fn apply(&self, request: &Request<'_>) -> impl Future<Output = Result<Decision, StoreError>> + Send {
        S::apply(self, request)
    }

    fn apply_all(&self, requests: &[Request<'_>]) -> impl Future<Output = Result<JointDecision, StoreError>> + Send {
        S::apply_all(self, requests)
    }

    fn apply_each(&self, requests: &[Request<'_>]) -> impl Future<Output = Vec<Result<Decision, StoreError>>> + Send {
        S::apply_each(self, requests)
    }

    fn close(&self) -> impl Future<Output = ()> + Send {
        S::close(self)
    }
}
