//! What a store of your own implements and calls. The stores that come with the library are at its root.
//!
//! A store keeps the state of keys. It implements [`Store`], and makes every decision by [`step`], which takes a quota, a
//! state, an operation and the time. The conformance suite of `tidegate-testkit` shows whether it keeps the contract.

pub use tidegate_core::{
    BoxFuture, Capabilities, Counts, DecisionParts, DynStore, Entry, InFlightCount, Leases, Log, NarrowBucket,
    NarrowStep, Op, Request, Scope, State, StepResult, Store, StoreError, StoreErrorKind, Testing, check_all, step,
    step_all,
};
use tidegate_core::{Decision, JointDecision};

#[cfg(feature = "redis")]
pub(crate) mod colocation;
pub(crate) mod memory;
#[cfg(feature = "postgres")]
pub mod postgres;
#[cfg(feature = "redis")]
pub mod redis;
#[cfg(feature = "remote")]
pub mod remote;
#[cfg(feature = "redis")]
pub(crate) mod rendezvous;
#[cfg(any(feature = "redis", feature = "sqlite", feature = "postgres"))]
mod secret;
#[cfg(feature = "sqlite")]
pub mod sqlite;
#[cfg_attr(not(feature = "stored"), allow(unreachable_pub, reason = "what is public there is so with that feature"))]
pub(crate) mod stored;
#[cfg(any(feature = "sqlite", feature = "postgres"))]
mod table;
#[cfg(feature = "tokio")]
pub(crate) mod two_tier;

/// The default of every setting named `expected_replicas`: one process. A program that runs more than one sets it to their
/// usual number.
pub(crate) const EXPECTED_REPLICAS: std::num::NonZeroU32 = std::num::NonZeroU32::MIN;

/// Where a dispatched call is decided: the limiter's store, or a transaction of the caller's. A transaction is no store,
/// because only the caller sees it, and it may belong to one thread.
pub(crate) trait Decider {
    /// [`Store::apply`].
    async fn decide(&self, request: &Request<'_>) -> Result<Decision, StoreError>;

    /// [`Store::apply_all`].
    async fn decide_all(&self, requests: &[Request<'_>]) -> Result<JointDecision, StoreError>;

    /// [`Store::apply_each`].
    async fn decide_each(&self, requests: &[Request<'_>]) -> Vec<Result<Decision, StoreError>>;
}

impl Decider for dyn DynStore + '_ {
    async fn decide(&self, request: &Request<'_>) -> Result<Decision, StoreError> {
        self.apply(request).await
    }

    async fn decide_all(&self, requests: &[Request<'_>]) -> Result<JointDecision, StoreError> {
        self.apply_all(requests).await
    }

    async fn decide_each(&self, requests: &[Request<'_>]) -> Vec<Result<Decision, StoreError>> {
        self.apply_each(requests).await
    }
}
