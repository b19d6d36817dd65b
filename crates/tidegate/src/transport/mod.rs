//! Thin maps of the enforcer's outcomes onto what transports speak.

#[cfg(feature = "actix")]
pub mod actix;
#[cfg(feature = "axum")]
mod axum;
#[cfg(feature = "graphql")]
pub mod graphql;
#[cfg(feature = "grpc")]
pub mod grpc;
#[cfg(feature = "jsonrpsee")]
pub mod jsonrpsee;
#[cfg(feature = "lambda")]
pub mod lambda;
#[cfg(feature = "ntex")]
pub mod ntex;
#[cfg(feature = "outgoing")]
pub mod outgoing;
#[cfg(feature = "poem")]
pub mod poem;
#[cfg(feature = "rocket")]
pub mod rocket;
#[cfg(feature = "salvo")]
pub mod salvo;
#[cfg(feature = "tower")]
pub mod tower;
#[cfg(feature = "warp")]
pub mod warp;
#[cfg(any(feature = "graphql", feature = "jsonrpsee"))]
mod words;

/// To a handler that asks for an outcome where there is none.
#[cfg(any(feature = "actix", feature = "axum", feature = "poem"))]
const NOT_HANDED_OVER: &str = "No limit has handed over what it decided: the layer needs `RateLimit::extension`, and for \
    requests that it skips the handler takes an `Option<Outcome>`.";
