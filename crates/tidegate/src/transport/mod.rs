//! Thin maps of the enforcer's outcomes onto what transports speak.

#[cfg(feature = "axum")]
mod axum;
#[cfg(feature = "grpc")]
pub mod grpc;
pub mod tower;
