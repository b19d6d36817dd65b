//! Wrappers that are stores: what happens around a store that is slow, broken or watched.
//!
//! | wrapper | adds |
//! | --- | --- |
//! | [`Timeout`] | no request waits longer than a span |
//! | [`Breaker`] | a store that keeps failing is left alone for a while |
//! | [`Denials`] | a key that was denied is not asked for again before that can help |
//! | [`Fallback`] | each limit's failure policy answers what the store could not |
//! | [`Observed`] | latency and errors of a store's calls, as metrics and spans |
//! | [`Counted`] | decisions by limit and outcome, as metrics |
//!
//! Each is a [`Store`](crate::Store) around any other, so they compose in any order. [`Resilience`] puts them in the
//! usual one.
//!
//! # Metrics
//!
//! With the feature `metrics`, through the recorder of the `metrics` facade. No label ever holds a key.
//!
//! | name | kind | labels |
//! | --- | --- | --- |
//! | `tidegate_decisions_total` | counter | `limit`, `outcome` (`allowed`, `denied`, `failed`), `reason` if any |
//! | `tidegate_fallback_total` | counter | `limit`, `policy` (`open`, `closed`, `local`) |
//! | `tidegate_store_seconds` | histogram | `store`, `call` (`apply_now`, `apply`, `apply_all`, `apply_each`) |
//! | `tidegate_store_errors_total` | counter | `store`, `kind` (`unavailable`, `timeout`, `contended`, `corrupt`, `unsupported`) |
//! | `tidegate_breaker_state` | gauge | `store`; 0 is closed, 1 half open, 2 open |
//! | `tidegate_breaker_opened_total` | counter | `store` |
//! | `tidegate_script_reloads_total` | counter | `store` |
//!
//! With the feature `tracing`, every call of an [`Observed`] store that may wait is a span `store` at level debug, with
//! the fields `store`, `call`, `limit` and `op` for a single request, `requests` and `outcome`.

mod breaker;
mod builder;
mod counted;
mod denials;
mod fallback;
mod local;
mod observed;
pub(crate) mod telemetry;
mod timeout;

pub use breaker::{Breaker, BreakerState};
pub use builder::{Resilience, Resilient};
pub use counted::Counted;
pub use denials::Denials;
pub use fallback::Fallback;
pub use observed::Observed;
#[cfg(feature = "tokio")]
pub(crate) use timeout::TOGETHER;
pub use timeout::Timeout;
