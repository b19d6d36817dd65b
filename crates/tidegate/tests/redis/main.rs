//! The Redis store against real servers: Redis, Valkey and a cluster of three.
//!
//! `cargo xtask test` gets and starts them; by hand, `cargo xtask servers` does, and says what to export.

#[path = "../common/crashed.rs"]
mod crashed;
#[path = "../common/fleet.rs"]
mod fleet;
#[path = "../common/myself.rs"]
mod myself;

mod beside_memory;
mod coalesce;
mod conformance;
mod denials;
mod expiry;
mod names;
mod permissions;
mod processes;
mod rendezvous;
mod support;
mod together;
#[cfg(feature = "tokio")]
mod two_tier;
