//! Store wrappers against slow or broken stores and for metrics, and [`Resilience`], which combines them in order.
//!
//! | wrapper | adds |
//! | --- | --- |
//! | [`TimeoutStore`] | a time limit for each request |
//! | [`BreakerStore`] | a circuit breaker: calls to a store that keeps failing are paused |
//! | [`BulkheadStore`] | a bound on the calls at once, and a fair queue before it |
//! | [`DenialCacheStore`] | a cache of denials, so that an exhausted key costs the store nothing, and stays denied while the store fails |
//! | [`FallbackStore`] | each limit's [`OnStoreError`](crate::OnStoreError) policy, for requests that the store failed |
//! | [`InstrumentedStore`] | latency and errors of store calls, as metrics and spans |
//!
//! Each is a [`Store`](crate::Store) around any other, so they compose in any order. [`Resilience`] uses the recommended
//! one.
//!
//! # Metrics
//!
//! With the feature `metrics`, through the recorder of the `metrics` facade. The recorder may be installed at any time: a
//! later one gets everything but the help texts. No label ever holds a key.
//!
//! | name | kind | labels |
//! | --- | --- | --- |
//! | `tidegate_decisions_total` | counter | `limit`, `outcome` (`allowed`, `denied`, `failed`), `reason` if any |
//! | `tidegate_fallback_total` | counter | `limit`, `policy` (`open`, `closed`, `local`) |
//! | `tidegate_store_seconds` | histogram | `store`, `call` (`try_apply`, `apply`, `apply_all`, `apply_each`) |
//! | `tidegate_store_errors_total` | counter | `store`, `kind` (`unavailable`, `timeout`, `overloaded`, `contended`, `corrupt`, `unsupported`) |
//! | `tidegate_breaker_state` | gauge | `store`; 0 is closed, 1 half open, 2 open |
//! | `tidegate_breaker_opened_total` | counter | `store` |
//! | `tidegate_script_reloads_total` | counter | `store` |
//! | `tidegate_memory_forgotten_busy_total` | counter of the memory stores of the process | |
//! | `tidegate_settlements_total` | counter | `limit`, `outcome`; see [`budget`](crate::budget) |
//!
//! A limiter counts decisions, whatever its store. Each request to take (`limit`, `reserve`, `admit`, `acquire`) counts once, by
//! the answer that its caller gets: in shadow mode it is `allowed`, with a reason. A `check` counts only when it refuses: the
//! request ends there, or is counted when it takes. Of several requests that are denied all or nothing, those count that caused
//! the denial; the others took nothing. [`ConcurrencyGuards`](crate::enforce::ConcurrencyGuards) in process count as the limit
//! `concurrency`.
//!
//! With the feature `tracing`, every call of an [`InstrumentedStore`] that may wait is a span `store` at level debug. Its
//! fields are `store`, `call`, `limit` and `op` for a single request, `requests` and `outcome`.

mod breaker;
mod builder;
mod bulkhead;
mod caller;
mod denial_cache;
mod fallback;
mod instrument;
mod timeout;

pub use breaker::{BreakerState, BreakerStore};
pub use builder::{Resilience, Resilient};
pub use bulkhead::BulkheadStore;
pub use caller::with_caller;
pub use denial_cache::DenialCacheStore;
pub use fallback::FallbackStore;
pub use instrument::InstrumentedStore;
#[cfg(feature = "tokio")]
pub(crate) use timeout::REQUESTS_PER_TIMEOUT;
pub use timeout::TimeoutStore;
