//! The Worker under workerd, the runtime of the platform, on loopback.
//!
//! `cargo xtask test` gets workerd and builds the Worker for it. `cargo xtask servers` does the same by hand and prints the
//! variables to export.

mod api;
mod bad_input;
mod concurrency;
mod conformance;
mod example;
mod restarts;
mod shards;
mod sizes;
mod support;
mod sweeping;

use std::future::Future;
use std::sync::LazyLock;

use tokio::runtime::{Builder, Runtime};

/// One runtime for all tests: connections belong to one.
static RUNTIME: LazyLock<Runtime> =
    LazyLock::new(|| Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap());

fn run<T>(future: impl Future<Output = T>) -> T {
    RUNTIME.block_on(future)
}
