//! Layers for `tower`: axum, hyper, tonic, lambda_http and every other framework that takes layers.
//!
//! ```
//! use tidegate::tower::RateLimitLayer;
//! use tidegate::{Limiter, Quota, seconds};
//!
//! // Ten requests a second for each client, in this process's memory.
//! let layer = RateLimitLayer::new(Quota::token_bucket(10, seconds(1))?);
//!
//! // A limit of a limiter, with any store.
//! let limiter = Limiter::builder().limit("api", Quota::token_bucket(10, seconds(1))?).build()?;
//! let layer = RateLimitLayer::new(limiter.enforcer("api")?);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! All other settings are those of a [`RateLimit`](crate::http::RateLimit), which a layer accepts as well.
//! `docs/book/src/how-to/http.md` in the repository explains where to put the layer.
//!
//! The quota is in the limiter, outside of the service, so a cloned service does not multiply it. An admitted request
//! goes to exactly the service that was ready for it. A request that is dropped while its limits decide may have been
//! counted.
//!
//! With the feature `macros`, a handler's own `#[limit]` decides in place of the layer; see `tidegate::attribute`.

pub mod admission;
#[cfg(feature = "axum")]
mod axum;
#[cfg(feature = "grpc")]
pub mod grpc;
mod rate_limit;
mod request_state;
mod response_format;
#[cfg(feature = "macros")]
pub(crate) mod scope;

pub use admission::AdmissionLayer;
pub use rate_limit::{RateLimitFuture, RateLimitLayer, RateLimitService};
pub use response_format::{HttpFormat, ResponseFormat};
