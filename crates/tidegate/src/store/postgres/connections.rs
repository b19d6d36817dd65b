//! The connections of the pool, which are made beside the calls and not within them.

use std::sync::Arc;
use std::time::Duration;

use deadpool_postgres::{Object, Pool, Status};
use tidegate_core::{StoreError, StoreErrorKind};
use tokio::runtime::Handle;
use tokio::sync::Semaphore;
use tokio::task::JoinHandle;
use tokio::time::timeout;

use super::error::pool_error;

/// How long one that is made may take in all. Connecting has a limit of its own; but a server may take a connection and then
/// say nothing, and that would be a place less for ever.
const LONGEST: Duration = Duration::from_secs(10);

/// The pool, and leave to make connections for it. Clones share both.
#[derive(Clone)]
pub(super) struct Connections {
    pool: Pool,
    /// As many as half of the places. The others are for calls that make their own: were all taken by a server that says
    /// nothing, nobody would notice that it is well again. So there is none for a pool of one connection, where a call needs
    /// as much time as connecting takes.
    makers: Arc<Semaphore>,
}

impl Connections {
    pub(super) fn of(pool: Pool) -> Self {
        let makers = Arc::new(Semaphore::new(pool.status().max_size / 2));
        Connections { pool, makers }
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
        let (runtime, maker) = (Handle::try_current().ok()?, Arc::clone(&self.makers).try_acquire_owned().ok()?);
        let pool = self.pool.clone();
        Some(runtime.spawn(async move {
            let made = timeout(LONGEST, pool.get()).await;
            drop(maker);
            made.map_err(|_| StoreError::new(StoreErrorKind::Timeout, "postgres: connecting takes too long"))?
                .map_err(pool_error)
        }))
    }
}
