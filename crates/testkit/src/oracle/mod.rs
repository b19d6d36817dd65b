//! The differential oracle: random traces, decided by a store and by a slow model that implements only the rules.
//!
//! The model keeps rational numbers and plain lists. It finds a span by searching for the first microsecond at which
//! the request would be admitted. So it shares neither code nor formulas with the algorithms.
//!
//! A trace depends only on its seed, and aims at the edges: at, just before and just after every span of the earlier
//! decisions.
//!
//! ```
//! use tidegate_testkit::{MapStore, Subject, block_on, oracle};
//!
//! let report = block_on(oracle::run(&Subject::new(MapStore::new()), 42, 30)).unwrap();
//! assert_eq!(report.steps, 30);
//! ```

mod admission_bound;
mod compare;
mod generate;
mod key_state;
mod model;
mod quotas;
mod trace;

pub use admission_bound::{BoundExceeded, check_admission_bound};
pub use compare::{Mismatch, RunReport, compare_stores, replay, run};
pub use model::Model;
pub use quotas::random_quota;
pub use trace::{Step, Trace, TraceRequest};
