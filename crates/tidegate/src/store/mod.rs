//! The store contract, for custom stores. The library's own stores are at the crate root.
//!
//! A store keeps the state of keys. It implements [`Store`], and makes every decision by [`step`], which takes a quota,
//! a state, an operation and the time. The conformance suite of `tidegate-testkit` shows whether it keeps the contract.

pub use tidegate_core::{
    BoxFuture, BucketCounts, Capabilities, DecisionParts, DynStore, InFlightCount, JointEntry, Leases, NarrowBucket,
    NarrowStep, Op, Request, RequestLog, Scope, State, StepResult, Store, StoreError, StoreErrorKind, TestableStore,
    check_all, step, step_all,
};
use tidegate_core::{Decision, JointDecision};

#[cfg_attr(not(feature = "stored"), allow(unreachable_pub, reason = "the feature makes these items public"))]
pub(crate) mod codec;
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
#[cfg(any(feature = "sqlite", feature = "postgres"))]
mod table;
#[cfg(feature = "tokio")]
pub(crate) mod two_tier;

/// The default of every setting named `expected_replicas`: one process. A program that runs more than one sets it to
/// their usual number.
pub(crate) const EXPECTED_REPLICAS: std::num::NonZeroU32 = std::num::NonZeroU32::MIN;

/// The target that decides a dispatched call: the store of the limiter, or a transaction of the caller. A transaction
/// is not a store, because only the caller sees it and it may belong to one thread.
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
