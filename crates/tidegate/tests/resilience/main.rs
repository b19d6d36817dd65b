//! Tests of the resilience wrappers on a manual clock.

mod breaker;
mod bulkhead;
mod combined;
mod conformance;
mod denial_cache;
mod fallback;
mod forwarding;
mod leases;
mod local;
mod local_bound;
#[cfg(feature = "metrics")]
mod metrics;
#[cfg(feature = "metrics")]
#[path = "../common/recorded.rs"]
mod recorded;
mod rendezvous;
#[cfg(feature = "tracing")]
mod spans;
mod support;
mod timeout;
