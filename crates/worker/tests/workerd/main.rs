//! The Worker under workerd, the runtime of the platform, on loopback.
//!
//! `cargo xtask test` gets workerd and builds the Worker for it; by hand, `cargo xtask servers` does, and says what to
//! export.

mod adapter;
mod api;
mod bad_input;
mod conformance;
mod crowd;
mod edge;
mod restarts;
mod shards;
mod sizes;
mod sweeping;
mod swept;

use std::future::Future;
use std::sync::LazyLock;

use tokio::runtime::{Builder, Runtime};

/// One runtime for all tests: connections belong to one.
static RUNTIME: LazyLock<Runtime> =
    LazyLock::new(|| Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap());

fn run<T>(work: impl Future<Output = T>) -> T {
    RUNTIME.block_on(work)
}
