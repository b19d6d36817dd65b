//! Tests of the attribute `#[limit]`, on functions and on handlers under a layer.

#[cfg(feature = "axum")]
#[path = "../common/elsewhere.rs"]
mod elsewhere;
mod errors;
mod functions;
#[cfg(feature = "axum")]
mod handlers;
mod keys;
#[cfg(feature = "axum")]
mod layers;
mod limiters;
#[cfg(feature = "grpc")]
mod statuses;
mod support;
