//! The differential oracle: random traces, decided by a store and by a slow model written from the rules alone.
//!
//! The model keeps rational numbers and plain lists, and finds spans by searching for the first microsecond at which
//! the request would be admitted, so that it shares neither code nor formulas with the algorithms it is compared to.
//! A trace is made from a seed, is the same every time, and aims at the edges: at, just before and just after every
//! span the decisions so far have promised.
//!
//! ```
//! use tidegate_testkit::{MapStore, Subject, block_on, oracle};
//!
//! let report = block_on(oracle::run(&Subject::new(MapStore::new()), 42, 30)).unwrap();
//! assert_eq!(report.steps, 30);
//! ```

mod beside;
mod bound;
mod generate;
mod held;
mod memory;
mod model;
mod quotas;
mod run;
mod search;
mod trace;

pub use beside::beside;
pub use bound::{Overrun, admitted_within};
pub use model::Model;
pub use quotas::random_quota;
pub use run::{Mismatch, Report, replay, run};
pub use trace::{Ask, Step, Trace};
