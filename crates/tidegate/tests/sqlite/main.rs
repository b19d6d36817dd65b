//! The SQLite store, each test in a folder of its own.
//!
//! The tests of a full disk and of a read-only one mount a small file system in a namespace of their own. That needs
//! Linux, `unshare` and `mount`, and either root or user namespaces.

#[path = "../common/crashed.rs"]
mod crashed;
#[path = "../common/fleet.rs"]
mod fleet;
#[path = "../common/killed.rs"]
mod killed;
#[path = "../common/myself.rs"]
mod myself;

mod bad_input;
mod batches;
mod conformance;
mod disks;
mod durability;
mod processes;
mod resilience;
mod support;
mod sweeping;
mod transaction;
mod writer;
