//! WebSockets: a router of messages, whose limits run before anything costs memory.
//!
//! ```
//! use serde::{Deserialize, Serialize};
//! use tidegate::ws::{Call, CallContext, Context, Error, Message, RateLimit, Router, keys};
//! use tidegate::{Limiter, Quota, seconds};
//!
//! #[derive(Deserialize, Serialize)]
//! struct Say {
//!     text: String,
//! }
//! impl Message for Say {
//!     const TYPE: &'static str = "SAY";
//! }
//!
//! #[derive(Deserialize)]
//! struct Add(u64, u64);
//! impl Message for Add {
//!     const TYPE: &'static str = "ADD";
//! }
//! #[derive(Serialize)]
//! struct Sum(u64);
//! impl Message for Sum {
//!     const TYPE: &'static str = "SUM";
//! }
//! impl Call for Add {
//!     type Reply = Sum;
//! }
//!
//! let limiter = Limiter::builder().limit("send", Quota::token_bucket(5, seconds(1))?.capacity(20)?).build()?;
//! let router: Router<()> = Router::builder()
//!     .rate_limit(RateLimit::new((&limiter, "send")).key(keys::address()))
//!     .on(|context: Context<()>, say: Say| async move {
//!         context.subscribe("everybody")?;
//!         context.publish("everybody", &say)?;
//!         Ok(())
//!     })
//!     .rpc(|_: CallContext<()>, Add(a, b): Add| async move {
//!         a.checked_add(b).map(Sum).ok_or_else(|| Error::new(tidegate::ws::Code::InvalidArgument, "too much"))
//!     })
//!     .build();
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! A router is served by [`Router::accept`] on any connection, with tokio-tungstenite; by [`Router::upgrade`] from a request to
//! hyper; and, with the feature `axum`, by `ws::route` as a route of axum's.
//!
//! # What a message goes through
//!
//! 1. Its size. A message that is too long closes the connection, or is answered with an error.
//! 2. A minimal parse, of its type and correlation id only. What is no message is INVALID_ARGUMENT.
//! 3. The rate limit. Keys and costs depend on the [`Ingress`] only, in which nothing of the payload is.
//! 4. The number of calls that are worked on for its connection.
//! 5. The payload: parsed into the handler's type, and validated.
//! 6. Middleware and handler.
//!
//! What is turned away by one step has cost nothing of the next: a message that is limited is never parsed, and one that
//! is too long takes nothing from a limit. The guide, with what is bounded by what, is `docs/websockets.md` in the
//! repository.

mod builder;
mod connection;
mod context;
mod error;
mod exceeded;
mod handler;
mod handshake;
mod hooks;
mod ingress;
pub mod keys;
mod lock;
mod message;
mod queue;
mod rate_limit;
mod router;
mod serve;
mod settings;
mod socket;
mod topics;
mod wire;

pub use builder::RouterBuilder;
pub use connection::{Connection, ConnectionId};
pub use context::{CallContext, Context};
pub use error::{Code, Error};
pub use exceeded::{Exceeded, Kind, OnExceeded, close};
pub use handler::{Answer, IntoResult, Next};
pub use handshake::Handshake;
pub use hooks::Closed;
pub use ingress::Ingress;
pub use keys::KeyOf;
pub use message::{Call, Data, Message};
pub use rate_limit::RateLimit;
pub use router::Router;
#[cfg(feature = "axum")]
pub use socket::route;
