//! The attribute `#[limit]`: on functions, and on handlers under a layer.

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
