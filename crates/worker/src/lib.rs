//! Tidegate at the edge: limits whose state lives in Durable Objects, asked from Cloudflare Workers.
//!
//! Every key lives in one of a fixed number of objects, so a decision is one message to one object, which reads, steps and
//! writes without anybody in between. The step is the core's own, the same as on every other store.
//!
//! - [`DurableObjectStore`] is a [`Store`](tidegate::Store) for a Worker's own limiter.
//! - [`RateLimiter`] is the class of the objects. A Worker that links this crate exports it; its configuration binds it.
//! - [`limited`] puts a handler behind a gate, with the client's address as the platform tells it.
//! - [`serve`] answers Tidegate's HTTP API, so that anything can ask the edge. `crates/edge` in the repository is a Worker that
//!   does nothing else.
//!
//! The guide, from nothing to the first 429, is `docs/workers.md` in the repository.
#![forbid(unsafe_code)]

mod adapter;
mod api;
#[allow(missing_docs, reason = "what the attribute makes of the class, for JavaScript")]
mod object;
mod serve;
mod settings;
mod shards;
mod store;

pub use adapter::{Answered, limited};
pub use object::RateLimiter;
pub use serve::{Edge, serve};
pub use settings::{BINDING, Settings, SettingsError};
pub use shards::Shards;
pub use store::{CrossShard, DurableObjectStore};
