//! The pure part of Tidegate: quotas, keys, decisions, exact algorithms and the [`Store`] contract.
//!
//! The crate reads no clock, does no I/O, starts no thread and uses no floating point numbers. So the same code runs in
//! a service, in a database client, in a test with a manual clock, and at the edge as wasm32.
//!
//! Every decision is one call of [`step`], a pure function of quota, state, operation and time.
//!
//! ```
//! use tidegate_core::{Cost, Op, Quota, State, Timestamp, seconds, step};
//!
//! let quota = Quota::token_bucket(10, seconds(1))?.capacity(20)?;
//! let mut state = State::default(); // a new key has its whole capacity
//! let now = Timestamp::from_millis(1_000);
//!
//! let taken = step(&quota, &mut state, Op::Limit(Cost::new(20)?), now);
//! assert!(taken.decision.allowed());
//!
//! let denied = step(&quota, &mut state, Op::Limit(Cost::ONE), now).decision;
//! assert!(!denied.allowed());
//! assert_eq!(denied.retry_after().unwrap().as_millis(), 100);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
#![forbid(unsafe_code)]

mod algorithm;
mod cost;
mod decision;
mod divisor;
mod hash;
mod key;
mod lease;
mod quota;
mod scope;
mod store;
mod time;

pub use algorithm::{
    BucketCounts, InFlightCount, JointEntry, Leases, NarrowBucket, NarrowStep, Op, RequestLog, State, StepResult,
    check_all, step, step_all,
};
pub use cost::{Cost, InvalidCost};
pub use decision::{Decision, DecisionParts, Denied, JointDecision, Reason};
pub use key::Key;
pub use lease::{InvalidLease, Lease};
pub use quota::{Algorithm, MAX_COUNT, MAX_PERIOD, MAX_SHARDS, MIN_PERIOD, Quota, QuotaError, QuotaParts};
pub use scope::Scope;
pub use store::{
    BoxFuture, Capabilities, DynStore, OnStoreError, Request, Store, StoreError, StoreErrorKind, TestableStore,
};
pub use time::{Timestamp, ceil_millis, ceil_seconds, days, hours, millis, minutes, seconds};

/// Items that Tidegate's crates share. Not part of the public API.
#[doc(hidden)]
pub mod private {
    pub use crate::decision::InlineVec;
    pub use crate::store::poll_once;
}
