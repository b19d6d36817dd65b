//! Rate limiting and admission control: named limits over one store, with exact decisions.
//!
//! A [`Limiter`] has named limits. Each limit is a [`Quota`] and counts each [`Key`]. A call returns a [`Decision`]; a denial is a
//! decision, not an error. A [`Store`] holds the counts. It is a [`MemoryStore`] by default.
//!
//! In a sync program, [`Call::try_now`] decides at once:
//!
//! ```
//! use tidegate::{Limiter, Quota, minutes};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let limiter = Limiter::builder().limit("login", Quota::fixed_window(5, minutes(1))?).build()?;
//!
//! let decision = limiter.limit("login", "alice").try_now()?;
//! assert!(decision.allowed());
//! assert_eq!(decision.remaining(), 4);
//! # Ok(()) }
//! ```
//!
//! In async code a call is awaited, over any store:
//!
//! ```
//! use tidegate::{Limiter, Quota, seconds};
//!
//! async fn send(limiter: &Limiter, tenant: &str, user: &str) -> Result<(), tidegate::Error> {
//!     let decision = limiter.limit("send", (tenant, user)).cost(2).await?;
//!     if !decision.allowed() {
//!         println!("try again in {:?}", decision.retry_after());
//!     }
//!     Ok(())
//! }
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let limiter = Limiter::builder()
//!     .limit("send", Quota::token_bucket(10, seconds(1))?.capacity(20)?)
//!     .build()?;
//! # let _ = send(&limiter, "acme", "alice");
//! # Ok(()) }
//! ```
//!
//! # Where to start
//!
//! | to | start with | feature | page in the repository |
//! | --- | --- | --- | --- |
//! | limit calls in one process | [`Limiter::limit`], [`Limiter::limit_all`] for several limits at once | | `docs/book/src/reference/choosing-an-algorithm.md` |
//! | wait for quota | [`Limiter::acquire`] | `tokio`, or a [`Sleeper`] | |
//! | limit in front of axum, hyper or tonic | [`tower::RateLimitLayer`][`tower`] | `axum`, `tower`, `grpc` | `docs/book/src/how-to/http.md` |
//! | limit in front of another framework | [`http::Gate`][`http`], in a crate of its own | | `docs/book/src/how-to/frameworks.md` |
//! | find a client behind proxies | [`http::ClientAddress`][`http`] | `http` | `docs/book/src/explanation/clients.md` |
//! | share limits between processes | [`redis::RedisStore`][`redis`], [`postgres::PostgresStore`][`postgres`], [`remote::RemoteStore`][`remote`] | `redis`, `postgres`, `remote` | `docs/book/src/reference/redis.md`, `docs/book/src/reference/postgres.md`, `docs/book/src/reference/remote.md` |
//! | keep counts over a restart | [`sqlite::SqliteStore`][`sqlite`], [`MemoryStore::save`] | `sqlite` | `docs/book/src/reference/sqlite.md` |
//! | survive a broken store | [`OnStoreError`], [`resilience`] | | `docs/book/src/reference/redis.md` |
//! | test with a clock of your own | [`ManualClock`], [`MemoryStoreBuilder::clock`] | | |
//! | bound work in flight | [`concurrency`], [`Limiter::admit`] | | `docs/book/src/how-to/admission.md` |
//! | charge for costs known after the work | [`budget`] | | `docs/book/src/how-to/admission.md` |
//! | limit outgoing requests | [`client::OutgoingLayer`][`client`] | `outgoing`, `reqwest` | `docs/book/src/how-to/frameworks.md` |
//! | limit WebSocket messages | [`websocket::Router`][`websocket`] | `ws` | `docs/book/src/how-to/websockets.md` |
//! | read limits from a file | [`config::Config`][`config`] | `config` | `docs/book/src/reference/config.md` |
//! | write a store, an adapter | [`store`], [`enforce`] | | `CONTRIBUTING.md` |
//!
//! # Features
//!
//! No feature is on by default, and each only adds. Without one, the crate builds no async runtime and no parser.
//!
//! | feature | adds |
//! | --- | --- |
//! | `config` | limits from a TOML or YAML file, with errors that carry line and column; see [`config`] |
//! | `tokio` | a sleeper for [`Limiter::acquire`] on tokio's timer, [permits](concurrency) that several processes share, guards that settle the holds of a [budget] when they are dropped, and quota that a process takes in batches (`TwoTierStore`) |
//! | `redis` | limits on Redis, Valkey or a cluster of them; see [`redis`] |
//! | `sqlite` | limits in a file, that survive a restart; see [`sqlite`] |
//! | `postgres` | limits on Postgres; see [`postgres`] |
//! | `http` | HTTP semantics: headers, problems, keys, and the address of a client, which it cannot forge; see [`http`] |
//! | `api` | wire types of Tidegate's HTTP API, for servers and clients; see [`api`] |
//! | `remote` | limits on a server that is asked over HTTP, `tidegate serve` or a Worker; see [`remote`] |
//! | `remote-tls` | the store of `remote`, over https |
//! | `stored` | the state of a key as bytes, for stores of your own; see [`stored`] |
//! | `tower` | a layer for hyper and everything else that takes one; see [`tower`] |
//! | `axum` | the layer's peer addresses, routes and extractors with axum |
//! | `grpc` | the layer answering as gRPC does, for tonic; see [`grpc`] |
//! | `outgoing`, `reqwest` | a client-side layer that limits outgoing requests and honours `Retry-After`; see [`client`] |
//! | `ws` | a router for WebSocket messages, whose limits run before anything costs memory; see [`websocket`] |
//! | `macros` | `#[limit]` for async functions and handlers; see [`attribute`] |
//! | `metrics` | decisions of limiters, and latencies, errors and states of stores, through the `metrics` facade; see [`resilience`] |
//! | `tracing` | a span for every call of a store within [`Resilience`](resilience::Resilience) that may wait, see [`resilience`]; and warnings in the log |
//! | `testing` | the testing entry of the stores, through which a test passes time in. Never use it in production |
//!
//! Other frameworks have crates of their own: `tidegate-actix`, `-ntex`, `-poem`, `-rocket`, `-salvo`, `-warp`, `-lambda`,
//! `-jsonrpsee` and `-graphql`. See `docs/book/src/how-to/frameworks.md` in the repository.
//!
// A module that is not built has its feature in the table.
#![cfg_attr(feature = "config", doc = "[`config`]: mod@crate::config")]
#![cfg_attr(not(feature = "config"), doc = "[`config`]: #features")]
#![cfg_attr(feature = "redis", doc = "[`redis`]: mod@crate::redis")]
#![cfg_attr(not(feature = "redis"), doc = "[`redis`]: #features")]
#![cfg_attr(feature = "sqlite", doc = "[`sqlite`]: mod@crate::sqlite")]
#![cfg_attr(not(feature = "sqlite"), doc = "[`sqlite`]: #features")]
#![cfg_attr(feature = "postgres", doc = "[`postgres`]: mod@crate::postgres")]
#![cfg_attr(not(feature = "postgres"), doc = "[`postgres`]: #features")]
#![cfg_attr(feature = "remote", doc = "[`remote`]: mod@crate::remote")]
#![cfg_attr(not(feature = "remote"), doc = "[`remote`]: #features")]
#![cfg_attr(feature = "stored", doc = "[`stored`]: mod@crate::stored")]
#![cfg_attr(not(feature = "stored"), doc = "[`stored`]: #features")]
#![cfg_attr(feature = "http", doc = "[`http`]: mod@crate::http")]
#![cfg_attr(not(feature = "http"), doc = "[`http`]: #features")]
#![cfg_attr(feature = "api", doc = "[`api`]: mod@crate::api")]
#![cfg_attr(not(feature = "api"), doc = "[`api`]: #features")]
#![cfg_attr(feature = "tower", doc = "[`tower`]: mod@crate::tower")]
#![cfg_attr(not(feature = "tower"), doc = "[`tower`]: #features")]
#![cfg_attr(feature = "grpc", doc = "[`grpc`]: mod@crate::grpc")]
#![cfg_attr(not(feature = "grpc"), doc = "[`grpc`]: #features")]
#![cfg_attr(feature = "outgoing", doc = "[`client`]: mod@crate::client")]
#![cfg_attr(not(feature = "outgoing"), doc = "[`client`]: #features")]
#![cfg_attr(feature = "ws", doc = "[`websocket`]: mod@crate::websocket")]
#![cfg_attr(not(feature = "ws"), doc = "[`websocket`]: #features")]
#![cfg_attr(feature = "macros", doc = "[`attribute`]: mod@crate::attribute")]
#![cfg_attr(not(feature = "macros"), doc = "[`attribute`]: #features")]
#![cfg_attr(docsrs, feature(doc_cfg))]
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
