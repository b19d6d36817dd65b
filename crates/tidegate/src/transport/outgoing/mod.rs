//! The other side: a client's layer that keeps to limits, its own and those that servers tell it.
//!
//! ```
//! use tidegate::outgoing::OutgoingLayer;
//! use tidegate::{Limiter, Quota, seconds};
//!
//! // At most ten requests a second to each host. A request waits for its turn for two seconds, or fails.
//! let limiter = Limiter::builder().limit("calls", Quota::token_bucket(10, seconds(1))?).build()?;
//! let layer = OutgoingLayer::new(&limiter, "calls").within(seconds(2));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! It goes around a tower service that sends requests: a client of hyper-util, or, with the feature `reqwest`, one of
//! reqwest. Nothing is sent again: a retry of tower's, above this layer, waits by itself. A limit on how many are sent at once, such
//! as `concurrency_limit`, goes around this layer: within it, a request that waits for its turn has taken a place already.
//!
//! What a server says about a host holds off the next requests to it:
//!
//! | response | until |
//! | --- | --- |
//! | `429` or `503` with `Retry-After`, in seconds or as a date | then |
//! | `429` or `503` without | [`back_off`](OutgoingLayer::back_off) has passed, a second unless said otherwise |
//! | any, with a `RateLimit` of which nothing remains (`r=0`) | its `t` has passed |
//!
//! That is [an hour at most](OutgoingLayer::longest) unless said otherwise: one answer shuts nobody out for ever.
//!
//! Redirects that a client follows by itself, as reqwest's does, count against the limit of the host that was asked first. What
//! the last one says holds off the host that has said it.

mod held_off;
mod layer;
mod message;
mod told;

pub use layer::{Outgoing, OutgoingError, OutgoingLayer};
pub use message::{Answer, Outbound};
