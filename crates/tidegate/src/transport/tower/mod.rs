//! A layer for `tower`: axum, hyper, tonic, lambda_http and whatever else takes one.
//!
//! ```
//! use tidegate::tower::RateLimitLayer;
//! use tidegate::{Limiter, Quota, seconds};
//!
//! // Ten requests a second for each client, in this process's memory.
//! let layer = RateLimitLayer::new(Quota::token_bucket(10, seconds(1))?);
//!
//! // A limit of a limiter, wherever its store is.
//! let limiter = Limiter::builder().limit("api", Quota::token_bucket(10, seconds(1))?).build()?;
//! let layer = RateLimitLayer::new((&limiter, "api"));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! Everything else is said with [`RateLimit`](crate::http::RateLimit), which a layer takes as well. Where to put the
//! layer is in `docs/http.md` in the repository.
//!
//! The quota lives in the limiter, outside of the service: cloning a service does not multiply it. A request that is
//! admitted is handed to the very service that was ready for it. One that is given up while the limits are asked may
//! have been counted.
//!
//! With the feature `macros`, a handler's own `#[limit]` decides in the place of the layer; see `tidegate::attribute`.

pub mod admission;
mod admitted;
mod future;
mod layer;
mod protocol;
#[cfg(feature = "macros")]
pub(crate) mod scope;
mod service;

pub use admission::AdmissionLayer;
pub use future::ResponseFuture;
pub use layer::RateLimitLayer;
pub use protocol::{Http, Protocol, Tells};
pub use service::RateLimited;

pub use crate::enforce::plainly::Denial;
