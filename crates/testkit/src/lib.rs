//! Test suites for Tidegate's stores and adapters, third-party ones included.
//!
//! - [`suite`]: the conformance suite, one plain async function for each named case. [`conformance_tests!`] creates one
//!   `#[test]` for each.
//! - `adapters`, with the feature of that name: the suite for adapters of web frameworks.
//! - [`oracle`]: random traces, decided by the store and by a slow model that implements only the rules.
//! - [`FaultyStore`]: a store that fails, hangs or delays responses on command, for tests of code around stores.
//! - [`MapStore`]: a minimal store, and a pattern for new ones.
//!
//! ```
//! use tidegate_testkit::{MapStore, Subject, block_on, oracle, suite};
//!
//! let subject = Subject::new(MapStore::new());
//! block_on(suite::capacity_is_admitted_exactly(&subject)).report("capacity_is_admitted_exactly");
//! block_on(oracle::run(&subject, 7, 20)).unwrap();
//! ```
#![forbid(unsafe_code)]

#[cfg(feature = "adapters")]
pub mod adapters;
mod block_on;
mod faulty;
mod map_store;
pub mod oracle;
mod random;
mod subject;
pub mod suite;

pub use block_on::block_on;
pub use faulty::{CallCounts, Faults, FaultyStore};
pub use map_store::MapStore;
pub use random::Random;
pub use subject::{Applicability, Runner, Subject};
