//! The Redis store against real servers: Redis, Valkey and a cluster of three.
//!
//! `cargo xtask test` gets and starts them; by hand, `cargo xtask servers` does, and says what to export.

#[path = "../common/child_process.rs"]
mod child_process;
#[path = "../common/crashed_holder.rs"]
mod crashed_holder;
#[path = "../common/fleet.rs"]
mod fleet;
#[path = "../common/settlement_race.rs"]
mod settlement_race;

mod cluster_nodes;
mod coalescing;
mod conformance;
mod denial_cache;
mod expiry;
mod joint;
mod key_names;
mod memory_agreement;
mod moving_slot;
mod permissions;
mod processes;
mod rendezvous;
mod support;
#[cfg(feature = "tokio")]
mod two_tier;
