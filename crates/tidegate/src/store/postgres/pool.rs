//! The pool of connections. New connections are opened in the background and not within calls.

use std::ops::Deref;
use std::sync::Arc;
use std::time::Duration;

use deadpool_postgres::{Object, Pool, Status};
use tidegate_core::{StoreError, StoreErrorKind};
use tokio::runtime::Handle;
use tokio::sync::Semaphore;
use tokio::task::JoinHandle;
use tokio::time::timeout;
use tokio_postgres::NoTls;

use super::error::{is_read_only, pool_error};

/// The maximum time to make a connection. The connect timeout does not cover a server that accepts a connection and
/// then never replies. Such a server would occupy a place of the pool forever.
const CONNECT_DEADLINE: Duration = Duration::from_secs(10);

/// The delay before the statements of an abandoned batch are cancelled a second time.
const CANCEL_RETRY_DELAY: Duration = Duration::from_millis(100);

/// A pool of connections. Clones share it.
#[derive(Clone)]
pub(super) struct ConnectionPool {
    pool: Pool,
    /// Permits to make connections beside the calls, for half of the places. The other places are for calls that connect
    /// themselves: if a server that never replies occupied all of them, no call would notice its recovery. So a pool of one
    /// connection has no permits, and a call there needs as much time as connecting takes.
    connect_permits: Arc<Semaphore>,
}

impl ConnectionPool {
    pub(super) fn new(pool: Pool) -> Self {
        let connect_permits = Arc::new(Semaphore::new(pool.status().max_size / 2));
        ConnectionPool { pool, connect_permits }
    }

    /// Returns a connection that is idle or comes free, or a new one. A call may give up before a new one is connected.
    /// The connection is still made, for a later call.
    pub(super) async fn get(&self) -> Result<Object, StoreError> {
        match self.spawn_connect() {
            Some(connecting) => connecting.await.unwrap_or_else(|error| {
                Err(StoreError::caused_by(StoreErrorKind::Unavailable, "postgres: connecting was given up", error))
            }),
            None => self.pool.get().await.map_err(pool_error),
        }
    }

    /// Returns how many connections it has at most.
    pub(super) fn max_size(&self) -> u32 {
        u32::try_from(self.pool.status().max_size).unwrap_or(u32::MAX / 2)
    }

    pub(super) fn close(&self) {
        self.pool.close();
    }

    /// Spawns a task that makes a connection, if the pool lacks one and a permit is free.
    fn spawn_connect(&self) -> Option<JoinHandle<Result<Object, StoreError>>> {
        let Status { max_size, size, available, .. } = self.pool.status();
        if available > 0 || size >= max_size {
            return None;
        }
        let runtime = Handle::try_current().ok()?;
        let permit = Arc::clone(&self.connect_permits).try_acquire_owned().ok()?;
        let pool = self.pool.clone();
        Some(runtime.spawn(async move {
            let connected = timeout(CONNECT_DEADLINE, pool.get()).await;
            drop(permit);
            connected
                .map_err(|_| StoreError::new(StoreErrorKind::Timeout, "postgres: connecting takes too long"))?
                .map_err(pool_error)
        }))
    }
}

/// A connection of the pool for one call. Dropping it without [`release`](Self::release) removes it from the pool. A
/// call that was given up, as by a timeout, may still wait for a lock there and would block the next call.
pub(super) struct PooledConnection {
    /// `None` once it was released.
    connection: Option<Object>,
    /// Whether statements of abandoned calls can be cancelled: the store knows how to connect to the server.
    can_cancel: bool,
    /// Whether the call sends several statements at once.
    pub(super) is_batch: bool,
}

impl PooledConnection {
    pub(super) fn new(connection: Object, can_cancel: bool) -> Self {
        PooledConnection { connection: Some(connection), can_cancel, is_batch: false }
    }

    /// Returns the connection to the pool, once the results have come. A connection to a server that has become read-only
    /// is closed instead: a new one may reach another server by the same name.
    pub(super) fn release<'a, T: 'a>(mut self, results: impl IntoIterator<Item = &'a Result<T, StoreError>>) {
        let is_standby = results.into_iter().any(|result| result.as_ref().is_err_and(is_read_only));
        let connection = self.connection.take();
        if is_standby {
            drop(connection.map(Object::take));
        }
    }
}

impl Deref for PooledConnection {
    type Target = Object;

    fn deref(&self) -> &Object {
        self.connection.as_ref().expect("a connection is there until it is released")
    }
}

impl Drop for PooledConnection {
    fn drop(&mut self) {
        let Some(connection) = self.connection.take() else { return };
        // Without this, the server would continue the statement for as long as it waits for a lock. Meanwhile the pool makes
        // another connection for the next call, so the number of connections to the server would grow without bound.
        if self.can_cancel
            && let Ok(runtime) = Handle::try_current()
        {
            let (token, is_batch) = (connection.cancel_token(), self.is_batch);
            // Errors are ignored: the server's lock timeout ends the statement anyway.
            runtime.spawn(async move {
                let _ = token.cancel_query(NoTls).await;
                // The server replies to the first statement in two writes, and the second one fails because the connection
                // is closed. On a busy machine, it may come before that, and the next statement of the batch begins.
                if is_batch {
                    tokio::time::sleep(CANCEL_RETRY_DELAY).await;
                    let _ = token.cancel_query(NoTls).await;
                }
            });
        }
        drop(Object::take(connection));
    }
}
