//! How many threads the program works with.

use std::io;
use std::time::Duration;

use tokio::runtime::{Builder, Handle, Runtime};

/// How long threads may take to end.
const ENDING: Duration = Duration::from_secs(1);

/// The threads that `tidegate serve` answers with.
pub(crate) struct Threads {
    /// Those that answer gRPC, where nobody has said how many there are to be. They come first, so that they end first: what
    /// they still work on may wait for a connection or a timer of the others.
    grpc: Option<Runtime>,
    pub(crate) usual: Runtime,
}

impl Threads {
    /// So many for all ports, or else half as many as there are cores; and for gRPC, where it is spoken, one for each core. A
    /// call there costs the server more than it costs who asks, while whoever asks by the other protocols needs the other half.
    pub(crate) fn start(threads: Option<u16>, speaks_grpc: bool) -> io::Result<Self> {
        let of_its_own = speaks_grpc && threads.is_none() && cores() > 1;
        let grpc = if of_its_own { Some(runtime_with(cores())?) } else { None };
        Ok(Threads { grpc, usual: runtime(threads)? })
    }

    /// Ends them. Nothing that counts is under way, and what is reading from a file system that does not answer is not waited for.
    pub(crate) fn end(self) {
        for runtime in [self.grpc, Some(self.usual)].into_iter().flatten() {
            runtime.shutdown_timeout(ENDING);
        }
    }

    /// Those that answer gRPC.
    pub(crate) fn grpc(&self) -> &Handle {
        self.grpc.as_ref().unwrap_or(&self.usual).handle()
    }
}

/// A runtime with so many threads, or else with half as many as there are cores, rounded up. Whom it talks with is often on the
/// same machine and needs the others, and so does the kernel, which takes a quarter of what a request costs and up to more than half.
pub(crate) fn runtime(threads: Option<u16>) -> io::Result<Runtime> {
    runtime_with(threads.map_or(cores().div_ceil(2), usize::from))
}

fn runtime_with(threads: usize) -> io::Result<Runtime> {
    Builder::new_multi_thread().worker_threads(threads).enable_all().build()
}

fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}
