//! The layer over sockets, behind axum, hyper and tonic.

mod adapters;
mod admission;
mod charging;
mod clients;
mod cors;
mod denials;
mod exact_quota;
mod extractors;
mod fast_path;
mod grpc;
mod headers;
mod hooks;
mod keys;
mod limit_selection;
#[cfg(feature = "metrics")]
mod metrics;
mod multiple_limits;
mod outages;
mod plain_hyper;
mod readiness;
#[cfg(feature = "metrics")]
#[path = "../common/recorded.rs"]
mod recorded;
mod response_formats;
mod router_service;
mod support;
#[path = "../common/waiting_store.rs"]
mod waiting_store;
#[cfg(feature = "tracing")]
mod warning;
#[cfg(feature = "tracing")]
#[path = "../common/warnings.rs"]
mod warnings;
