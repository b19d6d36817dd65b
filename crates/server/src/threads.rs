//! How many threads the program works with.

use std::io;

use tokio::runtime::{Builder, Runtime};

/// A runtime with so many threads, or else with half as many as there are cores, rounded up. Whom it talks with is often on the
/// same machine and needs the others, and so does the kernel, which takes a quarter of what a request costs and up to more than half.
pub(crate) fn runtime(threads: Option<u16>) -> io::Result<Runtime> {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let threads = threads.map_or(cores.div_ceil(2), usize::from);
    Builder::new_multi_thread().worker_threads(threads).enable_all().build()
}
