//! What `#[limit]` stands on: which limiter it asks, and what a call that is refused returns.
//!
//! ```
//! use tidegate::attribute::{Refusal, set_default_limiter};
//! use tidegate::{Limiter, Quota, limit, minutes};
//!
//! #[limit("login", key = user)]
//! async fn login(user: &str, password: &str) -> Result<bool, Refusal> {
//!     Ok(password == "secret")
//! }
//!
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! let limiter = Limiter::builder().limit("login", Quota::fixed_window(5, minutes(1))?).build()?;
//! set_default_limiter(limiter)?;
//!
//! match login("alice", "guess").await {
//!     Ok(right) => println!("let in: {right}"),
//!     Err(refusal) => println!("{refusal}"), // such as: the limit "login" is used up: try again in 60 s
//! }
//! # Ok(()) }
//! ```
//!
//! # Which limiter
//!
//! The attribute's own (`limiter = self.limiter`), or else that of the layer under which the function runs, or else the
//! [default](set_default_limiter) of the process. With none of them every call is refused as a mistake in the program.
//! Whether the limiter knows the limit shows when it is asked: unknown ones are mistakes in the program, too.
//!
//! # What a refused call returns
//!
//! Whatever its type makes [of a refusal](FromRefusal): a `Result` whose error is [`Refusal`], or can be made from it,
//! such as a `Box<dyn Error>`. With the feature `axum`, also a `Response` and `impl IntoResponse`; with `grpc`, also a
//! `tonic::Status` as the error. Over HTTP and gRPC it is what a layer answers: status, headers and body.
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
//! A handler's attribute beats the layer in whose scope it runs. What the nearest `RateLimitLayer` has taken for the
//! request is given back where that is safe, and the headers of the response say what the attribute's limit decided. The
//! layer's settings stay: its headers, its own response to a denial, its hooks, and the client's address for the deny
//! list.
//!
//! - **The first attribute that a request meets is taken for its handler's**, and any further one counts besides. So a
//!   function that is called by handlers without an attribute has to say `also`, or the layer would not count their
//!   requests.
//! - **When the layer's own limit is used up, the handler is not reached.** Let the layer skip a handler that is to
//!   admit more than it does (`RateLimit::skip`). The attribute then still finds the layer's limiter and settings,
//!   unless the layer picks a limiter for each request.
//! - A function in a task of its own (`tokio::spawn`) is under no layer.
//! - Something is given back only after an ordinary yes: not where the layer's limit would have denied and was in
//!   shadow mode, nor where its store was broken. And not once something has come back by itself, because together that
//!   could be more than the quota: what a token bucket of a thousand a second has taken is given back within a
//!   millisecond of when the request came, or not at all, and what a window has taken until that ends.

mod as_key;
mod ask;
mod default_limiter;
mod from_refusal;
mod refusal;
#[cfg(feature = "http")]
mod response;

pub use as_key::AsKey;
#[doc(hidden)]
pub use ask::Ask;
pub use default_limiter::{DefaultLimiterIsSet, set_default_limiter};
pub use from_refusal::FromRefusal;
pub use refusal::Refusal;
#[cfg(feature = "tower")]
pub(crate) use response::IsRefusal;
