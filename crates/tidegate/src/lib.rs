//! Rate limiting and admission control: named limits over one store, with exact decisions.
//!
//! ```
//! use tidegate::{Limiter, Quota, minutes, seconds};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let limiter = Limiter::builder()
//!     .limit("login", Quota::fixed_window(5, minutes(1))?)
//!     .limit("send", Quota::token_bucket(10, seconds(1))?.capacity(20)?)
//!     .build()?; // in this process's memory
//!
//! # let asked = async {
//! let decision = limiter.limit("send", "alice").await?;
//! if !decision.allowed() {
//!     println!("try again in {:?}", decision.retry_after());
//! }
//! # Ok::<(), tidegate::Error>(()) };
//! # Ok(()) }
//! ```
//!
//! A [`Limiter`] answers with a [`Decision`]; a denial is one, not an error. Where state lives is a [`Store`]: a
//! [`MemoryStore`] unless the builder is given another. How a quota counts is said by [`Quota`]; its guide, with the
//! worst cases of each algorithm, is `docs/choosing-an-algorithm.md` in the repository.
//!
//! # Features
//!
//! None is on by default, and each only adds.
//!
//! | feature | brings |
//! | --- | --- |
//! | `config` | limits from a TOML or YAML file, with errors that carry line and column; see [`config`] and `docs/config.md` in the repository |
//! | `tokio` | a sleeper for [`Limiter::acquire`] on tokio's timer, [permits](concurrency) that several processes share, guards that settle the holds of a [budget] when they are dropped, and quota that a process takes in batches (`TwoTierStore`) |
//! | `redis` | limits on Redis, Valkey or a cluster of them; see [`redis`] and `docs/redis.md` in the repository |
//! | `sqlite` | limits in a file, that survive a restart; see [`sqlite`] and `docs/sqlite.md` in the repository |
//! | `postgres` | limits on Postgres; see [`postgres`] and `docs/postgres.md` in the repository |
//! | `http` | HTTP semantics: headers, problems, keys, and the address of a client, which it cannot forge; see [`http`] |
//! | `api` | wire types of Tidegate's HTTP API, for servers and clients; see [`api`] |
//! | `remote` | limits on a server that is asked over HTTP, `tidegate serve` or a Worker; see [`remote`] and `docs/remote.md` in the repository |
//! | `remote-tls` | the same over https |
//! | `stored` | the state of a key as bytes, for stores outside of this crate; see [`stored`] |
//! | `tower` | a layer for hyper and whatever else takes one; see [`tower`] |
//! | `axum` | the layer's peer addresses, routes and extractors with axum |
//! | `grpc` | the layer answering as gRPC does, for tonic; see [`grpc`] |
//! | `outgoing`, `reqwest` | a client-side layer that limits outgoing requests and honours `Retry-After`; see [`client`] |
//! | `ws` | a router for WebSocket messages, whose limits run before anything costs memory; see [`websocket`] |
//! | `macros` | `#[limit]` for async functions and handlers; see [`attribute`] |
//! | `metrics` | decisions of limiters, and latencies, errors and states of stores, through the `metrics` facade; see [`resilience`] |
//! | `tracing` | a span for every call of a store within [`Resilience`](resilience::Resilience) that may wait, see [`resilience`]; and warnings in the log |
//! | `testing` | the testing entry of the stores, through which a test passes the time |
//!
//! Other frameworks have crates of their own: `tidegate-actix`, `-ntex`, `-poem`, `-rocket`, `-salvo`, `-warp`, `-lambda`,
//! `-jsonrpsee` and `-graphql`. See `docs/frameworks.md` in the repository.
#![forbid(unsafe_code)]

#[cfg(feature = "api")]
pub mod api;
#[cfg(feature = "macros")]
pub mod attribute;
pub mod budget;
#[cfg(feature = "outgoing")]
pub mod client;
mod clock;
pub mod concurrency;
#[cfg(feature = "config")]
pub mod config;
pub mod enforce;
#[cfg(feature = "http")]
pub mod http;
#[cfg(any(feature = "config", feature = "http"))]
mod http_settings;
mod keyed_hash;
mod limiter;
mod net;
mod random;
pub mod resilience;
pub mod store;
#[cfg(feature = "stored")]
pub mod stored;
mod telemetry;
#[cfg(feature = "tower")]
pub mod tower;
#[cfg(feature = "ws")]
pub mod websocket;

pub use clock::{Clock, ManualClock, Sleeper, SystemClock};
#[cfg(feature = "tokio")]
pub use clock::{SteadySleeper, TokioSleeper};
pub use limiter::{
    AdmitCall, AdmitDecision, AdmitFuture, BuildError, Call, CallFuture, Error, Limit, Limiter, LimiterBuilder,
    Normalize, UnknownLimit, Unsupported,
};
pub use net::{Network, NetworkError};
pub use store::memory::{MemoryStats, MemoryStore, MemoryStoreBuilder, SnapshotError};
#[cfg(feature = "postgres")]
pub use store::postgres;
#[cfg(feature = "remote")]
pub use store::remote;
#[cfg(feature = "sqlite")]
pub use store::sqlite;
#[cfg(feature = "tokio")]
pub use store::two_tier::{TwoTierStore, TwoTierStoreBuilder};
#[cfg(feature = "redis")]
pub use store::{colocation::Colocation, redis, rendezvous::RendezvousStore};
pub use tidegate_core::{
    Algorithm, Cost, Decision, Denied, InvalidCost, InvalidLease, JointDecision, Key, Lease, MAX_COUNT, MAX_PERIOD,
    MAX_SHARDS, MIN_PERIOD, OnStoreError, Quota, QuotaError, QuotaParts, Reason, Store, StoreError, StoreErrorKind,
    Timestamp, ceil_millis, ceil_seconds, days, hours, millis, minutes, seconds,
};
#[cfg(feature = "macros")]
pub use tidegate_macros::limit;
#[cfg(feature = "grpc")]
pub use tower::grpc;
