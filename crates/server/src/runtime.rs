//! The thread pools of the program.

use std::io;
use std::time::Duration;

use tokio::runtime::{Builder, Handle, Runtime};

/// How long threads may take to end.
const SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(1);

/// The thread pools of `tidegate serve`.
pub(crate) struct Runtimes {
    /// The threads for gRPC, if it has its own. This field comes first so that they end first: their tasks may wait for a
    /// connection or a timer of the others.
    grpc: Option<Runtime>,
    pub(crate) main: Runtime,
}

impl Runtimes {
    /// Starts `threads` threads for all ports, by default half as many as there are cores, and for gRPC one for each core.
    /// A gRPC call costs the server more than its client. With the other protocols, clients need the other half.
    pub(crate) fn start(threads: Option<u16>, speaks_grpc: bool) -> io::Result<Self> {
        let separate = speaks_grpc && threads.is_none() && cores() > 1;
        let grpc = if separate { Some(with_threads(cores())?) } else { None };
        Ok(Runtimes { grpc, main: runtime(threads)? })
    }

    /// Ends the threads. A read from a file system that does not answer is abandoned.
    pub(crate) fn shutdown(self) {
        for runtime in [self.grpc, Some(self.main)].into_iter().flatten() {
            runtime.shutdown_timeout(SHUTDOWN_TIMEOUT);
        }
    }

    /// Returns the threads that answer gRPC.
    pub(crate) fn grpc(&self) -> &Handle {
        self.grpc.as_ref().unwrap_or(&self.main).handle()
    }
}

/// Creates a runtime with `threads` threads, by default half as many as there are cores, rounded up. The other side is
/// often on the same machine and needs the rest, and so does the kernel, which takes from a quarter to more than half of a
/// request's cost.
pub(crate) fn runtime(threads: Option<u16>) -> io::Result<Runtime> {
    with_threads(threads.map_or(cores().div_ceil(2), usize::from))
}

fn with_threads(threads: usize) -> io::Result<Runtime> {
    Builder::new_multi_thread().worker_threads(threads).enable_all().build()
}

fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}
