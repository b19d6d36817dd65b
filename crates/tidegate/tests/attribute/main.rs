//! Tests of the attribute `#[limit]`, on functions and on handlers under a layer.

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
#[cfg(feature = "axum")]
#[path = "../common/waiting_store.rs"]
mod waiting_store;
