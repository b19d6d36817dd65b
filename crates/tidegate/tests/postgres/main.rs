//! The Postgres store against real servers: Postgres, and PgBouncer before it.
//!
//! `cargo xtask test` gets and starts them; by hand, `cargo xtask servers` does, and says what to export.

#[path = "../common/crashed.rs"]
mod crashed;
#[path = "../common/fleet.rs"]
mod fleet;
#[path = "../common/killed.rs"]
mod killed;
#[path = "../common/myself.rs"]
mod myself;

mod bad_input;
mod beside_memory;
mod conformance;
mod connecting;
mod full_disk;
mod processes;
mod schema;
mod support;
mod sweeping;
mod together;
mod transaction;
