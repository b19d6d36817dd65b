//! The attribute `#[limit]`: on functions, and on handlers under a layer.

#[cfg(feature = "axum")]
#[path = "../common/elsewhere.rs"]
mod elsewhere;
mod functions;
#[cfg(feature = "axum")]
mod handlers;
mod keys;
#[cfg(feature = "axum")]
mod layers;
mod limiters;
mod refusals;
#[cfg(feature = "grpc")]
mod statuses;
mod support;
