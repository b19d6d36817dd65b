//! The connections of the pool, which are made beside the calls and not within them.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use deadpool_postgres::{Object, Pool, Status};
use tidegate_core::{StoreError, StoreErrorKind};
use tokio::runtime::Handle;
use tokio::task::JoinHandle;
use tokio::time::timeout;

use super::error::pool_error;

/// How long one that is made may take in all. Connecting has a limit of its own; but a server may take a connection and then
/// say nothing, and that would be a place less for ever.
const LONGEST: Duration = Duration::from_secs(10);

/// The pool, and how many connections are being made. Clones share both.
#[derive(Clone)]
pub(super) struct Connections {
    pool: Pool,
    making: Arc<AtomicUsize>,
}

impl Connections {
    pub(super) fn of(pool: Pool) -> Self {
        Connections { pool, making: Arc::default() }
    }

    /// One that is there or comes free, or a new one. A call that has less time than connecting takes may give up: the
    /// connection is made all the same, and a later call finds it.
    pub(super) async fn get(&self) -> Result<Object, StoreError> {
        match self.make() {
            Some(made) => made.await.unwrap_or_else(|error| {
                Err(StoreError::caused_by(StoreErrorKind::Unavailable, "postgres: connecting was given up", error))
            }),
            None => self.pool.get().await.map_err(pool_error),
        }
    }

    pub(super) fn close(&self) {
        self.pool.close();
    }

    /// Has a new one made, if one is missing and there is somebody to do so.
    fn make(&self) -> Option<JoinHandle<Result<Object, StoreError>>> {
        let Status { max_size, size, available, .. } = self.pool.status();
        if available > 0 || size >= max_size {
            return None;
        }
        // The other places are for calls that make their own: were all taken by a server that says nothing, nobody would
        // notice that it is well again.
        let most = max_size.div_ceil(2);
        let (runtime, making) = (Handle::try_current().ok()?, Making::begin(&self.making, most)?);
        let pool = self.pool.clone();
        Some(runtime.spawn(async move {
            let made = timeout(LONGEST, pool.get()).await;
            drop(making);
            made.map_err(|_| StoreError::new(StoreErrorKind::Timeout, "postgres: connecting takes too long"))?
                .map_err(pool_error)
        }))
    }
}

/// One of those that are being made, however it ends.
struct Making(Arc<AtomicUsize>);

impl Making {
    /// One more, of so many at most, however many call.
    fn begin(making: &Arc<AtomicUsize>, most: usize) -> Option<Self> {
        let more = |count| (count < most).then_some(count + 1);
        making.try_update(Ordering::Relaxed, Ordering::Relaxed, more).ok()?;
        Some(Making(Arc::clone(making)))
    }
}

impl Drop for Making {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}
