//! Concurrency limits: permits released exactly once, limits that adapt to latency, and fair shares for tenants.
//!
//! A rate limits how often; a service fails from too many requests at once. A [`Concurrency`] hands out [`Permit`]s while
//! fewer than its limit are out. The limit is a number, or adapted by a [`Controller`] to the latency it observes.
//!
//! ```
//! use tidegate::concurrency::{Completion, Concurrency};
//!
//! let pool = Concurrency::fixed(1);
//! let permit = pool.try_acquire().unwrap();
//!
//! let rejected = pool.try_acquire().unwrap_err();
//! assert_eq!(rejected.limit(), 1);
//! println!("try again in {:?}", rejected.retry_after()); // a hint, from recent latency
//!
//! permit.release(Completion::Success); // or dropped, whatever becomes of the work
//! assert_eq!(pool.in_flight(), 0);
//! ```
//!
//! | type | limits | across |
//! | --- | --- | --- |
//! | [`Concurrency`] | all callers together | this process |
//! | [`PerKey`] | each key | this process |
//! | [`FairConcurrency`] | tenants, by weight | this process |
#![cfg_attr(
    feature = "tokio",
    doc = "| [`DistributedConcurrency`] | each key of a `concurrency` limit | all processes |"
)]
//! | [`AdaptiveThrottle`] | requests to an overloaded service, on the side of its client | this process |

mod adaptive_throttle;
mod controllers;
#[cfg(feature = "tokio")]
mod distributed;
mod fair;
mod in_flight;
mod per_key;
mod permit;
mod pool;
mod rejected;

pub use adaptive_throttle::{AdaptiveThrottle, AdaptiveThrottleBuilder, Attempt, Throttled};
pub use controllers::{Aimd, Controller, Gradient2, Sample, Vegas};
#[cfg(feature = "tokio")]
pub use distributed::{AcquireError, DistributedConcurrency};
pub use fair::{FairConcurrency, FairConcurrencyBuilder, Share};
pub use per_key::PerKey;
pub use permit::{Completion, Permit};
pub use pool::{Concurrency, Priority};
pub use rejected::{RejectReason, Rejected};
