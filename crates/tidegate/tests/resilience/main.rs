//! The wrappers around a store that is slow, broken or watched, promise by promise, on a clock that only moves when it
//! is told to.

mod breaker;
mod conformance;
mod denials;
mod fallback;
mod leases;
mod local;
#[cfg(feature = "metrics")]
mod metrics;
mod passed_on;
#[cfg(feature = "tracing")]
mod spans;
mod spread;
mod support;
mod timeout;
mod whole;
