//! The runtime support of `#[limit]`: the limiter of a call, and the error of a denied call.
//!
//! ```
//! use tidegate::attribute::{LimitError, set_default_limiter};
//! use tidegate::{Limiter, Quota, limit, minutes};
//!
//! #[limit("login", key = user)]
//! async fn login(user: &str, password: &str) -> Result<bool, LimitError> {
//!     Ok(password == "secret")
//! }
//!
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! let limiter = Limiter::builder().limit("login", Quota::fixed_window(5, minutes(1))?).build()?;
//! set_default_limiter(limiter)?;
//!
//! match login("alice", "guess").await {
//!     Ok(is_right) => println!("logged in: {is_right}"),
//!     Err(error) => println!("{error}"), // such as: the limit "login" is used up: try again in 60 s
//! }
//! # Ok(()) }
//! ```
//!
//! # Which limiter
//!
//! The attribute's own (`limiter = self.limiter`), or else that of the layer above the function, or else the
//! [default](set_default_limiter) of the process. Without any of them every call fails as a programming error. So does an
//! unknown limit name, which shows with the first call.
//!
//! # What a denied call returns
//!
//! The return type [decides](FromLimitError): a `Result` whose error is [`LimitError`] or can be made from it, such as
//! `Box<dyn Error>`. With the feature `axum`, also a `Response` and `impl IntoResponse`; with `grpc`, also a
//! `tonic::Status` as the error. Over HTTP and gRPC it is the answer of a layer: status, headers and body.
//!
#![cfg_attr(feature = "axum", doc = "```")]
#![cfg_attr(not(feature = "axum"), doc = "```ignore")]
//! use axum::extract::{Path, State};
//! use axum::response::IntoResponse;
//! use tidegate::{Limiter, limit};
//!
//! #[limit("profile", key = user, limiter = limiter)]
//! async fn profile(Path(user): Path<String>, State(limiter): State<Limiter>) -> impl IntoResponse {
//!     format!("This is {user}.")
//! }
//! # let _: axum::Router<Limiter> = axum::Router::new().route("/users/{user}", axum::routing::get(profile));
//! ```
//!
//! # Under a layer
//!
//! The attribute of a handler replaces the nearest `RateLimitLayer` above it. The units that the layer took are
//! refunded if that is safe, and the response headers describe the attribute's limit. The layer's settings stay: its
//! headers, its custom denial, its hooks, and the client address for deny lists.
//!
//! - **The first attribute of a request counts as its handler's**, and further ones count in addition. A function that
//!   handlers without an attribute call must say `also`, or the layer would not count their requests.
//! - **An exhausted layer never reaches the handler.** Let the layer skip a handler that admits more than it does
//!   (`RateLimit::skip`). The attribute still finds the layer's limiter and settings, unless the layer picks a limiter for
//!   each request.
//! - A function in a task of its own (`tokio::spawn`) is under no layer.
//! - Only an unconditional yes is refunded: not one in shadow mode, nor one without the store. Units that have been
//!   replenished meanwhile are not refunded either, because both together could exceed the quota. A token bucket of a
//!   thousand a second is refunded within a millisecond or not at all, a window until it ends.

mod call;
mod error;
mod key;

#[doc(hidden)]
pub use call::LimitedCall;
pub use call::{SetDefaultLimiterError, set_default_limiter};
#[cfg(feature = "tower")]
pub(crate) use error::AttributeResponse;
pub use error::{FromLimitError, LimitError};
pub use key::AsKey;
