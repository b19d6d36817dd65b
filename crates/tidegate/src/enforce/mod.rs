//! The enforcer behind every transport: takes a key and a cost, and returns an outcome.
//!
//! An [`Enforcer`] never fails and never panics. Failures are outcomes, too. A broken store is handled by the policy of
//! the limit. A mistake in the program is reported under every policy. A transport only maps the six outcomes to its
//! protocol.
//!
//! ```
//! use tidegate::enforce::Outcome;
//! use tidegate::{Limiter, Quota, minutes};
//!
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! let limiter = Limiter::builder()
//!     .limit("burst", Quota::token_bucket(10, minutes(1))?)
//!     .limit("daily", Quota::fixed_window(1_000, minutes(24 * 60))?)
//!     .build()?;
//! let enforcer = limiter.enforcer("burst")?.and("daily")?; // all or nothing
//!
//! match enforcer.enforce("alice", 1).await {
//!     Outcome::Allowed(limit_decisions) => println!("{:?}", limit_decisions.binding().map(|limit| limit.decision().remaining())),
//!     Outcome::Limited(limit_decisions) => println!("try again in {:?}", limit_decisions.retry_after()),
//!     Outcome::Overloaded(rejected) => println!("{rejected}"), // only by an `Admission`
//!     Outcome::Denied(_) => println!("never"),
//!     Outcome::Unavailable(error) => println!("try again later: {error}"),
//!     Outcome::Invalid(error) => println!("a bug: {error}"),
//! }
//! # Ok(()) }
//! ```

mod admission;
mod caller;
mod enforcer;
mod guard;
mod outcome;
mod rule;

pub use admission::{Admission, AdmissionPermit};
pub use caller::Caller;
pub use enforcer::{Action, Enforcer};
pub use guard::{ConcurrencyGuard, ConcurrencyGuards, Permits};
pub use outcome::{LimitDecision, LimitDecisions, LimitKind, Outcome, OutcomeSummary};
