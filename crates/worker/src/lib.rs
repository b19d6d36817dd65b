//! Tidegate at the edge: limits whose state lives in Durable Objects, used from Cloudflare Workers.
//!
//! Every key lives in one of a fixed number of objects, so a decision is one message to one object. The object reads,
//! steps and writes without any other call in between. It uses the core's own step, as every store does.
//!
//! - [`DurableObjectStore`] is a [`Store`](tidegate::Store) for a Worker's own limiter.
//! - [`RateLimiter`] is the class of the objects. A Worker that links this crate exports it; its configuration binds it.
//! - [`handle_with_gate`] puts a gate in front of a handler. The client address is the one that the platform writes.
//! - [`serve`] answers Tidegate's HTTP API, so that any client can use the edge. `crates/edge` in the repository is a Worker that
//!   does nothing else.
//!
//! The guide, from nothing to the first 429, is `docs/book/src/how-to/workers.md` in the repository.
#![forbid(unsafe_code)]

mod adapter;
mod api;
#[allow(missing_docs, reason = "the attribute generates undocumented items for JavaScript")]
mod object;
mod serve;
mod settings;
mod shards;
mod store;

pub use adapter::{GateResponseBody, handle_with_gate};
pub use object::RateLimiter;
pub use serve::{WorkerClock, serve};
pub use settings::{BINDING, Settings, SettingsError};
pub use shards::Shards;
pub use store::{CrossShard, DurableObjectStore};
