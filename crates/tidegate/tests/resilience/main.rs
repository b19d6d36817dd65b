//! The resilience wrappers, promise by promise, on a manual clock.

mod breaker;
mod combined;
mod conformance;
mod denial_cache;
mod fallback;
mod forwarding;
mod leases;
mod local;
#[cfg(feature = "metrics")]
mod metrics;
mod rendezvous;
#[cfg(feature = "tracing")]
mod spans;
mod support;
mod timeout;
