//! The remote store against the real binary.

mod conformance;
mod faults;
mod limiter;
mod tls;

use std::future::Future;
use std::sync::LazyLock;

use tidegate::remote::RemoteStore;
use tokio::runtime::{Builder, Runtime};

use crate::serve::api_client::url;
use crate::serve::program::Program;

/// One runtime for all tests: connections belong to one.
static RUNTIME: LazyLock<Runtime> =
    LazyLock::new(|| Builder::new_multi_thread().worker_threads(2).enable_all().build().expect("threads"));

fn run<T>(work: impl Future<Output = T>) -> T {
    RUNTIME.block_on(work)
}

fn store(program: &Program) -> RemoteStore {
    RemoteStore::builder(url(program, "")).atomic_all(true).build().expect("an address")
}
