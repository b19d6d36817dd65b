//! The store contract: the interface between a limiter and the storage of its keys.

mod dynamic;
mod error;

use std::future::Future;
use std::num::NonZeroU32;
use std::sync::Arc;

pub use dynamic::{BoxFuture, DynStore, poll_once};
pub use error::{StoreError, StoreErrorKind};

use crate::{Decision, JointDecision, Key, Op, Quota, Scope, Timestamp};

/// What to do with a request when the store is broken. A setting of each limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum OnStoreError {
    /// Admit it, and say so in the decision's reason.
    #[default]
    Open,
    /// Refuse it as unavailable.
    Closed,
    /// Decide in process, by the quota's share of one replica.
    Local,
}

impl OnStoreError {
    /// Every policy, in the order in which one wins over another when several limits are asked at once.
    pub const ALL: [OnStoreError; 3] = [OnStoreError::Closed, OnStoreError::Local, OnStoreError::Open];

    /// The name in configs.
    pub const fn as_str(self) -> &'static str {
        match self {
            OnStoreError::Open => "open",
            OnStoreError::Closed => "closed",
            OnStoreError::Local => "local",
        }
    }
}

/// One operation on one key under one quota, with what wrappers need to know about the limit.
#[derive(Debug, Clone, Copy)]
pub struct Request<'a> {
    /// Whose keys: the limiter's prefix and the limit's name.
    pub scope: &'a Scope,
    /// Who is limited.
    pub key: &'a Key<'a>,
    /// The quota to judge by.
    pub quota: &'a Quota,
    /// What to do.
    pub op: Op,
    /// What the limit wants when the store is broken.
    pub on_store_error: OnStoreError,
}

/// What a store can do beyond the contract's core. A case of the conformance suite that needs one of these runs, or
/// is listed as not applicable by name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct Capabilities {
    /// [`Store::apply_all`] is atomic for any keys: nobody ever sees a part of it.
    pub atomic_all: bool,
    /// A request that the store fails is answered by its [`Request::on_store_error`]. A limiter puts a timeout, a breaker and
    /// that policy around a store that does I/O and has none.
    pub failure_policy: bool,
    /// The number of calls that it works on at once. Further calls only wait in it. Not stated by a store that serves as many as
    /// come.
    pub max_in_flight: Option<NonZeroU32>,
}

impl Capabilities {
    /// Sets whether [`Store::apply_all`] is atomic for any keys.
    #[must_use]
    pub const fn with_atomic_all(mut self, atomic_all: bool) -> Self {
        self.atomic_all = atomic_all;
        self
    }

    /// Sets whether a request that the store fails is answered by its [`Request::on_store_error`].
    #[must_use]
    pub const fn with_failure_policy(mut self, failure_policy: bool) -> Self {
        self.failure_policy = failure_policy;
        self
    }

    /// Sets how many calls it works on at once; 0 is not stated.
    #[must_use]
    pub const fn with_max_in_flight(mut self, calls: u32) -> Self {
        self.max_in_flight = NonZeroU32::new(calls);
        self
    }
}

/// A place where the state of keys lives: applies one operation to one key under one quota, atomically.
///
/// # Atomicity
///
/// [`Store::apply`] reads, steps and writes as one: whatever happens at the same time, in this process or another,
/// the decisions are those of some order of the calls. [`Store::apply_all`] takes everything or nothing.
/// [`Store::apply_each`] is as many single calls, in order, for the price of fewer round trips; it is not atomic as
/// a whole.
///
/// # Time
///
/// The store reads its own clock, once a call. Only [`TestableStore`] takes a time from its caller.
/// Time that goes backwards for a key counts as standing still.
///
/// # State
///
/// The decisions are those of [`step`](crate::step), bit for bit. A state that was written under another quota is
/// [rebased](crate::State::rebase) first. `check` and a denied request write nothing. A key that is as good as new
/// is the same as no key: a store may forget it, and must in the end, so that idle keys cost nothing.
///
/// Leases and units do not mix: a key that goes from `concurrency` to a rate, or back, begins anew. There is one corner in
/// which stores may differ: one that keeps the leases of a key apart from what a rate has used finds either as it was when
/// the key comes back to it, where another has forgotten it.
///
/// # Errors
///
/// A denial is a decision. An error means that nobody knows what was decided, and says whether trying again can
/// help. After an error the request may have been applied or not.
///
/// # Wrappers
///
/// A wrapper is a store too: it implements every method by name and passes on everything it does not change, the
/// capabilities and [`Store::close`] included. [`Store::try_apply`] must not be a way around what the wrapper adds, and one
/// that may wait where its store does not says so by [`Store::is_immediate`].
pub trait Store: Send + Sync {
    /// What this store can do beyond the contract's core.
    fn capabilities(&self) -> Capabilities;

    /// Whether every answer of this store is there when its future is polled for the first time, and
    /// [`Store::try_apply`] answers always. Then nothing has to be put aside until somebody is woken, and nothing is: a store
    /// that says so and keeps its callers waiting has failed them. To say nothing is always right.
    fn is_immediate(&self) -> bool {
        false
    }

    /// Says that something is about to be asked about this key. A store in process fetches meanwhile what it will look at, so that
    /// who has several requests at hand waits for memory once and not for each of them. Nothing is decided, and nothing has
    /// to come of it: a store that does I/O has nothing to do.
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

    /// Takes all requests or nothing, as [`step_all`](crate::step_all) does. Every operation has to be
    /// [`Op::Limit`], and a key has to be there under one quota only; anything else is [`StoreErrorKind::Unsupported`], and
    /// nothing was taken.
    fn apply_all(&self, requests: &[Request<'_>]) -> impl Future<Output = Result<JointDecision, StoreError>> + Send;

    /// Applies every request on its own, in order.
    fn apply_each(&self, requests: &[Request<'_>]) -> impl Future<Output = Vec<Result<Decision, StoreError>>> + Send;

    /// Gives back what the store holds outside of itself. Idempotent.
    fn close(&self) -> impl Future<Output = ()> + Send;
}

/// A store whose operations also take a time, so that tests can replay a trace.
///
/// Not for production, where only the store reads a clock. A state written at a passed time gets no lifetime that
/// runs in real time.
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

    /// Removes the keys that are as good as new at `at`, and returns how many are left. Returns `None` when this store
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
