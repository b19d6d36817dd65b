//! How many at once: permits that are given back exactly once, limits that find themselves, tenants that share.
//!
//! A rate says how often; a service dies of how many at once. A [`Concurrency`] hands out [`Permit`]s as long as fewer
//! than its limit are out. The limit is a number, or what a [`Controller`] makes of the times it sees.
//!
//! ```
//! use tidegate::concurrency::{Concurrency, Work};
//!
//! let pool = Concurrency::fixed(1);
//! let permit = pool.try_acquire().unwrap();
//!
//! let refused = pool.try_acquire().unwrap_err();
//! assert_eq!(refused.limit(), 1);
//! println!("try again in {:?}", refused.retry_after()); // a hint: nobody knows when the work will end
//!
//! permit.release(Work::Done); // or dropped, whatever becomes of the work
//! assert_eq!(pool.in_flight(), 0);
//! ```

pub mod controller;
mod counter;
mod fair;
mod held;
mod keyed;
#[cfg(all(test, loom))]
mod loom_tests;
mod permit;
mod pool;
mod priority;
mod refused;
#[cfg(feature = "tokio")]
mod shared;
mod throttle;
mod work;

pub use controller::{Aimd, Controller, Gradient2, Sample, Vegas};
pub use fair::{Fair, FairBuilder, Share};
pub use keyed::PerKey;
pub use permit::Permit;
pub use pool::Concurrency;
pub use priority::Priority;
pub use refused::{Refused, Why};
#[cfg(feature = "tokio")]
pub use shared::{NoPermit, Shared};
pub use throttle::{Attempt, Throttle, ThrottleBuilder, Throttled};
pub use work::Work;
