//! The Postgres store against real servers: Postgres, and PgBouncer before it.
//!
//! `cargo xtask test` installs and starts them. For manual runs, `cargo xtask servers` does so, and prints the
//! variables to export.

#[path = "../common/child_process.rs"]
mod child_process;
#[path = "../common/crashed_holder.rs"]
mod crashed_holder;
#[path = "../common/fleet.rs"]
mod fleet;
#[path = "../common/killed_process.rs"]
mod killed_process;
#[path = "../common/settlement_race.rs"]
mod settlement_race;

mod bad_input;
mod conformance;
mod connections;
mod full_disk;
mod joint;
mod memory_agreement;
mod processes;
mod schema;
mod support;
mod sweep;
mod transaction;
