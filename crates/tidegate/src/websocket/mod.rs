//! A router for WebSocket messages, whose limits run before a message costs memory.
//!
//! ```
//! use serde::{Deserialize, Serialize};
//! use tidegate::websocket::{
//!     Context, ErrorCode, Message, MessageError, MessageRateLimit, Router, Rpc, RpcContext, keys,
//! };
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
//! impl Rpc for Add {
//!     type Reply = Sum;
//! }
//!
//! let limiter = Limiter::builder().limit("send", Quota::token_bucket(5, seconds(1))?.capacity(20)?).build()?;
//! let router: Router<()> = Router::builder()
//!     .rate_limit(MessageRateLimit::new(limiter.enforcer("send")?).key(keys::address()))
//!     .on(|context: Context<()>, say: Say| async move {
//!         context.subscribe("all")?;
//!         context.publish("all", &say)?;
//!         Ok(())
//!     })
//!     .rpc(|_: RpcContext<()>, Add(a, b): Add| async move {
//!         a.checked_add(b).map(Sum).ok_or_else(|| MessageError::new(ErrorCode::InvalidArgument, "too large"))
//!     })
//!     .build()?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! [`Router::accept`] serves any connection, with tokio-tungstenite. [`Router::upgrade`] serves a request to hyper. With
//! the feature `axum`, `websocket::route` is a route of an axum router.
//!
//! # The pipeline of a message
//!
//! 1. Its size. A message that is too large closes the connection or is answered with an error.
//! 2. A minimal parse, of its type and correlation ID only. A malformed message is INVALID_ARGUMENT.
//! 3. The rate limit. Keys and costs depend on the [`MessageHead`] only, which has no payload.
//! 4. The number of concurrent RPCs of its connection.
//! 5. The payload, parsed into the handler's type and validated.
//! 6. Middleware and handler.
//!
//! A message that one step rejects costs nothing of the next: a limited message is never parsed, and a large one takes no
//! quota. The guide, with all bounds, is `docs/book/src/how-to/websockets.md` in the repository.

mod accept;
mod builder;
mod connection;
mod error;
pub mod keys;
mod limits;
mod message;
mod pipeline;
mod queue;
mod router;
mod session;
mod socket;
mod tasks;
mod topics;
mod wire;

use std::sync::{Mutex, MutexGuard, PoisonError};

#[cfg(feature = "axum")]
pub use accept::route;
pub use builder::{RouterBuildError, RouterBuilder};
pub use connection::{Connection, ConnectionId, Context, RpcContext};
pub use error::{ErrorCode, MessageError};
pub use keys::KeyExtractor;
pub use limits::{ExceededKind, LimitExceeded, MessageHead, MessageRateLimit, OnExceeded, close_code};
pub use message::{ConnectionData, HandlerResponse, IntoResult, Message, Next, Rpc};
pub use router::{CloseEvent, Handshake, Router};

/// Locks, also after a panic: no value under these locks is ever half-updated.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
