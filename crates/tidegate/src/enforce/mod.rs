//! One enforcer for every transport: a key and a cost in, an outcome out.
//!
//! An [`Enforcer`] never fails and never panics. What can go wrong is an [`Outcome`] too: a store that is broken, under
//! the policy of the limit, and a mistake in the program, which no policy hides. A transport maps the six outcomes
//! onto what it speaks, and that is all it does.
//!
//! ```
//! use tidegate::enforce::{Enforcer, Outcome};
//! use tidegate::{Limiter, Quota, minutes};
//!
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! let limiter = Limiter::builder()
//!     .limit("burst", Quota::token_bucket(10, minutes(1))?)
//!     .limit("daily", Quota::fixed_window(1_000, minutes(24 * 60))?)
//!     .build()?;
//! let enforcer = Enforcer::new(&limiter, "burst").and("daily"); // all or nothing
//!
//! match enforcer.enforce("alice", 1).await {
//!     Outcome::Allowed(rulings) => println!("{:?}", rulings.binding().map(|ruling| ruling.decision().remaining())),
//!     Outcome::Limited(rulings) => println!("try again in {:?}", rulings.retry_after()),
//!     Outcome::Overloaded(refused) => println!("{refused}"), // only by an `Admission`
//!     Outcome::Denied(_) => println!("never"),
//!     Outcome::Unavailable(error) => println!("try again later: {error}"),
//!     Outcome::Invalid(error) => println!("a bug: {error}"),
//! }
//! # Ok(()) }
//! ```

mod admission;
mod axis;
mod caller;
mod enforcer;
mod guard;
mod hooks;
mod outcome;
#[cfg(feature = "tower")]
pub(crate) mod plainly;
mod rule;
mod several;

pub use admission::{Admission, Admitted};
pub use axis::Axis;
pub use caller::Caller;
pub use enforcer::{Enforcer, Step};
pub use guard::{Guard, Guards, Permits};
pub use outcome::{Outcome, Ruling, Rulings};
#[cfg(feature = "tower")]
pub(crate) use plainly::{Denial, Plainly};
