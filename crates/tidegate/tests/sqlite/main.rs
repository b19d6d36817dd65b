//! The SQLite store, each test in a folder of its own.
//!
//! The tests of a full disk and of a read-only one mount a small file system in a namespace of their own. That needs
//! Linux, `unshare` and `mount`, and either root or user namespaces.

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
mod batches;
mod conformance;
#[cfg(feature = "_real-servers")]
mod disks;
mod durability;
mod processes;
mod resilience;
mod support;
mod sweep;
mod transaction;
mod writer;
