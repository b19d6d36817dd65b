//! The thread pools of the program, and time slices for long work.

use std::io;
use std::time::Duration;

use tokio::runtime::{Builder, Handle, Runtime};
use tokio::time::{Instant, sleep};

/// How long threads may take to end.
const SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(1);

/// The thread pools of `tidegate serve`.
pub(crate) struct Runtimes {
    /// The threads for gRPC, if it has its own. This field comes first so that they end first: their tasks may wait for a
    /// connection or a timer of the others.
    grpc: Option<Runtime>,
    pub(crate) main: Runtime,
    /// One thread for work that takes long with many limits: pages and statistics. No decision waits behind it.
    background: Runtime,
}

impl Runtimes {
    /// Starts `threads` threads for all ports, by default half as many as there are cores, and for gRPC one for each core.
    /// A gRPC call costs the server more than its client. With the other protocols, clients need the other half.
    pub(crate) fn start(threads: Option<u16>, speaks_grpc: bool) -> io::Result<Self> {
        let separate = speaks_grpc && threads.is_none() && core_count() > 1;
        let grpc = if separate { Some(runtime_with_threads(core_count())?) } else { None };
        Ok(Runtimes { grpc, main: build_runtime(threads)?, background: runtime_with_threads(1)? })
    }

    /// Ends the threads. A read from a file system that does not answer is abandoned.
    pub(crate) fn shutdown(self) {
        for runtime in [self.grpc, Some(self.main), Some(self.background)].into_iter().flatten() {
            runtime.shutdown_timeout(SHUTDOWN_TIMEOUT);
        }
    }

    /// Returns the threads that answer gRPC.
    pub(crate) fn grpc(&self) -> &Handle {
        self.grpc.as_ref().unwrap_or(&self.main).handle()
    }

    /// Returns the thread for work that takes long. It must run in [`TimeSlice`]s.
    pub(crate) fn background(&self) -> &Handle {
        self.background.handle()
    }
}

/// Creates a runtime with `threads` threads, by default half the number of cores, rounded up. The other side is often
/// on the same machine and needs the rest. So does the kernel, which takes from a quarter to more than half of a
/// request's cost.
pub(crate) fn build_runtime(threads: Option<u16>) -> io::Result<Runtime> {
    runtime_with_threads(threads.map_or(core_count().div_ceil(2), usize::from))
}

fn runtime_with_threads(threads: usize) -> io::Result<Runtime> {
    Builder::new_multi_thread().worker_threads(threads).enable_all().build()
}

fn core_count() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

/// The time that the background thread works without a pause. A decision may have to wait as long for a core.
const MAX_SLICE: Duration = Duration::from_micros(500);

/// How many times as long a pause is as the slice before it: the background thread takes a quarter of a core at most.
const PAUSE_FACTOR: u32 = 3;

/// A slice of long work on the background thread. Pauses between slices leave the cores to decisions.
pub(crate) struct TimeSlice {
    began: Instant,
}

impl TimeSlice {
    pub(crate) fn begin() -> Self {
        TimeSlice { began: Instant::now() }
    }

    /// Pauses if the slice is used up.
    pub(crate) async fn pause_if_due(&mut self) {
        if self.began.elapsed() >= MAX_SLICE {
            self.pause().await;
        }
    }

    /// Pauses in proportion to the work since the last pause.
    pub(crate) async fn pause(&mut self) {
        // Bounded, because a busy machine makes slices longer.
        sleep(self.began.elapsed().min(MAX_SLICE) * PAUSE_FACTOR).await;
        self.began = Instant::now();
    }
}
