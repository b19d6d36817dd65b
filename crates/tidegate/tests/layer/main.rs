//! The layer over sockets, promise by promise: axum, hyper and tonic serve, and clients of other kinds ask.

mod adapters;
mod admission;
mod around;
mod charging;
mod clients;
mod cors;
mod denials;
#[path = "../common/elsewhere.rs"]
mod elsewhere;
mod exact;
mod extractors;
mod grpc;
mod headers;
mod hooks;
mod keys;
mod names;
mod outages;
mod picking;
mod plain_hyper;
mod readiness;
mod response_formats;
mod several;
mod shortest;
mod support;
#[cfg(feature = "tracing")]
mod warning;
#[cfg(feature = "tracing")]
#[path = "../common/warnings.rs"]
mod warnings;
