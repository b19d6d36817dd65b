//! A layer that guards how many requests are in flight, and then enforces their limits.
//!
//! ```
//! use tidegate::concurrency::{Concurrency, Priority};
//! use tidegate::tower::AdmissionLayer;
//! use tidegate::{Limiter, Quota, seconds};
//!
//! // At most a hundred at once, of which ordinary requests leave ten to critical ones.
//! let layer = AdmissionLayer::new(Concurrency::fixed(100).reserve(10)).priority(|incoming| match incoming.uri().path() {
//!     "/login" => Priority::Critical,
//!     _ => Priority::Default,
//! });
//!
//! // And ten a second for each client.
//! let limiter = Limiter::builder().limit("api", Quota::token_bucket(10, seconds(1))?).build()?;
//! let layer = layer.limits((&limiter, "api"));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! A request is in flight from when it gets in until the last piece of its response's body has been handed to the server, so
//! streams, server-sent events and gRPC's streams count for as long as they run. The permit travels in the future of the
//! response and then in its body, and comes back exactly once:
//!
//! | what happens | the work was |
//! | --- | --- |
//! | the body ends, whatever the status | [done](crate::concurrency::Work::Done), or dropped if [`AdmissionLayer::dropped_if`] says so |
//! | the service or the body fails, the client hangs up, the stream is reset, the handler panics | [dropped](crate::concurrency::Work::Dropped), if it took as long as work usually does; sooner, ignored |
//! | its limits turn it away, or a handler's `#[limit]`, or an admission further in | [ignored](crate::concurrency::Work::Ignore): no work was done |
//!
//! A [`RateLimitLayer`](super::RateLimitLayer) of its own below this one is work like any other: give its limits to
//! [`AdmissionLayer::limits`] instead.
//!
//! A request that switches protocols (`101`, `CONNECT`) is no longer in flight once that is answered.

mod body;
mod future;
mod layer;
mod marking;
mod service;

pub use body::ResponseBody;
pub use future::ResponseFuture;
pub use layer::AdmissionLayer;
pub use marking::Marking;
pub use service::Admitting;
