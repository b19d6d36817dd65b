//! The client side: a tower layer that limits outgoing requests and honours `Retry-After`.
//!
//! ```
//! use tidegate::client::OutgoingLayer;
//! use tidegate::{Limiter, Quota, seconds};
//!
//! // At most ten requests a second to each host. A request waits for its turn for two seconds, or fails.
//! let limiter = Limiter::builder().limit("calls", Quota::token_bucket(10, seconds(1))?).build()?;
//! let layer = OutgoingLayer::new(&limiter, "calls")?.max_wait(seconds(2));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! The layer wraps a tower service that sends requests: a hyper-util client or, with the feature `reqwest`, a reqwest
//! client. It never retries: a tower retry above this layer waits for its turn like any request. Put a limit on
//! concurrent requests, such as `concurrency_limit`, around this layer. Inside it, a waiting request would take a slot.
//!
//! A response delays the next requests to its host:
//!
//! | response | backs off |
//! | --- | --- |
//! | `429` or `503` with `Retry-After`, in seconds or as a date | until then |
//! | `429` or `503` without it | for the [`default_backoff`](OutgoingLayer::default_backoff) of a second |
//! | any, with an exhausted `RateLimit` (`r=0`) | for its `t` |
//!
//! A backoff lasts at most [an hour](OutgoingLayer::max_backoff) by default, so no response blocks a host for ever.
//!
//! Redirects that a client follows by itself, as reqwest does, count against the limit of the first host. A backoff
//! applies to the host that sent the last response.

mod backoff;
mod layer;
mod message;

pub use layer::{OutgoingError, OutgoingLayer, OutgoingService};
pub use message::{OutgoingRequest, OutgoingResponse};
